// One body compiled for several instruction sets, of which the loader picks one. All give the same bytes, because
// the sums are the same and no version may contract them. Not with clang: it unrolls such loops so far that the
// few columns of letters are left to scalar code, and without clones is as fast as g++ for 1,024 columns.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ARCBEAM_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ARCBEAM_CLONES
#endif
