// Sends batches of answers by copies of the driver. Each half of the lanes has one stream for the data and another
// that counts batches after an event. Two copies of one stream follow each other, but nothing guarantees that a
// running kernel sees the first before the second.
#pragma once

#include "arcbeam/ctc/gpu/models/_requests/answer_copier.hpp"
#include "arcbeam/gpu/_driver_table.hpp"

namespace arcbeam::gpu {

// The handles of a half. Their owner outlives the copier.
struct HalfHandles {
    void* copying;   // stream
    void* counting;  // stream
    void* sent;      // event after the data
    void* notified;  // event after the count: the buffer can be filled again
};

class DriverCopier : public requests::AnswerCopier {
  public:
    DriverCopier(const DriverTable* table, void* context, const HalfHandles& even, const HalfHandles& odd)
        : table_(*table), context_(context), halves_{even, odd} {}

    int enter() override { return table_.context_push(context_); }
    void leave() override {
        void* context = nullptr;
        table_.context_pop(&context);
    }

    int send(std::size_t half, unsigned char* answer_buffer, const unsigned char* buffer,
             std::size_t bytes) override {
        const HalfHandles& with = halves_[half];
        const auto to = reinterpret_cast<Address>(answer_buffer);
        int code = table_.copy_to_device(to + kAnswerBufferHeadBytes, buffer + kAnswerBufferHeadBytes,
                                         bytes - kAnswerBufferHeadBytes, with.copying);
        if (code == 0) code = table_.event_record(with.sent, with.copying);
        if (code == 0) code = table_.stream_wait_event(with.counting, with.sent, 0);
        if (code == 0) code = table_.copy_to_device(to, buffer, sizeof(uint32_t), with.counting);
        if (code == 0) code = table_.event_record(with.notified, with.counting);
        return code;
    }

    int poll(std::size_t half, bool& has_come) override {
        const int code = table_.event_query(halves_[half].notified);
        has_come = code == 0;
        return code == kNotReady ? 0 : code;
    }

    int wait(std::size_t half) override {
        const int copied = table_.stream_synchronize(halves_[half].copying);
        const int counted = table_.stream_synchronize(halves_[half].counting);
        return copied != 0 ? copied : counted;
    }

  private:
    const DriverTable& table_;
    void* context_;
    HalfHandles halves_[kHalves];
};

}  // namespace arcbeam::gpu
