#include "arcbeam/files/_file_map/checksum.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "common/parallel.hpp"

namespace arcbeam {
namespace {

constexpr std::size_t kLanes = 8U;
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::uint64_t kBlock = 1U << 20U;
constexpr std::uint64_t kOdd = 0xd6e8feb86659fd93U;   // odd, with as many ones as zeros in every byte or nearly
constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;  // keeps the lanes apart

std::uint64_t absorb(std::uint64_t lane, std::uint64_t word) {
    lane ^= word;
    return (lane << 29U | lane >> 35U) * kOdd;
}

std::uint64_t digest(const unsigned char* bytes, std::size_t size) {
    std::uint64_t lanes[kLanes];
    for (std::size_t i = 0U; i < kLanes; ++i) lanes[i] = kStep * (i + 1U);
    std::size_t at = 0U;
    for (; at + kLanes * kWord <= size; at += kLanes * kWord) {
        std::uint64_t words[kLanes];
        std::memcpy(words, bytes + at, sizeof words);
        for (std::size_t i = 0U; i < kLanes; ++i) lanes[i] = absorb(lanes[i], words[i]);
    }
    std::uint64_t sum = kStep ^ size;
    for (; at < size;
         at += kWord) {  // the last word is filled up with zeros; the size distinguishes these from data
        std::uint64_t word = 0U;
        std::memcpy(&word, bytes + at, std::min(kWord, size - at));
        sum = absorb(sum, word);
    }
    for (const std::uint64_t lane : lanes) sum = absorb(sum, lane ^ lane >> 32U);
    return sum ^ sum >> 32U;
}

}  // namespace

std::uint64_t checksum(const unsigned char* bytes, std::uint64_t size, unsigned threads) {
    const std::uint64_t blocks = (size + kBlock - 1U) / kBlock;
    std::vector<std::uint64_t> digests(blocks);
    // parallel_ranges counts small items. Here an item is a block, so the number of 64 KiB pieces is passed to it.
    constexpr std::uint64_t kPieces = kBlock >> 4U;
    (void)parallel_ranges(blocks * kPieces, threads, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t b = (begin + kPieces - 1U) / kPieces; b < (end + kPieces - 1U) / kPieces; ++b) {
            digests[b] = digest(bytes + b * kBlock, std::min(kBlock, size - b * kBlock));
        }
        return Status{};
    });
    std::uint64_t sum = kStep ^ size;
    for (const std::uint64_t one : digests) sum = absorb(sum, one);
    return sum ^ sum >> 32U;
}

}  // namespace arcbeam
