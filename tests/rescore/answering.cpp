// The host of lanes that send requests, and a kernel in the emulator: the engine's own code that answers, compiled
// with the emulator's words, and a copier without a driver. What the host does with plain accesses is told here.
// Between launches the engine itself answers, in the same memory.
#include <cstring>
#include <vector>

#include "arcbeam/ctc/gpu/models/_requests/copied_answers.hpp"
#include "arcbeam/ctc/gpu/models/_requests/server.hpp"
#include "emulated_host.hpp"
#include "rescore/rescoring_search.hpp"

namespace {

using namespace arcbeam;
using emulator::Agent;
using requests::Answerer;

// Tells what an answerer reads and writes. KenLM's also writes a row of words for each history that it numbers.
class Told : public Answerer {
  public:
    // `histories` have numbers already.
    Told(Answerer& answerer, const RescoringParams& params, std::size_t histories)
        : answerer_(answerer),
          rows_(params.history_words),
          words_a_row_(params.words_a_history),
          num_rows_(histories) {}

    bool answer(const Question* questions, std::size_t count, Answer* answers) override {
        host::will_read(questions, sizeof(Question) * count);
        const bool answered = answerer_.answer(questions, count, answers);
        host::will_write(answers, sizeof(Answer) * count);
        for (std::size_t i = 0; rows_ != nullptr && answered && i < count; ++i) {
            for (; num_rows_ <= answers[i].next_state; ++num_rows_) {
                host::will_write(rows_ + num_rows_ * words_a_row_, sizeof(std::uint32_t) * words_a_row_);
            }
        }
        return answered;
    }

  private:
    Answerer& answerer_;
    const std::uint32_t* rows_;
    std::size_t words_a_row_, num_rows_;
};

// Half of the bytes arrive at once; the rest and the count arrive after a given number of polls. The copies of a
// half are an agent of their own. Batches of answers are numbered from those on that have come before the launch.
class SlowCopier : public requests::AnswerCopier {
  public:
    SlowCopier(const std::vector<RequestView>& lanes, int polls) : polls_(polls) {
        for (std::size_t half = 0; half < kHalves && half < lanes.size(); ++half) {
            slots_[half] = (lanes.size() + kHalves - 1U - half) / kHalves;
            if (lanes[half].answer_buffer != nullptr)
                std::memcpy(&before_[half], lanes[half].answer_buffer, sizeof before_[half]);
        }
    }

    int enter() override { return 0; }
    void leave() override {}

    int send(std::size_t half, unsigned char* answer_buffer, const unsigned char* buffer,
             std::size_t bytes) override {
        emulator::host_follow(Agent::thread, agent(half));
        on_way_[half] = {answer_buffer, buffer, bytes, polls_};
        ++sent_[half];
        copy(half, (bytes - kAnswerBufferHeadBytes) / 16 * 8);
        return 0;
    }

    int poll(std::size_t half, bool& has_come) override {
        has_come = on_way_[half].polls-- <= 0;
        return has_come ? wait(half) : 0;
    }

    int wait(std::size_t half) override {
        const OnWay& one = on_way_[half];
        if (one.answer_buffer != nullptr) {
            copy(half, one.bytes - kAnswerBufferHeadBytes);
            std::uint32_t number;
            std::memcpy(&number, one.buffer, sizeof number);
            host::store_release(*reinterpret_cast<std::uint32_t*>(one.answer_buffer), before_[half] + number,
                                agent(half));
            emulator::host_follow(agent(half), Agent::thread);
        }
        on_way_[half] = {};
        return 0;
    }

    [[nodiscard]] std::size_t sent(std::size_t half) const { return sent_[half]; }

  private:
    struct OnWay {
        unsigned char* answer_buffer = nullptr;
        const unsigned char* buffer = nullptr;
        std::size_t bytes = 0;
        int polls = 0;
    };

    static Agent agent(std::size_t half) { return half == 0 ? Agent::copies_even : Agent::copies_odd; }

    // Lanes look at arrivals before they have all come, a word at a time. Arrivals of lanes that have had no
    // answers in this launch stay as they are.
    void copy(std::size_t half, std::size_t bytes) {
        const OnWay& one = on_way_[half];
        const std::size_t start = answer_buffer_start_bytes(slots_[half]);
        for (std::size_t at = kAnswerBufferHeadBytes; at < kAnswerBufferHeadBytes + bytes; at += 8U) {
            std::uint64_t word;
            std::memcpy(&word, one.buffer + at, sizeof word);
            auto* const to = reinterpret_cast<std::uint64_t*>(one.answer_buffer + at);
            if (at >= start) {
                host::will_write(to, sizeof word, agent(half));
                *to = word;
                continue;
            }
            const bool is_tag = at % sizeof(Arrival) == 0U;
            std::uint64_t tag;
            std::memcpy(&tag, one.buffer + at / sizeof(Arrival) * sizeof(Arrival), sizeof tag);
            if (tag == 0U) continue;
            host::store_relaxed(*to, is_tag ? word + (std::uint64_t{before_[half]} << 32U) : word, agent(half));
        }
    }

    int polls_;
    std::size_t slots_[kHalves] = {};
    std::uint32_t before_[kHalves] = {};
    OnWay on_way_[kHalves];
    std::size_t sent_[kHalves] = {};
};

struct Answering {
    Answering(Answerer& answerer, const RescoringParams& params, std::size_t num_lanes, std::size_t histories,
              int polls)
        : lanes(params.views, params.views + num_lanes),
          told(answerer, params, histories),
          copier(lanes, polls),
          copied(copier),
          copies(lanes[0].answer_buffer != nullptr),
          server(told, 0, copies ? static_cast<requests::AnswerPath&>(copied) : mapped) {
        if (!copies) return;
        unsigned char* begins[kHalves];
        for (std::size_t half = 0; half < kHalves; ++half) {
            buffers[half].resize(answer_buffer_bytes((num_lanes + 1U) / kHalves, lanes[0].size));
            begins[half] = buffers[half].data();
        }
        copied.begin(lanes, begins);
        for (const RequestView& lane : lanes) {
            const RequestHead& head = requests::head_of(lane);
            if (head.open != 0U && head.answered == head.posted) resumed.push_back(lane);
        }
    }

    // The answers that the engine has sent for lanes which had stopped keep their place until they are read.
    bool are_read() {
        while (!resumed.empty()) {
            const RequestHead& head = requests::head_of(resumed.back());
            const std::uint64_t taken = host::load_acquire(head.taken);
            if ((taken >> 32U) < (head.answered >> 32U)) return false;
            resumed.pop_back();
        }
        return true;
    }

    std::vector<RequestView> lanes, resumed;
    Told told;
    SlowCopier copier;
    requests::CopiedAnswers copied;
    requests::Mapped mapped;
    bool copies;
    requests::Server server;
    std::vector<unsigned char> buffers[kHalves];
};

}  // namespace

extern "C" {

// For a launch; `polls`: of copies, see SlowCopier.
Answering* answering_begin(Answerer* answerer, const RescoringParams* params, std::size_t lanes,
                           std::size_t histories, int polls) {
    return new Answering(*answerer, *params, lanes, histories, polls);
}

// Beside the kernel.
void answering_beside(void* context) {
    auto* const all = static_cast<Answering*>(context);
    all->server.answer_all(all->lanes);
    if (all->copies && all->are_read()) all->copied.go_on(0);
}

// Behind it: adds what has been answered to the counts of rounds, of questions, and of what each half has sent.
void answering_end(Answering* all, std::uint64_t* counts) {
    if (all->copies) all->copied.stop();
    counts[0] += all->server.rounds();
    counts[1] += all->server.questions();
    for (std::size_t half = 0; half < kHalves; ++half) counts[2U + half] += all->copier.sent(half);
    delete all;
}

}  // extern "C"
