// Answers travel to the device in copies (Fukunaga et al. 2019). The lanes are two halves, each with a buffer in
// pinned memory, an inbox on the device and a stream: while the copy of one half is under way the buffer of the
// other is filled, and lanes that do not wait search on. A shipment has the answers of all lanes of its half that
// are ready.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "arcbeam/ctc/gpu/_requests/carrier.hpp"
#include "arcbeam/ctc/gpu/_requests/delivery.hpp"

namespace arcbeam::requests {

class Shipping : public Delivery {
  public:
    explicit Shipping(Carrier& carrier) : carrier_(carrier) {}

    // While nothing is under way: these lanes, new, and a buffer for each half, of inbox_bytes().
    void begin(const std::vector<MailView>& lanes, unsigned char* const* buffers);

    void enter() override { note(carrier_.enter()); }
    void leave() override { carrier_.leave(); }
    void answered(const MailView& lane, std::size_t number, std::uint64_t posted) override;
    bool go_on(std::size_t thread) override;

    // Behind a launch, while no thread is here: what is under way has come, and nobody waits for it any more.
    void rest();

    // Before the next one: sends what lanes have stopped for, and waits for it.
    void send_open();

    // What the driver answered first that was not 0, if anything; after it nothing is sent. 0 from now on.
    int failure() { return failure_.exchange(0); }

    [[nodiscard]] std::uint64_t shipments() const { return shipments_.load(); }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(); }

  private:
    struct Half {
        std::mutex mutex;
        unsigned char* inbox = nullptr;
        unsigned char* buffer = nullptr;
        std::uint32_t seats = 0;
        std::uint32_t number = 0;  // of the last shipment
        std::atomic<std::uint32_t> num_ready{0};
        bool is_copying = false;
        std::vector<std::pair<std::size_t, std::uint64_t>>
            waiting;  // lanes of the last shipment, until all have taken
    };

    bool may_send(std::size_t at);
    void send(std::size_t at);
    void note(int code);

    Carrier& carrier_;
    std::vector<MailView> lanes_;
    std::unique_ptr<std::atomic<std::uint64_t>[]>
        ready_;  // of each lane: the round that is answered and not sent; 0
    Half halves_[kHalves];
    std::atomic<int> failure_{0};
    std::atomic<std::uint64_t> shipments_{0};
    std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace arcbeam::requests
