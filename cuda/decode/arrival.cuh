// Log-probs that come from the host while the kernel runs. Copies fill the memory line by line. After each copy of
// data, another copy writes to `arrived` how many lines are there.
//
// in   the row that is needed next
// out  lane.utterance.log_probs and lane.rows_end, and true: the row can be read. False: it did not come in time,
// and
//      the lane has to stop. All threads of the block get the same answer. Barriers are passed unless the row was
//      there before.
#pragma once

#include "decode/frame.cuh"

namespace arcbeam {

// One thread waits until `lines` lines are there. It gives up wait_cycles after the last new line.
ARCBEAM_DEVICE bool wait_for_lines(const SearchParams& params, std::uint32_t lines) {
    simt::Backoff backoff{params.wait_cycles};
    std::uint32_t arrived = simt::load_relaxed<Scope::system>(params.arrived);
    while (arrived < lines) {
        if (!backoff.wait()) {
            return false;
        }
        const std::uint32_t before = arrived;
        arrived = simt::load_relaxed<Scope::system>(params.arrived);
        if (arrived != before) {
            backoff = simt::Backoff{params.wait_cycles};
        }
    }
    // One acquire follows all polls, because each acquire may empty the L1 cache of the multiprocessor, which
    // another block may share. With the barrier that follows it orders the data before every load of the block.
    return simt::load_acquire<Scope::system>(params.arrived) != kNoIndex;
}

// Prepares an utterance to be read from its first piece on.
ARCBEAM_DEVICE void open_utterance(const SearchParams& params, Lane& lane) {
    lane.utterance = params.utterances[lane.state.utterance];
    lane.rows_end = lane.utterance.first_piece == kNoIndex ? lane.utterance.frames : 0U;
}

// No line of a piece is read before it has come. (Prefetches fill L2, to which copies write, too.)
ARCBEAM_DEVICE bool have_row(const SearchParams& params, Lane& lane, std::uint32_t row) {
    if (row < lane.rows_end) {
        return true;
    }
    const std::uint32_t piece = row / params.piece_frames;
    const std::uint32_t first_row = piece * params.piece_frames;
    const std::uint32_t frames = lane.utterance.frames;
    const std::uint32_t rows_end =
        frames - first_row < params.piece_frames ? frames : first_row + params.piece_frames;
    const std::uint32_t value_bytes = lane.utterance.is_half != 0U ? 2U : 4U;
    if (simt::thread_rank() == 0U) {
        const std::uint32_t line = simt::load_readonly(params.pieces + lane.utterance.first_piece + piece);
        const std::uint32_t lines = piece_lines(rows_end - first_row, params.columns, value_bytes);
        simt::store(&lane.control->line, wait_for_lines(params, line + lines) ? line : kNoIndex);
    }
    simt::block_barrier();
    const std::uint32_t line = simt::load(&lane.control->line);
    simt::block_barrier();
    if (line == kNoIndex) {
        return false;
    }
    const auto* memory = static_cast<const unsigned char*>(params.utterances[lane.state.utterance].log_probs);
    lane.utterance.log_probs = memory + static_cast<std::int64_t>(line) * kLineBytes -
                               static_cast<std::int64_t>(first_row) * lane.utterance.row_stride * value_bytes;
    lane.rows_end = rows_end;
    return true;
}

}  // namespace arcbeam
