// Answers travel to the device in copies (Fukunaga et al. 2019). The lanes are two halves, each with a buffer in
// pinned memory, an answer buffer on the device and a stream: while the copy of one half is under way the buffer of
// the other is filled, and lanes that do not wait search on. a batch of answers has the answers of all lanes of its
// half that are ready.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "arcbeam/ctc/gpu/_requests/answer_copier.hpp"
#include "arcbeam/ctc/gpu/_requests/answer_path.hpp"

namespace arcbeam::requests {

class CopiedAnswers : public AnswerPath {
  public:
    explicit CopiedAnswers(AnswerCopier& copier) : copier_(copier) {}

    // While nothing is under way: these lanes, new, and a buffer for each half, of answer_buffer_bytes().
    void begin(const std::vector<RequestView>& lanes, unsigned char* const* buffers);

    void enter() override { note(copier_.enter()); }
    void leave() override { copier_.leave(); }
    void answered(const RequestView& lane, std::size_t number, std::uint64_t posted) override;
    bool go_on(std::size_t thread) override;

    // Behind a launch, while no thread is here: what is under way has come, and nobody waits for it any more.
    void rest();

    // Before the next one: sends what lanes have stopped for, and waits for it.
    void send_open();

    // What the driver answered first that was not 0, if anything; after it nothing is sent. 0 from now on.
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
