// Copies that bring the first bytes of each row of an array from a device to the host: few large ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace arcbeam::transducer::beam {

struct Copy {
    std::uint64_t from;  // on the device
    std::uint64_t to;    // in the memory of the host, which all arrays share
    std::uint64_t bytes;
};

class RowCopies {
  public:
    // Adds an array, of whose rows so many bytes are used. Gives the places of the rows in the memory of the host.
    std::vector<std::uint64_t> add(std::uint64_t array, std::uint64_t row_bytes,
                                   const std::vector<std::uint64_t>& used) {
        std::vector<std::uint64_t> places(used.size());
        const std::size_t first = copies_.size();
        for (std::size_t i = 0; i < used.size(); ++i) {
            const std::uint64_t row = array + i * row_bytes;
            if (used[i] == 0U) {
                continue;
            }
            if (copies_.size() == first || row - (copies_.back().from + copies_.back().bytes) > kGap) {
                copies_.push_back({row, bytes(), 0U});
            }
            Copy& copy = copies_.back();
            places[i] = copy.to + (row - copy.from);
            copy.bytes = row + used[i] - copy.from;
        }
        return places;
    }

    [[nodiscard]] const std::vector<Copy>& all() const { return copies_; }
    [[nodiscard]] std::uint64_t bytes() const {
        return copies_.empty() ? 0U : (copies_.back().to + copies_.back().bytes + 15U) / 16U * 16U;
    }

  private:
    static constexpr std::uint64_t kGap = 1U << 16U;  // to begin a copy takes about as long as so many bytes

    std::vector<Copy> copies_;
};

}  // namespace arcbeam::transducer::beam
