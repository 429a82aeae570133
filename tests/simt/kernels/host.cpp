// What the host does while the kernel request_of_host runs: answers 3 q + 1 to every question q.
#include "emulated_host.hpp"

namespace {

using namespace arcbeam;

enum Fault : std::uint32_t { kNone, kRelaxedLook, kRelaxedAnswer, kEarlyAnswer };

struct Asked {
    const std::uint32_t* question;
    const std::uint32_t* posted;
    std::uint32_t* answered;
    std::uint32_t* answer;
    std::uint32_t count;
    std::uint32_t fault;
};

}  // namespace

extern "C" void answer_host(void* context) {
    const Asked& asked = *static_cast<const Asked*>(context);
    const std::uint32_t posted =
        asked.fault == kRelaxedLook ? host::load_relaxed(*asked.posted) : host::load_acquire(*asked.posted);
    if (posted == host::load_relaxed(*asked.answered)) return;
    host::will_read(asked.question, 4U * asked.count);
    if (asked.fault == kEarlyAnswer) host::store_release(*asked.answered, posted);
    host::will_write(asked.answer, 4U * asked.count);
    for (std::uint32_t i = 0; i < asked.count; ++i) asked.answer[i] = 3U * asked.question[i] + 1U;
    if (asked.fault == kRelaxedAnswer) host::store_relaxed(*asked.answered, posted);
    if (asked.fault == kNone || asked.fault == kRelaxedLook) host::store_release(*asked.answered, posted);
}
