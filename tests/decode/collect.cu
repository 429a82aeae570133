// One collection of a token log, for tests: the rest of a search has no part in it.
#include "decode/collect.cuh"

namespace arcbeam {

struct CollectParams {
    LogEntry* log;        // log_bytes(log.capacity)
    std::uint32_t* left;  // [2]: its size, and how many entries are settled
    std::uint32_t capacity;
    std::uint32_t size;
    std::uint32_t num_tokens;
    std::uint32_t settled;
};

}  // namespace arcbeam

ARCBEAM_KERNEL(collect_log, 1024, arcbeam::CollectParams) {
    using namespace arcbeam;
    unsigned char* memory = simt::shared_memory();
    const Collected left = collect({params.log, params.capacity, params.size, params.num_tokens, params.settled},
                                   carve<std::uint32_t>(memory, 256U));
    if (simt::thread_rank() == 0U) {
        simt::store(params.left, left.size);
        simt::store(params.left + 1, left.settled);
    }
}
