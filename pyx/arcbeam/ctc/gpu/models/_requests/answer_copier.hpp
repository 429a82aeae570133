// Copies a batch of answers to the device. The driver's version is in pyx/arcbeam/ctc/gpu/_driver_copier.hpp.
#pragma once

#include <cstddef>

#include "shared/requests.hpp"

namespace arcbeam::requests {

// All functions but leave() return 0, or the driver's result code. Calls for one half do not overlap.
class AnswerCopier {
  public:
    AnswerCopier() = default;
    virtual ~AnswerCopier() = default;
    AnswerCopier(const AnswerCopier&) = delete;
    AnswerCopier& operator=(const AnswerCopier&) = delete;

    // Called by each thread before and after all other calls.
    virtual int enter() = 0;
    virtual void leave() = 0;

    // Starts a copy of `bytes` bytes of a buffer, its head included, to an answer buffer. The part after the head
    // is copied first; a second copy brings the first word of the head.
    virtual int send(std::size_t half, unsigned char* answer_buffer, const unsigned char* buffer,
                     std::size_t bytes) = 0;

    // Whether the buffer can be filled again, because the event after both copies has come.
    virtual int poll(std::size_t half, bool& has_come) = 0;

    // Waits for all copies of a half.
    virtual int wait(std::size_t half) = 0;
};

}  // namespace arcbeam::requests
