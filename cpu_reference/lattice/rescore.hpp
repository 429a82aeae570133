// Rescores a lattice with a large language model (law 8 of docs/design/rules.md): the lattice composed with the
// automaton of deviations, whose states are the histories of law 4.
//
// in   lattice, with the scores of its graph alone; both language models; beam, in nats
// out  the lattice of all its paths, rescored, within the beam; `truncated`
// rule A hypothesis is a pair (token, history). It costs the smallest (source's cost + link's cost) + deviation of
//      the links that lead to it; ties are broken by (arc, source's history). An end costs (hypothesis' cost +
//      token's final cost) + deviation of the sentence end. Costs are float64, slacks and extras differences of
//      those, rounded once.
//
//      token 3 {a b: 4.0, b: 4.5}  --word c-->  token 7 {b c: 5.25}     two histories that the large model
//                                                                       merges after c become one
//
// A step is a link and a hypothesis of its source. From `step_limit` steps on only the best hypothesis of each
// source is followed, so that the rest takes a step a link; the best path may then be missed, and the answer is
// `truncated`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "decode/models.hpp"
#include "lattice/lattice.hpp"
#include "lattice/number.hpp"
#include "shared/cost.hpp"
#include "shared/rescoring.hpp"
#include "shared/slack.hpp"

namespace arcbeam::lattice {

struct Rescored {
    Lattice lattice;  // without tokens if the large model allows none of the paths
    bool truncated = false;
};

template <typename Models>
class Rescorer {
  public:
    Rescorer(const OpenGraph& graph, const typename Models::View& models, const Lattice& lattice, float beam,
             std::uint64_t step_limit)
        : graph_(graph), lattice_(lattice), beam_(beam), step_limit_(step_limit), models_(models) {}

    Rescored operator()() {
        Rescored found;
        if (lattice_.num_tokens() == 0) {
            found.lattice = lattice_;
            return found;
        }
        models_.begin(0);
        find_ways();
        for (std::uint32_t step = 0; step < lattice_.num_steps(); ++step) {
            first_entry_.push_back(num_hypotheses());
            for (std::uint32_t token = lattice_.first_token[step]; token < lattice_.first_token[step + 1];
                 ++token) {
                first_hypothesis_.push_back(num_hypotheses());
                reach(token);
            }
        }
        first_entry_.push_back(num_hypotheses());
        first_hypothesis_.push_back(num_hypotheses());
        if (find_ends()) {
            drop();
            found.lattice = numbered();
        }
        found.truncated = truncated_;
        return found;
    }

  private:
    static constexpr std::uint32_t kNone = 0xffffffffU;
    static constexpr std::size_t kAhead = 16;

    // A link, as its target sees it.
    struct Way {
        double cost;
        std::uint32_t source;  // token
        std::uint32_t arc;
        std::uint32_t word;
    };

    struct Span {
        std::uint32_t begin;
        std::uint32_t end;
    };

    struct Arrival {
        double cost;
        History history;
        std::uint32_t source;  // hypothesis
        std::uint32_t arc;
        std::uint32_t group;  // of the arrivals with its history
    };

    [[nodiscard]] std::uint32_t num_hypotheses() const { return static_cast<std::uint32_t>(costs_.size()); }

    // Links by target. The words of arcs are far apart in memory, so they are prefetched.
    void find_ways() {
        first_way_.assign(lattice_.num_tokens() + 1U, 0);
        for (const Link& link : lattice_.links) {
            ++first_way_[link.target + 1U];
        }
        for (std::uint32_t token = 0; token < lattice_.num_tokens(); ++token) {
            first_way_[token + 1U] += first_way_[token];
        }
        std::vector<std::uint32_t> places(first_way_.begin(), first_way_.end() - 1);
        ways_.resize(lattice_.links.size());
        for (std::size_t i = 0; i < ways_.size(); ++i) {
            if (i + kAhead < ways_.size()) {
                __builtin_prefetch(graph_.words + lattice_.links[i + kAhead].arc);
            }
            const Link& link = lattice_.links[i];
            ways_[places[link.target]++] = {lattice_.cost_of(link), link.source, link.arc,
                                            graph_.known_word(graph_.words[link.arc])};
        }
    }

    // Finds the hypotheses of a token; those of its sources are known.
    void reach(std::uint32_t token) {
        best_of_.push_back(num_hypotheses());
        const std::uint32_t first = first_way_[token];
        const std::uint32_t last = first_way_[token + 1U];
        if (token == 0) {
            add({lattice_.costs[0], models_.start(), kStart, kStart, 0});
        } else if (last - first == 1 && ways_[first].word == kNoWord) {
            pass(ways_[first]);
        } else {
            arrivals_.clear();
            for (std::uint32_t i = first; i < last; ++i) {
                follow(ways_[i]);
            }
            recombine();
            for (const std::uint32_t winner : winners_) {
                if (best_of_[token] < num_hypotheses() && is_better(arrivals_[winner], best_of_[token])) {
                    best_of_[token] = num_hypotheses();
                }
                add(arrivals_[winner]);
            }
        }
    }

    // The only way to a token, without a word, keeps histories apart as they are.
    void pass(const Way& way) {
        const Span span = sources_of(way);
        best_of_.back() += best_of_[way.source] - span.begin;
        for (std::uint32_t source = span.begin; source < span.end; ++source) {
            add({costs_[source] + way.cost, histories_[source], source, way.arc, 0});
        }
    }

    // The hypotheses that a way starts from: all of its source, or the best from the limit on.
    Span sources_of(const Way& way) {
        Span span{first_hypothesis_[way.source], first_hypothesis_[way.source + 1U]};
        if (steps_ >= step_limit_ && span.end - span.begin > 1U) {
            truncated_ = true;
            span = {best_of_[way.source], best_of_[way.source] + 1U};
        }
        steps_ += span.end - span.begin;
        return span;
    }

    void follow(const Way& way) {
        const Span span = sources_of(way);
        for (std::uint32_t source = span.begin; source < span.end; ++source) {
            const Deviation deviation = way.word == kNoWord ? Deviation{0.0F, histories_[source]}
                                                            : models_.add(histories_[source], way.word);
            const double cost = (costs_[source] + way.cost) + static_cast<double>(deviation.cost);
            if (std::isfinite(cost)) {
                arrivals_.push_back({cost, deviation.next, source, way.arc, kNone});
            }
        }
    }

    // Of the arrivals with one history the best wins; the others become links.
    void recombine() {
        std::size_t size = 4;
        while (size < 2U * arrivals_.size()) {
            size *= 2U;
        }
        slots_.assign(size, kNone);
        winners_.clear();
        for (std::uint32_t i = 0; i < arrivals_.size(); ++i) {
            std::uint32_t& slot = slot_of(arrivals_[i].history);
            if (slot == kNone) {
                slot = static_cast<std::uint32_t>(winners_.size());
                winners_.push_back(i);
            } else if (precedes(arrivals_[i], arrivals_[winners_[slot]])) {
                winners_[slot] = i;
            }
            arrivals_[i].group = slot;
        }
        for (std::uint32_t i = 0; i < arrivals_.size(); ++i) {
            const Arrival& one = arrivals_[i];
            if (winners_[one.group] != i) {
                const auto slack = static_cast<float>(one.cost - arrivals_[winners_[one.group]].cost);
                if (stays(beam_, slack)) {
                    losers_.push_back({one.source, num_hypotheses() + one.group, one.arc, slack});
                }
            }
        }
    }

    std::uint32_t& slot_of(const History& history) {
        const std::uint64_t mixed =
            (static_cast<std::uint64_t>(history.large) << 32U | history.small) * 0x9e3779b97f4a7c15U;
        std::size_t at = (mixed >> 32U) & (slots_.size() - 1U);
        while (slots_[at] != kNone && !(arrivals_[winners_[slots_[at]]].history == history)) {
            at = (at + 1U) & (slots_.size() - 1U);
        }
        return slots_[at];
    }

    // By (cost, arc, source's history). Arrivals over one arc have one token as their source.
    [[nodiscard]] bool precedes(const Arrival& a, const Arrival& b) const {
        if (a.cost != b.cost) {
            return a.cost < b.cost;
        }
        return a.arc != b.arc ? a.arc < b.arc : models_.precedes(histories_[a.source], histories_[b.source]);
    }

    [[nodiscard]] bool is_better(const Arrival& arrival, std::uint32_t hypothesis) const {
        return arrival.cost < costs_[hypothesis] ||
               (arrival.cost == costs_[hypothesis] && models_.precedes(arrival.history, histories_[hypothesis]));
    }

    void add(const Arrival& arrival) {
        costs_.push_back(arrival.cost);
        histories_.push_back(arrival.history);
        entries_.push_back({arrival.source, arrival.arc});
    }

    // The costs of ends, and the best by (cost, graph state, history); false if there is none.
    bool find_ends() {
        const std::uint32_t first = first_entry_[lattice_.num_steps() - 1U];
        std::vector<double> costs(num_hypotheses() - first, std::numeric_limits<double>::infinity());
        best_end_ = kNone;
        std::uint32_t state = 0;  // of the best end
        for (std::uint32_t token = lattice_.first_end(); token < lattice_.num_tokens(); ++token) {
            const float extra = lattice_.end_extras[token - lattice_.first_end()];
            if (std::isinf(extra)) {
                continue;
            }
            const double final_cost = (lattice_.total_cost + static_cast<double>(extra)) - lattice_.costs[token];
            for (std::uint32_t i = first_hypothesis_[token]; i < first_hypothesis_[token + 1U]; ++i) {
                const float deviation = lattice_.reached_final ? models_.end_deviation(histories_[i]) : 0.0F;
                const double cost = (costs_[i] + final_cost) + static_cast<double>(deviation);
                if (!std::isfinite(cost)) {
                    continue;
                }
                costs[i - first] = cost;
                const double best = best_end_ == kNone ? cost : costs[best_end_ - first];
                const bool ties = best_end_ != kNone && cost == best;
                if (best_end_ == kNone || cost < best ||
                    (ties && (lattice_.states[token] < state ||
                              (lattice_.states[token] == state &&
                               models_.precedes(histories_[i], histories_[best_end_]))))) {
                    best_end_ = i;
                    state = lattice_.states[token];
                }
            }
        }
        if (best_end_ == kNone) {
            return false;
        }
        total_cost_ = costs[best_end_ - first];
        for (const double cost : costs) {
            end_extras_.push_back(static_cast<float>(cost - total_cost_));
        }
        return true;
    }

    // Drops what lies beyond the beam. Sources come before their targets, so one pass backwards finds all extras.
    void drop() {
        std::vector<float> extras(num_hypotheses(), kInfiniteCost);
        const std::uint32_t first_end = first_entry_[lattice_.num_steps() - 1U];
        for (std::size_t i = 0; i < end_extras_.size(); ++i) {
            end_extras_[i] = stays(beam_, end_extras_[i]) ? end_extras_[i] : kInfiniteCost;
            extras[first_end + i] = end_extras_[i];
        }
        const auto lower = [&](std::uint32_t source, float extra) {
            extras[source] = std::min(extras[source], extra);
        };
        std::size_t losers = losers_.size();
        for (std::uint32_t token = lattice_.num_tokens(); token-- > 1U;) {
            for (; losers > 0 && losers_[losers - 1U].target >= first_hypothesis_[token]; --losers) {
                const Link& loser = losers_[losers - 1U];
                lower(loser.source, extra_by(loser.slack, extras[loser.target]));
            }
            for (std::uint32_t i = first_hypothesis_[token]; i < first_hypothesis_[token + 1U]; ++i) {
                lower(entries_[i].source, extras[i]);
            }
        }
        std::vector<std::uint32_t> places(num_hypotheses());
        std::uint32_t kept = 0;
        for (std::uint32_t step = 0; step < lattice_.num_steps(); ++step) {
            const std::uint32_t begin = std::exchange(first_entry_[step], kept);
            for (std::uint32_t i = begin; i < first_entry_[step + 1U]; ++i) {
                if (stays(beam_, extras[i])) {
                    places[i] = kept;
                    costs_[kept] = costs_[i];
                    entries_[kept++] = {entries_[i].source == kStart ? kStart : places[entries_[i].source],
                                        entries_[i].arc};
                    if (i >= first_end) {
                        end_extras_[places[i] - first_entry_[step]] = end_extras_[i - first_end];
                    }
                }
            }
        }
        first_entry_.back() = kept;
        entries_.resize(kept);
        best_end_ = places[best_end_];
        std::size_t count = 0;
        for (const Link& loser : losers_) {
            if (stays(beam_, extra_by(loser.slack, extras[loser.target]))) {
                losers_[count++] = {places[loser.source], places[loser.target], loser.arc, loser.slack};
            }
        }
        losers_.resize(count);
    }

    // Hypotheses are the tokens of the new lattice.
    [[nodiscard]] Lattice numbered() const {
        std::vector<double> offsets;
        std::vector<float> costs;
        for (std::uint32_t step = 0; step < lattice_.num_steps(); ++step) {
            offsets.push_back(costs_[first_entry_[step]]);
            for (std::uint32_t i = first_entry_[step]; i < first_entry_[step + 1U]; ++i) {
                costs.push_back(static_cast<float>(costs_[i] - offsets.back()));
            }
        }
        return number(graph_, {entries_.data(), costs.data(), entries_.size(), losers_.data(), losers_.size(),
                               first_entry_.data(), offsets.data(), offsets.size(), end_extras_.data(), best_end_,
                               total_cost_, lattice_.reached_final, lattice_.complete});
    }

    const OpenGraph& graph_;
    const Lattice& lattice_;
    const float beam_;
    const std::uint64_t step_limit_;
    Models models_;
    std::uint64_t steps_ = 0;
    bool truncated_ = false;

    std::vector<std::uint32_t> first_way_;  // [tokens + 1]
    std::vector<Way> ways_;                 // [links]
    std::vector<Arrival> arrivals_;         // at one token
    std::vector<std::uint32_t> winners_;    // arrivals: one a history
    std::vector<std::uint32_t> slots_;      // a power of two: a place in winners_, or kNone

    std::vector<std::uint32_t> first_hypothesis_;  // [tokens + 1]
    std::vector<std::uint32_t> best_of_;           // [tokens]: the best hypothesis of each
    std::vector<std::uint32_t> first_entry_;       // [steps + 1]: the hypotheses of each step
    std::vector<double> costs_;                    // [hypotheses]
    std::vector<History> histories_;               // [hypotheses]
    std::vector<Entry> entries_;                   // [hypotheses]: how each is reached
    std::vector<Link> losers_;                     // links that are not their targets' winners
    std::vector<float> end_extras_;                // [hypotheses of the last step]
    std::uint32_t best_end_ = kNone;
    double total_cost_ = 0.0;
};

template <typename Models>
Rescored rescore(const OpenGraph& graph, const typename Models::View& models, const Lattice& lattice, float beam,
                 std::uint64_t step_limit) {
    return Rescorer<Models>(graph, models, lattice, beam, step_limit)();
}

}  // namespace arcbeam::lattice
