#include "arcbeam/graph/_graph/openfst.hpp"

#include <algorithm>
#include <cstring>

namespace arcbeam {
namespace {

using ull = unsigned long long;

constexpr std::int32_t kFstMagic = 2125659606;
constexpr std::int32_t kSymbolsMagic = 2125658996;
constexpr std::int32_t kHasInputSymbols = 1;
constexpr std::int32_t kHasOutputSymbols = 2;
constexpr std::int32_t kIsAligned = 4;
constexpr std::int32_t kVectorVersion = 2;
constexpr std::int32_t kConstAlignedVersion = 1;  // a const file of this version is aligned whatever its flags say
constexpr std::int32_t kConstVersion = 2;
constexpr std::uint64_t kAlignment = 16U;
constexpr std::uint64_t kVectorState = 12U;     // bytes before the arcs of a state
constexpr std::uint64_t kConstState = 20U;      // bytes of a state
constexpr std::uint64_t kSmallestSymbol = 12U;  // bytes of a symbol of no characters
constexpr std::uint32_t kLongestType = 64U;     // characters of the longest type name that a message prints

template <typename T>
T load(const unsigned char* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

// Reads forward. Once a read goes beyond the end, it and all later reads fail.
class Reader {
  public:
    Reader(const Bytes& file, std::uint64_t at) : file_(file), at_(at) {}

    template <typename T>
    bool read(const char* what, T* value) {
        if (!has(what, sizeof(T))) return false;
        *value = load<T>(file_.data + at_);
        at_ += sizeof(T);
        return true;
    }

    // A string's place and length, its bytes all within the file.
    bool read_span(const char* what, std::uint64_t* begin, std::uint32_t* length) {
        std::int32_t size = 0;
        if (!read(what, &size)) return false;
        if (size < 0 || static_cast<std::uint64_t>(size) > left()) {
            status_ = format_error("byte %llu: the length of the %s is %d, but %llu bytes are left",
                                   static_cast<ull>(at_ - sizeof size), what, size, static_cast<ull>(left()));
            return false;
        }
        *begin = at_;
        *length = static_cast<std::uint32_t>(size);
        at_ += *length;
        return true;
    }

    bool read_type(const char* what, std::string* text) {
        std::uint64_t begin = 0U;
        std::uint32_t length = 0U;
        if (!read_span(what, &begin, &length)) return false;
        text->clear();
        for (std::uint32_t i = 0U; i < std::min(length, kLongestType); ++i) {
            const unsigned char c = file_.data[begin + i];
            text->push_back(c >= 0x20U && c < 0x7fU ? static_cast<char>(c) : '?');
        }
        return true;
    }

    std::uint64_t at() const { return at_; }
    std::uint64_t left() const { return file_.size - at_; }
    const Status& status() const { return status_; }

  private:
    bool has(const char* what, std::uint64_t size) {
        if (!status_.ok()) return false;
        if (left() >= size) return true;
        status_ = format_error("byte %llu: the file ends within the %s (expected %llu bytes, got %llu)",
                               static_cast<ull>(at_), what, static_cast<ull>(size), static_cast<ull>(left()));
        return false;
    }

    const Bytes& file_;
    std::uint64_t at_;
    Status status_;
};

Status read_symbols(Reader& reader, const char* which, SymbolSpans* symbols) {
    const std::uint64_t at = reader.at();
    std::int32_t magic = 0;
    std::int64_t next_key = 0;
    std::int64_t size = 0;
    std::uint64_t begin = 0U;
    std::uint32_t length = 0U;
    if (!reader.read("symbol table magic", &magic)) return reader.status();
    if (magic != kSymbolsMagic) {
        return format_error("byte %llu: expected an %s symbol table (magic %d), got %d", static_cast<ull>(at),
                            which, kSymbolsMagic, magic);
    }
    if (!reader.read_span("symbol table name", &begin, &length) ||
        !reader.read("symbol table next key", &next_key) || !reader.read("symbol table size", &size)) {
        return reader.status();
    }
    if (size < 0 || static_cast<std::uint64_t>(size) > reader.left() / kSmallestSymbol) {
        return format_error("byte %llu: the %s symbol table says it has %lld symbols, but %llu bytes are left",
                            static_cast<ull>(reader.at() - sizeof size), which, static_cast<long long>(size),
                            static_cast<ull>(reader.left()));
    }
    symbols->present = true;
    for (std::int64_t i = 0; i < size; ++i) {
        std::int64_t key = 0;
        if (!reader.read_span("symbol", &begin, &length) || !reader.read("symbol key", &key))
            return reader.status();
        symbols->begins.push_back(begin);
        symbols->lengths.push_back(length);
        symbols->keys.push_back(key);
    }
    return {};
}

std::uint64_t align(std::uint64_t at) { return (at + kAlignment - 1U) / kAlignment * kAlignment; }

Status place_const(const Bytes& file, std::uint64_t at, bool aligned, OpenFstFile* fst) {
    fst->states_at = aligned ? align(at) : at;
    const auto states = static_cast<std::uint64_t>(fst->num_states);
    const auto arcs = static_cast<std::uint64_t>(fst->num_arcs);
    const std::uint64_t room = file.size - std::min(file.size, fst->states_at);
    if (states > room / kConstState || arcs > room / sizeof(RawArc)) {
        return format_error(
            "byte %llu: the header says %llu states and %llu arcs, but only %llu bytes follow; the file is "
            "truncated "
            "or corrupted",
            static_cast<ull>(at), static_cast<ull>(states), static_cast<ull>(arcs), static_cast<ull>(room));
    }
    const std::uint64_t states_end = fst->states_at + kConstState * states;
    fst->arcs_at = aligned ? align(states_end) : states_end;
    const std::uint64_t end = fst->arcs_at + sizeof(RawArc) * arcs;
    if (end != file.size) {
        return format_error(
            "byte %llu: expected the file to end here after %llu states and %llu arcs, got %llu bytes",
            static_cast<ull>(end), static_cast<ull>(states), static_cast<ull>(arcs), static_cast<ull>(file.size));
    }
    fst->most_states = states;
    return {};
}

Status place_vector(const Bytes& file, std::uint64_t at, OpenFstFile* fst) {
    fst->states_at = at;
    fst->most_states = std::min((file.size - at) / kVectorState, kMostStates);
    if (fst->num_states < 0) return {};
    if (static_cast<std::uint64_t>(fst->num_states) > fst->most_states) {
        return format_error(
            "byte %llu: the header says %lld states, but the %llu bytes that follow hold %llu at most; the file is "
            "truncated or corrupted",
            static_cast<ull>(at), static_cast<long long>(fst->num_states), static_cast<ull>(file.size - at),
            static_cast<ull>(fst->most_states));
    }
    fst->most_states = static_cast<std::uint64_t>(fst->num_states);
    return {};
}

Status scan_const(const Bytes& file, const OpenFstFile& fst, StateRecord* states, float* finals) {
    std::uint64_t arcs = 0U;
    for (std::uint64_t s = 0U; s < fst.most_states; ++s) {
        const std::uint64_t at = fst.states_at + kConstState * s;
        const unsigned char* bytes = file.data + at;
        const auto first = load<std::uint32_t>(bytes + 4U);
        const auto count = load<std::uint32_t>(bytes + 8U);
        if (count != 0U && first != arcs) {
            return format_error("byte %llu: the arcs of state %llu start at arc %u, expected %llu",
                                static_cast<ull>(at), static_cast<ull>(s), first, static_cast<ull>(arcs));
        }
        states[s].first_arc = static_cast<std::uint32_t>(arcs);
        finals[s] = load<float>(bytes);
        arcs += count;
        if (arcs > static_cast<std::uint64_t>(fst.num_arcs)) {
            return format_error("byte %llu: state %llu has %u arcs, which ends beyond the %lld of the graph",
                                static_cast<ull>(at), static_cast<ull>(s), count,
                                static_cast<long long>(fst.num_arcs));
        }
    }
    if (arcs != static_cast<std::uint64_t>(fst.num_arcs)) {
        return format_error("byte %llu: the header says %lld arcs, but the states have %llu",
                            static_cast<ull>(fst.arcs_at), static_cast<long long>(fst.num_arcs),
                            static_cast<ull>(arcs));
    }
    states[fst.most_states].first_arc = static_cast<std::uint32_t>(arcs);
    return {};
}

Status scan_vector(const Bytes& file, const OpenFstFile& fst, StateRecord* states, float* finals,
                   std::uint64_t* num_states, std::uint64_t* num_arcs) {
    std::uint64_t at = fst.states_at;
    std::uint64_t state = 0U;
    std::uint64_t arcs = 0U;
    for (; state < fst.most_states && at < file.size; ++state) {
        if (file.size - at < kVectorState) {
            return format_error("byte %llu: the file ends within state %llu (expected %llu bytes, got %llu)",
                                static_cast<ull>(at), static_cast<ull>(state), static_cast<ull>(kVectorState),
                                static_cast<ull>(file.size - at));
        }
        const auto count = load<std::int64_t>(file.data + at + 4U);
        const std::uint64_t room = (file.size - at - kVectorState) / sizeof(RawArc);
        if (count < 0 || static_cast<std::uint64_t>(count) > room) {
            return format_error("byte %llu: state %llu says it has %lld arcs, but the file has room for %llu",
                                static_cast<ull>(at + 4U), static_cast<ull>(state), static_cast<long long>(count),
                                static_cast<ull>(room));
        }
        if (arcs + static_cast<std::uint64_t>(count) > kMostArcs) {
            return graph_error("state %llu: the graph has more than %llu arcs", static_cast<ull>(state),
                               static_cast<ull>(kMostArcs));
        }
        states[state].first_arc = static_cast<std::uint32_t>(arcs);
        finals[state] = load<float>(file.data + at);
        arcs += static_cast<std::uint64_t>(count);
        at += kVectorState + sizeof(RawArc) * static_cast<std::uint64_t>(count);
    }
    if (fst.num_states >= 0 && state < fst.most_states) {
        return format_error("byte %llu: the file ends after %llu states, expected %llu", static_cast<ull>(at),
                            static_cast<ull>(state), static_cast<ull>(fst.most_states));
    }
    if (at != file.size) {
        return format_error("byte %llu: expected the file to end here after %llu states, got %llu more bytes",
                            static_cast<ull>(at), static_cast<ull>(state), static_cast<ull>(file.size - at));
    }
    states[state].first_arc = static_cast<std::uint32_t>(arcs);
    *num_states = state;
    *num_arcs = arcs;
    return {};
}

}  // namespace

bool is_openfst(const Bytes& file) {
    return file.size >= sizeof kFstMagic && load<std::int32_t>(file.data) == kFstMagic;
}

Status read_openfst_header(const Bytes& file, OpenFstFile* fst) {
    Reader reader(file, 0U);
    std::int32_t magic = 0;
    std::int32_t version = 0;
    std::int32_t flags = 0;
    std::uint64_t properties = 0U;
    std::string type;
    std::string arc_type;
    if (!reader.read("magic number", &magic)) return reader.status();
    if (magic != kFstMagic) {
        return format_error("byte 0: expected an OpenFst file (magic %d), got %d", kFstMagic, magic);
    }
    if (!reader.read_type("FST type", &type) || !reader.read_type("arc type", &arc_type) ||
        !reader.read("version", &version) || !reader.read("flags", &flags) ||
        !reader.read("properties", &properties) || !reader.read("start state", &fst->start) ||
        !reader.read("number of states", &fst->num_states) || !reader.read("number of arcs", &fst->num_arcs)) {
        return reader.status();
    }
    if (type != "vector" && type != "const") {
        return format_error("FST type is \"%s\"; expected \"vector\" or \"const\" (fstconvert makes either)",
                            type.c_str());
    }
    if (arc_type != "standard") {
        return format_error("arc type is \"%s\"; expected \"standard\" (tropical weights in float32)",
                            arc_type.c_str());
    }
    fst->is_const = type == "const";
    const bool known =
        fst->is_const ? version == kConstAlignedVersion || version == kConstVersion : version == kVectorVersion;
    if (!known) {
        return format_error("version of the %s file is %d; expected %s", type.c_str(), version,
                            fst->is_const ? "1 or 2" : "2");
    }
    if (fst->num_states < (fst->is_const ? 0 : -1) || (fst->is_const && fst->num_arcs < 0)) {
        return format_error("byte %llu: the header says %lld states and %lld arcs",
                            static_cast<ull>(reader.at() - 16U), static_cast<long long>(fst->num_states),
                            static_cast<long long>(fst->num_arcs));
    }
    if (fst->num_states > static_cast<std::int64_t>(kMostStates) ||
        (fst->is_const && fst->num_arcs > static_cast<std::int64_t>(kMostArcs))) {
        return graph_error("the header says %lld states and %lld arcs; at most %llu and %llu can be numbered",
                           static_cast<long long>(fst->num_states), static_cast<long long>(fst->num_arcs),
                           static_cast<ull>(kMostStates), static_cast<ull>(kMostArcs));
    }
    if ((flags & kHasInputSymbols) != 0) {
        Status status = read_symbols(reader, "input", &fst->input);
        if (!status.ok()) return status;
    }
    if ((flags & kHasOutputSymbols) != 0) {
        Status status = read_symbols(reader, "output", &fst->output);
        if (!status.ok()) return status;
    }
    if (!fst->is_const) return place_vector(file, reader.at(), fst);
    return place_const(file, reader.at(), version == kConstAlignedVersion || (flags & kIsAligned) != 0, fst);
}

Status scan_openfst_states(const Bytes& file, const OpenFstFile& fst, StateRecord* states, float* finals,
                           std::uint64_t* num_states, std::uint64_t* num_arcs) {
    if (!fst.is_const) return scan_vector(file, fst, states, finals, num_states, num_arcs);
    *num_states = fst.most_states;
    *num_arcs = static_cast<std::uint64_t>(fst.num_arcs);
    return scan_const(file, fst, states, finals);
}

RawArcs openfst_arcs(const Bytes& file, const OpenFstFile& fst) {
    if (fst.is_const) return {file.data + fst.arcs_at, 0U};
    return {file.data + fst.states_at + kVectorState, kVectorState};
}

std::uint64_t vector_body_size(std::uint64_t num_states, std::uint64_t num_arcs) {
    return kVectorState * num_states + sizeof(RawArc) * num_arcs;
}

void write_vector_body(const RawArc* arcs, const GraphColumns& graph, unsigned char* out) {
    for (std::size_t s = 0U; s < graph.num_states; ++s) {
        const std::uint32_t first = graph.states[s].first_arc;
        const std::int64_t count = std::int64_t{graph.states[s + 1U].first_arc} - first;
        std::memcpy(out, &graph.finals[s], 4U);
        std::memcpy(out + 4U, &count, 8U);
        const std::size_t bytes = sizeof(RawArc) * static_cast<std::size_t>(count);
        if (bytes != 0U) std::memcpy(out + kVectorState, arcs + first, bytes);
        out += kVectorState + bytes;
    }
}

}  // namespace arcbeam
