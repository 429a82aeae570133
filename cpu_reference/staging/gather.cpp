#include "staging/gather.hpp"

#include <cstring>

#include "decode/search.hpp"

namespace arcbeam::staging {
namespace {

void copy_piece(const Source& from, const Piece& piece, unsigned char* to) {
    const unsigned char* row = from.rows + static_cast<std::int64_t>(piece.first_row) * from.row_stride;
    if (from.row_stride == static_cast<std::int64_t>(from.row_bytes)) {
        std::memcpy(to, row, std::size_t{piece.rows} * from.row_bytes);
        return;
    }
    for (std::uint32_t i = 0; i < piece.rows; ++i, row += from.row_stride, to += from.row_bytes) {
        std::memcpy(to, row, from.row_bytes);
    }
}

}  // namespace

void Gatherer::start(const Order& order, const Part& part, unsigned char* to) {
    pool_.start(part.last - part.first, [&order, part, to](std::size_t /*worker*/, std::size_t item) {
        const Piece& piece = order.pieces()[part.first + item];
        copy_piece(order.sources()[piece.utterance], piece, to + (piece.line - part.line) * kLineBytes);
    });
}

}  // namespace arcbeam::staging
