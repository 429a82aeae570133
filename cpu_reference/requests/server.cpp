#include "requests/server.hpp"

#include <algorithm>
#include <chrono>

namespace arcbeam::requests {

Server::Server(Answerer& answerer, std::size_t threads) : answerer_(answerer) {
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
    rest();
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

void Server::watch(const std::vector<MailView>& lanes) {
    rest();
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        lanes_ = lanes;
        ++watches_;
        at_work_ = threads_.size();
        on_duty_.store(true);
    }
    changed_.notify_all();
}

void Server::rest() {
    on_duty_.store(false);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return at_work_ == 0; });
}

bool Server::answer_all(const std::vector<MailView>& lanes) {
    bool all = true;
    bool had_news = false;
    for (const MailView& lane : lanes) {
        all = serve(lane, had_news) && all;
    }
    return all;
}

void Server::work(std::size_t number) {
    std::uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ends_ || watches_ != seen; });
        if (ends_) {
            return;
        }
        seen = watches_;
        lock.unlock();
        look_after(number);
        lock.lock();
        --at_work_;
        changed_.notify_all();
    }
}

void Server::look_after(std::size_t number) {
    constexpr int kLooks = 2000;  // without news, before a thread sleeps between two
    constexpr std::chrono::microseconds kLongest{200};
    int looks = 0;
    std::chrono::microseconds pause{0};
    while (on_duty_.load(std::memory_order_relaxed)) {
        bool had_news = false;
        for (std::size_t i = number; i < lanes_.size(); i += threads_.size()) {
            serve(lanes_[i], had_news);
        }
        if (had_news) {
            looks = 0;
            pause = std::chrono::microseconds{0};
        } else if (++looks > kLooks) {
            pause = std::min(kLongest, pause * 2 + std::chrono::microseconds{10});
            std::this_thread::sleep_for(pause);
        } else {
            std::this_thread::yield();
        }
    }
}

// The kernel writes at the same time: these words are read and written whole.
bool Server::serve(const MailView& lane, bool& had_news) {
    auto* const head = reinterpret_cast<MailHead*>(lane.mapped);
    const std::uint64_t posted = __atomic_load_n(&head->posted, __ATOMIC_ACQUIRE);
    if (posted == __atomic_load_n(&head->answered, __ATOMIC_RELAXED)) {
        return true;
    }
    const auto count = static_cast<std::uint32_t>(posted);
    unsigned char* const questions = lane.mapped + kMailHeadBytes;
    bool answered = false;
    try {
        answered =
            answerer_.answer(reinterpret_cast<const Question*>(questions), count,
                             reinterpret_cast<Answer*>(questions + sizeof(Question) * std::size_t{lane.size}));
    } catch (...) {  // there is no memory
        has_failed_.store(true);
    }
    if (answered) {
        had_news = true;
        rounds_.fetch_add(1, std::memory_order_relaxed);
        questions_.fetch_add(count, std::memory_order_relaxed);
        __atomic_store_n(&head->answered, posted, __ATOMIC_RELEASE);
    }
    return answered;
}

}  // namespace arcbeam::requests
