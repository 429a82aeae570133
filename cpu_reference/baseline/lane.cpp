#include "baseline/lane.hpp"

#include <iterator>

namespace arcbeam::baseline {

void Lane::decode(const LogProbs& log_probs, const std::atomic<bool>& cancelled, Result& result) {
    begin();
    bool alive = true;
    for (std::uint32_t frame = 0; frame < log_probs.frames && alive; ++frame) {
        if (cancelled.load(std::memory_order_relaxed)) {
            result.outcome = Outcome::kCancelled;
            return;
        }
        alive = step(log_probs, frame, result);
    }
    if (result.outcome != Outcome::kDecoded) {
        return;
    }
    end(log_probs, alive, result);
}

void Lane::begin() {
    histories_.begin(model_.lm, model_.words);
    beam_.assign(1, {0.0, Histories::kEmpty, kRoot, 0, model_.options.silence});
    log_.assign(1, {kNoParent, kNoLabel, model_.options.silence, false});
    collect_log_at_ = collect_histories_at_ = model_.options.collect_above;
}

// False if no candidate survives, or the frame is bad.
bool Lane::step(const LogProbs& log_probs, std::uint32_t frame, Result& result) {
    if (!emissions_.load(log_probs, frame, model_.options.beam_size_token, result.bad_column)) {
        result.outcome = Outcome::kBadLogProb;
        result.bad_frame = frame;
        return false;
    }
    candidates_.begin(model_.options, beam_, histories_);
    if (model_.trie != nullptr) {
        lexicon_.expand(beam_, emissions_, histories_, candidates_);
    } else {
        free_.expand(beam_, emissions_, histories_, candidates_);
    }
    candidates_.finish(survivors_);
    if (survivors_.empty()) {
        return false;
    }
    const auto first = static_cast<std::uint32_t>(log_.size());
    for (const Candidate& c : survivors_) {
        log_.push_back({beam_[c.source].log, c.label, c.token, c.advances});
    }
    beam_.clear();
    for (std::uint32_t i = 0; i < survivors_.size(); ++i) {
        const Candidate& c = survivors_[i];
        beam_.push_back({c.score, c.history, c.node, first + i, c.token});
    }
    if (log_.size() > collect_log_at_) {
        collect_log();
        collect_log_at_ = std::max<std::size_t>(model_.options.collect_above, 2 * log_.size());
    }
    if (histories_.size() > collect_histories_at_) {
        collect_histories();
        collect_histories_at_ = std::max<std::size_t>(model_.options.collect_above, 2 * histories_.size());
    }
    return true;
}

void Lane::collect_log() {
    renumbered_.assign(log_.size(), 0);
    for (const Hypothesis& h : beam_) {
        renumbered_[h.log] = 1;
    }
    for (std::size_t i = log_.size(); --i > 0;) {
        if (renumbered_[i] != 0) {
            renumbered_[log_[i].parent] = 1;
        }
    }
    renumbered_[0] = 0;
    std::uint32_t kept = 1;
    for (std::size_t i = 1; i < log_.size(); ++i) {
        if (renumbered_[i] != 0) {
            log_[kept] = log_[i];
            log_[kept].parent = renumbered_[log_[i].parent];
            renumbered_[i] = kept++;
        }
    }
    log_.resize(kept);
    for (Hypothesis& h : beam_) {
        h.log = renumbered_[h.log];
    }
}

void Lane::collect_histories() {
    histories_.collect(
        [this](auto use) {
            for (const Hypothesis& h : beam_) {
                use(h.history);
            }
        },
        [this](auto number) {
            for (Hypothesis& h : beam_) {
                h.history = number(h.history);
            }
        });
}

// Hypotheses that end with a whole word go before all others. The score of the sentence's end is added, and
// hypotheses that have written the same labels are merged as in any frame.
void Lane::end(const LogProbs& log_probs, bool all_frames, Result& result) {
    const SearchOptions& options = model_.options;
    bool whole = std::any_of(beam_.begin(), beam_.end(), [](const Hypothesis& h) { return h.node == kRoot; });
    candidates_.begin(options, beam_, histories_);
    const auto add = [&](std::uint32_t source, double score, std::uint32_t history, std::uint32_t node,
                         std::uint32_t label) {
        score += options.lm_weight * static_cast<double>(histories_.finish(history));
        candidates_.add({score, history, node, source, label, 0, 0, false});
    };
    if (model_.trie != nullptr && !options.final_separator) {
        for (std::uint32_t i = 0; i < beam_.size(); ++i) {
            lexicon_.complete_at_end(beam_[i], histories_,
                                     [&](std::uint32_t label, std::uint32_t history, double score) {
                                         whole = true;
                                         add(i, score, history, kRoot, label);
                                     });
        }
    }
    for (std::uint32_t i = 0; i < beam_.size(); ++i) {
        if (!whole || beam_[i].node == kRoot) {
            add(i, beam_[i].score, beam_[i].history, beam_[i].node, kNoLabel);
        }
    }
    candidates_.finish(survivors_);
    std::sort(survivors_.begin(), survivors_.end(),
              [this](const Candidate& a, const Candidate& b) { return candidates_.precedes(a, b); });
    std::vector<std::uint32_t> said;
    for (const Candidate& ending : survivors_) {
        if (said.size() == options.nbest) {
            break;
        }
        if (std::find(said.begin(), said.end(), ending.history) == said.end()) {
            said.push_back(ending.history);
            result.answers.push_back(answer(ending, log_probs));
        }
    }
    result.complete = all_frames && whole;
}

// Reads a path from the log and sums its scores in the order in which the search did.
Answer Lane::answer(const Candidate& ending, const LogProbs& log_probs) {
    const SearchOptions& options = model_.options;
    path_.clear();
    for (std::uint32_t at = beam_[ending.source].log; log_[at].parent != kNoParent; at = log_[at].parent) {
        path_.push_back(log_[at]);
    }
    std::reverse(path_.begin(), path_.end());

    Answer found{ending.score, 0.0, 0.0, {}, {}};
    std::uint32_t node = kRoot, history = Histories::kEmpty;
    std::uint32_t start = 0, end = 0;
    std::uint16_t last_token = kNoToken;  // of the word before, while it may be repeated
    const auto ahead = [&](std::uint32_t at) { return at == kRoot ? 0.0F : (*model_.trie)[at].ahead; };
    const auto say = [&](std::uint32_t label) {
        const auto [next, score] = histories_.extend(history, label);
        found.lm_score += static_cast<double>(model_.trie != nullptr ? score - ahead(node) : score);
        history = next;
        node = kRoot;
    };
    for (std::uint32_t frame = 0; frame < path_.size(); ++frame) {
        const LogEntry& entry = path_[frame];
        found.tokens.push_back(entry.token);
        found.am_score += static_cast<double>(log_probs.at(frame, entry.token));
        const bool silent =
            entry.token == options.silence || entry.token == options.separator || entry.token == options.blank;
        if (entry.advances) {
            if (node == kRoot) {
                start = frame;
                end = frame + 1;
            }
            last_token = kNoToken;
        } else if (entry.token == last_token && !found.words.empty()) {
            found.words.back().end = frame + 1;
        } else if (node == kRoot) {
            last_token = kNoToken;
        }
        if (!silent && (entry.advances || node != kRoot)) {
            end = frame + 1;
        }
        if (entry.label != kNoLabel) {
            if (model_.trie != nullptr) {
                found.words.push_back({entry.label, start, end, frame});
                last_token = silent ? kNoToken : entry.token;
            }
            say(entry.label);
        } else if (entry.advances) {
            const std::uint32_t child = model_.trie->child(node, entry.token);
            found.lm_score += static_cast<double>(ahead(child) - ahead(node));
            node = child;
        }
    }
    if (ending.label != kNoLabel) {
        found.words.push_back({ending.label, start, end, static_cast<std::uint32_t>(path_.size())});
        say(ending.label);
    }
    found.lm_score += static_cast<double>(histories_.finish(history));
    return found;
}

}  // namespace arcbeam::baseline
