// One utterance during its beam search: its histories, the hypotheses that are live on a frame, and those that have
// arrived on later ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "shared/transducer_rules.hpp"
#include "transducer/beam/bucket.hpp"
#include "transducer/beam/contexts.hpp"
#include "transducer/beam/expand.hpp"
#include "transducer/beam/lattice_log.hpp"
#include "transducer/beam/prefix_tree.hpp"
#include "transducer/beam/state.hpp"
#include "transducer/frames.hpp"
#include "transducer/network.hpp"
#include "transducer/search.hpp"

namespace arcbeam::transducer::beam {

class Lane {
  public:
    // Goes on from a state with more frames; a value that is not finite ends the lane, and is in the result then.
    void begin(const Network& network, const Options& options, const Utterance& utterance, Result& result,
               AlignedFloats& scratch);

    [[nodiscard]] bool is_active() const { return place_.frame < frames_; }

    // The predictions of the state: their parts of the joint network are still to be computed.
    [[nodiscard]] const std::vector<Prediction*>& restored() const { return restored_; }

    // Adds the predictions to run, and lists the histories to test, before the lane can advance; of these the new
    // ones first without an encoder, if the internal language model is needed.
    void request(std::vector<Prediction*>& predictions);
    [[nodiscard]] const std::vector<std::uint32_t>& without_biases() const { return without_biases_; }
    [[nodiscard]] const std::vector<std::uint32_t>& untested() const { return untested_; }
    [[nodiscard]] bool needs_ilm() const { return fusion_.needs_ilm(); }
    [[nodiscard]] Test test_of(std::uint32_t node) const {
        return {encoder_.projected(place_.frame), &tree_.tested(node)->prediction};
    }
    [[nodiscard]] Test ilm_test_of(std::uint32_t node, const float* no_encoder) const {
        return {no_encoder, &tree_.tested(node)->prediction};
    }

    // Takes the logits of a history in turn, first those of its internal language model; if they are not finite,
    // the lane ends.
    void take_biases(std::uint32_t node, const float* logits);
    void take(std::uint32_t node, const float* logits);

    // Expands the live hypotheses, and goes on to the next depth of the frame or to a later frame.
    void advance(AlignedFloats& scratch);

    // Leaves the state if the utterance began with one, and writes the n-best list of the frames so far and their
    // lattice.
    void end();

  private:
    void go_to_next_frame(AlignedFloats& scratch);
    void settle(std::int64_t frame);
    void add(Bucket& bucket, const Row& row, const Candidate& candidate);
    // Makes the hypotheses of a bucket live that pass the cut-off.
    void live_from(Bucket& bucket, float bound);
    void write_labels(std::vector<Hypothesis>& hypotheses);
    void end_by_bad_logits();
    // The score below which as many histories as may live have left the frame with better ones.
    [[nodiscard]] float overtaken();
    [[nodiscard]] const Row* row_of(std::uint32_t node) const;
    // lane_state.cpp
    void restore(const BeamState& from);
    void leave(BeamState& state, std::size_t& settled);

    const Network* network_ = nullptr;
    const Options* options_ = nullptr;
    Result* result_ = nullptr;
    std::int64_t frames_ = 0;          // 0 if the lane has been ended by a bad value
    std::int64_t frames_before_ = 0;   // of the stream
    std::uint32_t labels_before_ = 0;  // of the sentence, before those in the log
    bool leaves_state_ = false;
    Frames encoder_;
    BeamFusion fusion_;
    PrefixTree tree_;
    Place place_{0, 0};
    double offset_ = 0.0;  // scores are relative to it
    std::vector<Hypothesis> live_;
    std::map<std::int64_t, Bucket> buckets_;  // of later frames, also of those that have not come
    std::vector<Row> rows_;                   // of this frame
    std::vector<std::uint32_t> without_biases_;
    std::vector<std::uint32_t> untested_;
    std::vector<Label> log_;
    std::vector<Prediction*> restored_;
    Contexts contexts_;
    LatticeLog lattice_;
    Expansion expansion_;
};

}  // namespace arcbeam::transducer::beam
