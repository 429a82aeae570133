// Answers travel to the device in copies (Fukunaga et al. 2019). The lanes form two halves. Each half has a buffer
// in pinned memory, an answer buffer on the device and a CUDA stream: while the copy of one half is under way, the
// buffer of the other is filled, and lanes that do not wait continue their search. A batch of answers has the
// answers of all lanes of its half that are ready.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "arcbeam/ctc/gpu/models/_requests/answer_copier.hpp"
#include "arcbeam/ctc/gpu/models/_requests/answer_path.hpp"

namespace arcbeam::requests {

class CopiedAnswers : public AnswerPath {
  public:
    explicit CopiedAnswers(AnswerCopier& copier) : copier_(copier) {}

    // Takes these new lanes, and for each half a buffer of answer_buffer_bytes(). Called while no copy is under
    // way.
    void begin(const std::vector<RequestView>& lanes, unsigned char* const* buffers);

    void enter() override { note(copier_.enter()); }
    void leave() override { copier_.leave(); }
    void answered(const RequestView& lane, std::size_t number, std::uint64_t posted) override;
    bool go_on(std::size_t thread) override;

    // Called after a launch, while no thread is in here: all copies have ended, and no lane waits for them any
    // more.
    void stop();

    // Called before the next launch: sends the answers for which lanes have stopped, and waits for the copies.
    void send_open();

    // The first result code of the driver that was not 0, if any; after it nothing is sent. Resets the code to 0.
    int failure() { return failure_.exchange(0); }

    [[nodiscard]] std::uint64_t answer_batches() const { return answer_batches_.load(); }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(); }

  private:
    struct Half {
        std::mutex mutex;
        unsigned char* answer_buffer = nullptr;
        unsigned char* buffer = nullptr;
        std::uint32_t slots = 0;
        std::uint32_t number = 0;  // of the last batch of answers
        std::atomic<std::uint32_t> num_ready{0};
        bool is_copying = false;
        std::vector<std::pair<std::size_t, std::uint64_t>>
            waiting;  // lanes of the last batch of answers, until all have taken
    };

    bool may_send(std::size_t at);
    void send(std::size_t at);
    void note(int code);

    AnswerCopier& copier_;
    std::vector<RequestView> lanes_;
    std::unique_ptr<std::atomic<std::uint64_t>[]>
        ready_;  // of each lane: the round that is answered and not sent; 0
    Half halves_[kHalves];
    std::atomic<int> failure_{0};
    std::atomic<std::uint64_t> answer_batches_{0};
    std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace arcbeam::requests
