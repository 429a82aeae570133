// The order in which log-probs of the host go to a device: the order in which the lanes will need them.
//
// Utterances are cut into pieces of `piece_frames` rows. Lanes take utterances in the order given. A clock counts
// the frames that lanes have decoded; pieces are sent in the order in which they are needed by this clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace arcbeam::staging {

// Log-probs of an utterance in host memory.
struct Source {
    const unsigned char* rows;
    std::int64_t row_stride;  // bytes
    std::uint32_t frames;
    std::uint32_t row_bytes;
};

struct Piece {
    std::uint32_t utterance;
    std::uint32_t first_row;
    std::uint32_t rows;
    std::uint64_t line;  // where it begins in device memory; the kernel uses the lower 32 bits
};

// Pieces [first, last), which fill lines [line, end): one copy.
struct Part {
    std::size_t first;
    std::size_t last;
    std::uint64_t line;
    std::uint64_t end;
};

class Order {
  public:
    Order(std::vector<Source> sources, std::size_t lanes, std::uint32_t piece_frames);

    // In the order of their lines.
    [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
    [[nodiscard]] const std::vector<Source>& sources() const { return sources_; }

    // For the kernel: the lines of the pieces of utterance u, from first_piece()[u] on.
    [[nodiscard]] const std::vector<std::uint32_t>& lines() const { return lines_; }
    [[nodiscard]] const std::vector<std::uint32_t>& first_piece() const { return first_piece_; }
    [[nodiscard]] std::uint64_t end() const { return end_; }

    // Parts of about `first` bytes, each twice as large as the one before, up to `most`. Each has at least one
    // piece.
    [[nodiscard]] std::vector<Part> parts(std::uint64_t first, std::uint64_t most) const;

  private:
    [[nodiscard]] std::uint64_t lines_of(const Piece& piece) const;

    std::vector<Source> sources_;
    std::vector<Piece> pieces_;
    std::vector<std::uint32_t> lines_;
    std::vector<std::uint32_t> first_piece_;
    std::uint64_t end_ = 0;
};

}  // namespace arcbeam::staging
