// The threads that answer lanes, for ThreadSanitizer: requests come in rounds of many sizes, some while nobody
// watches, all is put to rest and watched again in between, and memory runs out now and then. Every answer must be
// that of its own question. Then the same with answers that travel, by copies that take their time: a buffer that
// is filled too early, or an answer buffer that is overwritten, is a race. Then one thread, which must take one
// half of the lanes, and then the other.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "arcbeam/ctc/gpu/models/_requests/copied_answers.hpp"
#include "arcbeam/ctc/gpu/models/_requests/server.hpp"

namespace {

using arcbeam::Answer;
using arcbeam::Question;
using arcbeam::RequestHead;
using arcbeam::RequestView;

constexpr std::uint32_t kSize = 400;
constexpr std::size_t kLanes = 5;
constexpr std::uint32_t kRounds = 200;

class Squares : public arcbeam::requests::Answerer {
  public:
    explicit Squares(int fails_every) : every(fails_every) {}

    bool answer(const Question* questions, std::size_t count, Answer* answers) override {
        if (++calls % every == 0) {
            throw std::bad_alloc();
        }
        for (std::size_t i = 0; i < count; ++i) {
            answers[i] = {1.0F, questions[i].state * questions[i].state};
        }
        return true;
    }

  private:
    int every;
    std::atomic<int> calls{0};
};

struct MappedRequests {
    alignas(128) unsigned char bytes[arcbeam::request_buffer_bytes(kSize)];
};

// Lanes that read answers where they are.
std::vector<RequestView> mapped_lanes(std::vector<MappedRequests>& requests) {
    std::vector<RequestView> lanes;
    for (MappedRequests& own : requests) {
        std::memset(own.bytes, 0, sizeof own.bytes);
        lanes.push_back({nullptr, own.bytes, nullptr, kSize, 0U});
    }
    return lanes;
}

std::uint64_t post(const RequestView& lane, std::uint32_t round) {
    Question* const questions = arcbeam::requests::questions_of(lane);
    const std::uint32_t count = 1U + round % kSize;
    for (std::uint32_t i = 0; i < count; ++i) {
        questions[i] = {round + i, 0U};
    }
    const std::uint64_t posted = std::uint64_t{round} << 32U | count;
    __atomic_store_n(&arcbeam::requests::head_of(lane).posted, posted, __ATOMIC_RELEASE);
    return posted;
}

void compare(const Answer* answers, std::uint32_t round, std::atomic<bool>& wrong) {
    for (std::uint32_t i = 0; i < 1U + round % kSize; ++i) {
        if (answers[i].next_state != (round + i) * (round + i)) {
            wrong = true;
        }
    }
}

// What a lane does: as wait_for_mapped() in cuda/rescore/requests/answers_mapped.cuh.
void post(const RequestView& lane, std::uint32_t round, std::atomic<bool>& wrong) {
    const std::uint64_t posted = post(lane, round);
    while (__atomic_load_n(&arcbeam::requests::head_of(lane).answered, __ATOMIC_ACQUIRE) != posted) {
        std::this_thread::yield();
    }
    compare(arcbeam::requests::answers_of(lane), round, wrong);
}

// As wait_for_copied() in cuda/rescore/requests/answers_copied.cuh.
void take(const RequestView& lane, std::uint32_t round, std::uint64_t posted, std::atomic<bool>& wrong) {
    const unsigned char* const arrival = lane.answer_buffer + arcbeam::answer_buffer_start_bytes(lane.slot);
    for (;;) {
        const std::uint64_t tag =
            __atomic_load_n(reinterpret_cast<const std::uint64_t*>(arrival), __ATOMIC_RELAXED);
        const auto answer_batch = static_cast<std::uint32_t>(tag >> 32U);
        if (static_cast<std::uint32_t>(tag) == round && answer_batch != 0U &&
            __atomic_load_n(reinterpret_cast<const std::uint32_t*>(lane.answer_buffer), __ATOMIC_ACQUIRE) -
                    answer_batch <
                0x80000000U) {
            break;
        }
        std::this_thread::yield();
    }
    const auto place = static_cast<std::uint32_t>(
        __atomic_load_n(reinterpret_cast<const std::uint64_t*>(arrival) + 1, __ATOMIC_RELAXED));
    compare(reinterpret_cast<const Answer*>(lane.answer_buffer) + place, round, wrong);
    __atomic_store_n(&arcbeam::requests::head_of(lane).taken, posted, __ATOMIC_RELEASE);
}

// A device that copies by a thread for each half: words of arrivals whole, answers at leisure.
class Copier : public arcbeam::requests::AnswerCopier {
  public:
    ~Copier() override {
        for (std::size_t half = 0; half < arcbeam::kHalves; ++half) {
            wait(half);
        }
    }

    int enter() override { return 0; }
    void leave() override {}

    int send(std::size_t half, unsigned char* answer_buffer, const unsigned char* buffer,
             std::size_t bytes) override {
        wait(half);
        come_[half].store(false);
        copies_[half] = std::thread([this, half, answer_buffer, buffer, bytes] {
            const std::size_t start = arcbeam::answer_buffer_start_bytes((kLanes + 1U - half) / arcbeam::kHalves);
            for (std::size_t at = arcbeam::kAnswerBufferHeadBytes; at < start; at += sizeof(std::uint64_t)) {
                std::uint64_t word = 0;
                std::memcpy(&word, buffer + at, sizeof word);
                __atomic_store_n(reinterpret_cast<std::uint64_t*>(answer_buffer + at), word, __ATOMIC_RELAXED);
            }
            std::this_thread::sleep_for(std::chrono::microseconds(bytes % 50));
            std::memcpy(answer_buffer + start, buffer + start, bytes - start);
            std::uint32_t number = 0;
            std::memcpy(&number, buffer, sizeof number);
            __atomic_store_n(reinterpret_cast<std::uint32_t*>(answer_buffer), number, __ATOMIC_RELEASE);
            come_[half].store(true);
        });
        return 0;
    }

    int poll(std::size_t half, bool& has_come) override {
        has_come = come_[half].load();
        return 0;
    }

    int wait(std::size_t half) override {
        if (copies_[half].joinable()) {
            copies_[half].join();
        }
        return 0;
    }

  private:
    std::thread copies_[arcbeam::kHalves];
    std::atomic<bool> come_[arcbeam::kHalves] = {};
};

// Between launches.
void answer_all(arcbeam::requests::Server& server, const std::vector<RequestView>& lanes) {
    for (;;) {
        try {
            server.answer_all(lanes);
            return;
        } catch (const std::bad_alloc&) {  // what is open stays open
        }
    }
}

// Answers are read where they are; returns how many questions there were.
std::uint64_t mapped(std::atomic<bool>& wrong) {
    Squares squares(61);
    arcbeam::requests::Mapped answer_path;
    std::vector<MappedRequests> requests(kLanes);
    const std::vector<RequestView> lanes = mapped_lanes(requests);
    std::uint32_t round = 0;
    arcbeam::requests::Server server(squares, 3, answer_path);
    for (int watch = 0; watch < 6; ++watch) {
        server.trace(watch % 2 == 0 ? 500 : 0);
        server.watch(lanes);
        std::vector<std::thread> blocks;
        std::atomic<std::size_t> ended{0};
        for (const RequestView& lane : lanes) {
            blocks.emplace_back([&lane, &wrong, &ended, round] {
                for (std::uint32_t i = 1; i <= kRounds; ++i) {
                    post(lane, round + i, wrong);
                }
                ++ended;
            });
        }
        while (ended < kLanes) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            server.stop();
            answer_all(server, lanes);
            server.watch(lanes);
        }
        for (std::thread& block : blocks) {
            block.join();
        }
        round += kRounds;
        server.stop();
        std::thread late([&lanes, &wrong, round] { post(lanes[0], round + 1U, wrong); });
        while (server.rounds() < (watch + 1U) * (kLanes * kRounds + 1U)) {
            answer_all(server, lanes);
        }
        late.join();
        ++round;
    }
    return server.questions();
}

// Answers travel, in several launches; after each a lane has stopped before it had its answers.
std::uint64_t copied(std::atomic<bool>& wrong) {
    Squares squares(1 << 30);
    Copier copier;
    arcbeam::requests::CopiedAnswers answer_path(copier);
    std::vector<MappedRequests> requests(kLanes);
    constexpr std::size_t kBytes = arcbeam::answer_buffer_bytes((kLanes + 1U) / arcbeam::kHalves, kSize);
    std::vector<std::vector<std::uint64_t>> answer_buffers(4, std::vector<std::uint64_t>(kBytes / 8U));
    const auto memory = [&answer_buffers](std::size_t i) {
        return reinterpret_cast<unsigned char*>(answer_buffers[i].data());
    };
    std::vector<RequestView> lanes;
    for (MappedRequests& own : requests) {
        std::memset(own.bytes, 0, sizeof own.bytes);
        const std::size_t number = lanes.size();
        lanes.push_back({nullptr, own.bytes, memory(number % arcbeam::kHalves), kSize,
                         static_cast<std::uint32_t>(number / arcbeam::kHalves)});
    }
    unsigned char* const buffers[arcbeam::kHalves] = {memory(2), memory(3)};
    answer_path.begin(lanes, buffers);
    arcbeam::requests::Server server(squares, 3, answer_path);
    std::uint32_t round = 0;
    for (int watch = 0; watch < 4; ++watch) {
        server.watch(lanes);
        std::vector<std::thread> blocks;
        for (std::size_t i = 0; i < kLanes; ++i) {
            blocks.emplace_back([&lane = lanes[i], &wrong, i, watch, round] {
                std::uint32_t last = round;
                if (i == 0 && watch > 0) {  // what came between the launches
                    take(lane, round, std::uint64_t{round} << 32U | (1U + round % kSize), wrong);
                }
                for (std::uint32_t n = 0; n < kRounds; ++n) {
                    const std::uint64_t posted = post(lane, ++last);
                    take(lane, last, posted, wrong);
                }
                if (i == 0) {
                    RequestHead& head = arcbeam::requests::head_of(lane);
                    const std::uint64_t posted = post(lane, ++last);
                    head.open = 1;
                    __atomic_store_n(&head.taken, posted, __ATOMIC_RELEASE);
                }
            });
        }
        for (std::thread& block : blocks) {
            block.join();
        }
        round += kRounds + 1U;
        server.stop();
        answer_path.stop();
        answer_all(server, lanes);
        answer_path.send_open();
    }
    if (answer_path.failure() != 0 || answer_path.answer_batches() == 0 ||
        answer_path.answer_batches() > server.rounds() + 4U) {
        wrong = true;
    }
    return server.questions();
}

// Answers lane 0 when all lanes have posted, and notes their order. A lane posts its number.
class Order : public arcbeam::requests::Answerer {
  public:
    bool answer(const Question* questions, std::size_t count, Answer* answers) override {
        is_here = true;
        while (questions[0].state == 0U && !all_have_posted) {
            std::this_thread::yield();
        }
        for (std::size_t i = 0; i < count; ++i) {
            answers[i] = {1.0F, 0U};
        }
        came.push_back(questions[0].state);
        return true;
    }

    std::atomic<bool> is_here{false};
    std::atomic<bool> all_have_posted{false};
    std::vector<std::uint32_t> came;
};

void by_halves(std::atomic<bool>& wrong) {
    Order order;
    arcbeam::requests::Mapped answer_path;
    std::vector<MappedRequests> requests(kLanes);
    const std::vector<RequestView> lanes = mapped_lanes(requests);
    arcbeam::requests::Server server(order, 1, answer_path);
    server.watch(lanes);
    for (std::uint32_t i = 0; i < kLanes; ++i) {
        arcbeam::requests::questions_of(lanes[i])[0] = {i, 0U};
        __atomic_store_n(&arcbeam::requests::head_of(lanes[i]).posted, std::uint64_t{1} << 32U | 1U,
                         __ATOMIC_RELEASE);
        while (!order.is_here) {
            std::this_thread::yield();
        }
    }
    order.all_have_posted = true;
    while (server.rounds() < kLanes) {
        std::this_thread::yield();
    }
    server.stop();
    if (order.came != std::vector<std::uint32_t>{0, 2, 4, 1, 3}) {
        wrong = true;
        std::puts("the halves of the lanes were not served in turns");
    }
}

}  // namespace

int main() {
    std::atomic<bool> wrong{false};
    const std::uint64_t questions = mapped(wrong) + copied(wrong);
    by_halves(wrong);
    if (wrong) {
        std::puts("an answer is not that of its question");
        return 1;
    }
    std::printf("%llu questions\n", static_cast<unsigned long long>(questions));
    return 0;
}
