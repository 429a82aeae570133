// Determinises an acyclic acceptor of words whose arcs carry two costs and the labels of frames: of each word
// sequence the best path is left, with its labels, as Kaldi's compact lattices have it (docs/design/files.md).
//
// in   acceptor, whose arcs may lack a word; beam, at most kWidest; the most steps
// out  acceptor without arcs that lack a word, whose states have one arc a word at most; the beam that it has
// rule The cost of a path is the sum of its graph and its acoustic costs. The best of several paths has the
//      smallest cost, of ties the smallest graph cost, then the fewest labels, then the labels that are last in
//      dictionary order, as in Kaldi. All word sequences whose best path lies within the beam of the best of all
//      are there, each with that path. Where two of them share a state, sequences that mix them are there, too,
//      each with one of its paths.
//
// A state is a set of elements: where in the acceptor the paths of a word sequence may be, if they stay within the
// beam, each with what its best path costs above that of the set, and with the labels that not all of them share.
// Sets that are equal are one state:
//
//      a  > {3: 0, [4 4]}                      the costs and labels that are taken out of a set are those of
//      b  > {3: 0, [4 4], 5: 12, [4 7]}        the arc that leads to it
//
// A task is a word after a state. The next task is always the one with the best path through it, so the first task
// that reaches a state does so at the smallest cost; of ties it is the one made last, so that the best path is
// complete early. A step is an element, an arc or a label. After `step_limit` steps, and once the best path is
// complete, the other tasks are dropped: the beam is then the excess of the next one, and states that lead to no
// end are removed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lattice/acceptor.hpp"
#include "lattice/alignments.hpp"

namespace arcbeam::lattice {

constexpr std::int64_t kWidest = std::int64_t{1} << 62U;  // no path costs that much more than another

struct Determinized {
    Acceptor acceptor;      // without states if no path ends
    std::int64_t beam = 0;  // smaller than the one that was given where the limit was reached
};

class Determinizer {
  public:
    Determinizer(const Acceptor& acceptor, std::int64_t beam, std::uint64_t step_limit)
        : from_(acceptor), beam_(beam), step_limit_(step_limit) {}

    Determinized operator()() {
        Determinized found;
        found.beam = beam_;
        found.acceptor.first_arc.assign(1, 0);
        find_remaining();
        if (from_.num_states() == 0 || remaining_[from_.start] == kNoPath) {
            return found;
        }
        best_ = remaining_[from_.start];
        cutoff_ = best_ + beam_;
        alignments_.clear();
        visits_.resize(from_.num_states());
        begin();
        while (!tasks_.empty()) {
            const Task task = tasks_.top();
            if (best_is_complete_ && steps_ + alignments_.added() > step_limit_) {
                found.beam = task.through - best_;
                break;
            }
            tasks_.pop();
            follow(task);
        }
        write(found.acceptor);
        return found;
    }

  private:
    static constexpr std::uint32_t kNone = 0xffffffffU;
    static constexpr std::int64_t kNoPath = std::numeric_limits<std::int64_t>::max();

    struct Element {
        std::uint32_t state;
        std::uint32_t alignment;
        PathCost cost;
    };

    struct Visit {
        std::uint32_t stamp = 0;
        Element element{};
    };

    struct Task {
        std::int64_t through;  // cost of the best path
        std::uint32_t state;
        std::uint32_t word;
        std::uint64_t begin, end;  // of its elements in pool_

        friend bool operator<(const Task& a, const Task& b) {  // the queue's top is the largest
            return a.through != b.through ? a.through > b.through : a.begin < b.begin;
        }
    };

    struct State {
        std::uint64_t begin, end;  // of its elements in pool_
        std::int64_t forward;      // cost of the best path to it
        std::uint32_t next;        // state whose set has the same hash
        bool is_end;
        Element at_end;  // of which the state does not matter
    };

    struct Arc {
        std::uint32_t source, word, target, alignment;
        PathCost cost;
    };

    // What a word may lead to, before labels are put together.
    struct Candidate {
        std::uint32_t word, target;
        PathCost cost;
        std::uint64_t element;
        std::uint32_t arc;
    };

    // The cost of the best way from each state to an end.
    void find_remaining() {
        remaining_.assign(from_.num_states(), kNoPath);
        end_of_.assign(from_.num_states(), kNone);
        has_word_.assign(from_.num_states(), 0);
        for (std::uint32_t i = 0; i < from_.ends.size(); ++i) {
            end_of_[from_.ends[i]] = i;
            remaining_[from_.ends[i]] = from_.end_costs[i].total();
        }
        for (std::uint32_t state = from_.num_states(); state-- > 0;) {
            for (std::uint32_t arc = from_.first_arc[state]; arc < from_.first_arc[state + 1U]; ++arc) {
                const std::int64_t rest = remaining_[from_.targets[arc]];
                if (rest < kNoPath) {
                    remaining_[state] = std::min(remaining_[state], from_.costs[arc].total() + rest);
                    has_word_[state] |= static_cast<std::uint8_t>(from_.words[arc] != 0);
                }
            }
        }
    }

    // The set of the start keeps its costs and labels, for no arc leads to it.
    void begin() {
        visit({from_.start, Alignments::kEmpty, {}});
        close(0);
        add_state(0, hash_of_set());
    }

    void follow(const Task& task) {
        const std::int64_t forward = states_[task.state].forward;
        for (std::uint64_t i = task.begin; i < task.end; ++i) {
            visit(pool_[i]);
        }
        close(forward);
        const Element taken = take_out();
        const std::uint64_t hash = hash_of_set();
        std::uint32_t target = state_of_set(hash);
        if (target == kNone) {
            target = add_state(forward + taken.cost.total(), hash);
        }
        arcs_.push_back({task.state, task.word, target, taken.alignment, taken.cost});
    }

    // Whether some path by way of a state is within the beam.
    [[nodiscard]] bool stays(std::int64_t cost, std::uint32_t state) const {
        return remaining_[state] < kNoPath && cost + remaining_[state] <= cutoff_;
    }

    void visit(const Element& element) {
        ++steps_;
        Element& visited = visits_[element.state].element;
        if (visits_[element.state].stamp != stamp_) {
            visits_[element.state].stamp = stamp_;
            pending_.push(element.state);
            visited = element;
        } else if (precedes(element, visited)) {
            visited = element;
        }
    }

    // Follows arcs without words. Sources come before their targets, so each state is final when its turn comes.
    // The set has the states that lead on by a word, or end.
    void close(std::int64_t forward) {
        set_.clear();
        while (!pending_.empty()) {
            const Element element = visits_[pending_.top()].element;
            pending_.pop();
            if (has_word_[element.state] != 0 || end_of_[element.state] != kNone) {
                set_.push_back(element);
            }
            for (std::uint32_t arc = from_.first_arc[element.state]; arc < from_.first_arc[element.state + 1U];
                 ++arc) {
                const PathCost cost = element.cost + from_.costs[arc];
                if (from_.words[arc] == 0 && stays(forward + cost.total(), from_.targets[arc])) {
                    visit({from_.targets[arc], extended(element.alignment, arc), cost});
                }
            }
        }
        ++stamp_;
    }

    std::uint32_t extended(std::uint32_t alignment, std::uint32_t arc) {
        return alignments_.append(alignment, from_.labels, from_.first_label[arc], from_.first_label[arc + 1U]);
    }

    [[nodiscard]] bool precedes(const Element& a, const Element& b) const {
        return a.cost == b.cost ? alignments_.precedes(a.alignment, b.alignment) : a.cost < b.cost;
    }

    // Takes the cost of the set's best element out of all, and the labels with which all begin.
    Element take_out() {
        Element taken = set_.front();
        for (const Element& element : set_) {
            taken = element.cost < taken.cost ? element : taken;
        }
        taken.alignment = alignments_.common_beginning(set_);
        alignments_.remove_beginning(taken.alignment, set_);
        for (Element& element : set_) {
            element.cost = element.cost - taken.cost;
        }
        return taken;
    }

    [[nodiscard]] std::uint64_t hash_of_set() const {
        std::uint64_t hash = set_.size();
        for (const Element& element : set_) {
            for (const std::uint64_t part : {static_cast<std::uint64_t>(element.state) << 32U | element.alignment,
                                             static_cast<std::uint64_t>(element.cost.graph),
                                             static_cast<std::uint64_t>(element.cost.acoustic)}) {
                hash = (hash ^ part) * 0x9e3779b97f4a7c15U;
                hash ^= hash >> 32U;
            }
        }
        return hash;
    }

    [[nodiscard]] std::uint32_t state_of_set(std::uint64_t hash) const {
        const auto found = first_of_hash_.find(hash);
        std::uint32_t state = found == first_of_hash_.end() ? kNone : found->second;
        const auto is_set = [this](const State& other) {
            return other.end - other.begin == set_.size() &&
                   std::equal(set_.begin(), set_.end(), pool_.begin() + static_cast<std::ptrdiff_t>(other.begin),
                              [](const Element& a, const Element& b) {
                                  return a.state == b.state && a.alignment == b.alignment && a.cost == b.cost;
                              });
        };
        while (state != kNone && !is_set(states_[state])) {
            state = states_[state].next;
        }
        return state;
    }

    // Makes the set a state, with its end and its tasks.
    std::uint32_t add_state(std::int64_t forward, std::uint64_t hash) {
        const auto number = static_cast<std::uint32_t>(states_.size());
        const auto [place, is_new] = first_of_hash_.try_emplace(hash, number);
        State state{pool_.size(), pool_.size() + set_.size(), forward, is_new ? kNone : place->second, false, {}};
        place->second = number;
        pool_.insert(pool_.end(), set_.begin(), set_.end());
        find_end(state);
        states_.push_back(state);
        find_tasks(number);
        return number;
    }

    void find_end(State& state) {
        for (const Element& element : set_) {
            const std::uint32_t end = end_of_[element.state];
            if (end == kNone || state.forward + (element.cost + from_.end_costs[end]).total() > cutoff_) {
                continue;
            }
            const Element at_end{element.state,
                                 alignments_.append(element.alignment, from_.end_labels, from_.first_end_label[end],
                                                    from_.first_end_label[end + 1U]),
                                 element.cost + from_.end_costs[end]};
            if (!state.is_end || precedes(at_end, state.at_end)) {
                state.is_end = true;
                state.at_end = at_end;
            }
            best_is_complete_ = best_is_complete_ || state.forward + at_end.cost.total() == best_;
        }
    }

    void find_tasks(std::uint32_t number) {
        const State state = states_[number];
        candidates_.clear();
        for (std::uint64_t i = state.begin; i < state.end; ++i) {
            const std::uint32_t source = pool_[i].state;
            for (std::uint32_t arc = from_.first_arc[source]; arc < from_.first_arc[source + 1U]; ++arc) {
                const PathCost cost = pool_[i].cost + from_.costs[arc];
                if (from_.words[arc] != 0 && stays(state.forward + cost.total(), from_.targets[arc])) {
                    candidates_.push_back({from_.words[arc], from_.targets[arc], cost, i, arc});
                }
            }
        }
        steps_ += candidates_.size();
        std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
            return std::tie(a.word, a.target, a.arc, a.element) < std::tie(b.word, b.target, b.arc, b.element);
        });
        for (std::size_t begin = 0, end = 0; begin < candidates_.size(); begin = end) {
            while (end < candidates_.size() && candidates_[end].word == candidates_[begin].word) {
                ++end;
            }
            add_task(number, begin, end);
        }
    }

    void add_task(std::uint32_t state, std::size_t begin, std::size_t end) {
        Task task{kNoPath, state, candidates_[begin].word, pool_.size(), 0};
        for (; begin < end; ++begin) {
            const Candidate& one = candidates_[begin];
            task.through =
                std::min(task.through, states_[state].forward + one.cost.total() + remaining_[one.target]);
            const Element element{one.target, extended(pool_[one.element].alignment, one.arc), one.cost};
            if (pool_.size() == task.begin || pool_.back().state != one.target) {
                pool_.push_back(element);
            } else if (precedes(element, pool_.back())) {
                pool_.back() = element;
            }
        }
        task.end = pool_.size();
        tasks_.push(task);
    }

    // States from which an end is reached, each after its sources, and of equals in the order in which they were
    // found.
    [[nodiscard]] std::vector<std::uint32_t> ordered_states() const {
        std::vector<std::uint32_t> missing(states_.size(), 0);
        std::vector<std::uint32_t> order{0};
        for (const Arc& arc : arcs_) {
            ++missing[arc.target];
        }
        for (std::size_t i = 0; i < order.size(); ++i) {
            for (auto arc = first_arc_of(order[i]); arc != arcs_.end() && arc->source == order[i]; ++arc) {
                if (--missing[arc->target] == 0) {
                    order.push_back(arc->target);
                }
            }
        }
        std::vector<std::uint8_t> leads_on(states_.size(), 0);
        for (std::size_t i = order.size(); i-- > 0;) {
            leads_on[order[i]] = static_cast<std::uint8_t>(states_[order[i]].is_end);
            for (auto arc = first_arc_of(order[i]); arc != arcs_.end() && arc->source == order[i]; ++arc) {
                leads_on[order[i]] |= leads_on[arc->target];
            }
        }
        order.erase(std::remove_if(order.begin(), order.end(), [&](std::uint32_t s) { return leads_on[s] == 0; }),
                    order.end());
        return order;
    }

    [[nodiscard]] std::vector<Arc>::const_iterator first_arc_of(std::uint32_t state) const {
        return std::lower_bound(arcs_.begin(), arcs_.end(), state,
                                [](const Arc& arc, std::uint32_t source) { return arc.source < source; });
    }

    void write(Acceptor& into) {
        std::sort(arcs_.begin(), arcs_.end(), [](const Arc& a, const Arc& b) {
            return std::tie(a.source, a.word) < std::tie(b.source, b.word);
        });
        const std::vector<std::uint32_t> order = ordered_states();
        std::vector<std::uint32_t> numbers(states_.size(), kNone);
        for (std::uint32_t i = 0; i < order.size(); ++i) {
            numbers[order[i]] = i;
        }
        for (const std::uint32_t state : order) {
            for (auto arc = first_arc_of(state); arc != arcs_.end() && arc->source == state; ++arc) {
                if (numbers[arc->target] != kNone) {
                    into.targets.push_back(numbers[arc->target]);
                    into.words.push_back(arc->word);
                    into.costs.push_back(arc->cost);
                    alignments_.write(arc->alignment, into.labels);
                    into.first_label.push_back(into.labels.size());
                }
            }
            into.first_arc.push_back(static_cast<std::uint32_t>(into.targets.size()));
            if (states_[state].is_end) {
                into.ends.push_back(numbers[state]);
                into.end_costs.push_back(states_[state].at_end.cost);
                alignments_.write(states_[state].at_end.alignment, into.end_labels);
                into.first_end_label.push_back(into.end_labels.size());
            }
        }
    }

    const Acceptor& from_;
    const std::int64_t beam_;
    const std::uint64_t step_limit_;
    std::int64_t best_ = 0;
    std::int64_t cutoff_ = 0;
    bool best_is_complete_ = false;
    std::uint64_t steps_ = 0;

    std::vector<std::int64_t> remaining_;  // [states of from_]: kNoPath where none leads to an end
    std::vector<std::uint32_t> end_of_;    // [states of from_]: a place in its ends, or kNone
    std::vector<std::uint8_t> has_word_;   // [states of from_]: whether an arc with a word leads on to an end
    std::vector<Visit> visits_;            // [states of from_]
    std::uint32_t stamp_ = 1;
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> pending_;  // states of from_
    std::vector<Element> set_;                                                                // by state
    std::vector<Candidate> candidates_;

    Alignments alignments_;
    std::vector<Element> pool_;
    std::vector<State> states_;
    std::vector<Arc> arcs_;
    std::unordered_map<std::uint64_t, std::uint32_t> first_of_hash_;
    std::priority_queue<Task> tasks_;
};

inline Determinized determinize(const Acceptor& acceptor, std::int64_t beam, std::uint64_t step_limit) {
    return Determinizer(acceptor, beam, step_limit)();
}

}  // namespace arcbeam::lattice
