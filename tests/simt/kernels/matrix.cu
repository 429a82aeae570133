// A product of matrices on a warp's tensor cores.
#include "shared/simt.cuh"

using namespace arcbeam::simt;

struct MatrixParams {
    const std::uint32_t* a;  // [16, 8]: two bfloat16 a word
    const std::uint32_t* b;  // [8, 8]: column by column
    float* sums;             // [16, 8]
};

ARCBEAM_KERNEL(multiply_matrices, 32, MatrixParams) {
    const std::uint32_t g = warp_thread() / 4U;
    const std::uint32_t t = warp_thread() % 4U;
    const std::uint32_t a[4] = {load_readonly(params.a + g * 8U + t), load_readonly(params.a + (g + 8U) * 8U + t),
                                load_readonly(params.a + g * 8U + t + 4U),
                                load_readonly(params.a + (g + 8U) * 8U + t + 4U)};
    const std::uint32_t b[2] = {load_readonly(params.b + g * 8U + t), load_readonly(params.b + g * 8U + t + 4U)};
    float sum[4];
    for (std::uint32_t i = 0; i < 4U; ++i) sum[i] = load(params.sums + (g + i / 2U * 8U) * 8U + 2U * t + i % 2U);
    multiply_bfloat16(sum, a, b);
    for (std::uint32_t i = 0; i < 4U; ++i) {
        store(params.sums + (g + i / 2U * 8U) * 8U + 2U * t + i % 2U, sum[i]);
    }
}
