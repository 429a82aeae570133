// The host of lanes that ask, beside a kernel in the emulator: the engine's own code that answers, compiled with
// the emulator's words, and a copier without a driver. What the host does with plain accesses is told here.
#include <cstring>
#include <vector>

#include "arcbeam/ctc/gpu/models/_requests/copied_answers.hpp"
#include "arcbeam/ctc/gpu/models/_requests/server.hpp"
#include "emulated_host.hpp"

namespace {

using namespace arcbeam;
using emulator::Agent;
using requests::Answerer;

// Tells what an answerer reads and writes. KenLM's also writes a row of words for each history that it numbers.
class Told : public Answerer {
  public:
    explicit Told(Answerer& answerer) : answerer_(answerer) {}

    void write_rows_to(const std::uint32_t* rows, std::size_t words_a_row) {
        rows_ = rows;
        words_a_row_ = words_a_row;
    }

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
    const std::uint32_t* rows_ = nullptr;
    std::size_t words_a_row_ = 0;
    std::size_t num_rows_ = 1;  // row 0 is there from the beginning
};

// Half of the bytes arrive at once; the rest and the count arrive after a given number of looks. The copies of a
// half are an agent of their own.
class SlowCopier : public requests::AnswerCopier {
  public:
    explicit SlowCopier(int looks) : looks_(looks) {}

    void begin(std::size_t lanes) {
        for (std::size_t half = 0; half < kHalves; ++half) slots_[half] = (lanes + kHalves - 1U - half) / kHalves;
    }

    int enter() override { return 0; }
    void leave() override {}

    int send(std::size_t half, unsigned char* answer_buffer, const unsigned char* buffer,
             std::size_t bytes) override {
        emulator::host_follow(Agent::thread, agent(half));
        on_way_[half] = {answer_buffer, buffer, bytes, looks_};
        ++sent_[half];
        copy(half, (bytes - kAnswerBufferHeadBytes) / 16 * 8);
        return 0;
    }

    int look(std::size_t half, bool& has_come) override {
        has_come = on_way_[half].looks-- <= 0;
        return has_come ? wait(half) : 0;
    }

    int wait(std::size_t half) override {
        const OnWay& one = on_way_[half];
        if (one.answer_buffer != nullptr) {
            copy(half, one.bytes - kAnswerBufferHeadBytes);
            std::uint32_t number;
            std::memcpy(&number, one.buffer, sizeof number);
            host::store_release(*reinterpret_cast<std::uint32_t*>(one.answer_buffer), number, agent(half));
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
        int looks = 0;
    };

    static Agent agent(std::size_t half) { return half == 0 ? Agent::copies_even : Agent::copies_odd; }

    // Lanes look at arrivals before they have all come, a word at a time.
    void copy(std::size_t half, std::size_t bytes) {
        const OnWay& one = on_way_[half];
        const std::size_t start = answer_buffer_start_bytes(slots_[half]);
        for (std::size_t at = kAnswerBufferHeadBytes; at < kAnswerBufferHeadBytes + bytes; at += 8U) {
            std::uint64_t word;
            std::memcpy(&word, one.buffer + at, sizeof word);
            auto* const to = reinterpret_cast<std::uint64_t*>(one.answer_buffer + at);
            if (at < start) {
                host::store_relaxed(*to, word, agent(half));
            } else {
                host::will_write(to, sizeof word, agent(half));
                *to = word;
            }
        }
    }

    int looks_;
    std::size_t slots_[kHalves] = {};
    OnWay on_way_[kHalves];
    std::size_t sent_[kHalves] = {};
};

struct Answering {
    Answering(Answerer& answerer, bool copies, int looks)
        : told(answerer),
          copier(looks),
          copied(copier),
          server(told, 0, copies ? static_cast<requests::AnswerPath&>(copied) : mapped),
          path(copies ? static_cast<requests::AnswerPath*>(&copied) : &mapped) {}

    Told told;
    SlowCopier copier;
    requests::CopiedAnswers copied;
    requests::Mapped mapped;
    requests::Server server;
    requests::AnswerPath* path;
    std::vector<RequestView> lanes;
};

}  // namespace

extern "C" {

Answering* answering_begin(Answerer* answerer, int copies, int looks) {
    return new Answering(*answerer, copies != 0, looks);
}

void answering_end(Answering* all) { delete all; }

// Takes these new lanes; `buffers`: one for each half, if answers travel by copies.
void answering_have(Answering* all, const RequestView* lanes, std::size_t count, unsigned char* const* buffers) {
    all->lanes.assign(lanes, lanes + count);
    all->copier.begin(count);
    if (all->path == &all->copied) all->copied.begin(all->lanes, buffers);
}

void answering_write_rows_to(Answering* all, const std::uint32_t* rows, std::size_t words_a_row) {
    all->told.write_rows_to(rows, words_a_row);
}

// Between two launches answers what has been posted; 0 if there is no room for some answer.
int answering_answer(Answering* all) {
    if (!all->server.answer_all(all->lanes)) return 0;
    if (all->path == &all->copied) {
        all->copied.rest();
        all->copied.send_open();
    }
    return 1;
}

// The same beside a kernel.
void answering_beside(void* context) {
    auto* const all = static_cast<Answering*>(context);
    all->server.answer_all(all->lanes);
    all->path->go_on(0);
}

std::uint64_t answering_rounds(const Answering* all) { return all->server.rounds(); }
std::uint64_t answering_questions(const Answering* all) { return all->server.questions(); }
std::uint64_t answering_sent(const Answering* all, std::size_t half) { return all->copier.sent(half); }

}  // extern "C"
