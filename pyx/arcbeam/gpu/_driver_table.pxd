"""The Cython declarations of ``_driver_table.hpp``."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool

cdef extern from "arcbeam/gpu/_driver_table.hpp" namespace "arcbeam::gpu" nogil:
    ctypedef uint64_t Address

    cdef struct LaunchShape:
        uint32_t blocks
        uint32_t threads
        uint32_t cluster
        uint32_t shared_bytes
        uint32_t cooperative

    cdef struct DriverTable:
        int (*init)(unsigned int) noexcept nogil
        int (*driver_version)(int*) noexcept nogil
        int (*error_name)(int, const char**) noexcept nogil
        int (*error_text)(int, const char**) noexcept nogil
        int (*device_count)(int*) noexcept nogil
        int (*device_get)(int*, int) noexcept nogil
        int (*device_name)(char*, int, int) noexcept nogil
        int (*device_memory)(size_t*, int) noexcept nogil
        int (*device_attribute)(int*, int, int) noexcept nogil
        int (*context_retain)(void**, int) noexcept nogil
        int (*context_release)(int) noexcept nogil
        int (*context_push)(void*) noexcept nogil
        int (*context_pop)(void**) noexcept nogil
        int (*module_load)(void**, const void*, char*, size_t) noexcept nogil
        int (*module_unload)(void*) noexcept nogil
        int (*module_function)(void**, void*, const char*) noexcept nogil
        int (*function_set)(void*, int, int) noexcept nogil
        int (*function_get)(int*, int, void*) noexcept nogil
        int (*occupancy_blocks)(int*, void*, int, size_t) noexcept nogil
        int (*occupancy_clusters)(int*, void*, const LaunchShape*) noexcept nogil
        int (*launch)(void*, const LaunchShape*, void*, void*) noexcept nogil
        int (*stream_create)(void**, unsigned int, int) noexcept nogil
        int (*stream_destroy)(void*) noexcept nogil
        int (*stream_synchronize)(void*) noexcept nogil
        int (*stream_query)(void*) noexcept nogil
        int (*stream_wait_event)(void*, void*, unsigned int) noexcept nogil
        int (*stream_capturing)(void*, int*) noexcept nogil
        int (*event_create)(void**, unsigned int) noexcept nogil
        int (*event_destroy)(void*) noexcept nogil
        int (*event_record)(void*, void*) noexcept nogil
        int (*event_query)(void*) noexcept nogil
        int (*event_synchronize)(void*) noexcept nogil
        int (*event_elapsed)(float*, void*, void*) noexcept nogil
        int (*pool_create)(void**, int) noexcept nogil
        int (*pool_destroy)(void*) noexcept nogil
        int (*pool_trim)(void*, size_t) noexcept nogil
        int (*pool_set)(void*, int, void*) noexcept nogil
        int (*pool_get)(void*, int, void*) noexcept nogil
        int (*allocate)(Address*, size_t, void*, void*) noexcept nogil
        int (*release)(Address, void*) noexcept nogil
        int (*memory_info)(size_t*, size_t*) noexcept nogil
        int (*host_allocate)(void**, size_t, unsigned int) noexcept nogil
        int (*host_release)(void*) noexcept nogil
        int (*host_register)(void*, size_t, unsigned int) noexcept nogil
        int (*host_unregister)(void*) noexcept nogil
        int (*managed_allocate)(Address*, size_t, unsigned int) noexcept nogil
        int (*managed_advise)(Address, size_t, int, int) noexcept nogil
        int (*managed_release)(Address) noexcept nogil
        int (*copy_to_device)(Address, const void*, size_t, void*) noexcept nogil
        int (*copy_to_host)(void*, Address, size_t, void*) noexcept nogil
        int (*copy_on_device)(Address, Address, size_t, void*) noexcept nogil
        int (*set_bytes)(Address, unsigned char, size_t, void*) noexcept nogil
        int (*set_words)(Address, unsigned int, size_t, void*) noexcept nogil
        int (*pointer_attributes)(unsigned int, int*, void**, Address) noexcept nogil

    cdef enum:
        kOutOfMemory, kNotInitialized, kDeinitialized, kStubLibrary, kNoDevice, kInvalidImage
        kNoBinaryForGpu, kInvalidPtx, kJitCompilerNotFound, kUnsupportedPtxVersion, kJitDisabled, kNotFound, kNotReady
        kSystemDriverMismatch, kAlreadyRegistered, kInvalidValue, kInvalidContext, kInvalidHandle
        kCaptureUnsupported, kCaptureWrongThread, kNotCapturing
        kThreadsPerBlock, kMultiprocessors, kL2Bytes, kThreadsPerMultiprocessor, kMajor, kMinor
        kSharedPerMultiprocessor, kSharedPerBlock, kConcurrentManagedAccess, kMemoryPools, kClusterLaunch
        kReadOnlyRegister
        kFunctionThreads, kFunctionShared, kFunctionLocal, kFunctionRegisters, kFunctionDynamicShared
        kFunctionNonPortableCluster, kFunctionPtxVersion, kFunctionBinaryVersion
        kReleaseThreshold, kReserved, kUsed, kUsedHigh
        kStreamNonBlocking, kEventBlockingSync, kEventDisableTiming, kHostPortable
        kPointerMemoryType, kPointerOnDevice, kPointerIsManaged, kPointerDeviceOrdinal, kPointerRangeStart
        kPointerRangeBytes, kHostMemory, kDeviceMemory
        kManagedGlobal, kAdvisePreferredLocation, kAdviseAccessedBy, kOnHost, kRegisterPortable, kRegisterReadOnly

    cbool is_sticky(int code)
    cbool is_refusal(int code)
    int watch_forks()
    cbool forked()
    int64_t now_ns()
    void poll_interval(int64_t waited_ns)
