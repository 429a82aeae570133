// The way of answers from the threads that write them to the lanes that wait for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arcbeam/ctc/gpu/models/_requests/shared_words.hpp"
#include "shared/requests.hpp"

namespace arcbeam::requests {

inline RequestHead& head_of(const RequestView& lane) { return *reinterpret_cast<RequestHead*>(lane.mapped); }

// The kernel writes at the same time, so these words are read and written whole.
inline std::uint64_t posted_in(const RequestView& lane) { return host::load_acquire(head_of(lane).posted); }
inline bool is_answered(const RequestView& lane, std::uint64_t posted) {
    return posted == host::load_relaxed(head_of(lane).answered);
}
inline Question* questions_of(const RequestView& lane) {
    return reinterpret_cast<Question*>(lane.mapped + kRequestHeadBytes);
}
inline Answer* answers_of(const RequestView& lane) {
    return reinterpret_cast<Answer*>(questions_of(lane) + lane.size);
}

class AnswerPath {
  public:
    AnswerPath() = default;
    virtual ~AnswerPath() = default;
    AnswerPath(const AnswerPath&) = delete;
    AnswerPath& operator=(const AnswerPath&) = delete;

    // A thread calls enter() before, and leave() after its calls of the functions below.
    virtual void enter() {}
    virtual void leave() {}

    // All answers of a lane's round are written. From now on is_answered() returns true for it.
    virtual void answered(const RequestView& lane, std::size_t number, std::uint64_t posted) = 0;

    // Does what can be done for answers that were given before. Returns whether there is anything left to do, now
    // or soon.
    virtual bool go_on(std::size_t /*thread*/) { return false; }
};

// Lanes read answers in the mapped memory in which they were written.
class Mapped : public AnswerPath {
  public:
    void answered(const RequestView& lane, std::size_t /*number*/, std::uint64_t posted) override {
        host::store_release(head_of(lane).answered, posted);
    }
};

}  // namespace arcbeam::requests
