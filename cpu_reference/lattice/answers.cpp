#include "lattice/answers.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace arcbeam::lattice {

// Arcs are scattered over a graph that no cache holds, so their words are prefetched.
void words_of_links(const Lattice& lattice, const OpenColumn<std::uint32_t>& words_of_arcs,
                    std::vector<std::uint32_t>& words) {
    constexpr std::size_t kAhead = 16;
    words.resize(lattice.links.size());
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i + kAhead < words.size()) {
            __builtin_prefetch(words_of_arcs + lattice.links[i + kAhead].arc);
        }
        words[i] = words_of_arcs[lattice.links[i].arc];
    }
}

void Answerer::decode(const std::vector<Query>& batch, const std::vector<std::size_t>& members,
                      const std::atomic<bool>& cancel, std::vector<Answer>& answers) {
    for (const std::size_t member : members) {
        if (cancel) {
            return;
        }
        if (batch[member].lattice->num_tokens() > 0) {
            try {
                answer(batch[member], cancel, answers[member]);
            } catch (const Cancelled&) {
                answers[member] = {};
                nbest_ = {};
                return;
            }
        }
        if (nbest_.bytes() > kMostKept) {
            nbest_ = {};
        }
        if (mbr_.bytes() > kMostKept) {
            mbr_ = {};
        }
        answers[member].outcome = AnswerOutcome::kAnswered;
    }
}

void Answerer::answer(const Query& query, const std::atomic<bool>& cancel, Answer& answer) {
    const Lattice& lattice = *query.lattice;
    const AnswerOptions& options = *query.options;
    words_of_links(lattice, query.words, words_);
    weights_.set(lattice, options.posterior_scale);
    if (options.nbest > 0) {
        sum_backward(lattice, weights_, sums_);
        const Scaled total = sums_[0];
        nbest_(lattice, words_.data(), weights_, total, options.nbest, options.step_limit, answer.nbest, cancel);
        answer.costs.swap(answer.nbest.excesses);
        for (double& cost : answer.costs) {
            cost = lattice.total_cost + cost;
        }
        answer.arcs.swap(answer.nbest.links);
        for (std::uint32_t& link : answer.arcs) {
            link = lattice.links[link].arc;
        }
        if (query.reader != nullptr) {
            read_labels(query, answer);
        }
    }
    if (!options.confidence && !options.mbr) {
        return;
    }
    sum_forward(lattice, weights_, sums_);
    if (options.confidence) {
        answer.confidence_truncated =
            mbr_.confidences(lattice, words_.data(), weights_, sums_, options.step_limit, answer.confidences);
    }
    if (options.mbr) {
        mbr_.decode(lattice, words_.data(), weights_, sums_, options.step_limit, answer.mbr);
    }
}

void Answerer::read_labels(const Query& query, Answer& answer) {
    const std::vector<std::uint32_t>& first = answer.nbest.first_link;
    for (std::size_t k = 0; k + 1 < first.size(); ++k) {
        query.reader->read(answer.arcs.data() + first[k], first[k + 1] - first[k], answer.labels);
    }
}

AnswerEngine::AnswerEngine(std::size_t threads)
    : BatchEngine([] { return std::make_unique<Answerer>(); }, threads) {}

void AnswerEngine::run(std::size_t most, std::function<void(std::size_t worker)> job) {
    pool_.start(std::min(most, pool_.threads()),
                [job = std::move(job)](std::size_t worker, std::size_t) { job(worker); });
}

void AnswerEngine::answer(std::size_t worker, std::size_t utterance, const Lattice& lattice) {
    if (utterance < batch_.size()) {
        batch_[utterance].lattice = &lattice;
        decode_one(worker, utterance);
        batch_[utterance].lattice = nullptr;
    }
}

}  // namespace arcbeam::lattice
