"""The driver table from cuda-python: the only module that needs cuda-bindings and cuda.h to be built."""

from libc.stdint cimport uintptr_t
from libc.string cimport memset

from cuda.bindings cimport cydriver

from arcbeam.gpu._driver_table cimport Address, DriverTable, LaunchShape

# The table's types are neutral; at the level of the machine they are passed in the same way as the driver's own.
cdef extern from *:
    """
    #include <dlfcn.h>

    #include "arcbeam/gpu/_driver_table.hpp"

    namespace arcbeam::gpu {
    // (name here, name in cuda.h)
    #define SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
    SAME(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
    SAME(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
    SAME(kDeinitialized, CUDA_ERROR_DEINITIALIZED);
    SAME(kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
    SAME(kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
    SAME(kNoDevice, CUDA_ERROR_NO_DEVICE);
    SAME(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
    SAME(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
    SAME(kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
    SAME(kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
    SAME(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
    SAME(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
    SAME(kInvalidPtx, CUDA_ERROR_INVALID_PTX);
    SAME(kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
    SAME(kJitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
    SAME(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    SAME(kJitDisabled, CUDA_ERROR_JIT_COMPILATION_DISABLED);
    #if CUDA_VERSION >= 12080
    SAME(kContained, CUDA_ERROR_CONTAINED);
    SAME(kTensorMemoryLeak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
    #endif
    SAME(kOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM);
    SAME(kNotFound, CUDA_ERROR_NOT_FOUND);
    SAME(kNotReady, CUDA_ERROR_NOT_READY);
    SAME(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
    SAME(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
    SAME(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    SAME(kAssert, CUDA_ERROR_ASSERT);
    SAME(kAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    SAME(kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
    SAME(kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
    SAME(kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
    SAME(kInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
    SAME(kInvalidPc, CUDA_ERROR_INVALID_PC);
    SAME(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
    SAME(kNotPermitted, CUDA_ERROR_NOT_PERMITTED);
    SAME(kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
    SAME(kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
    SAME(kCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    SAME(kCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    SAME(kUnknown, CUDA_ERROR_UNKNOWN);
    SAME(kThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    SAME(kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    SAME(kL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    SAME(kThreadsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    SAME(kMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    SAME(kMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    SAME(kSharedPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    SAME(kSharedPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    SAME(kMemoryPools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
    SAME(kClusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
    SAME(kFunctionThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    SAME(kFunctionShared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    SAME(kFunctionLocal, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    SAME(kFunctionRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
    SAME(kFunctionPtxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION);
    SAME(kFunctionBinaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    SAME(kFunctionDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    SAME(kFunctionNonPortableCluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    SAME(kReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
    SAME(kReserved, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    SAME(kUsed, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    SAME(kUsedHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
    SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
    SAME(kNotCapturing, CU_STREAM_CAPTURE_STATUS_NONE);
    SAME(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
    SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
    SAME(kHostPortable, CU_MEMHOSTALLOC_PORTABLE);
    SAME(kRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
    SAME(kRegisterReadOnly, CU_MEMHOSTREGISTER_READ_ONLY);
    SAME(kReadOnlyRegister, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
    SAME(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    SAME(kPointerOnDevice, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
    SAME(kPointerIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
    SAME(kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    SAME(kPointerRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
    SAME(kPointerRangeBytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
    SAME(kHostMemory, CU_MEMORYTYPE_HOST);
    SAME(kDeviceMemory, CU_MEMORYTYPE_DEVICE);
    SAME(kConcurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
    SAME(kManagedGlobal, CU_MEM_ATTACH_GLOBAL);
    SAME(kAdvisePreferredLocation, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
    SAME(kAdviseAccessedBy, CU_MEM_ADVISE_SET_ACCESSED_BY);
    SAME(kOnHost, CU_DEVICE_CPU);
    #undef SAME
    static_assert(sizeof(CUdeviceptr) == sizeof(Address) && sizeof(CUresult) == sizeof(int));

    template <class Call, class Theirs>
    void fill(Call& call, Theirs theirs) {
      call = reinterpret_cast<Call>(theirs);
    }

    // cuda-bindings 12 and 13 give this call different types, and one build serves both; the driver's own symbol of
    // this name has kept its first ones.
    inline int managed_advise(Address address, size_t bytes, int advice, int device) {
      using Call = int (*)(Address, size_t, int, int);
      static const auto call = reinterpret_cast<Call>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuMemAdvise"));
      return call == nullptr ? kNotFound : call(address, bytes, advice, device);
    }

    // `attribute` is where the cluster goes; it must live as long as the result.
    inline CUlaunchConfig launch_config(const LaunchShape& shape, CUstream stream, CUlaunchAttribute* attribute) {
      CUlaunchConfig config{};
      config.gridDimX = shape.blocks;
      config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
      config.blockDimX = shape.threads;
      config.sharedMemBytes = shape.shared_bytes;
      config.hStream = stream;
      if (shape.cluster > 1) {
        attribute->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute->value.clusterDim.x = shape.cluster;
        attribute->value.clusterDim.y = attribute->value.clusterDim.z = 1;
        config.attrs = attribute;
        config.numAttrs = 1;
      } else if (shape.cooperative != 0) {
        attribute->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attribute->value.cooperative = 1;
        config.attrs = attribute;
        config.numAttrs = 1;
      }
      return config;
    }
    }  // namespace arcbeam::gpu
    """
    void fill "arcbeam::gpu::fill"(...) nogil
    int managed_advise "arcbeam::gpu::managed_advise"(Address, size_t, int, int) nogil
    cydriver.CUlaunchConfig launch_config "arcbeam::gpu::launch_config"(
        const LaunchShape&, cydriver.CUstream, cydriver.CUlaunchAttribute*) nogil

# If the driver lacks a call, cuda-python reports CUDA_ERROR_NOT_FOUND and a pending Python exception, which the
# caller collects with the code. These functions do the same.


cdef int module_load(void** module, const void* image, char* log, size_t log_bytes) except? 500 nogil:
    cdef cydriver.CUjit_option options[2]
    cdef void* values[2]
    options[0] = cydriver.CUjit_option_enum.CU_JIT_ERROR_LOG_BUFFER
    options[1] = cydriver.CUjit_option_enum.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
    values[0] = log
    values[1] = <void*> <uintptr_t> log_bytes
    return <int> cydriver.cuModuleLoadDataEx(<cydriver.CUmodule*> module, image, 2, options, values)


cdef int occupancy_clusters(int* clusters, void* function, const LaunchShape* shape) except? 500 nogil:
    cdef cydriver.CUlaunchAttribute attribute
    cdef cydriver.CUlaunchConfig config = launch_config(shape[0], NULL, &attribute)
    return <int> cydriver.cuOccupancyMaxActiveClusters(clusters, <cydriver.CUfunction> function, &config)


cdef int launch(void* function, const LaunchShape* shape, void* parameter, void* stream) except? 500 nogil:
    cdef cydriver.CUlaunchAttribute attribute
    cdef cydriver.CUlaunchConfig config = launch_config(shape[0], <cydriver.CUstream> stream, &attribute)
    cdef void* parameters[1]
    parameters[0] = parameter
    return <int> cydriver.cuLaunchKernelEx(&config, <cydriver.CUfunction> function, parameters, NULL)


cdef int pool_create(void** pool, int device) except? 500 nogil:
    cdef cydriver.CUmemPoolProps properties
    memset(&properties, 0, sizeof(properties))
    properties.allocType = cydriver.CUmemAllocationType_enum.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cydriver.CUmemLocationType_enum.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = device
    return <int> cydriver.cuMemPoolCreate(<cydriver.CUmemoryPool*> pool, &properties)


cdef DriverTable table

fill(table.init, cydriver.cuInit)
fill(table.driver_version, cydriver.cuDriverGetVersion)
fill(table.error_name, cydriver.cuGetErrorName)
fill(table.error_text, cydriver.cuGetErrorString)
fill(table.device_count, cydriver.cuDeviceGetCount)
fill(table.device_get, cydriver.cuDeviceGet)
fill(table.device_name, cydriver.cuDeviceGetName)
fill(table.device_memory, cydriver.cuDeviceTotalMem)
fill(table.device_attribute, cydriver.cuDeviceGetAttribute)
fill(table.context_retain, cydriver.cuDevicePrimaryCtxRetain)
fill(table.context_release, cydriver.cuDevicePrimaryCtxRelease)
fill(table.context_push, cydriver.cuCtxPushCurrent)
fill(table.context_pop, cydriver.cuCtxPopCurrent)
fill(table.module_load, module_load)
fill(table.module_unload, cydriver.cuModuleUnload)
fill(table.module_function, cydriver.cuModuleGetFunction)
fill(table.function_set, cydriver.cuFuncSetAttribute)
fill(table.function_get, cydriver.cuFuncGetAttribute)
fill(table.occupancy_blocks, cydriver.cuOccupancyMaxActiveBlocksPerMultiprocessor)
fill(table.occupancy_clusters, occupancy_clusters)
fill(table.launch, launch)
fill(table.stream_create, cydriver.cuStreamCreateWithPriority)
fill(table.stream_destroy, cydriver.cuStreamDestroy)
fill(table.stream_synchronize, cydriver.cuStreamSynchronize)
fill(table.stream_query, cydriver.cuStreamQuery)
fill(table.stream_wait_event, cydriver.cuStreamWaitEvent)
fill(table.stream_capturing, cydriver.cuStreamIsCapturing)
fill(table.event_create, cydriver.cuEventCreate)
fill(table.event_destroy, cydriver.cuEventDestroy)
fill(table.event_record, cydriver.cuEventRecord)
fill(table.event_query, cydriver.cuEventQuery)
fill(table.event_synchronize, cydriver.cuEventSynchronize)
fill(table.event_elapsed, cydriver.cuEventElapsedTime)
fill(table.pool_create, pool_create)
fill(table.pool_destroy, cydriver.cuMemPoolDestroy)
fill(table.pool_trim, cydriver.cuMemPoolTrimTo)
fill(table.pool_set, cydriver.cuMemPoolSetAttribute)
fill(table.pool_get, cydriver.cuMemPoolGetAttribute)
fill(table.allocate, cydriver.cuMemAllocFromPoolAsync)
fill(table.release, cydriver.cuMemFreeAsync)
fill(table.memory_info, cydriver.cuMemGetInfo)
fill(table.host_allocate, cydriver.cuMemHostAlloc)
fill(table.host_release, cydriver.cuMemFreeHost)
fill(table.host_register, cydriver.cuMemHostRegister)
fill(table.host_unregister, cydriver.cuMemHostUnregister)
fill(table.managed_allocate, cydriver.cuMemAllocManaged)
fill(table.managed_advise, managed_advise)
fill(table.managed_release, cydriver.cuMemFree)
fill(table.copy_to_device, cydriver.cuMemcpyHtoDAsync)
fill(table.copy_to_host, cydriver.cuMemcpyDtoHAsync)
fill(table.copy_on_device, cydriver.cuMemcpyDtoDAsync)
fill(table.set_bytes, cydriver.cuMemsetD8Async)
fill(table.set_words, cydriver.cuMemsetD32Async)
fill(table.pointer_attributes, cydriver.cuPointerGetAttributes)


def address():
    """int : the address of the filled table, for ``arcbeam.gpu._cuda``."""
    return <uintptr_t> &table
