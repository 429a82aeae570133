// Who copies a shipment to the device: the driver, see pyx/arcbeam/_driver_carrier.hpp; here, one for tests.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shared/mail.hpp"

namespace arcbeam::requests {

// All but leave() give 0, or what the driver answered. Calls about a half come one at a time.
class Carrier {
  public:
    Carrier() = default;
    virtual ~Carrier() = default;
    Carrier(const Carrier&) = delete;
    Carrier& operator=(const Carrier&) = delete;

    // Of threads: before and after all else.
    virtual int enter() = 0;
    virtual void leave() = 0;

    // Starts a copy of what lies behind the head of a buffer to an inbox, so many bytes with the head; behind it
    // one of the head's first word.
    virtual int send(std::size_t half, unsigned char* inbox, const unsigned char* buffer, std::size_t bytes) = 0;

    // Whether the buffer can be filled again: the event behind both copies has come.
    virtual int look(std::size_t half, bool& has_come) = 0;

    // Waits for all copies of a half.
    virtual int wait(std::size_t half) = 0;
};

// Without a driver, to the host's own memory: half of the bytes come at once, the rest and the count at the look
// after so many others.
class SlowCarrier : public Carrier {
  public:
    explicit SlowCarrier(int looks) : looks_(looks) {}

    int enter() override { return 0; }
    void leave() override {}

    int send(std::size_t half, unsigned char* inbox, const unsigned char* buffer, std::size_t bytes) override {
        on_way_[half] = {inbox, buffer, bytes, looks_};
        ++sent_[half];
        std::memcpy(inbox + kInboxHeadBytes, buffer + kInboxHeadBytes, (bytes - kInboxHeadBytes) / 16 * 8);
        return 0;
    }

    int look(std::size_t half, bool& has_come) override {
        has_come = on_way_[half].looks-- <= 0;
        return has_come ? wait(half) : 0;
    }

    int wait(std::size_t half) override {
        const OnWay& one = on_way_[half];
        if (one.inbox != nullptr) {
            std::memcpy(one.inbox + kInboxHeadBytes, one.buffer + kInboxHeadBytes, one.bytes - kInboxHeadBytes);
            const auto* const number = reinterpret_cast<const std::uint32_t*>(one.buffer);
            __atomic_store_n(reinterpret_cast<std::uint32_t*>(one.inbox), *number, __ATOMIC_RELEASE);
        }
        on_way_[half] = {};
        return 0;
    }

    [[nodiscard]] std::size_t sent(std::size_t half) const { return sent_[half]; }

  private:
    struct OnWay {
        unsigned char* inbox = nullptr;
        const unsigned char* buffer = nullptr;
        std::size_t bytes = 0;
        int looks = 0;
    };

    int looks_;
    OnWay on_way_[kHalves];
    std::atomic<std::size_t> sent_[kHalves] = {};
};

}  // namespace arcbeam::requests
