// The driver's calls that arcbeam makes, as one table of pointers, and the few of its constants that arcbeam uses.
//
// The types are neutral (handles are void*, results int), so the host layer compiles without cuda.h and a test can
// install another driver. `_cydriver.pyx` fills the table from cuda-python and checks the numbers against cuda.h.
// Every call returns the driver's result code, 0 for success, and acts on the context that is current in the
// thread.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

namespace arcbeam::gpu {

using Address = uint64_t;  // of device memory; 0 is none

// The shape of a launch. `cluster` is the number of blocks in a cluster; 1 launches without clusters. The blocks of
// a cooperative launch, which has no clusters, all run at the same time; otherwise the launch fails.
struct LaunchShape {
    uint32_t blocks;
    uint32_t threads;
    uint32_t cluster;
    uint32_t shared_bytes;
    uint32_t cooperative;
};

struct DriverTable {
    int (*init)(unsigned flags);
    int (*driver_version)(int* version);
    int (*error_name)(int code, const char** name);
    int (*error_text)(int code, const char** text);

    int (*device_count)(int* count);
    int (*device_get)(int* device, int ordinal);
    int (*device_name)(char* name, int bytes, int device);
    int (*device_memory)(size_t* bytes, int device);
    int (*device_attribute)(int* value, int attribute, int device);

    int (*context_retain)(void** context, int device);
    int (*context_release)(int device);
    int (*context_push)(void* context);
    int (*context_pop)(void** context);

    int (*module_load)(void** module, const void* image, char* log, size_t log_bytes);
    int (*module_unload)(void* module);
    int (*module_function)(void** function, void* module, const char* name);
    int (*function_set)(void* function, int attribute, int value);
    int (*function_get)(int* value, int attribute, void* function);
    int (*occupancy_blocks)(int* blocks, void* function, int threads, size_t shared_bytes);
    int (*occupancy_clusters)(int* clusters, void* function, const LaunchShape* shape);
    int (*launch)(void* function, const LaunchShape* shape, void* parameter, void* stream);

    int (*stream_create)(void** stream, unsigned flags, int priority);
    int (*stream_destroy)(void* stream);
    int (*stream_synchronize)(void* stream);
    int (*stream_query)(void* stream);
    int (*stream_wait_event)(void* stream, void* event, unsigned flags);
    int (*stream_capturing)(void* stream, int* status);

    int (*event_create)(void** event, unsigned flags);
    int (*event_destroy)(void* event);
    int (*event_record)(void* event, void* stream);
    int (*event_query)(void* event);
    int (*event_synchronize)(void* event);
    int (*event_elapsed)(float* milliseconds, void* start, void* end);

    int (*pool_create)(void** pool, int device);
    int (*pool_destroy)(void* pool);
    int (*pool_trim)(void* pool, size_t keep_bytes);
    int (*pool_set)(void* pool, int attribute, void* value);
    int (*pool_get)(void* pool, int attribute, void* value);
    int (*allocate)(Address* address, size_t bytes, void* pool, void* stream);
    int (*release)(Address address, void* stream);
    int (*memory_info)(size_t* free_bytes, size_t* total_bytes);
    int (*host_allocate)(void** address, size_t bytes, unsigned flags);
    int (*host_release)(void* address);
    int (*host_register)(void* address, size_t bytes, unsigned flags);
    int (*host_unregister)(void* address);
    int (*managed_allocate)(Address* address, size_t bytes, unsigned flags);
    int (*managed_advise)(Address address, size_t bytes, int advice, int device);
    int (*managed_release)(Address address);
    int (*copy_to_device)(Address to, const void* from, size_t bytes, void* stream);
    int (*copy_to_host)(void* to, Address from, size_t bytes, void* stream);
    int (*copy_on_device)(Address to, Address from, size_t bytes, void* stream);
    int (*set_bytes)(Address to, unsigned char value, size_t count, void* stream);
    int (*set_words)(Address to, unsigned value, size_t count, void* stream);
    int (*pointer_attributes)(unsigned count, int* attributes, void** values, Address address);
};

// The driver's numbers, named as in cuda.h without the prefixes.
enum Code {
    kSuccess = 0,
    kInvalidValue = 1,
    kOutOfMemory = 2,
    kNotInitialized = 3,
    kDeinitialized = 4,
    kStubLibrary = 34,
    kDeviceUnavailable = 46,
    kNoDevice = 100,
    kInvalidImage = 200,
    kInvalidContext = 201,
    kNoBinaryForGpu = 209,
    kEccUncorrectable = 214,
    kInvalidPtx = 218,
    kNvlinkUncorrectable = 220,
    kJitCompilerNotFound = 221,
    kUnsupportedPtxVersion = 222,
    kJitDisabled = 223,
    kContained = 226,
    kOperatingSystem = 304,
    kInvalidHandle = 400,
    kNotFound = 500,
    kNotReady = 600,
    kIllegalAddress = 700,
    kLaunchTimeout = 702,
    kContextIsDestroyed = 709,
    kAssert = 710,
    kAlreadyRegistered = 712,
    kHardwareStackError = 714,
    kIllegalInstruction = 715,
    kMisalignedAddress = 716,
    kInvalidAddressSpace = 717,
    kInvalidPc = 718,
    kLaunchFailed = 719,
    kTensorMemoryLeak = 721,
    kNotPermitted = 800,
    kNotSupported = 801,
    kSystemDriverMismatch = 803,
    // This and the next codes: a capture of a CUDA graph forbids the call, or is invalidated by it
    kCaptureUnsupported = 900,
    kCaptureWrongThread = 908,
    kUnknown = 999,
};

enum DeviceAttribute {
    kThreadsPerBlock = 1,
    kMultiprocessors = 16,
    kL2Bytes = 38,
    kThreadsPerMultiprocessor = 39,
    kMajor = 75,
    kMinor = 76,
    kSharedPerMultiprocessor = 81,
    kConcurrentManagedAccess = 89,
    kSharedPerBlock = 97,
    kReadOnlyRegister = 113,
    kMemoryPools = 115,
    kClusterLaunch = 120,
};

enum FunctionAttribute {
    kFunctionThreads = 0,
    kFunctionShared = 1,
    kFunctionLocal = 3,
    kFunctionRegisters = 4,
    kFunctionPtxVersion = 5,
    kFunctionBinaryVersion = 6,
    kFunctionDynamicShared = 8,
    kFunctionNonPortableCluster = 14,
};

enum PointerAttribute {
    kPointerMemoryType = 2,
    kPointerOnDevice = 3,
    kPointerIsManaged = 8,
    kPointerDeviceOrdinal = 9,
    kPointerRangeStart = 11,
    kPointerRangeBytes = 12,
};

enum MemoryType { kHostMemory = 1, kDeviceMemory = 2 };

enum PoolAttribute { kReleaseThreshold = 4, kReserved = 5, kUsed = 7, kUsedHigh = 8 };

enum Flag {
    kStreamNonBlocking = 1,
    kNotCapturing = 0,
    kEventBlockingSync = 1,
    kEventDisableTiming = 2,
    kHostPortable = 1,
    kRegisterPortable = 1,
    kRegisterReadOnly = 8,
    kManagedGlobal = 1,
    kAdvisePreferredLocation = 3,
    kAdviseAccessedBy = 5,
    kOnHost = -1,  // device number in an advice that stands for the host
};

// After these the context answers every call with the same error, until the process ends.
inline bool is_sticky(int code) {
    switch (code) {
        case kDeviceUnavailable:
        case kEccUncorrectable:
        case kNvlinkUncorrectable:
        case kContained:
        case kIllegalAddress:
        case kLaunchTimeout:
        case kContextIsDestroyed:
        case kAssert:
        case kHardwareStackError:
        case kIllegalInstruction:
        case kMisalignedAddress:
        case kInvalidAddressSpace:
        case kInvalidPc:
        case kLaunchFailed:
        case kTensorMemoryLeak:
        case kUnknown:
            return true;
        default:
            return false;
    }
}

// Result codes that mean that the system does not let memory be pinned; the driver still works.
inline bool is_refusal(int code) {
    return code == kOutOfMemory || code == kOperatingSystem || code == kNotPermitted || code == kNotSupported;
}

// A forked child inherits our handles but not the driver's threads, so none of its calls would work.
struct ForkWatch {
    bool watching = false;
    bool forked = false;
};

inline ForkWatch& fork_watch() {
    static ForkWatch watch;
    return watch;
}

// After the first use of the driver, a fork leaves a mark in the child.
inline int watch_forks() {
    ForkWatch& watch = fork_watch();
    if (watch.watching) return 0;
    watch.watching = true;
    return pthread_atfork(nullptr, nullptr, [] { fork_watch().forked = true; });
}

inline bool forked() { return fork_watch().forked; }

inline int64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

// The pause between two polls of an event: short waits poll, long waits sleep.
inline void poll_interval(int64_t waited_ns) {
    constexpr int64_t kPollFor = 20000000;  // after this time a nap (100 us and what the kernel adds) costs little
    if (waited_ns < kPollFor) {
        sched_yield();
    } else {
        const timespec nap{0, 50000};
        nanosleep(&nap, nullptr);
    }
}

}  // namespace arcbeam::gpu
