// The host that reads lattices while a kernel runs in the emulator: as the engine does, it reads those that are
// marked as written. Its plain accesses are told here.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "arcbeam/ctc/gpu/_lattice_memory/written.hpp"
#include "decode/search.hpp"
#include "emulated_host.hpp"

namespace {

using namespace arcbeam;

struct EarlyReader {
    explicit EarlyReader(const SearchParams& params)
        : all(*params.lattice),
          pool(all.pool_capacity),
          ends(params.num_utterances),
          written(params.num_utterances) {
        for (std::size_t i = 0; i < written.size(); ++i) written[i] = all.results[i].written != 0U;  // before
    }

    // The host reads these bytes of the pool.
    void read(std::uint64_t begin, std::uint64_t bytes) {
        host::will_read(all.pool + begin, bytes);
        std::memcpy(pool.data() + begin, all.pool + begin, bytes);
    }

    const LatticeParams all;
    std::vector<unsigned char> pool;  // what has been read
    std::vector<std::uint64_t> ends;  // of each lattice that has been read; 0: of none
    std::vector<bool> written;
};

}  // namespace

extern "C" {

EarlyReader* early_reader_begin(const SearchParams* params) {
    return params->lattice == nullptr ? nullptr : new EarlyReader(*params);
}

void early_reader_read(void* context) {
    auto& own = *static_cast<EarlyReader*>(context);
    for (std::size_t i = 0; i < own.written.size(); ++i) {
        const LatticeResult& place = own.all.results[i];
        if (own.written[i] || !is_written(place)) continue;
        own.written[i] = true;
        const std::uint64_t steps_bytes = sizeof(LatticeStep) * std::uint64_t{place.steps};
        own.read(place.begin, steps_bytes);
        const auto* const steps = reinterpret_cast<const LatticeStep*>(own.all.pool + place.begin);
        const std::uint32_t first_end = place.steps > 1U ? steps[place.steps - 2U].entries_end : 0U;
        const std::uint64_t floats = 2U * std::uint64_t{place.entries} - first_end;  // costs and extras of ends
        const std::uint64_t rest = sizeof(lattice::Link) * std::uint64_t{place.links} +
                                   sizeof(LogEntry) * std::uint64_t{place.entries} + sizeof(float) * floats;
        own.read(place.begin + steps_bytes, rest);
        own.ends[i] = place.begin + steps_bytes + rest;
    }
}

// After the kernel: how many lattices had been read, or -1 where what was read is not what is there.
int early_reader_end(EarlyReader* own) {
    int count = 0;
    for (std::size_t i = 0; i < own->ends.size(); ++i) {
        if (own->ends[i] == 0U) continue;
        const std::uint64_t begin = own->all.results[i].begin;
        if (std::memcmp(own->pool.data() + begin, own->all.pool + begin, own->ends[i] - begin) != 0) return -1;
        ++count;
    }
    delete own;
    return count;
}

}  // extern "C"
