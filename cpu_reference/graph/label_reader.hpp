// The output labels of paths with their frames: an interface, because the code for spellings of words is elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace arcbeam {

// The labels of some paths, one path after the other. A label spans the frames [starts[i], ends[i]) of its path.
struct PathLabels {
    std::vector<std::size_t> path_ends{};  // [paths]: where the labels of each path end
    std::vector<std::uint32_t> labels{};
    std::vector<std::int64_t> starts{};
    std::vector<std::int64_t> ends{};
};

// Threads may read paths side by side.
class LabelReader {
  public:
    LabelReader() = default;
    virtual ~LabelReader() = default;
    LabelReader(const LabelReader&) = default;
    LabelReader& operator=(const LabelReader&) = default;

    // Adds the labels of a path, given by its arcs.
    virtual void read(const std::uint32_t* arcs, std::size_t count, PathLabels& to) const = 0;
};

}  // namespace arcbeam
