#include "arcbeam/transducer/gpu/_beam_states/packed_states.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/transducer_bfloat16.hpp"
#include "shared/transducer_math.hpp"

namespace arcbeam::transducer::beam {

namespace {

constexpr std::size_t kFewest = 32;  // states that pay for waking threads

std::uint64_t padded(std::uint64_t bytes) { return (bytes + 15U) / 16U * 16U; }

std::uint32_t count_of(std::size_t size) { return static_cast<std::uint32_t>(size); }

void store_hidden(const float* from, std::uint32_t units, const PackedSizes& sizes, unsigned char* to) {
    if (sizes.value_bytes == sizeof(float)) {
        std::memcpy(to, from, units * sizeof(float));
        return;
    }
    for (std::uint32_t u = 0; u < units; ++u) {
        const auto value = static_cast<std::uint16_t>(to_bfloat16(from[u]));
        std::memcpy(to + u * sizeof(value), &value, sizeof(value));
    }
}

void load_hidden(const unsigned char* from, std::uint32_t units, const PackedSizes& sizes, float* to) {
    if (sizes.value_bytes == sizeof(float)) {
        std::memcpy(to, from, units * sizeof(float));
        return;
    }
    for (std::uint32_t u = 0; u < units; ++u) {
        std::uint16_t value = 0;
        std::memcpy(&value, from + u * sizeof(value), sizeof(value));
        to[u] = from_bits(std::uint32_t{value} << 16U);
    }
}

// What models have added up to each history, and to its last label.
void pack_fused(const BeamState& state, DeviceFused* to) {
    for (std::size_t i = 0; i < state.histories.size(); ++i) {
        const BeamState::History& one = state.histories[i];
        const double* const before = i == 0 ? state.shares.data() : to[one.parent].parts;
        for (std::size_t k = 0; k < kBeamModels; ++k) {
            to[i].states[k] = one.fused.states.of[k];
            to[i].shares[k] = one.fused.shares[k];
            to[i].parts[k] = i == 0 ? before[k] : before[k] + static_cast<double>(one.fused.shares[k]);
        }
        to[i].shares[kBeamModels] = one.fused.ilm_share;
        to[i].parts[kBeamModels] =
            i == 0 ? before[kBeamModels] : before[kBeamModels] - static_cast<double>(one.fused.ilm_share);
    }
}

void pack_predictions(const BeamState& state, const PackedSizes& sizes, std::uint32_t units,
                      const PackedArrays& to) {
    const std::size_t rows = std::size_t{sizes.layers} * state.predicted.size();
    const std::size_t padding = sizes.unit_stride - units;
    for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t at = row * sizes.unit_stride;
        std::fill_n(std::copy_n(state.cell.data() + row * units, units, to.cell + at), padding, 0.0F);
        unsigned char* const hidden = to.hidden + at * sizes.value_bytes;
        store_hidden(state.hidden.data() + row * units, units, sizes, hidden);
        std::memset(hidden + units * sizes.value_bytes, 0, padding * sizes.value_bytes);
    }
    std::copy(state.contexts.begin(), state.contexts.end(), to.contexts);
}

void pack_one(const BeamState& state, const PackedSizes& sizes, std::uint32_t units, const PackedArrays& to) {
    std::fill_n(to.counts, sizes.frames, 0U);
    for (std::size_t i = 0; i < state.arrivals.size(); ++i) {
        const BeamState::Arrival& one = state.arrivals[i];
        ++to.counts[one.frame];
        to.arrivals[i] = {one.node, one.score, one.path, one.log, 0U, 0U, 0.0F, 0.0F};
    }
    for (std::size_t i = 0; i < state.histories.size(); ++i) {
        to.nodes[i] = {state.histories[i].parent, state.histories[i].token, kNowhere, 0U};
    }
    for (std::size_t i = 0; i < state.predicted.size(); ++i) {
        to.owners[i] = state.predicted[i];
        to.nodes[state.predicted[i]].slot = count_of(i);
    }
    for (std::size_t i = 0; i < state.log.size(); ++i) {
        const Label& label = state.log[i];
        const auto frame = static_cast<std::uint32_t>(label.frame - state.frames);
        to.log[i] = {label.before, label.token, frame, label.duration, label.log_prob, label.confidence};
    }
    if (sizes.has_models != 0U) {
        pack_fused(state, to.fused);
    }
    pack_predictions(state, sizes, units, to);
}

// The histories of a chunk that has come back.
class PackedTree {
  public:
    PackedTree(const PackedArrays& arrays, std::size_t size, const BeamState& before, bool has_models)
        : nodes_(arrays.nodes), size_(size), before_(before) {
        fused_.reserve(has_models ? size : 0U);
        for (std::size_t i = 0; has_models && i < size; ++i) {
            Fused fused;
            std::copy_n(arrays.fused[i].states, kBeamModels, fused.states.of);
            std::copy_n(arrays.fused[i].shares, kBeamModels, fused.shares);
            fused.ilm_share = arrays.fused[i].shares[kBeamModels];
            fused_.push_back(fused);
        }
    }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::uint32_t parent(std::uint32_t node) const { return nodes_[node].parent; }
    [[nodiscard]] std::uint32_t token(std::uint32_t node) const { return nodes_[node].token; }
    [[nodiscard]] const Shares& shares() const { return before_.shares; }
    [[nodiscard]] const Fused& fused(std::uint32_t node) const {
        if (!fused_.empty()) {
            return fused_[node];
        }
        return node < before_.histories.size() ? before_.histories[node].fused : none_;
    }

  private:
    const DeviceNode* nodes_;
    std::size_t size_;
    const BeamState& before_;
    std::vector<Fused> fused_;
    Fused none_;
};

PackedArrays arrays_of(const unsigned char* from, const PackedLane& one, const PackedSizes& sizes) {
    return packed_arrays(const_cast<unsigned char*>(from) + one.at, sizes, one.arrivals, one.lane.nodes,
                         one.lane.labels, one.predictions);
}

const PackedLane& lane_at(const unsigned char* from, std::uint32_t lane) {
    return reinterpret_cast<const PackedLane*>(from)[lane];
}

// The log of a chunk, with the labels of arrivals that are not in it yet; and the arrivals.
std::vector<Label> take_labels(const PackedLane& one, const PackedArrays& arrays, std::uint32_t buckets,
                               BeamState& state, std::int64_t frames_before) {
    std::vector<Label> log;
    log.reserve(std::size_t{one.lane.labels} + one.arrivals);
    state.arrivals.reserve(one.arrivals);
    const auto add = [&log, frames_before](const DeviceLabel& label) {
        log.push_back({label.before, label.token, frames_before + static_cast<std::int32_t>(label.frame),
                       label.duration, label.log_prob, label.confidence});
    };
    std::for_each(arrays.log, arrays.log + one.lane.labels, add);
    const DeviceHypothesis* from = arrays.arrivals;
    for (std::uint32_t frame = 0; frame < buckets; ++frame) {
        for (const DeviceHypothesis* const end = from + arrays.counts[frame]; from < end; ++from) {
            std::uint32_t last = from->log;
            if ((from->duration & kWritten) != 0U) {
                last = count_of(log.size());
                add({from->log, arrays.nodes[from->node].token, from->frame, from->duration & ~kWritten,
                     from->log_prob, from->confidence});
            }
            state.arrivals.push_back({frame, from->node, from->score, from->path, last});
        }
    }
    return log;
}

// The LSTM's states and the contexts of histories, in this order.
void take_predictions(const PackedLane& one, const PackedArrays& arrays, const PackedSizes& sizes,
                      std::uint32_t units, const std::vector<std::uint32_t>& histories, BeamState& state) {
    std::vector<std::size_t> rows(one.lane.nodes);
    for (std::size_t i = 0; i < one.predictions; ++i) {
        rows[arrays.owners[i]] = i;
    }
    const std::size_t values = histories.size() * sizes.layers * units;
    state.hidden.resize(values);
    state.cell.reserve(values);
    state.contexts.reserve(histories.size() * sizes.context);
    float* hidden = state.hidden.data();
    for (const std::uint32_t node : histories) {
        for (std::size_t l = 0; l < sizes.layers; ++l) {
            const std::size_t at = (rows[node] * sizes.layers + l) * sizes.unit_stride;
            load_hidden(arrays.hidden + at * sizes.value_bytes, units, sizes, hidden);
            hidden += units;
            state.cell.insert(state.cell.end(), arrays.cell + at, arrays.cell + at + units);
        }
        const std::int32_t* const context = arrays.contexts + rows[node] * sizes.context;
        state.contexts.insert(state.contexts.end(), context, context + sizes.context);
    }
}

void unpack_one(const unsigned char* from, std::uint32_t lane, const PackedSizes& sizes, std::uint32_t units,
                const EndOptions& options, Chunk& chunk) {
    const PackedLane& one = lane_at(from, lane);
    const PackedArrays arrays = arrays_of(from, one, sizes);
    const BeamState& before = *chunk.before;
    BeamState& state = *chunk.state;
    const bool has_models = sizes.has_models != 0U;
    const PackedTree tree(arrays, one.lane.nodes, before, has_models);
    const std::vector<Label> log = take_labels(one, arrays, sizes.frames, state, before.frames);
    Bucket all;
    for (const BeamState::Arrival& arrival : state.arrivals) {
        all.add({arrival.node, arrival.score, arrival.path, arrival.log, false, {}}, options.sums);
    }
    const float best = all.best();
    all.rescale(best);
    const std::vector<Hypothesis> live = cut_off(all, -options.beam, options.max_hypotheses);
    ListOptions of_list = options.list;
    of_list.labels_before = before.labels;
    const std::size_t first =
        list_live(of_list, one.lane.offset + static_cast<double>(best), live, tree, has_models, log, *chunk.list);
    chunk.models = tree.fused(live[first].node).states;
    state.frames = before.frames + one.lane.frames;
    state.offset = one.lane.offset;
    std::vector<std::uint32_t> predicted(arrays.owners, arrays.owners + one.predictions);
    take_predictions(one, arrays, sizes, units, leave_histories(tree, std::move(predicted), has_models, state),
                     state);
    chunk.settled = leave_labels(log, state);
    state.labels = before.labels + count_of(chunk.settled);
}

}  // namespace

StateNeeds needs_of(const std::vector<const BeamState*>& states, const PackedSizes& sizes) {
    StateNeeds needs;
    for (const BeamState* state : states) {
        std::uint32_t here = 0;
        std::int64_t frame = -1;
        for (const BeamState::Arrival& one : state->arrivals) {
            here = one.frame == frame ? here + 1U : 1U;
            frame = one.frame;
            needs.bucket = std::max(needs.bucket, here);
        }
        needs.last_frame = std::max(needs.last_frame, static_cast<std::uint32_t>(frame));
        needs.nodes = std::max(needs.nodes, count_of(state->histories.size()));
        needs.labels = std::max(needs.labels, count_of(state->log.size()));
        needs.slots = std::max(needs.slots, count_of(state->predicted.size()));
        needs.restored += count_of(state->predicted.size());
    }
    needs.restored_at = padded(states.size() * sizeof(PackedLane));
    needs.bytes = needs.restored_at + padded(needs.restored * sizeof(std::uint32_t));
    for (const BeamState* state : states) {
        needs.bytes += packed_arrays(nullptr, sizes, state->arrivals.size(), state->histories.size(),
                                     state->log.size(), state->predicted.size())
                           .bytes;
    }
    return needs;
}

void pack(const std::vector<const BeamState*>& states, const std::vector<std::uint32_t>& frames,
          const StateNeeds& needs, const PackedSizes& sizes, std::uint32_t units, std::uint32_t slots,
          twin::LazyPool& threads, unsigned char* to) {
    auto* const lanes = reinterpret_cast<PackedLane*>(to);
    auto* restored = reinterpret_cast<std::uint32_t*>(to + needs.restored_at);
    std::uint64_t at = needs.restored_at + padded(needs.restored * sizeof(std::uint32_t));
    std::memset(to, 0, at);
    std::uint32_t row = 0;
    for (std::uint32_t i = 0; i < count_of(states.size()); ++i) {
        const BeamState& state = *states[i];
        PackedLane& one = lanes[i];
        one.lane.offset = state.offset;
        one.lane.frame = kNowhere;  // the next one is the first of the chunk
        one.lane.frames = frames[i];
        one.lane.first_row = row;
        one.lane.nodes = count_of(state.histories.size());
        one.lane.labels = count_of(state.log.size());
        one.at = at;
        one.arrivals = count_of(state.arrivals.size());
        one.predictions = count_of(state.predicted.size());
        for (std::uint32_t slot = 0; slot < one.predictions; ++slot) {
            *restored++ = i * slots + slot;
        }
        row += frames[i];
        at += arrays_of(to, one, sizes).bytes;
    }
    threads.each(states.size(), kFewest,
                 [&](std::size_t i) { pack_one(*states[i], sizes, units, arrays_of(to, lanes[i], sizes)); });
}

std::uint64_t most_bytes(std::uint32_t lanes, const PackedSizes& sizes, std::uint64_t arrivals, std::uint64_t nodes,
                         std::uint64_t labels, std::uint64_t predictions) {
    const std::uint64_t each = packed_arrays(nullptr, sizes, arrivals, nodes, labels, predictions).bytes;
    return padded(lanes * sizeof(PackedLane)) + lanes * each;
}

std::uint64_t returned_bytes(const unsigned char* from, std::uint32_t lanes, const PackedSizes& sizes) {
    std::uint64_t end = lanes * sizeof(PackedLane);
    for (std::uint32_t i = 0; i < lanes; ++i) {
        const PackedLane& one = lane_at(from, i);
        if (one.at > 0U) {
            end = std::max(end, one.at + arrays_of(nullptr, one, sizes).bytes);
        }
    }
    return end;
}

void unpack(const unsigned char* from, const PackedSizes& sizes, std::uint32_t units, const EndOptions& options,
            twin::LazyPool& threads, std::vector<Chunk>& chunks) {
    threads.each(chunks.size(), kFewest, [&](std::size_t lane) {
        if (chunks[lane].state != nullptr) {
            unpack_one(from, count_of(lane), sizes, units, options, chunks[lane]);
        }
    });
}

}  // namespace arcbeam::transducer::beam
