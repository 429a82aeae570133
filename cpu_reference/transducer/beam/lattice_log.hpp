// The log of a lattice while its utterance is searched; of one that a GPU has searched, once its records are here.
//
// in    the hypotheses that have become live on a place, and the candidates that were admitted there
// out   the tokens and arcs that lead to the end
// rule  a live hypothesis is a token; a candidate is an arc to the one with which its history was merged, and is
//       dropped if none is live
//
// What leads to no hypothesis that is alive is dropped whenever the log has doubled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shared/transducer_rules.hpp"
#include "transducer/beam/lattice.hpp"

namespace arcbeam::transducer::beam {

class LatticeLog {
  public:
    void reset(bool is_kept) {
        is_kept_ = is_kept;
        first_live_ = 0;
        longest_ = kSmall;
        found_ = Lattice{};
    }

    [[nodiscard]] bool is_kept() const { return is_kept_; }

    // The token of a live hypothesis.
    [[nodiscard]] std::uint32_t live(std::uint32_t rank) const { return first_live_ + rank; }

    // Makes tokens of the hypotheses that are live on a place. `arrivals`: those of their bucket. context_of(node)
    // numbers the context of a history.
    template <class Live, class ContextOf>
    void add(const std::vector<Arrival>& arrivals, const Live& live, const Place& place,
             const ContextOf& context_of) {
        if (!is_kept_) {
            return;
        }
        first_live_ = static_cast<std::uint32_t>(found_.frames.size());
        std::unordered_map<std::uint32_t, std::uint32_t> tokens;  // by context
        for (const auto& one : live) {
            tokens.emplace(context_of(one.node), static_cast<std::uint32_t>(found_.frames.size()));
            found_.frames.push_back(place.frame);
            found_.depths.push_back(place.symbols);
        }
        for (const Arrival& one : arrivals) {
            const auto token = tokens.find(context_of(one.node));
            if (token != tokens.end()) {
                found_.arcs.push_back(one.arc);
                found_.arcs.back().target = token->second;
            }
        }
    }

    // Drops what leads neither to the live tokens nor to arrivals on later frames, if the log has doubled.
    template <class Buckets>  // by frame
    void shorten(Buckets& buckets) {
        if (found_.arcs.size() < longest_) {
            return;
        }
        std::vector<bool> leads = leads_live();
        for (const auto& [frame, bucket] : buckets) {
            for (const Arrival& one : bucket.arrivals) {
                leads[one.arc.source] = true;
            }
        }
        const std::vector<std::uint32_t> numbers = keep(leads);
        for (auto& [frame, bucket] : buckets) {
            for (Arrival& one : bucket.arrivals) {
                one.arc.source = numbers[one.arc.source];
            }
        }
        first_live_ = numbers[first_live_];
        longest_ = std::max(kSmall, 2U * found_.arcs.size());
    }

    // The lattice, of which the live tokens are the end.
    Lattice take() {
        if (is_kept_) {
            std::vector<bool> leads = leads_live();
            keep(leads);
        }
        return std::move(found_);
    }

  private:
    static constexpr std::size_t kSmall = std::size_t{1} << 12U;  // arcs

    [[nodiscard]] std::vector<bool> leads_live() const {
        std::vector<bool> leads(first_live_, false);
        leads.resize(found_.frames.size(), true);
        return leads;
    }

    // Keeps the tokens from which an arc leads to one of these, and these. Returns the new numbers.
    std::vector<std::uint32_t> keep(std::vector<bool>& leads) {
        for (auto arc = found_.arcs.rbegin(); arc != found_.arcs.rend(); ++arc) {  // targets descend
            if (leads[arc->target]) {
                leads[arc->source] = true;
            }
        }
        std::vector<std::uint32_t> numbers(leads.size());
        std::uint32_t tokens = 0;
        for (std::size_t i = 0; i < leads.size(); ++i) {
            numbers[i] = tokens;
            if (leads[i]) {
                found_.frames[tokens] = found_.frames[i];
                found_.depths[tokens++] = found_.depths[i];
            }
        }
        found_.frames.resize(tokens);
        found_.depths.resize(tokens);
        std::size_t arcs = 0;
        for (LatticeArc arc : found_.arcs) {
            if (leads[arc.target]) {
                arc.source = numbers[arc.source];
                arc.target = numbers[arc.target];
                found_.arcs[arcs++] = arc;
            }
        }
        found_.arcs.resize(arcs);
        return numbers;
    }

    bool is_kept_ = false;
    std::uint32_t first_live_ = 0;  // the tokens from here on are live
    std::size_t longest_ = kSmall;
    Lattice found_;
};

}  // namespace arcbeam::transducer::beam
