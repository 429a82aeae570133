// One body compiled for several instruction sets, of which the loader picks one. All give the same bytes, because
// the sums are the same and no version may contract them.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#if defined(__clang__)  // which takes no other attribute with this one
#define ARCBEAM_CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define ARCBEAM_CLONES [[maybe_unused, gnu::target_clones("avx512f", "avx2", "default")]]
#endif
#else
#define ARCBEAM_CLONES [[maybe_unused]]
#endif
