// The host that looks for lattices beside a kernel in the emulator: it asks as the engine does, and reads what it
// is told that it may read. Its plain accesses are told here.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arcbeam/ctc/gpu/_lattice_memory/written.hpp"
#include "emulated_host.hpp"

namespace {

using namespace arcbeam;

struct Looking {
    const LatticeResult* results;  // [utterances]
    const unsigned char* pool;
    LatticeResult* early_results;  // [utterances]: what has been read, `written` where it has
    unsigned char* early_pool;     // as large as the pool
    std::uint64_t utterances;
};

// The host reads these bytes of the pool.
void read(const Looking& all, std::uint64_t begin, std::uint64_t bytes) {
    host::will_read(all.pool + begin, bytes);
    std::memcpy(all.early_pool + begin, all.pool + begin, bytes);
}

}  // namespace

extern "C" void look_for_lattices(void* context) {
    const auto& all = *static_cast<const Looking*>(context);
    for (std::uint64_t i = 0; i < all.utterances; ++i) {
        const LatticeResult& place = all.results[i];
        if (all.early_results[i].written != 0U || !is_written(place)) continue;
        const std::uint64_t steps_bytes = sizeof(LatticeStep) * std::uint64_t{place.steps};
        read(all, place.begin, steps_bytes);
        const auto* const steps = reinterpret_cast<const LatticeStep*>(all.pool + place.begin);
        const std::uint32_t first_end = place.steps > 1U ? steps[place.steps - 2U].entries_end : 0U;
        const std::uint64_t floats = 2U * std::uint64_t{place.entries} - first_end;  // costs and extras of ends
        read(all, place.begin + steps_bytes,
             sizeof(lattice::Link) * std::uint64_t{place.links} + sizeof(LogEntry) * std::uint64_t{place.entries} +
                 sizeof(float) * floats);
        all.early_results[i] = place;
    }
}
