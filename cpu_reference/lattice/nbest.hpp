// The n best distinct word sequences of a lattice, exactly, and the probability of each over all its alignments
// (law 8 of docs/design/rules.md).
//
// in   lattice; the word of each link, 0 for none; n; weights of posteriors.hpp
// out  entries; the first is the hypothesis itself
// rule The excess of a path is slack + (slack + (... + its end's extra)), in float64; its cost is the hypothesis'
// total
//      plus that. A word sequence has the smallest excess of its alignments; of alignments that tie, the one whose
//      link numbers come first. The sequences but the first ascend by (excess, word ids).
//
// The search goes from the ends to the first token. Each token keeps the n best distinct suffixes, the word
// sequences of the paths that lead from it to an end:
//
//      token 3: [b] 0.0, [b c] 1.5                  link 1 > 3, word a, slack 0.5
//      token 1: [a b] 0.5, [a b c] 2.0, ...
//
// Slacks are relative to the target's winner, so every token has a path of slack 0 from the start. A suffix thus
// costs what the best whole path with it costs, in the same bits, and two things follow. Once one token has n
// suffixes within an excess, no suffix beyond it can matter at any other token, and no second pass is needed.
//
// A search that has taken `step_limit` steps, or keeps a quarter as many items and suffixes, goes on along the best
// path alone: its entries are all of the lattice, but what differs from the best path before that place is missing.
// The result then is `truncated`. Where the search has died, its score is -inf, and so the posterior is 0.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "lattice/lattice.hpp"
#include "lattice/posteriors.hpp"
#include "lattice/scaled.hpp"
#include "lattice/suffixes.hpp"

namespace arcbeam::lattice {

struct Nbest {
    std::vector<double> excesses;           // [entries]: cost above the hypothesis'
    std::vector<double> posteriors;         // [entries]: over all alignments, in [0, 1]
    std::vector<std::uint32_t> first_link;  // [entries + 1]
    std::vector<std::uint32_t> links;       // the best alignment of entry i is [first_link[i], first_link[i + 1])
    bool truncated = false;

    [[nodiscard]] std::size_t size() const { return excesses.size(); }
};

struct Cancelled {};  // thrown by a search that another thread has cancelled

inline const std::atomic<bool> kNeverCancelled{false};

class NbestSearch {
  public:
    // Weights and words are as long as the lattice's links. Buffers are kept from call to call.
    void operator()(const Lattice& lattice, const std::uint32_t* words, const Weights& weights, const Scaled& total,
                    std::uint32_t n, std::uint64_t step_limit, Nbest& found,
                    const std::atomic<bool>& cancel = kNeverCancelled) {
        lattice_ = &lattice;
        words_ = words;
        n_ = n;
        cancel_ = &cancel;
        steps_ = 0;
        search(step_limit);
        choose(found);
        sum_alignments(weights, total, step_limit, found);
        if (!lattice.complete) {
            found.posteriors.assign(found.size(), 0.0);
        }
    }

    // What is kept from call to call.
    [[nodiscard]] std::size_t bytes() const {
        return items_.capacity() * sizeof(Item) + sums_.capacity() * sizeof(Sum) + wanted_.capacity() +
               suffixes_.bytes();
    }

  private:
    static constexpr std::uint32_t kNone = 0xffffffffU;
    static constexpr std::size_t kMostKept = 0x7fffffffU;  // items are numbered with 32 bits

    struct Item {
        double excess;
        std::uint32_t suffix;
        std::uint32_t link;  // kNone: the path ends here
        std::uint32_t next;  // the item of the link's target
    };

    // The items of a token. A token from which only one link without cost and word leads on has its target's items.
    struct List {
        std::uint32_t begin;
        std::uint32_t end;
        std::uint32_t passed;  // that link, or kNone
    };

    struct Sum {
        std::uint32_t suffix;
        Scaled weight;
    };

    void stop_if_cancelled() const {
        if (*cancel_) {
            throw Cancelled{};
        }
    }

    // Whether the search has taken too many steps, or keeps too much: an item has 24 bytes, a suffix up to 32.
    [[nodiscard]] bool is_beyond(std::uint64_t step_limit, std::size_t kept) const {
        return steps_ > step_limit || kept > step_limit / 4U || kept > kMostKept;
    }

    void search(std::uint64_t step_limit) {
        const Lattice& lattice = *lattice_;
        suffixes_.clear();
        items_.clear();
        lists_.resize(lattice.num_tokens());
        bound_ = std::numeric_limits<double>::infinity();
        on_best_.clear();
        truncated_ = false;
        for (std::uint32_t token = lattice.num_tokens(); token-- > 0;) {
            stop_if_cancelled();
            if (!truncated_ && is_beyond(step_limit, items_.size() + suffixes_.size())) {
                truncated_ = true;
                on_best_.assign(lattice.num_tokens(), 0);
                on_best_[0] = 1;
                for (const std::uint32_t link : lattice.best) {
                    on_best_[lattice.links[link].target] = 1;
                }
            }
            if (truncated_ && on_best_[token] == 0) {
                lists_[token] = {0, 0, kNone};
            } else {
                lists_[token] = list_of(token);
            }
        }
    }

    List list_of(std::uint32_t token) {
        const Lattice& lattice = *lattice_;
        const auto begin = static_cast<std::uint32_t>(items_.size());
        const std::uint32_t last = lattice.first_link[token + 1];
        std::uint32_t sources = 0;
        if (token >= lattice.first_end()) {
            const double extra = static_cast<double>(lattice.end_extras[token - lattice.first_end()]);
            if (extra <= bound_ && extra < std::numeric_limits<double>::infinity()) {
                items_.push_back({extra, Suffixes::kEmpty, kNone, 0});
                ++sources;
            }
        }
        std::uint32_t only = kNone;
        for (std::uint32_t link = lattice.first_link[token]; link < last; ++link) {
            const List& list = lists_[lattice.links[link].target];
            if (list.begin != list.end &&
                static_cast<double>(lattice.links[link].slack) + items_[list.begin].excess <= bound_) {
                only = link;
                if (sources++ > 0) {
                    break;
                }
            }
        }
        if (sources > 1) {
            merge(token, begin);
        } else if (only != kNone) {
            const List& list = lists_[lattice.links[only].target];
            if (words_[only] == 0 && lattice.links[only].slack == 0.0F) {
                return {list.begin, list.end, only};
            }
            extend(only);
        }
        const auto end = static_cast<std::uint32_t>(items_.size());
        if (end - begin >= n_) {
            bound_ = std::min(bound_, items_[begin + n_ - 1U].excess);
        }
        return {begin, end, kNone};
    }

    // The items of the only link that leads on: sorted and distinct as its target's are.
    void extend(std::uint32_t link) {
        const List list = lists_[lattice_->links[link].target];
        const auto slack = static_cast<double>(lattice_->links[link].slack);
        for (std::uint32_t next = list.begin; next < list.end; ++next) {
            const double excess = slack + items_[next].excess;
            ++steps_;
            if (excess > bound_) {
                break;
            }
            items_.push_back({excess, extended(link, items_[next].suffix), link, next});
        }
    }

    // The best n of the items of several links, and of an end at the token.
    void merge(std::uint32_t token, std::uint32_t begin) {
        const std::uint32_t last = lattice_->first_link[token + 1];
        suffixes_.begin();
        if (items_.size() > begin) {
            suffixes_.set_place(Suffixes::kEmpty, begin);
        }
        for (std::uint32_t link = lattice_->first_link[token]; link < last; ++link) {
            const List list = lists_[lattice_->links[link].target];
            const auto slack = static_cast<double>(lattice_->links[link].slack);
            for (std::uint32_t next = list.begin; next < list.end; ++next) {
                const double excess = slack + items_[next].excess;
                ++steps_;
                if (excess > bound_) {
                    break;
                }
                const std::uint32_t suffix = extended(link, items_[next].suffix);
                if (!suffixes_.has_place(suffix)) {
                    suffixes_.set_place(suffix, items_.size());
                    items_.push_back({excess, suffix, link, next});
                } else if (Item& other = items_[suffixes_.place(suffix)]; excess < other.excess) {
                    other = {excess, suffix, link, next};
                }
            }
        }
        const auto first = items_.begin() + static_cast<std::ptrdiff_t>(begin);
        const auto precedes = [this](const Item& a, const Item& b) { return this->precedes(a, b); };
        if (items_.size() - begin > n_) {
            const auto cut = first + static_cast<std::ptrdiff_t>(n_);
            std::nth_element(first, cut, items_.end(), precedes);
            items_.erase(cut, items_.end());
        }
        std::sort(first, items_.end(), precedes);
    }

    // By (excess, word ids). Items of one list are in this order already, so words are seldom compared. A search
    // that has reached its limit takes links in place of words.
    bool precedes(const Item& a, const Item& b) {
        if (a.excess != b.excess) {
            return a.excess < b.excess;
        }
        if (truncated_) {
            return a.link != b.link ? a.link < b.link : a.next < b.next;
        }
        if (a.link == b.link && items_[a.next].excess == items_[b.next].excess) {
            return a.next < b.next;
        }
        return suffixes_.precedes(a.suffix, b.suffix, steps_);
    }

    std::uint32_t extended(std::uint32_t link, std::uint32_t suffix) {
        return words_[link] == 0 ? suffix : suffixes_.add(words_[link], suffix);
    }

    // The hypothesis, and the best others.
    void choose(Nbest& found) {
        found.excesses.clear();
        found.posteriors.clear();
        found.links.assign(lattice_->best.begin(), lattice_->best.end());
        found.first_link.assign({0, static_cast<std::uint32_t>(found.links.size())});
        found.truncated = truncated_;
        chosen_.clear();
        std::uint32_t hypothesis = Suffixes::kEmpty;
        std::uint32_t end = 0;
        for (const std::uint32_t link : lattice_->best) {
            end = lattice_->links[link].target;
        }
        double excess = static_cast<double>(lattice_->end_extras[end - lattice_->first_end()]);
        for (auto link = lattice_->best.rbegin(); link != lattice_->best.rend(); ++link) {
            hypothesis = extended(*link, hypothesis);
            excess = static_cast<double>(lattice_->links[*link].slack) + excess;
        }
        found.excesses.push_back(excess);
        chosen_.push_back(hypothesis);
        const List list = lists_[0];
        found.links.reserve((list.end - list.begin + 1U) * (lattice_->best.size() + 1U));
        for (std::uint32_t i = list.begin; i < list.end && chosen_.size() < n_; ++i) {
            stop_if_cancelled();
            if (items_[i].suffix != hypothesis) {
                found.excesses.push_back(items_[i].excess);
                chosen_.push_back(items_[i].suffix);
                follow(i, found.links);
                found.first_link.push_back(static_cast<std::uint32_t>(found.links.size()));
            }
        }
    }

    void follow(std::uint32_t item, std::vector<std::uint32_t>& links) const {
        std::uint32_t token = 0;
        for (;;) {
            const bool passes = lists_[token].passed != kNone;
            const std::uint32_t link = passes ? lists_[token].passed : items_[item].link;
            if (link == kNone) {
                return;
            }
            links.push_back(link);
            item = passes ? item : items_[item].next;
            token = lattice_->links[link].target;
        }
    }

    // For each token the weight of its paths to the ends by the suffixes that the chosen sequences have. Sums take
    // links in number order and the end last, as sum_backward does.
    void sum_alignments(const Weights& weights, const Scaled& total, std::uint64_t step_limit, Nbest& found) {
        const Lattice& lattice = *lattice_;
        wanted_.assign(suffixes_.size(), 0);
        wanted_[Suffixes::kEmpty] = 1;
        for (std::uint32_t suffix : chosen_) {
            for (; wanted_[suffix] == 0; suffix = suffixes_.rest(suffix)) {
                wanted_[suffix] = 1;
            }
        }
        sums_.clear();
        steps_ = 0;
        for (std::uint32_t token = lattice.num_tokens(); token-- > 0;) {
            stop_if_cancelled();
            if (is_beyond(step_limit, sums_.size())) {
                sum_best_alignments(total, weights, found);
                return;
            }
            lists_[token] = sums_of(token, weights);
        }
        suffixes_.begin();
        for (std::uint32_t i = lists_[0].begin; i < lists_[0].end; ++i) {
            suffixes_.set_place(sums_[i].suffix, i);
        }
        for (const std::uint32_t suffix : chosen_) {
            found.posteriors.push_back(
                suffixes_.has_place(suffix) ? share(sums_[suffixes_.place(suffix)].weight, total) : 0.0);
        }
    }

    List sums_of(std::uint32_t token, const Weights& weights) {
        const Lattice& lattice = *lattice_;
        const std::uint32_t first = lattice.first_link[token];
        const std::uint32_t last = lattice.first_link[token + 1];
        const bool may_end = token >= lattice.first_end();
        if (last - first == 1 && !may_end && words_[first] == 0 && lattice.links[first].slack == 0.0F) {
            return lists_[lattice.links[first].target];
        }
        const auto begin = static_cast<std::uint32_t>(sums_.size());
        suffixes_.begin();
        for (std::uint32_t link = first; link < last; ++link) {
            const List list = lists_[lattice.links[link].target];
            const double weight = weights.links[link];
            steps_ += list.end - list.begin;
            for (std::uint32_t i = list.begin; i < list.end; ++i) {
                std::uint32_t suffix = sums_[i].suffix;
                if (words_[link] != 0) {
                    suffix = suffixes_.find(words_[link], suffix);
                    if (suffix == Suffixes::kEmpty || wanted_[suffix] == 0) {
                        continue;
                    }
                }
                add(suffix, times(sums_[i].weight, weight));
            }
        }
        if (may_end) {
            add(Suffixes::kEmpty, normal(weights.ends[token - lattice.first_end()], 0));
        }
        return {begin, static_cast<std::uint32_t>(sums_.size()), kNone};
    }

    void add(std::uint32_t suffix, const Scaled& weight) {
        if (suffixes_.has_place(suffix)) {
            Scaled& sum = sums_[suffixes_.place(suffix)].weight;
            sum = plus(sum, weight);
        } else if (weight.mantissa > 0.0) {
            suffixes_.set_place(suffix, sums_.size());
            sums_.push_back({suffix, weight});
        }
    }

    // Where the sums would take too many steps: a lower bound of each.
    void sum_best_alignments(const Scaled& total, const Weights& weights, Nbest& found) const {
        found.truncated = true;
        for (std::size_t entry = 0; entry < found.size(); ++entry) {
            stop_if_cancelled();
            Scaled weight{1.0, 0};
            std::uint32_t end = 0;
            for (std::uint32_t i = found.first_link[entry]; i < found.first_link[entry + 1]; ++i) {
                weight = times(weight, weights.links[found.links[i]]);
                end = lattice_->links[found.links[i]].target;
            }
            weight = times(weight, weights.ends[end - lattice_->first_end()]);
            found.posteriors.push_back(share(weight, total));
        }
    }

    const Lattice* lattice_ = nullptr;
    const std::uint32_t* words_ = nullptr;
    const std::atomic<bool>* cancel_ = nullptr;
    std::size_t n_ = 0;
    std::uint64_t steps_ = 0;
    double bound_ = 0.0;  // an excess that n distinct sequences are known not to exceed
    bool truncated_ = false;
    Suffixes suffixes_;
    std::vector<Item> items_;
    std::vector<List> lists_;            // [tokens]: in items_, then in sums_
    std::vector<std::uint8_t> on_best_;  // [tokens]
    std::vector<std::uint32_t> chosen_;  // [entries]: suffixes at the first token
    std::vector<std::uint8_t> wanted_;   // [suffixes]
    std::vector<Sum> sums_;
};

}  // namespace arcbeam::lattice
