// ARCBEAM_ROLLED before a loop: the compiler leaves it rolled. For loops that run seldom where frames run often:
// unrolled, they would take registers, and what is spilled for them is spilled in every frame. A function that is
// called instead costs more: where there are calls, nvcc 13.0 sets up the base of every access anew.
#pragma once

#if defined(__CUDACC__)
#define ARCBEAM_ROLLED _Pragma("unroll 1")
#else
#define ARCBEAM_ROLLED
#endif
