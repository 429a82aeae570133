#include "arcbeam/ctc/gpu/_staging/gather.hpp"

#include <cstring>

#include "decode/search.hpp"

namespace arcbeam::staging {
namespace {

void copy_piece(const Order& order, const Part& part, std::size_t number, unsigned char* to) {
    const Piece& piece = order.pieces()[number];
    const Source& from = order.sources()[piece.utterance];
    to += (piece.line - part.line) * kLineBytes;
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

void gather(const Order& order, const Part& part, unsigned char* to) {
    for (std::size_t number = part.first; number < part.last; ++number) {
        copy_piece(order, part, number, to);
    }
}

void Gatherer::start(const Order& order, const Part& part, unsigned char* to) {
    pool_.start(part.last - part.first, [&order, part, to](std::size_t /*worker*/, std::size_t item) {
        copy_piece(order, part, part.first + item, to);
    });
}

}  // namespace arcbeam::staging
