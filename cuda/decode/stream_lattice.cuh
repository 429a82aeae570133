// Streams whose sentences give lattices (laws 8 and 10). Links refer to entries that are settled, too, so nothing
// leaves the log but by the pruning of lattices; the arcs that all tokens share are found in it and stay. The rule
// is the twin's, LinkLog in cpu_reference/decode/lattice.hpp.
//
// steps_before  how many steps of the sentence came before the chunk
// load_links    puts the links, steps and costs of a stream into the lane; its log and tokens come by load_stream()
// settle_links  finds the arcs that all tokens share, after those that were settled before
// save_links    adds links, steps and costs to what save_stream() has written
#pragma once

#include "decode/stream.cuh"

namespace arcbeam {

// The memory of a StreamLinksView.
struct LinkMemory {
    LinkCounts* words;
    Link* links;
    LatticeStep* steps;
    float* costs;
};

ARCBEAM_DEVICE LinkMemory link_memory(unsigned char* memory, std::uint32_t links, std::uint32_t steps) {
    auto* const first_link = reinterpret_cast<Link*>(memory + padded(sizeof(LinkCounts)));
    auto* const first_step = reinterpret_cast<LatticeStep*>(first_link + links);
    return {reinterpret_cast<LinkCounts*>(memory), first_link, first_step,
            reinterpret_cast<float*>(first_step + steps)};
}

ARCBEAM_DEVICE LinkMemory links_before(const StreamLinksView& view) {
    return link_memory(view.before, view.before_links, view.before_steps);
}

// Steps are those of the frames that the search has survived, and of the closure before them. After the
// closure frames are counted from here, so it is not counted.
template <class Search>
ARCBEAM_DEVICE std::uint32_t steps_before(const SearchParams& params, std::uint32_t utterance) {
    if (!of_streams<Search>(params) || params.streams[utterance].before == nullptr) {
        return 0U;
    }
    const StreamView& view = params.streams[utterance];
    return static_cast<std::uint32_t>(view.frames - dead_before(view));
}

template <class T>
ARCBEAM_DEVICE void copy_values(const T* from, T* to, std::uint32_t n) {
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
        simt::store(to + i, simt::load(from + i));
    }
}

// `links`: the lane's; false if it has no room for those of the stream. `entries`: of the log, `steps`: before the
// chunk, the last of which is the step that its first frame follows. A barrier must follow.
ARCBEAM_DEVICE bool load_links(const LatticeParams& params, std::uint32_t utterance, std::uint32_t entries,
                               std::uint32_t steps, LatticeLane* links) {
    const StreamLinksView& view = params.streams[utterance];
    const LinkMemory from = links_before(view);
    const std::uint32_t num_links = simt::load(&from.words->num_links);
    if (num_links > simt::load(&links->link_capacity)) {
        return false;
    }
    copy_values(from.links, simt::load(&links->links), num_links);
    copy_values(from.costs, simt::load(&links->costs), entries);
    copy_values(from.steps, params.steps + simt::load_readonly(params.first_step + utterance), steps);
    if (simt::thread_rank() == 0U) {
        simt::store(&links->num_links, num_links);
    }
    return true;
}

// Marks which entries have an entry that tokens descend from, or are, after them (`kept`), and which several
// (`before`). Each token is followed back, but for what was followed before, to the entry that was settled last.
ARCBEAM_DEVICE void mark_followers(const LogEntry* entries, std::uint32_t size, std::uint32_t first_token,
                                   std::uint32_t settled, const Marks& marks) {
    ARCBEAM_ROLLED
    for (std::uint32_t word = simt::thread_rank(); word < mark_words(size); word += simt::block_size()) {
        simt::store(marks.kept + word, 0U);
        simt::store(marks.before + word, 0U);
    }
    simt::block_barrier();
    ARCBEAM_ROLLED
    for (std::uint32_t token = first_token + simt::thread_rank(); token < size; token += simt::block_size()) {
        ARCBEAM_ROLLED
        for (std::uint32_t at = token; at != settled;) {
            at = simt::load(entries + at).source;
            const std::uint32_t bit = 1U << at % 32U;
            if ((simt::atomic_or<Scope::block>(marks.kept + at / 32U, bit) & bit) != 0U) {
                simt::atomic_or<Scope::block>(marks.before + at / 32U, bit);
                break;
            }
            if (at >= first_token) {
                break;  // a token, which is followed back itself
            }
        }
    }
    simt::block_barrier();
}

// Sets result.settled: how many arcs of the path, which begins after the entry `settled`, all tokens share.
// Returns the last entry on the way that they descend from, or are. `end` is the place of the path's end among the
// tokens, `word` one that the block shares. Barriers are passed.
ARCBEAM_DEVICE std::uint32_t settle_links(const LatticeLog log, std::uint32_t num_tokens, std::uint32_t settled,
                                          std::uint32_t end, UtteranceResult* result, std::uint32_t* word) {
    const std::uint32_t first_token = log.num_entries - num_tokens;
    mark_followers(log.entries, log.num_entries, first_token, settled, log.entry_marks);
    if (simt::thread_rank() == 0U) {
        std::uint32_t unshared = 0U;  // arcs
        std::uint32_t deepest = kNoIndex;
        std::uint32_t arcs = 0U;
        ARCBEAM_ROLLED
        for (std::uint32_t at = first_token + end;; ++arcs) {
            const bool forks = (simt::load(log.entry_marks.before + at / 32U) >> at % 32U & 1U) != 0U;
            if (forks || at >= first_token) {
                unshared = arcs;
                deepest = at;
            }
            if (at == settled) {
                break;
            }
            at = simt::load(log.entries + at).source;
        }
        simt::store(&result->settled, arcs - unshared);
        simt::store(word, deepest);
    }
    simt::block_barrier();
    const std::uint32_t deepest = simt::load(word);
    simt::block_barrier();
    return deepest;
}

// `pruned`: of LinkCounts. There is room for the costs, as for the entries; false if there is none for the links.
ARCBEAM_DEVICE bool save_links(const StreamLinksView view, const LatticeLog log, std::uint32_t pruned) {
    if (log.num_links > view.after_links) {
        return false;
    }
    const LinkMemory to = link_memory(view.after, view.after_links, view.after_steps);
    copy_values<Link>(log.links, to.links, log.num_links);
    copy_values<LatticeStep>(log.steps, to.steps, log.num_steps);
    copy_values<float>(log.costs, to.costs, log.num_entries);
    if (simt::thread_rank() == 0U) {
        simt::store(to.words, LinkCounts{log.num_links, pruned});
    }
    return true;
}

}  // namespace arcbeam
