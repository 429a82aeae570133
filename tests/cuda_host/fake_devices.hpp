// The fake driver: how it starts, what it says of errors, devices and contexts.
#pragma once

#include "fake_books.hpp"

namespace {

int init(unsigned) {
    BEGIN("init");
    return init_code;
}
int driver_version(int* into) {
    BEGIN("driver_version");
    return give(into, version);
}
int error_name(int code, const char** name) {
    static const std::map<int, const char*> names = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                     {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                     {3, "CUDA_ERROR_NOT_INITIALIZED"},
                                                     {34, "CUDA_ERROR_STUB_LIBRARY"},
                                                     {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                                                     {100, "CUDA_ERROR_NO_DEVICE"},
                                                     {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                     {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                     {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
                                                     {400, "CUDA_ERROR_INVALID_HANDLE"},
                                                     {500, "CUDA_ERROR_NOT_FOUND"},
                                                     {600, "CUDA_ERROR_NOT_READY"},
                                                     {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                     {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                                     {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                     {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
                                                     {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                                     {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
                                                     {907, "CUDA_ERROR_CAPTURED_EVENT"},
                                                     {999, "CUDA_ERROR_UNKNOWN"}};
    const auto found = names.find(code);
    if (found == names.end()) return kInvalidValue;
    return give(name, found->second);
}
int error_text(int code, const char** into) {
    static thread_local std::string said;
    said = "the fake driver's text of " + std::to_string(code);
    return give(into, said.c_str());
}
int device_count(int* count) {
    BEGIN("device_count");
    return give(count, static_cast<int>(devices.size()));
}
int device_get(int* device, int ordinal) {
    BEGIN("device_get");
    if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices.size()) return kInvalidDevice;
    return give(device, ordinal);
}
int device_name(char* name, int bytes, int device) {
    BEGIN("device_name");
    std::strncpy(name, ("Fake " + std::to_string(device)).c_str(), static_cast<size_t>(bytes));
    return 0;
}
int device_memory(size_t* bytes, int device) {
    BEGIN("device_memory");
    return give(bytes, devices[static_cast<size_t>(device)].memory);
}
int device_attribute(int* value, int attribute, int device) {
    BEGIN("device_attribute");
    const Device& one = devices[static_cast<size_t>(device)];
    switch (attribute) {
        case kMajor:
            return give(value, one.major);
        case kMinor:
            return give(value, one.minor);
        case kMultiprocessors:
            return give(value, one.multiprocessors);
        case kSharedPerBlock:
            return give(value, one.shared);
        case kSharedPerMultiprocessor:
            return give(value, one.shared + 1024);
        case kConcurrentManagedAccess:
            return give(value, one.managed);
        case kReadOnlyRegister:
            return give(value, one.read_only);
        case kMemoryPools:
            return give(value, one.pools);
        case kClusterLaunch:
            return give(value, one.clusters);
        default:
            return give(value, attribute);
    }
}

int context_retain(void** context, int device) {
    const std::lock_guard<std::mutex> lock(guard);
    if (const int code = begins("context_retain", device)) return code;
    Device& one = devices[static_cast<size_t>(device)];
    ++one.retained;
    return give<void*>(context, &one.context);
}
int context_release(int device) {
    const std::lock_guard<std::mutex> lock(guard);
    Device& one = devices[static_cast<size_t>(device)];
    if (one.retained > 0) --one.retained;
    if (const int code = begins("context_release", device)) return code;
    return 0;
}
int context_push(void* context) {
    BEGIN("context_push");
    for (size_t i = 0; i < devices.size(); ++i)
        if (&devices[i].context == context && devices[i].retained > 0) {
            current.push_back(static_cast<int>(i));
            return 0;
        }
    return kInvalidContext;
}
int context_pop(void** context) {
    const std::lock_guard<std::mutex> lock(guard);
    const int code = begins("context_pop");
    if (current.empty()) return kInvalidContext;
    *context = &here().context;
    current.pop_back();
    return code;
}

}  // namespace
