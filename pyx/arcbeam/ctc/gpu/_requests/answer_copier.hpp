// Who copies a batch of answers to the device: the driver, see pyx/arcbeam/_driver_copier.hpp; here, one for tests.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shared/requests.hpp"

namespace arcbeam::requests {

// All but leave() give 0, or what the driver answered. Calls about a half come one at a time.
class AnswerCopier {
  public:
    AnswerCopier() = default;
    virtual ~AnswerCopier() = default;
    AnswerCopier(const AnswerCopier&) = delete;
    AnswerCopier& operator=(const AnswerCopier&) = delete;

    // Of threads: before and after all else.
    virtual int enter() = 0;
    virtual void leave() = 0;

    // Starts a copy of what lies behind the head of a buffer to an answer buffer, so many bytes with the head;
    // behind it one of the head's first word.
    virtual int send(std::size_t half, unsigned char* answer_buffer, const unsigned char* buffer,
                     std::size_t bytes) = 0;

    // Whether the buffer can be filled again: the event behind both copies has come.
    virtual int look(std::size_t half, bool& has_come) = 0;

    // Waits for all copies of a half.
    virtual int wait(std::size_t half) = 0;
};

// Without a driver, to the host's own memory: half of the bytes come at once, the rest and the count at the look
// after so many others.
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
