// The threads that answer lanes, for ThreadSanitizer: lanes ask in rounds of many sizes, some while nobody watches,
// all is put to rest and watched again in between, and memory runs out now and then. Every answer must be that of
// its own question.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "requests/server.hpp"

namespace {

using arcbeam::Answer;
using arcbeam::MailHead;
using arcbeam::MailView;
using arcbeam::Question;

constexpr std::uint32_t kSize = 400;
constexpr std::size_t kLanes = 5;
constexpr std::uint32_t kRounds = 200;

class Squares : public arcbeam::requests::Answerer {
  public:
    bool answer(const Question* questions, std::size_t count, Answer* answers) override {
        if (++asked % 61 == 0) {
            throw std::bad_alloc();
        }
        for (std::size_t i = 0; i < count; ++i) {
            answers[i] = {1.0F, questions[i].state * questions[i].state};
        }
        return true;
    }

  private:
    std::atomic<int> asked{0};
};

struct Box {
    alignas(128) unsigned char bytes[arcbeam::mapped_mail_bytes(kSize)];
};

// What a lane does: as wait_for_answers() in cuda/rescore/mail.cuh.
void ask(Box& box, std::uint32_t round, std::atomic<bool>& wrong) {
    auto* const head = reinterpret_cast<MailHead*>(box.bytes);
    auto* const questions = reinterpret_cast<Question*>(box.bytes + sizeof(MailHead));
    const auto* const answers = reinterpret_cast<const Answer*>(questions + kSize);
    const std::uint32_t count = 1U + round % kSize;
    for (std::uint32_t i = 0; i < count; ++i) {
        questions[i] = {round + i, 0U, 0U, 0U};
    }
    const std::uint64_t posted = std::uint64_t{round} << 32U | count;
    __atomic_store_n(&head->posted, posted, __ATOMIC_RELEASE);
    while (__atomic_load_n(&head->answered, __ATOMIC_ACQUIRE) != posted) {
        std::this_thread::yield();
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        if (answers[i].next_state != (round + i) * (round + i)) {
            wrong = true;
        }
    }
}

// Between launches.
void answer_all(arcbeam::requests::Server& server, const std::vector<MailView>& lanes) {
    for (;;) {
        try {
            server.answer_all(lanes);
            return;
        } catch (const std::bad_alloc&) {  // what is open stays open
        }
    }
}

}  // namespace

int main() {
    Squares squares;
    std::vector<Box> boxes(kLanes);
    std::vector<MailView> lanes;
    for (Box& box : boxes) {
        std::memset(box.bytes, 0, sizeof box.bytes);
        lanes.push_back({nullptr, box.bytes, kSize});
    }
    std::atomic<bool> wrong{false};
    std::uint32_t round = 0;
    arcbeam::requests::Server server(squares, 3);
    for (int watch = 0; watch < 6; ++watch) {
        server.trace(watch % 2 == 0 ? 500 : 0);
        server.watch(lanes);
        std::vector<std::thread> blocks;
        std::atomic<std::size_t> ended{0};
        for (Box& box : boxes) {
            blocks.emplace_back([&box, &wrong, &ended, round] {
                for (std::uint32_t i = 1; i <= kRounds; ++i) {
                    ask(box, round + i, wrong);
                }
                ++ended;
            });
        }
        while (ended < kLanes) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            server.rest();
            answer_all(server, lanes);
            server.watch(lanes);
        }
        for (std::thread& block : blocks) {
            block.join();
        }
        round += kRounds;
        server.rest();
        std::thread late([&boxes, &wrong, round] { ask(boxes[0], round + 1U, wrong); });
        while (server.rounds() < (watch + 1U) * (kLanes * kRounds + 1U)) {
            answer_all(server, lanes);
        }
        late.join();
        ++round;
    }
    if (wrong) {
        std::puts("an answer is not that of its question");
        return 1;
    }
    std::printf("%llu questions in %llu rounds\n", static_cast<unsigned long long>(server.questions()),
                static_cast<unsigned long long>(server.rounds()));
    return 0;
}
