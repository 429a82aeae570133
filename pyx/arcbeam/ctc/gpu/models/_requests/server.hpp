// Threads of the host that answer the requests of lanes while a kernel runs. The lanes form two halves, and the
// threads alternate between them: their work for one half is hidden by the search of the other (Kim & Lane
// 2014).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "arcbeam/ctc/gpu/models/_requests/answer_path.hpp"
#include "arcbeam/ctc/gpu/models/_requests/answerer.hpp"
#include "arcbeam/ctc/gpu/models/_requests/trace.hpp"

namespace arcbeam::requests {

class Server {
  public:
    // Starts the threads. With none, only answer_all() answers. Throws std::system_error if the machine cannot
    // start them.
    Server(Answerer& answerer, std::size_t threads, AnswerPath& answer_path);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // From now on threads serve these lanes, until stop() has returned.
    void watch(const std::vector<RequestView>& lanes);
    void stop();

    // Answers all open questions while no thread is on duty, including those that threads have left. False if there
    // is no room for some answer; std::bad_alloc if the host has no memory.
    bool answer_all(const std::vector<RequestView>& lanes);

    // Called while no thread is on duty. From now on threads record what they answer, at most `most` spans each; 0
    // ends the recording.
    void trace(std::size_t most) { trace_.begin(threads_.size() + 1, most); }
    [[nodiscard]] std::vector<Span> traced() const { return trace_.all(); }

    [[nodiscard]] std::uint64_t rounds() const { return rounds_.load(); }
    [[nodiscard]] std::uint64_t questions() const { return questions_.load(); }

  private:
    // The progress of a lane's round, which several threads may share.
    struct Progress {
        std::atomic<std::uint64_t> next{
            0};  // number of the round << 32 | the first question that no thread has taken
        std::atomic<std::uint32_t> done{0};  // questions
    };

    void work(std::size_t number);
    void poll_server(std::size_t number);
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
    std::uint64_t watches_ = 0;           // number of watches that have begun
    std::size_t at_work_ = 0;             // number of threads at work
    std::atomic<bool> on_duty_{false};    // if false, threads wait
    std::atomic<std::uint32_t> turn_{0};  // its parity names the half that threads serve
    Trace trace_;
    std::int64_t watch_began_ = 0;
    bool ends_ = false;
    std::atomic<std::uint64_t> rounds_{0};
    std::atomic<std::uint64_t> questions_{0};
};

}  // namespace arcbeam::requests
