#include "arcbeam/ctc/gpu/models/_requests/copied_answers.hpp"

#include <cstring>

namespace arcbeam::requests {
namespace {

constexpr std::uint64_t kOneRound = std::uint64_t{1} << 32U;

std::uint32_t round_of(std::uint64_t posted) { return static_cast<std::uint32_t>(posted >> 32U); }

}  // namespace

void CopiedAnswers::begin(const std::vector<RequestView>& lanes, unsigned char* const* buffers) {
    lanes_ = lanes;
    ready_ = std::make_unique<std::atomic<std::uint64_t>[]>(lanes.size());
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        ready_[i].store(0);
    }
    for (std::size_t at = 0; at < kHalves; ++at) {
        Half& half = halves_[at];
        half.slots = static_cast<std::uint32_t>((lanes.size() + kHalves - 1 - at) / kHalves);
        half.buffer = buffers[at];
        half.number = 0;
        half.num_ready.store(0);
        half.is_copying = false;
        half.waiting.clear();
        half.waiting.reserve(half.slots);
        if (half.slots != 0) {
            half.answer_buffer = lanes[at].answer_buffer;
            std::memset(half.buffer, 0, answer_buffer_start_bytes(half.slots));
        }
    }
}

void CopiedAnswers::note(int code) {
    int none = 0;
    if (code != 0) {
        failure_.compare_exchange_strong(none, code);
    }
}

void CopiedAnswers::answered(const RequestView& lane, std::size_t number, std::uint64_t posted) {
    ready_[number].store(posted, std::memory_order_release);
    halves_[number % kHalves].num_ready.fetch_add(1, std::memory_order_release);
    host::store_release(head_of(lane).answered, posted);
}

bool CopiedAnswers::go_on(std::size_t thread) {
    bool is_busy = false;
    for (std::size_t i = 0; i < kHalves; ++i) {
        const std::size_t at = (thread + i) % kHalves;
        Half& half = halves_[at];
        const std::unique_lock<std::mutex> lock(half.mutex, std::try_to_lock);
        if (!lock.owns_lock() || failure_.load(std::memory_order_relaxed) != 0) {
            continue;
        }
        if (may_send(at) && half.num_ready.load(std::memory_order_acquire) != 0) {
            send(at);
        }
        is_busy = is_busy || half.is_copying || half.num_ready.load(std::memory_order_relaxed) != 0;
    }
    return is_busy;
}

// Whether the buffer has been copied, and the lanes have read the answer buffer.
bool CopiedAnswers::may_send(std::size_t at) {
    Half& half = halves_[at];
    if (half.is_copying) {
        bool has_come = false;
        note(copier_.poll(at, has_come));
        if (!has_come) {
            return false;
        }
        half.is_copying = false;
    }
    while (!half.waiting.empty()) {
        const auto& [lane, posted] = half.waiting.back();
        const std::uint64_t taken = host::load_acquire(head_of(lanes_[lane]).taken);
        // A later round may have been taken, or given up, too
        if (round_of(taken) - round_of(posted) >= 0x80000000U) {
            return false;
        }
        half.waiting.pop_back();
    }
    return true;
}

void CopiedAnswers::send(std::size_t at) {
    Half& half = halves_[at];
    half.number = half.number == 0xffffffffU ? 1U : half.number + 1U;
    auto* const arrivals = reinterpret_cast<Arrival*>(half.buffer + kAnswerBufferHeadBytes);
    std::size_t place = answer_buffer_start_bytes(half.slots) / sizeof(Answer);
    std::uint32_t taken = 0;
    for (std::uint32_t slot = 0; slot < half.slots; ++slot) {
        const std::size_t lane = std::size_t{kHalves} * slot + at;
        const std::uint64_t posted = ready_[lane].exchange(0, std::memory_order_acquire);
        if (posted == 0) {
            continue;
        }
        const auto count = static_cast<std::uint32_t>(posted);
        std::memcpy(half.buffer + sizeof(Answer) * place, answers_of(lanes_[lane]), sizeof(Answer) * count);
        arrivals[slot] = {round_of(posted), half.number, static_cast<std::uint32_t>(place), 0U};
        half.waiting.emplace_back(lane, posted);
        place += count;
        ++taken;
    }
    half.num_ready.fetch_sub(taken, std::memory_order_relaxed);
    if (taken == 0) {
        return;  // they were counted as ready, but have been taken before
    }
    std::memcpy(half.buffer, &half.number, sizeof half.number);
    half.is_copying = true;
    answer_batches_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(sizeof(Answer) * place, std::memory_order_relaxed);
    note(copier_.send(at, half.answer_buffer, half.buffer, sizeof(Answer) * place));
}

void CopiedAnswers::stop() {
    for (std::size_t at = 0; at < kHalves; ++at) {
        Half& half = halves_[at];
        if (half.is_copying) {
            note(copier_.wait(at));
        }
        half.is_copying = false;
        half.waiting.clear();
    }
}

void CopiedAnswers::send_open() {
    for (std::size_t at = 0; at < kHalves; ++at) {
        Half& half = halves_[at];
        half.num_ready.store(0);
        for (std::size_t lane = at; lane < lanes_.size(); lane += kHalves) {
            RequestHead& head = head_of(lanes_[lane]);
            const bool is_open = head.open != 0U && is_answered(lanes_[lane], head.posted);
            ready_[lane].store(is_open ? head.posted : 0U);
            if (is_open) {
                head.taken = head.posted - kOneRound;
                half.num_ready.fetch_add(1);
            }
        }
        if (half.num_ready.load() != 0 && failure_.load() == 0) {
            send(at);
            note(copier_.wait(at));
            half.is_copying = false;
        }
    }
}

}  // namespace arcbeam::requests
