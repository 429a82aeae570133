// Copies a batch of answers to the device. The driver's version is in pyx/arcbeam/ctc/gpu/_driver_copier.hpp; the
// one here is for tests.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shared/requests.hpp"

namespace arcbeam::requests {

// All functions but leave() return 0, or the driver's result code. Calls for one half do not overlap.
class AnswerCopier {
  public:
    AnswerCopier() = default;
    virtual ~AnswerCopier() = default;
    AnswerCopier(const AnswerCopier&) = delete;
    AnswerCopier& operator=(const AnswerCopier&) = delete;

    // Called by each thread before and after all other calls.
    virtual int enter() = 0;
    virtual void leave() = 0;

    // Starts a copy of `bytes` bytes of a buffer, its head included, to an answer buffer. The part after the head
    // is copied first; a second copy brings the first word of the head.
    virtual int send(std::size_t half, unsigned char* answer_buffer, const unsigned char* buffer,
                     std::size_t bytes) = 0;

    // Whether the buffer can be filled again, because the event after both copies has come.
    virtual int look(std::size_t half, bool& has_come) = 0;

    // Waits for all copies of a half.
    virtual int wait(std::size_t half) = 0;
};

// Works without a driver, in the host's own memory. Half of the bytes arrive at once; the rest and the count arrive
// after a given number of looks.
class SlowCopier : public AnswerCopier {
  public:
    explicit SlowCopier(int looks) : looks_(looks) {}

    int enter() override { return 0; }
    void leave() override {}

    int send(std::size_t half, unsigned char* answer_buffer, const unsigned char* buffer,
             std::size_t bytes) override {
        on_way_[half] = {answer_buffer, buffer, bytes, looks_};
        ++sent_[half];
        std::memcpy(answer_buffer + kAnswerBufferHeadBytes, buffer + kAnswerBufferHeadBytes,
                    (bytes - kAnswerBufferHeadBytes) / 16 * 8);
        return 0;
    }

    int look(std::size_t half, bool& has_come) override {
        has_come = on_way_[half].looks-- <= 0;
        return has_come ? wait(half) : 0;
    }

    int wait(std::size_t half) override {
        const OnWay& one = on_way_[half];
        if (one.answer_buffer != nullptr) {
            std::memcpy(one.answer_buffer + kAnswerBufferHeadBytes, one.buffer + kAnswerBufferHeadBytes,
                        one.bytes - kAnswerBufferHeadBytes);
            const auto* const number = reinterpret_cast<const std::uint32_t*>(one.buffer);
            __atomic_store_n(reinterpret_cast<std::uint32_t*>(one.answer_buffer), *number, __ATOMIC_RELEASE);
        }
        on_way_[half] = {};
        return 0;
    }

    [[nodiscard]] std::size_t sent(std::size_t half) const { return sent_[half]; }

  private:
    struct OnWay {
        unsigned char* answer_buffer = nullptr;
        const unsigned char* buffer = nullptr;
        std::size_t bytes = 0;
        int looks = 0;
    };

    int looks_;
    OnWay on_way_[kHalves];
    std::atomic<std::size_t> sent_[kHalves] = {};
};

}  // namespace arcbeam::requests
