// The kernels, included once for each vector unit, inside an anonymous namespace that has defined
//
//     struct Vector: kWidth floats, with zero, load, broadcast, store, add, and multiply_add(weights, input, sum)
//     kMostColumns: columns for which a tile of one vector of outputs has registers; kPairColumns: the same for two
//     vectors
//     chains(vectors, columns): for how many of four partial sums a tile has registers: 4 or 2
//
// This file has no include guard. It calls no template or inline function of another header, except those that are
// always inlined, because the linker would keep one copy of such a function for all units.

// dot(weight[o], x[c]) for kVectors vectors of outputs, `apart` floats from each other, and kColumns columns.
template <int kVectors, int kColumns>
inline void tile(const float* weights, std::size_t apart, std::size_t steps, const float* const* x,
                 Vector (&dot)[kVectors][kColumns]) {
    // The partials p, p + 8, p + 16 and p + 24 either advance all together, or the first and third do, and then the
    // others.
    constexpr std::size_t kChains = chains(kVectors, kColumns);
    constexpr std::size_t kApart = 4 / kChains;
    Vector quarters[8][kVectors][kColumns];  // the four, added
    for (std::size_t p = 0; p < 8; ++p) {
        Vector pairs[2][kVectors][kColumns];  // p and p + 16, p + 8 and p + 24
        for (std::size_t first = 0; first < kApart; ++first) {
            Vector sum[kChains][kVectors][kColumns];
            for (std::size_t q = 0; q < kChains; ++q) {
                for (int v = 0; v < kVectors; ++v) {
                    for (int c = 0; c < kColumns; ++c) {
                        sum[q][v][c] = Vector::zero();
                    }
                }
            }
            const float* weight_at = weights + first * kBlock;
            for (std::size_t step = 0; step < steps; ++step) {
                const std::size_t i = step * kPartials + p + 8 * first;
#pragma GCC unroll 4
                for (std::size_t q = 0; q < kChains; ++q) {
                    Vector weight[kVectors];
#pragma GCC unroll 4
                    for (std::size_t v = 0; v < kVectors; ++v) {
                        weight[v] = Vector::load(weight_at + v * apart + q * kApart * kBlock);
                    }
#pragma GCC unroll 8
                    for (std::size_t c = 0; c < kColumns; ++c) {
                        const Vector input = Vector::broadcast(x[c] + i + 8 * q * kApart);
#pragma GCC unroll 4
                        for (std::size_t v = 0; v < kVectors; ++v) {
                            sum[q][v][c] = Vector::multiply_add(weight[v], input, sum[q][v][c]);
                        }
                    }
                }
                weight_at += 4 * kBlock;
            }
            for (std::size_t q = 0; q < kChains / 2; ++q) {
                for (int v = 0; v < kVectors; ++v) {
                    for (int c = 0; c < kColumns; ++c) {
                        pairs[first + q][v][c] = Vector::add(sum[q][v][c], sum[q + kChains / 2][v][c]);
                    }
                }
            }
        }
        weights += steps * 4 * kBlock;
        for (int v = 0; v < kVectors; ++v) {
            for (int c = 0; c < kColumns; ++c) {
                quarters[p][v][c] = Vector::add(pairs[0][v][c], pairs[1][v][c]);
            }
        }
    }
    for (int v = 0; v < kVectors; ++v) {
        for (int c = 0; c < kColumns; ++c) {
            for (int s = 4; s > 0; s /= 2) {
                for (int p = 0; p < s; ++p) {
                    quarters[p][v][c] = Vector::add(quarters[p][v][c], quarters[p + s][v][c]);
                }
            }
            dot[v][c] = quarters[0][v][c];
        }
    }
}

constexpr std::size_t kWidth = static_cast<std::size_t>(Vector::kWidth);

template <int kVectors, int kColumns>
void tile_of(const MatrixView& matrix, std::size_t unit, const float* const* x, float* const* y) {
    constexpr std::size_t kUnits = kBlock / kWidth;  // vectors in a block
    const std::size_t block = matrix.steps * kPartials * kBlock;
    const float* weights = matrix.packed + unit / kUnits * block + unit % kUnits * kWidth;
    Vector dot[kVectors][kColumns];
    tile<kVectors, kColumns>(weights, kUnits == 1 ? block : kWidth, matrix.steps, x, dot);
    for (std::size_t v = 0; v < kVectors; ++v) {
        const std::size_t o = (unit + v) * kWidth;
        for (std::size_t c = 0; c < kColumns; ++c) {
            Vector::store(y[c] + o, matrix.bias == nullptr ? dot[v][c]
                                                           : Vector::add(dot[v][c], Vector::load(matrix.bias + o)));
        }
    }
}

template <int kVectors, int kColumns>
void tile_for(const MatrixView& matrix, std::size_t unit, const float* const* x, std::size_t columns,
              float* const* y) {
    if constexpr (kColumns > 0) {
        if (columns == static_cast<std::size_t>(kColumns)) {
            tile_of<kVectors, kColumns>(matrix, unit, x, y);
        } else {
            tile_for<kVectors, kColumns - 1>(matrix, unit, x, columns, y);
        }
    }
}

template <int kVectors, int kMost>
void sweep(const MatrixView& matrix, const float* const* x, std::size_t columns, float* const* y) {
    constexpr auto kTile = static_cast<std::size_t>(kMost);
    for (std::size_t unit = 0; unit < matrix.blocks * (kBlock / kWidth); unit += kVectors) {
        for (std::size_t c = 0; c < columns;) {
            // The rest is divided evenly: 7 columns become 4 and 3, not 6 and 1.
            const std::size_t left = columns - c;
            const std::size_t tiles = (left + kTile - 1) / kTile;
            const std::size_t taken = (left + tiles - 1) / tiles;
            tile_for<kVectors, kMost>(matrix, unit, x + c, taken, y + c);
            c += taken;
        }
    }
}

void multiply(const MatrixView& matrix, const float* const* x, std::size_t columns, float* const* y) {
    if constexpr (kPairColumns > 0) {
        const bool pairs = matrix.blocks * (kBlock / kWidth) % 2 == 0;
        if (pairs && (kPairColumns == kMostColumns || columns <= static_cast<std::size_t>(kPairColumns))) {
            sweep<2, kPairColumns>(matrix, x, columns, y);
            return;
        }
    }
    sweep<1, kMostColumns>(matrix, x, columns, y);
}

void lstm(const float* __restrict__ input, const float* __restrict__ recurrent, std::size_t units,
          float* __restrict__ cell, float* __restrict__ hidden) {
    for (std::size_t u = 0; u < units; ++u) {
        const float input_gate = input[u] + recurrent[u];
        const float forget_gate = input[units + u] + recurrent[units + u];
        const float candidate = input[2 * units + u] + recurrent[2 * units + u];
        const float output_gate = input[3 * units + u] + recurrent[3 * units + u];
        const float next = lstm_cell(input_gate, forget_gate, candidate, cell[u]);
        cell[u] = next;
        hidden[u] = lstm_hidden(output_gate, next);
    }
}

void join(const float* __restrict__ encoder, const float* __restrict__ prediction, Activation activation,
          std::size_t n, float* __restrict__ hidden) {
    switch (activation) {
        case Activation::kTanh:
            for (std::size_t i = 0; i < n; ++i) {
                hidden[i] = tanh_of(encoder[i] + prediction[i]);
            }
            break;
        case Activation::kRelu:
            for (std::size_t i = 0; i < n; ++i) {
                hidden[i] = relu_of(encoder[i] + prediction[i]);
            }
            break;
        case Activation::kSigmoid:
            for (std::size_t i = 0; i < n; ++i) {
                hidden[i] = sigmoid_of(encoder[i] + prediction[i]);
            }
            break;
    }
}

void round(float* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        values[i] = round_to_bfloat16(values[i]);
    }
}

Rank rank(const float* values, std::size_t n) {
    float largest[kPartials];
    std::uint32_t worst[kPartials];
    for (std::size_t p = 0; p < kPartials; ++p) {
        largest[p] = values[0];
        worst[p] = 0;
    }
    std::size_t i = 0;
    for (; i + kPartials <= n; i += kPartials) {
        for (std::size_t p = 0; p < kPartials; ++p) {
            const float value = values[i + p];
            const std::uint32_t size = bits_of(value) & 0x7fffffffU;
            largest[p] = value > largest[p] ? value : largest[p];
            worst[p] = size > worst[p] ? size : worst[p];
        }
    }
    for (std::size_t p = 0; i + p < n; ++p) {
        const float value = values[i + p];
        const std::uint32_t size = bits_of(value) & 0x7fffffffU;
        largest[p] = value > largest[p] ? value : largest[p];
        worst[p] = size > worst[p] ? size : worst[p];
    }
    Rank best{0, largest[0], true};
    for (std::size_t p = 0; p < kPartials; ++p) {
        best.largest = largest[p] > best.largest ? largest[p] : best.largest;
        best.finite = best.finite && worst[p] < 0x7f800000U;
    }
    while (best.finite && values[best.index] < best.largest) {
        ++best.index;
    }
    return best;
}

float exp_sum(const float* values, std::size_t n, float largest) {
    float partial[kPartials] = {};
    std::size_t i = 0;
    for (; i + kPartials <= n; i += kPartials) {
        for (std::size_t p = 0; p < kPartials; ++p) {
            partial[p] += exp_of(values[i + p] - largest);
        }
    }
    for (std::size_t p = 0; i + p < n; ++p) {
        partial[p] += exp_of(values[i + p] - largest);
    }
    return added(partial);
}

float power_sum(const float* values, std::size_t n, float largest, float log_sum, float alpha, bool weighted) {
    return powers_added(values, n, largest, log_sum, alpha, weighted);
}
