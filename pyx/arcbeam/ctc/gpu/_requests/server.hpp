// Threads of the host that answer the requests of lanes while a kernel runs. The lanes are two halves, and the
// threads turn from one to the other: what they do for one half is hidden behind the search of the other (Kim &
// Lane 2014).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "arcbeam/ctc/gpu/_requests/answer_path.hpp"
#include "arcbeam/ctc/gpu/_requests/answerer.hpp"
#include "arcbeam/ctc/gpu/_requests/trace.hpp"

namespace arcbeam::requests {

class Server {
  public:
    // Starts the threads; with none, only answer_all() answers. std::system_error where the machine gives no more.
    Server(Answerer& answerer, std::size_t threads, AnswerPath& answer_path);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // From now on threads look after these lanes, until rest() has returned.
    void watch(const std::vector<RequestView>& lanes);
    void rest();

    // Answers all that is open, while nobody watches: what threads have left, too. False if some answer has no
    // room; std::bad_alloc if the host has no memory.
    bool answer_all(const std::vector<RequestView>& lanes);

    // While nobody watches: from now on threads write down what they answer, so many spans each; 0: no more.
    void trace(std::size_t most) { trace_.begin(threads_.size() + 1, most); }
    [[nodiscard]] std::vector<Span> traced() const { return trace_.all(); }

    [[nodiscard]] std::uint64_t rounds() const { return rounds_.load(); }
    [[nodiscard]] std::uint64_t questions() const { return questions_.load(); }

  private:
    // Of a lane's round, which several threads may share.
    struct Progress {
        std::atomic<std::uint64_t> next{0};  // number of the round << 32 | the first question that nobody has taken
        std::atomic<std::uint32_t> done{0};  // questions
    };

    void work(std::size_t number);
    void look_after(std::size_t number);
    bool serve_half(std::size_t thread);
    bool serve(std::size_t lane, std::size_t thread);
    bool answer(const RequestView& lane, std::size_t first, std::size_t last);
    void finish(const RequestView& lane, std::size_t number, std::uint64_t posted);
    void end();

    Answerer& answerer_;
    AnswerPath& answer_path_;
    std::vector<std::thread> threads_;
    std::vector<RequestView> lanes_;
    std::unique_ptr<Progress[]> progress_;  // [lanes]
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t watches_ = 0;           // that have begun
    std::size_t at_work_ = 0;             // threads
    std::atomic<bool> on_duty_{false};    // else threads rest
    std::atomic<std::uint32_t> turn_{0};  // by it, the half that threads are at
    Trace trace_;
    std::int64_t watch_began_ = 0;
    bool ends_ = false;
    std::atomic<std::uint64_t> rounds_{0};
    std::atomic<std::uint64_t> questions_{0};
};

}  // namespace arcbeam::requests
