// The kernels for any machine: correct everywhere, but slow where fmaf is a function call.
#include "shared/transducer_bfloat16.hpp"
#include "transducer/confidence.hpp"
#include "transducer/kernels.hpp"

namespace arcbeam::transducer {
namespace {

struct Vector {
    static constexpr int kWidth = 16;
    float v[kWidth];
    static Vector zero() { return {}; }
    static Vector load(const float* at) {
        Vector a;
        std::memcpy(a.v, at, sizeof a.v);
        return a;
    }
    static void store(float* at, const Vector& a) { std::memcpy(at, a.v, sizeof a.v); }
    static Vector add(const Vector& a, const Vector& b) {
        Vector sum;
        for (int i = 0; i < kWidth; ++i) {
            sum.v[i] = a.v[i] + b.v[i];
        }
        return sum;
    }
    static Vector broadcast(const float* input) {
        Vector a;
        for (float& value : a.v) {
            value = *input;
        }
        return a;
    }
    static Vector multiply_add(const Vector& weights, const Vector& input, const Vector& sum) {
        Vector result;
        for (int i = 0; i < kWidth; ++i) {
            result.v[i] = fused(weights.v[i], input.v[i], sum.v[i]);
        }
        return result;
    }
};
constexpr int kMostColumns = 1;
constexpr int kPairColumns = 0;
constexpr std::size_t chains(int, int) { return 4; }

#include "transducer/kernels_body.hpp"

}  // namespace

const Kernels kPortableKernels{"portable", kMostColumns, multiply, lstm, join, round, rank, exp_sum, power_sum};

const std::vector<const Kernels*>& available_kernels() {
    static const std::vector<const Kernels*> found = [] {
        std::vector<const Kernels*> kernels;
#if defined(ARCBEAM_X86_KERNELS)
        __builtin_cpu_init();
        const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
            kernels.push_back(&kAvx512Kernels);
        }
        if (avx2) {
            kernels.push_back(&kAvx2Kernels);
        }
#endif
        kernels.push_back(&kPortableKernels);
        return kernels;
    }();
    return found;
}

}  // namespace arcbeam::transducer
