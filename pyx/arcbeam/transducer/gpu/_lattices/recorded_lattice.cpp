#include "arcbeam/transducer/gpu/_lattices/recorded_lattice.hpp"

#include <map>
#include <vector>

#include "shared/transducer_rules.hpp"
#include "transducer/beam/lattice_log.hpp"

namespace arcbeam::transducer::beam {

namespace {

constexpr std::size_t kFewest = 4;  // lattices that pay for waking threads

// The arrivals on a later frame.
struct Waiting {
    std::vector<Arrival> arrivals;
};

struct Tokens {
    const TokenRecord* first;
    const TokenRecord* last;
    [[nodiscard]] const TokenRecord* begin() const { return first; }
    [[nodiscard]] const TokenRecord* end() const { return last; }
};

// The tokens of the place of the first one.
Tokens tokens_of_place(const TokenRecord* first, const TokenRecord* end) {
    const TokenRecord* last = first;
    while (last != end && last->frame == first->frame && last->symbols == first->symbols) {
        ++last;
    }
    return {first, last};
}

Lattice lattice_of(const Recorded& recorded) {
    LatticeLog log;
    log.reset(true);
    std::map<std::int64_t, Waiting> later;
    std::vector<Arrival> here;  // that stay on their frame
    const auto context_of = [&](std::uint32_t node) {
        return recorded.contexts == nullptr ? node : recorded.contexts[node];
    };
    const TokenRecord* const end = recorded.tokens + recorded.num_tokens;
    const ArcRecord* arc = recorded.arcs;
    for (const TokenRecord* first = recorded.tokens; first != end;) {
        const Tokens live = tokens_of_place(first, end);
        const Place place{first->frame, first->symbols};
        if (place.symbols == 0U) {  // nothing has been live on the frames that were passed over
            here.clear();
            while (!later.empty() && (later.begin()->first <= place.frame || place.frame >= recorded.frames)) {
                std::vector<Arrival>& arrivals = later.begin()->second.arrivals;
                if (later.begin()->first >= place.frame) {
                    here.insert(here.end(), arrivals.begin(), arrivals.end());
                }
                later.erase(later.begin());
            }
        }
        log.add(here, live, place, context_of);
        here.clear();
        if (place.symbols == 0U) {
            log.shorten(later);
        }
        const auto first_number = static_cast<std::uint32_t>(first - recorded.tokens);
        const auto last_number = static_cast<std::uint32_t>(live.last - recorded.tokens);
        for (; arc != recorded.arcs + recorded.num_arcs && arc->source < last_number; ++arc) {
            const std::uint32_t duration = recorded.durations[arc->duration];
            const Place next = arc->label == recorded.blank ? after_blank(place, duration)
                                                            : after_label(place, duration, recorded.max_symbols);
            std::vector<Arrival>& arrivals = next.frame == place.frame ? here : later[next.frame].arrivals;
            arrivals.push_back(
                {arc->node,
                 {log.live(arc->source - first_number), 0U, arc->label, arc->duration, arc->log_prob, arc->score}});
        }
        first = live.last;
    }
    return log.take();
}

}  // namespace

void make_lattices(const std::vector<Recorded>& recorded, twin::LazyPool& threads, std::vector<Lattice>& lattices) {
    lattices.resize(recorded.size());
    threads.each(recorded.size(), kFewest, [&](std::size_t i) {
        if (recorded[i].tokens != nullptr) {
            lattices[i] = lattice_of(recorded[i]);
        }
    });
}

}  // namespace arcbeam::transducer::beam
