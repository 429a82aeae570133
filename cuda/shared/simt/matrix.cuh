// CUDA bodies: products of small matrices on tensor cores. Use through shared/simt.cuh.
#pragma once

namespace arcbeam::simt {

// sum += a b, by a whole warp: a [16][16], b [16][8] of bfloat16, two in a word, the lower half first; sum [16][8].
// Thread 4 g + t of the warp holds
//
//     a[0], a[2]      row g, columns 2t and 2t + 1; 2t + 8 and 2t + 9 (a[1], a[3]: of row g + 8)
//     b[0], b[1]      column g, rows 2t and 2t + 1; 2t + 8 and 2t + 9
//     sum[0], sum[1]  row g, columns 2t and 2t + 1 (sum[2], sum[3]: of row g + 8)
//
// Products are exact. The machine decides in what order they are added and how sums are rounded; it does the same
// for every element.
ARCBEAM_DEVICE void multiply_bfloat16(float (&sum)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace arcbeam::simt
