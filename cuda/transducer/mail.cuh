// What blocks tell each other in single words that carry when they were written: a reader looks at the word it
// waits for until it is of this round, and needs neither a barrier nor a fence. A word is a value and a tag, the
// tag below for keys.
//
// A word of a round is not written again before all blocks have read it, for every block posts keys in every round,
// after it has read all it wants of the round before. Keys and logits are read while others may be a round ahead,
// so there are two buffers of them.
#pragma once

#include "shared/simt.cuh"
#include "transducer/device_network.hpp"
#include "transducer/lanes.cuh"

namespace arcbeam::transducer {

class Mail {
  public:
    ARCBEAM_DEVICE Mail(const LoopParams& params, std::uint32_t* verdict)
        : params_(params), words_(params.mail), verdict_(verdict) {}

    ARCBEAM_DEVICE void begin(std::uint32_t tag) { tag_ = tag; }

    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* hidden(std::uint32_t layer, std::uint32_t lane) const {
        const DeviceNetwork& network = params_.network;
        return words_ + (static_cast<std::size_t>(layer) * params_.num_lanes + lane) * network.units;
    }
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* prediction(std::uint32_t lane) const {
        const DeviceNetwork& network = params_.network;
        return hidden(network.num_layers, 0U) + static_cast<std::size_t>(lane) * network.prediction.rows;
    }
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* logits(std::uint32_t test) const {
        const std::size_t row = static_cast<std::size_t>(tag_ % 2U) * params_.most_tests + test;
        return prediction(params_.num_lanes) + row * params_.network.output.rows;
    }
    // kind 0: tokens, 1: durations.
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* keys(std::uint32_t kind, std::uint32_t test) const {
        const std::size_t of_all = static_cast<std::size_t>(2U) * params_.most_tests * params_.network.output.rows;
        const std::size_t row = static_cast<std::size_t>(tag_ % 2U * 2U + kind) * params_.most_tests + test;
        return prediction(params_.num_lanes) + of_all + row * simt::grid_size();
    }
    // Whether the host wants an end.
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* cancelled() const {
        return keys(0U, 0U) +
               static_cast<std::size_t>(4U - tag_ % 2U * 2U) * params_.most_tests * simt::grid_size() + tag_ % 2U;
    }

    ARCBEAM_DEVICE void post(std::uint64_t* word, std::uint32_t value) const {
        simt::store_relaxed(word, static_cast<std::uint64_t>(value) << 32U | tag_);
    }
    ARCBEAM_DEVICE void post_key(std::uint64_t* word, std::uint64_t key) const {
        simt::store_relaxed(word, (key & kValueOfKey) | (key & 0xffffU) << 16U | (tag_ & 0xffffU));
    }

    // values[k] = the value at word(k), kCount of them on their way at a time; those beyond `count` are 0.
    template <int kCount, class Word>
    ARCBEAM_DEVICE void read(std::uint32_t count, const Word& word, std::uint32_t* values) const {
        std::uint64_t seen[kCount];
        for (std::uint32_t k = 0U; k < static_cast<std::uint32_t>(kCount); ++k) {
            seen[k] = k < count ? simt::load_relaxed(word(k)) : tag_;
        }
        for (std::uint32_t k = 0U; k < static_cast<std::uint32_t>(kCount); ++k) {
            if (static_cast<std::uint32_t>(seen[k]) != tag_) {
                seen[k] = wait(params_, verdict_, word(k), tag_, 0xffffffffU);
            }
            values[k] = static_cast<std::uint32_t>(seen[k] >> 32U);
        }
    }

    // The largest key of all blocks, in all lanes of a warp.
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t largest_key(const std::uint64_t* of_blocks) const {
        constexpr std::uint32_t kAtOnce = 5U;
        std::uint64_t best = 0U;
        for (std::uint32_t first = simt::lane(); first < simt::grid_size(); first += kAtOnce * simt::kWarpSize) {
            std::uint64_t seen[kAtOnce];
            for (std::uint32_t k = 0U; k < kAtOnce; ++k) {
                const std::uint32_t block = first + k * simt::kWarpSize;
                seen[k] = block < simt::grid_size() ? simt::load_relaxed(of_blocks + block) : tag_ & 0xffffU;
            }
            for (std::uint32_t k = 0U; k < kAtOnce; ++k) {
                if ((seen[k] & 0xffffU) != (tag_ & 0xffffU)) {
                    seen[k] = wait(params_, verdict_, of_blocks + first + k * simt::kWarpSize, tag_, 0xffffU);
                }
                const std::uint64_t key = seen[k] >> 16U;  // compares as the key does
                best = key > best ? key : best;
            }
        }
        for (std::uint32_t d = simt::kWarpSize / 2U; d > 0U; d /= 2U) {
            const std::uint64_t other = simt::shuffle_xor(simt::kAllLanes, best, d);
            best = other > best ? other : best;
        }
        return best == 0U ? 0U : (best >> 16U) << 32U | 0xffff0000U | (best & 0xffffU);
    }

    // All threads of a block, after they have read: false if one waited in vain.
    [[nodiscard]] ARCBEAM_DEVICE bool all_came() const {
        simt::block_barrier();
        return simt::load_relaxed<simt::Scope::block>(verdict_) == 0U;
    }

  private:
    static constexpr std::uint64_t kValueOfKey = 0xffffffff00000000ULL;
    static constexpr std::uint32_t kLooks = 512U;  // before it sleeps between them

    // Not inlined, for most words are there when they are looked at; static, so that the loop stays in registers.
    ARCBEAM_DEVICE_NOINLINE static std::uint64_t wait(const LoopParams& params, std::uint32_t* verdict,
                                                      const std::uint64_t* word, std::uint32_t tag,
                                                      std::uint32_t mask) {
        for (std::uint32_t i = 0U; i < kLooks; ++i) {
            const std::uint64_t seen = simt::load_relaxed(word);
            if (((static_cast<std::uint32_t>(seen) ^ tag) & mask) == 0U) {
                return seen;
            }
        }
        simt::Backoff backoff{params.patience};
        while (true) {
            const std::uint64_t seen = simt::load_relaxed(word);
            if (((static_cast<std::uint32_t>(seen) ^ tag) & mask) == 0U) {
                return seen;
            }
            if (simt::load_relaxed(params.status) != 0U || !backoff.wait()) {
                simt::report_status(params.status, 1U);
                simt::store_relaxed<simt::Scope::block>(verdict, 1U);
                return 0U;
            }
        }
    }

    const LoopParams& params_;
    std::uint64_t* words_;
    std::uint32_t* verdict_;  // in shared memory, 0 at first
    std::uint32_t tag_ = 0U;
};

// A row of logits of a round, in global memory or in words of the mail.
struct PlainLogits {
    const float* first;
    template <int kCount>
    ARCBEAM_DEVICE void read(std::uint32_t from, std::uint32_t apart, std::uint32_t end, float* values) const {
        for (std::uint32_t k = 0U; k < static_cast<std::uint32_t>(kCount); ++k) {
            values[k] = from + k * apart < end ? simt::load(first + from + k * apart) : 0.0F;
        }
    }
};

struct PostedLogits {
    const Mail& mail;
    const std::uint64_t* first;
    template <int kCount>
    ARCBEAM_DEVICE void read(std::uint32_t from, std::uint32_t apart, std::uint32_t end, float* values) const {
        std::uint32_t bits[kCount];
        const std::uint32_t count = from < end ? (end - from + apart - 1U) / apart : 0U;
        mail.read<kCount>(count, [&](std::uint32_t k) { return first + from + k * apart; }, bits);
        for (int k = 0; k < kCount; ++k) {
            values[k] = from_bits(bits[k]);
        }
    }
};

}  // namespace arcbeam::transducer
