#include "arcbeam/ctc/gpu/models/_requests/server.hpp"

#include <algorithm>
#include <chrono>
#include <new>

#include "common/room_to_throw.hpp"

namespace arcbeam::requests {
namespace {

constexpr std::uint64_t kNoneLeft = 0xffffffffU;
constexpr std::uint32_t kPortion = 32;  // questions that a thread takes at a time

}  // namespace

Server::Server(Answerer& answerer, std::size_t threads, AnswerPath& answer_path)
    : answerer_(answerer), answer_path_(answer_path) {
    try {
        for (std::size_t i = 0; i < threads; ++i) {
            threads_.emplace_back([this, i] { work(i); });
        }
    } catch (...) {
        end();
        throw;
    }
}

Server::~Server() {
    stop();
    end();
}

void Server::end() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

void Server::watch(const std::vector<RequestView>& lanes) {
    stop();
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        lanes_ = lanes;
        progress_ = std::make_unique<Progress[]>(lanes.size());
        for (std::size_t i = 0; i < lanes.size(); ++i) {  // everything that was posted before has been answered
            progress_[i].next.store(posted_in(lanes[i]) | kNoneLeft);
        }
        ++watches_;
        at_work_ = threads_.size();
        watch_began_ = trace_.now();
        on_duty_.store(true);
    }
    changed_.notify_all();
}

void Server::stop() {
    const bool watched = on_duty_.exchange(false);
    const std::int64_t now = trace_.now();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return at_work_ == 0; });
    if (watched) {
        trace_.add(threads_.size(), {watch_began_, now, kWatch, 0, 0, 0});
    }
}

bool Server::answer_all(const std::vector<RequestView>& lanes) {
    bool all = true;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        const std::uint64_t posted = posted_in(lanes[i]);
        if (is_answered(lanes[i], posted)) {
            continue;
        }
        if (answer(lanes[i], 0, static_cast<std::uint32_t>(posted))) {
            finish(lanes[i], i, posted);
        } else {
            all = false;
        }
    }
    return all;
}

void Server::work(std::size_t number) {
    const bool able = has_room_to_throw();  // if not, its lanes are left to the other threads and to answer_all()
    std::uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ends_ || watches_ != seen; });
        if (ends_) {
            return;
        }
        seen = watches_;
        lock.unlock();
        if (able) {
            poll_server(number);
        }
        lock.lock();
        --at_work_;
        changed_.notify_all();
    }
}

void Server::poll_server(std::size_t number) {
    constexpr int kPolls = 4000;  // of a half without news, after which a thread sleeps between polls
    constexpr std::chrono::microseconds kLongest{200};
    int polls = 0;
    std::chrono::microseconds pause{0};
    answer_path_.enter();
    while (on_duty_.load(std::memory_order_relaxed)) {
        bool had_news = serve_half(number);
        had_news = answer_path_.go_on(number) || had_news;
        if (had_news) {
            polls = 0;
            pause = std::chrono::microseconds{0};
        } else if (++polls > kPolls) {
            pause = std::min(kLongest, pause * 2 + std::chrono::microseconds{10});
            std::this_thread::sleep_for(pause);
        } else {
            std::this_thread::yield();
        }
    }
    answer_path_.leave();
}

// Answers a portion of each lane of a half; returns whether there was any. The first thread that finishes turns all
// threads to the other half.
bool Server::serve_half(std::size_t thread) {
    std::uint32_t turn = turn_.load(std::memory_order_relaxed);
    const std::size_t half = turn % kHalves;
    const std::size_t lanes = (lanes_.size() + kHalves - 1 - half) / kHalves;
    const std::size_t begin = thread * lanes / threads_.size();  // each thread begins at other lanes
    bool had_any = false;
    for (std::size_t i = 0; i < lanes; ++i) {
        had_any = serve((begin + i) % lanes * kHalves + half, thread) || had_any;
    }
    turn_.compare_exchange_strong(turn, turn + 1U, std::memory_order_relaxed);
    return had_any;
}

// Answers a portion of a lane's questions; returns whether there was any.
bool Server::serve(std::size_t number, std::size_t thread) {
    const RequestView& lane = lanes_[number];
    Progress& progress = progress_[number];
    const std::uint64_t posted = posted_in(lane);
    if (is_answered(lane, posted)) {
        return false;
    }
    const auto count = static_cast<std::uint32_t>(posted);
    const auto round = static_cast<std::uint32_t>(posted >> 32U);
    std::uint64_t next = progress.next.load(std::memory_order_acquire);
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    do {
        const std::uint32_t ahead = round - static_cast<std::uint32_t>(next >> 32U);
        first = ahead == 0U ? static_cast<std::uint32_t>(next) : 0U;
        if (first >= count ||
            ahead > 0x7fffffffU) {  // all is taken; or this thread has slept, and the round is over
            return false;
        }
        last = count - first < kPortion ? count : first + kPortion;
    } while (!progress.next.compare_exchange_weak(next, std::uint64_t{round} << 32U | last,
                                                  std::memory_order_acq_rel, std::memory_order_acquire));
    const std::int64_t began = trace_.now();
    bool answered = false;
    try {
        answered = answer(lane, first, last);
    } catch (const std::bad_alloc&) {  // answer_all() will report it
    }
    // If answers are missing, the round stays open until answer_all() starts it again.
    if (answered && progress.done.fetch_add(last - first, std::memory_order_acq_rel) + last - first == count) {
        progress.done.store(0, std::memory_order_relaxed);
        finish(lane, number, posted);
    }
    trace_.add(thread, {began, trace_.now(), static_cast<std::uint32_t>(thread), static_cast<std::uint32_t>(number),
                        round, last - first});
    return true;
}

bool Server::answer(const RequestView& lane, std::size_t first, std::size_t last) {
    return answerer_.answer(questions_of(lane) + first, last - first, answers_of(lane) + first);
}

void Server::finish(const RequestView& lane, std::size_t number, std::uint64_t posted) {
    rounds_.fetch_add(1, std::memory_order_relaxed);
    questions_.fetch_add(static_cast<std::uint32_t>(posted), std::memory_order_relaxed);
    answer_path_.answered(lane, number, posted);
}

}  // namespace arcbeam::requests
