// What a kernel and the host tell each other while the kernel runs, in right and in wrong ways.
#include "shared/simt.cuh"

using namespace arcbeam::simt;

enum Way : std::uint32_t {
    kAcquire,
    kFence,
    kNarrowAcquire,
    kNarrowFence,
    kRelaxed,
    kReadOnly,
};

struct ArrivalParams {
    const std::uint32_t* data;  // [block]
    const std::uint32_t* come;
    std::uint32_t* out;  // [grid, block]
    std::uint32_t way;
};

// One thread waits for a word that the host writes after the data, and all read the data.
ARCBEAM_KERNEL(read_what_comes, 64, ArrivalParams) {
    if (thread_rank() == 0U) {
        while (load_relaxed<Scope::system>(params.come) == 0U) nanosleep(10U);
        switch (params.way) {
            case kAcquire:
            case kReadOnly:
                (void)load_acquire<Scope::system>(params.come);
                break;
            case kFence:
                fence<Scope::system>();
                break;
            case kNarrowAcquire:
                (void)load_acquire<Scope::device>(params.come);
                break;
            case kNarrowFence:
                fence<Scope::device>();
                break;
            default:
                break;
        }
    }
    block_barrier();
    const std::uint32_t* const data = params.data + thread_rank();
    store(params.out + block_rank() * block_size() + thread_rank(),
          params.way == kReadOnly ? load_readonly(data) : load(data));
}

struct RequestingParams {
    std::uint32_t* question;  // [block]
    std::uint32_t* posted;
    const std::uint32_t* answered;
    const std::uint32_t* answer;  // [block]
    std::uint32_t* out;           // [block]
    std::uint32_t rounds;
    std::uint32_t way;
};

// Every thread has a question, one posts them and waits. The way is the way of posting; kAcquire is the right one.
ARCBEAM_KERNEL(request_of_host, 64, RequestingParams) {
    std::uint32_t value = thread_rank();
    for (std::uint32_t round = 1U; round <= params.rounds; ++round) {
        store(params.question + thread_rank(), value);
        block_barrier();
        if (thread_rank() == 0U) {
            if (params.way == kRelaxed) {
                store_relaxed<Scope::system>(params.posted, round);
            } else if (params.way == kNarrowFence) {
                fence<Scope::device>();
                store_relaxed<Scope::system>(params.posted, round);
            } else if (params.way == kNarrowAcquire) {
                store_release<Scope::device>(params.posted, round);
            } else {
                store_release<Scope::system>(params.posted, round);
            }
            while (load_relaxed<Scope::system>(params.answered) != round) nanosleep(10U);
            fence<Scope::system>();
        }
        block_barrier();
        value = load(params.answer + thread_rank());
    }
    store(params.out + thread_rank(), value);
}
