#include "arcbeam/ctc/gpu/_staging/order.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "decode/search.hpp"

namespace arcbeam::staging {
namespace {

// The tick at which each utterance is taken, if a lane takes the next one as soon as it is free.
std::vector<std::size_t> ticks_of(const std::vector<Source>& sources, std::size_t lanes,
                                  std::uint32_t piece_frames) {
    std::vector<std::size_t> ticks(sources.size(), 0);
    std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> free_at;
    for (std::size_t u = 0; u < sources.size(); ++u) {
        std::uint64_t start = 0;
        if (free_at.size() == lanes) {
            start = free_at.top();
            free_at.pop();
        }
        ticks[u] = static_cast<std::size_t>(start / piece_frames);
        free_at.push(start + sources[u].frames);
    }
    return ticks;
}

}  // namespace

Order::Order(std::vector<Source> sources, std::size_t lanes, std::uint32_t piece_frames)
    : sources_(std::move(sources)), first_piece_(sources_.size()) {
    const auto pieces_of = [&](std::size_t u) {
        return sources_[u].frames / piece_frames + (sources_[u].frames % piece_frames != 0U ? 1U : 0U);
    };
    const std::vector<std::size_t> ticks = ticks_of(sources_, std::max<std::size_t>(lanes, 1), piece_frames);
    std::size_t count = 0;
    std::size_t num_ticks = 0;
    for (std::size_t u = 0; u < sources_.size(); ++u) {
        first_piece_[u] = static_cast<std::uint32_t>(count);
        count += pieces_of(u);
        num_ticks = std::max(num_ticks, ticks[u] + pieces_of(u));
    }
    std::vector<std::size_t> place(num_ticks + 1, 0);  // of the next piece of a tick: a sort by counting
    for (std::size_t u = 0; u < sources_.size(); ++u) {
        for (std::size_t i = 0; i < pieces_of(u); ++i) {
            ++place[ticks[u] + i + 1];
        }
    }
    std::partial_sum(place.begin(), place.end(), place.begin());
    pieces_.resize(count);
    for (std::size_t u = 0; u < sources_.size(); ++u) {
        for (std::uint32_t i = 0; i < pieces_of(u); ++i) {
            const std::uint32_t row = i * piece_frames;
            pieces_[place[ticks[u] + i]++] = {static_cast<std::uint32_t>(u), row,
                                              std::min(piece_frames, sources_[u].frames - row), 0};
        }
    }
    lines_.resize(count);
    for (Piece& piece : pieces_) {
        piece.line = end_;
        end_ += lines_of(piece);
        lines_[first_piece_[piece.utterance] + piece.first_row / piece_frames] =
            static_cast<std::uint32_t>(piece.line);
    }
}

std::vector<Part> Order::parts(std::uint64_t first, std::uint64_t most) const {
    std::vector<Part> parts;
    std::uint64_t size = first;
    for (std::size_t next = 0; next < pieces_.size();) {
        Part part{next, next, pieces_[next].line, pieces_[next].line};
        do {
            part.end += lines_of(pieces_[part.last]);
            ++part.last;
        } while (part.last < pieces_.size() && (part.end - part.line) * kLineBytes < size);
        parts.push_back(part);
        next = part.last;
        size = std::min(2 * size, most);
    }
    return parts;
}

std::uint64_t Order::lines_of(const Piece& piece) const {
    const std::uint64_t bytes = std::uint64_t{piece.rows} * sources_[piece.utterance].row_bytes;
    return (bytes + kLineBytes - 1) / kLineBytes;
}

}  // namespace arcbeam::staging
