// The answers of the lattices of a batch: n-best lists, confidences and minimum Bayes risk, on a pool of threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "graph/label_reader.hpp"
#include "graph/open_graph.hpp"
#include "lattice/lattice.hpp"
#include "lattice/lattice_pool.hpp"
#include "lattice/mbr.hpp"
#include "lattice/nbest.hpp"
#include "lattice/posteriors.hpp"
#include "pool/batch_engine.hpp"

namespace arcbeam::lattice {

struct AnswerOptions {
    std::uint32_t nbest;       // word sequences; 0: none are searched for
    bool confidence;           // of each word of the hypothesis
    bool mbr;                  // the words of the fewest expected errors, and the confusion network
    double posterior_scale;    // finite, at least 0
    std::uint64_t step_limit;  // of each search in one lattice
};

// Lattice, words, options and reader must outlive the batch.
struct Query {
    const Lattice* lattice;           // nullptr: it has not been made yet
    OpenColumn<std::uint32_t> words;  // [arcs of the graph and its new words]: 0 for none
    const AnswerOptions* options;
    const LabelReader* reader;  // of the entries' labels; nullptr: they are not requested
};

inline std::size_t frames_of(const Query& query) { return query.lattice->links.size(); }

enum class AnswerOutcome : std::uint8_t { kAnswered, kOutOfMemory, kCancelled };

// A lattice without tokens has no entries and no words.
struct Answer {
    Nbest nbest;                      // without excesses and links
    std::vector<double> costs;        // of the entries
    std::vector<std::uint32_t> arcs;  // of the links of the entries
    PathLabels labels{};              // of the entries, if requested
    std::vector<double> confidences;  // [words of the hypothesis], if requested
    bool confidence_truncated = false;
    Mbr mbr;  // if requested
    AnswerOutcome outcome = AnswerOutcome::kCancelled;
};

// The words of a lattice's links.
void words_of_links(const Lattice& lattice, const OpenColumn<std::uint32_t>& words_of_arcs,
                    std::vector<std::uint32_t>& words);

// Answers for one lattice at a time, with buffers that are kept for the next if they are of a common size.
class Answerer {
  public:
    void decode(const std::vector<Query>& batch, const std::vector<std::size_t>& members,
                const std::atomic<bool>& cancel, std::vector<Answer>& answers);

  private:
    static constexpr std::size_t kMostKept = std::size_t{64} << 20U;  // bytes of a search

    void answer(const Query& query, const std::atomic<bool>& cancel, Answer& answer);
    static void read_labels(const Query& query, Answer& answer);

    std::vector<std::uint32_t> words_;  // [links]
    Weights weights_;
    std::vector<Scaled> sums_;  // [tokens]
    NbestSearch nbest_;
    MbrDecoder mbr_;
};

// Answers the lattices of a batch: those that are there after start(), or one by one after begin(), as threads of
// the same pool make them.
class AnswerEngine final : public twin::BatchEngine<Answerer, Query, Answer>, public LatticePool {
  public:
    explicit AnswerEngine(std::size_t threads);

    // Takes a batch without lattices, which may be empty; there can be one batch at a time.
    void begin(std::vector<Query> batch) { BatchEngine::begin(std::move(batch)); }

    void run(std::size_t most, std::function<void(std::size_t worker)> job) override;
    bool wait(int milliseconds) override { return BatchEngine::wait(milliseconds); }
    void answer(std::size_t worker, std::size_t utterance, const Lattice& lattice) override;
    void cancel() override { BatchEngine::cancel(); }
};

}  // namespace arcbeam::lattice
