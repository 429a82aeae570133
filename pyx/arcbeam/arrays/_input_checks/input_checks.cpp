#include "arcbeam/arrays/_input_checks/input_checks.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "shared/half.hpp"

namespace arcbeam::input_checks {

namespace {

// One frame in kEvery is checked, and fewer where there are many columns, because a frame that is easy to decode
// takes no longer than a check. At most kMostValues values of a batch are checked.
constexpr std::uint64_t kEvery = 128;
// A decoder's first frames are all checked, because a user may try only a few short recordings.
constexpr std::uint64_t kFirstFrames = 512;
constexpr std::uint64_t kMostValues = 16384;

std::uint64_t most_rows(std::uint32_t columns) {
    return columns == 0 ? 0 : std::max<std::uint64_t>(1, kMostValues / columns);
}

// A library may round a probability up to more than 1; its log is at most this.
constexpr float kNoLog = 0.01F;
// Probabilities of float16 or bfloat16 sum to 1 within 1 %. Logs to base 10, logits and values that were clipped
// from below sum to more; values multiplied by more than 1, or without some columns, sum to less.
constexpr double kMostSum = 1.05;
constexpr double kLeastSum = 0.9;
constexpr float kTiny = -16.0F;     // smaller values count for nothing, even in 65 535 columns
constexpr float kNever = -1000.0F;  // smaller values stand for -inf
// Where the best value is smaller, costs of a graph are lost: float32 rounds the sum to 1/128 or coarser.
constexpr float kLeastBest = -1e5F;
constexpr std::uint64_t kFramesBelow = 3;  // at least so many frames, and one in fifty, have too small a sum

// In speech the blank is the best column of at least a third of the frames, and no other column is best as often.
// So if another column is, while several columns occur, that column is the blank. This is decided after some frames
// if the given blank is best an eighth as often, as any letter may be; and after more frames if it is best half as
// often, as the space between words may be. Of equal frames only one counts, because silence may go on and a batch
// may be decoded again and again. The counts restart after kMostFrames frames, so that later changes are seen, too.
constexpr std::uint32_t kFramesForBlank = 100;
constexpr std::uint32_t kMoreFrames = 200;
constexpr std::uint32_t kMostFrames = 512;
constexpr std::uint32_t kMinDistinct = 5;
constexpr std::size_t kDigests = 2048;  // places of the table, a power of two

float value_of(float value) { return value; }
float value_of(std::uint16_t half) { return half_to_float(half); }

bool is_blank(double other, double given, std::uint32_t frames) {
    return (other >= 0.3 && 8.0 * given < other) || (frames >= kMoreFrames && other >= 0.4 && 2.0 * given < other);
}

}  // namespace

InputChecks::InputChecks(std::uint32_t columns, std::int32_t blank, bool is_exact)
    : columns_(columns), blank_(blank), is_exact_(is_exact), best_in_(columns, 0), digests_(kDigests, 0) {
    picks_.reserve(most_rows(columns));
}

void InputChecks::pick(const std::int64_t* table, std::size_t utterances, std::size_t most) noexcept {
    picks_.clear();
    std::uint64_t frames = 0;
    for (std::size_t i = 0; i < utterances; ++i) {
        frames += static_cast<std::uint64_t>(table[4 * i + 2]);
    }
    if (frames == 0 || columns_ == 0) {
        return;
    }
    const std::uint64_t every = std::max<std::uint64_t>(kEvery, columns_ / 4);
    const std::uint64_t first = picked_ < kFirstFrames ? std::min(frames, kFirstFrames - picked_) : 0;
    const std::uint64_t rows = std::clamp<std::uint64_t>(std::max(frames / every, first), 1, most_rows(columns_));
    const auto chosen = static_cast<double>(std::min<std::uint64_t>(rows, most));
    picked_ += static_cast<std::uint64_t>(chosen);
    phase_ += 0.6180339887498949;  // multiples of this number are spread evenly
    phase_ -= std::floor(phase_);
    std::size_t utterance = 0;
    std::uint64_t before = 0;  // frames of the utterances before this one
    for (double i = 0.0; i < chosen; ++i) {
        const double at = (i + phase_) * static_cast<double>(frames) / chosen;
        const std::uint64_t frame = std::min(static_cast<std::uint64_t>(at), frames - 1);
        while (frame - before >= static_cast<std::uint64_t>(table[4 * utterance + 2])) {
            before += static_cast<std::uint64_t>(table[4 * utterance + 2]);
            ++utterance;
        }
        const std::int64_t* entry = table + 4 * utterance;
        const bool is_half = entry[3] != 0;
        const auto row = static_cast<std::int64_t>(frame - before);
        const std::int64_t bytes = row * entry[1] * (is_half ? 2 : 4);
        picks_.push_back({utterance, static_cast<std::uint32_t>(row),
                          reinterpret_cast<const unsigned char*>(entry[0]) + bytes, is_half});
    }
}

void InputChecks::check(const Pick& pick, const void* row) {
    if (pick.is_half) {
        check_frame(pick, static_cast<const std::uint16_t*>(row));
    } else {
        check_frame(pick, static_cast<const float*>(row));
    }
}

template <typename T>
void InputChecks::check_frame(const Pick& pick, const T* row) {
    float largest = -std::numeric_limits<float>::infinity();
    std::uint32_t best = 0;
    double sum = 0.0;
    std::uint64_t digest = 1;
    for (std::uint32_t column = 0; column < columns_; ++column) {
        const float value = value_of(row[column]);
        if (!(value <= std::numeric_limits<float>::max())) {
            return;  // NaN or +inf: an error that the decoder reports
        }
        if (value > largest) {
            largest = value;
            best = column;
        }
        if (value > kTiny) {
            sum += static_cast<double>(std::exp(value));
        }
        std::uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        digest = (digest ^ bits) * 0x9e3779b97f4a7c15U;
    }
    if (largest < kNever) {  // -inf is legal even in all columns of a frame
        if (largest < kLeastBest && largest >= std::numeric_limits<float>::lowest()) {
            found_ |= kTooLow;
            too_low_ = {pick.utterance, pick.frame, static_cast<double>(largest)};
        }
        return;
    }
    if (largest > kNoLog) {
        found_ |= kAboveZero;
        above_zero_ = {pick.utterance, pick.frame, static_cast<double>(largest)};
        return;
    }
    ++frames_;
    if (sum > kMostSum) {
        found_ |= kSumsAbove;
        sums_above_ = {pick.utterance, pick.frame, sum};
    } else if (is_exact_ && sum < kLeastSum) {
        ++below_;
        sums_below_ = {pick.utterance, pick.frame, sum};
        if (below_ >= kFramesBelow && 50 * below_ > frames_) {
            found_ |= kSumsBelow;
        }
    }
    if (blank_ >= 0 && !is_known(digest | 1U)) {
        count_best(pick, best);
    }
}

// Whether an equal frame has been counted. From now on it counts as known.
bool InputChecks::is_known(std::uint64_t digest) {
    std::size_t place = (digest >> 32U) % kDigests;
    while (digests_[place] != 0 && digests_[place] != digest) {
        place = (place + 1) % kDigests;
    }
    const bool known = digests_[place] == digest;
    digests_[place] = digest;
    return known;
}

void InputChecks::count_best(const Pick& pick, std::uint32_t column) {
    if (counted_ == kMostFrames) {
        counted_ = distinct_ = 0;
        std::fill(best_in_.begin(), best_in_.end(), 0U);
        std::fill(digests_.begin(), digests_.end(), 0U);
    }
    ++counted_;
    distinct_ += ++best_in_[column] == 1 ? 1U : 0U;
    if (best_in_[column] > best_in_[most_often_best_]) {
        most_often_best_ = column;
    }
    if (counted_ < kFramesForBlank || distinct_ < kMinDistinct) {
        return;
    }
    const double all = counted_, other = best_in_[most_often_best_];
    const double given = best_in_[static_cast<std::size_t>(blank_)];
    if (is_blank(other / all, given / all, counted_)) {
        found_ |= kBlankSeldom;
        blank_seldom_ = {pick.utterance, pick.frame, 0.0};
    }
}

const Sight& InputChecks::sight(Finding of) const {
    switch (of) {
        case kAboveZero:
            return above_zero_;
        case kSumsAbove:
            return sums_above_;
        case kSumsBelow:
            return sums_below_;
        case kTooLow:
            return too_low_;
        default:
            return blank_seldom_;
    }
}

}  // namespace arcbeam::input_checks
