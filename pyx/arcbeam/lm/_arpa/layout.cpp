#include "arcbeam/lm/_arpa/layout.hpp"

#include <algorithm>
#include <cmath>

#include "arcbeam/lm/_arpa/histories.hpp"
#include "arcbeam/lm/_arpa/index.hpp"
#include "shared/natural_log.hpp"

namespace arcbeam::arpa {

namespace {

constexpr double kTolerance = 0.01;  // of a sum of probabilities, which tools write with seven digits

class Layout {
  public:
    explicit Layout(const Reader& reader)
        : reader_(reader), trie_(reader.trie()), histories_(reader), states_(trie_.order() + 1) {}

    LmColumns build() {
        name_words();
        number_states();
        count_arcs();
        out_.start = state(histories_.landing({1, reader_.sentence_start()}).place);
        for (std::uint32_t s = 0; s < places_.size(); ++s) add_state(s);
        finish_index();
        if (out_.unnormalised != 0) out_.worst_history = words_of(places_[worst_]);
        return std::move(out_);
    }

  private:
    void name_words() {
        const WordIndex& words = reader_.words();
        const auto count = static_cast<std::uint32_t>(words.size() - 2);  // <s> and </s> are the first two
        out_.word_ends.reserve(count);
        for (std::uint32_t i = 0; i < count; ++i) {
            out_.text.append(words.word(i + 2));
            out_.word_ends.push_back(out_.text.size());
        }
        end_label_ = count + 1;
        while (end_label_ >> 16U >> out_.high_bits != 0)
            out_.high_bits = out_.high_bits == 0 ? 1 : 2 * out_.high_bits;
    }

    std::uint32_t label(std::uint32_t word) const { return word == reader_.sentence_end() ? end_label_ : word; }

    // Numbers the states of a length by back-off state, then by position in the trie.
    void number_states() {
        places_.push_back({0, 0});
        out_.lengths = {0, 1};
        for (std::uint32_t order = 1; order < trie_.order(); ++order) {
            const std::uint32_t size = trie_.level(order).size();
            std::vector<std::uint64_t> sorted;
            for (std::uint32_t i = 0; i < size; ++i) {
                if (!histories_.is_state({order, i})) continue;
                const std::uint32_t shorter = state(histories_.landing(histories_.suffix({order, i})).place);
                sorted.push_back(static_cast<std::uint64_t>(shorter) << 32U | i);
            }
            std::sort(sorted.begin(), sorted.end());
            states_[order].assign(size, kNone);
            places_.reserve(places_.size() + sorted.size());
            for (const std::uint64_t packed : sorted) {
                states_[order][static_cast<std::uint32_t>(packed)] = static_cast<std::uint32_t>(places_.size());
                places_.push_back({order, static_cast<std::uint32_t>(packed)});
            }
            out_.lengths.push_back(static_cast<std::uint32_t>(places_.size()));
        }
    }

    std::uint32_t state(Place at) const { return at.order == 0 ? 0 : states_[at.order][at.position]; }

    void count_arcs() {
        std::uint64_t arcs = 0;
        for (std::uint32_t order = 1; order <= trie_.order(); ++order) arcs += trie_.level(order).size();
        if (arcs >= kLmWideBlock) throw ArpaError(reader_.line_number(), "expected fewer than 2^31 n-grams in all");
        out_.labels_low.reserve(arcs);
        out_.arcs.reserve(arcs);
        out_.labels_high.assign(words_of_high_bits(arcs), 0);
        out_.backoff_weights.reserve(places_.size());
        masses_.assign(places_.size(), 1.0F);
    }

    [[nodiscard]] std::size_t words_of_high_bits(std::uint64_t arcs) const {
        return (arcs * out_.high_bits + 31) / 32;
    }

    void finish_index() {
        out_.labels_high.resize(words_of_high_bits(out_.arcs.size()));  // not every n-gram has become an arc
        firsts_.add(static_cast<std::uint32_t>(out_.arcs.size()));
        firsts_.finish();
        backoffs_.finish();
        out_.first_offsets = std::move(firsts_.offsets);
        out_.first_bases = std::move(firsts_.bases);
        out_.wide_firsts = std::move(firsts_.wide);
        out_.backoff_steps = std::move(backoffs_.steps);
        out_.backoff_bases = std::move(backoffs_.bases);
        out_.wide_backoffs = std::move(backoffs_.wide);
    }

    void add_backoff(std::uint32_t shorter, float weight) {
        backoffs_.add(shorter);
        out_.backoff_weights.push_back(weight);
    }

    void add_arc(std::uint32_t word, Place ngram) {
        const auto arc = static_cast<std::uint32_t>(out_.arcs.size());
        const std::uint32_t its_label = label(word);
        out_.labels_low.push_back(static_cast<std::uint16_t>(its_label));
        if (out_.high_bits != 0) {
            const std::uint64_t bit = static_cast<std::uint64_t>(arc) * out_.high_bits;
            out_.labels_high[bit >> 5U] |= its_label >> 16U << (bit & 31U);
        }
        if (word == reader_.sentence_end()) {
            out_.arcs.push_back({kLmEmptyHistory, natural_cost(histories_.probability(ngram))});
        } else {
            const Landing after = histories_.landing(ngram);
            out_.arcs.push_back({state(after.place), natural_cost(histories_.probability(ngram) + after.backoff)});
        }
    }

    void add_state(std::uint32_t s) {
        const Place at = places_[s];
        firsts_.add(static_cast<std::uint32_t>(out_.arcs.size()));
        if (at.order == 0) {
            add_backoff(0, 0.0F);
            double sum = 0.0;
            for (std::uint32_t word = 1; word < end_label_; ++word) {
                add_arc(word, {1, word});
                sum += std::pow(10.0, histories_.probability({1, word}));
            }
            add_arc(reader_.sentence_end(), {1, reader_.sentence_end()});
            judge(s, sum + std::pow(10.0, histories_.probability({1, reader_.sentence_end()})));
            return;
        }
        const Landing shorter = histories_.landing(histories_.suffix(at));
        const std::uint32_t backoff_state = state(shorter.place);
        const double backoff = histories_.backoff(at) + shorter.backoff;
        add_backoff(backoff_state, natural_cost(backoff));
        const auto [first, last] = trie_.children(at.order, at.position);
        double listed = 0.0;
        double backed_off = 0.0;  // the probability of the same words after the shorter history
        for (std::uint32_t i = first; i < last; ++i) {
            const Place ngram{at.order + 1, i};
            const std::uint32_t word = trie_.level(at.order + 1).words[i];
            add_arc(word, ngram);
            Landing less{histories_.suffix(ngram), shorter.backoff};
            if (less.place.order < at.order) less = histories_.shorter(at, word, false);
            listed += std::pow(10.0, histories_.probability(ngram));
            backed_off += std::pow(10.0, less.backoff + histories_.probability(less.place) - shorter.backoff);
        }
        const double rest = static_cast<double>(masses_[backoff_state]) - backed_off;
        judge(s, std::isfinite(backoff) ? listed + std::pow(10.0, backoff) * rest : listed);
    }

    void judge(std::uint32_t s, double sum) {
        masses_[s] = static_cast<float>(sum);
        if (std::abs(sum - 1.0) <= kTolerance) return;
        ++out_.unnormalised;
        if (std::abs(sum - 1.0) > std::abs(out_.worst_sum - 1.0) || out_.unnormalised == 1) {
            out_.worst_sum = sum;
            worst_ = s;
        }
    }

    std::string words_of(Place at) const {
        if (at.order == 0) return "";
        std::uint32_t word = at.position;
        std::string before;
        if (at.order > 1) {
            const Level& level = trie_.level(at.order);
            word = level.words[at.position];
            const auto next = std::upper_bound(level.begin.begin(), level.begin.end(), at.position);
            before = words_of({at.order - 1, static_cast<std::uint32_t>(next - level.begin.begin() - 1)}) + " ";
        }
        if (word == reader_.sentence_start()) return before + "<s>";
        return before + std::string(reader_.words().word(word + 1));
    }

    const Reader& reader_;
    const Trie& trie_;
    const Histories histories_;
    std::vector<std::vector<std::uint32_t>> states_;  // by order and position; kNone where no state is
    std::vector<Place> places_;                       // of every state
    std::vector<float> masses_;                       // the sum of the probabilities after each state
    std::uint32_t worst_ = 0;
    std::uint32_t end_label_ = 0;
    FirstArcs firsts_;
    BackoffStates backoffs_;
    LmColumns out_;
};

}  // namespace

LmColumns lay_out(const Reader& reader) { return Layout(reader).build(); }

}  // namespace arcbeam::arpa
