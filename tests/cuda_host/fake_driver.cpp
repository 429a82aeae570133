// A CUDA driver without a GPU, behind the table of calls that arcbeam makes. It keeps books on every handle, runs
// streams at once, holds device memory in host memory, records launches, and fails the call it is told to fail.
// It is stricter than a real driver: a freed or foreign handle, a wrong current context and an address outside of
// any allocation are errors every time.
#include "fake_books.hpp"

namespace {

#define BEGIN(call)                                \
    const std::lock_guard<std::mutex> lock(guard); \
    if (const int code = begins(call)) return code
#define BEGIN_HERE(call)                           \
    const std::lock_guard<std::mutex> lock(guard); \
    if (const int code = begins_here(call)) return code

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

// A module goes with its kernels.
int drop_module(void* module) {
    for (auto thing = things.begin(); thing != things.end();)
        thing = thing->second.owner == module ? things.erase(thing) : std::next(thing);
    return drop(module, "module");
}

// An image is text: a line "arch 9.0" for each architecture and "kernel NAME BYTES" for each kernel.
int module_load(void** module, const void* image, char* log, size_t log_bytes) {
    BEGIN_HERE("module_load");
    std::istringstream lines(static_cast<const char*>(image));
    std::string word, name;
    size_t bytes = 0;
    bool fits = false;
    void* handle = add("module");
    const std::string wanted = std::to_string(here().major) + "." + std::to_string(here().minor);
    while (lines >> word >> name) {
        if (word == "arch" && name == wanted) fits = true;
        if (word == "kernel" && lines >> bytes) {
            Thing& function = things[add("function")];
            function.name = name;
            function.bytes = bytes;
            function.owner = handle;
        }
    }
    *module = handle;
    if (fits) return 0;
    std::strncpy(log, "nothing fits", log_bytes);
    drop_module(handle);
    *module = nullptr;
    return kNoBinaryForGpu;
}
int module_unload(void* module) {
    BEGIN_HERE("module_unload");
    return drop_module(module);
}
int module_function(void** function, void* module, const char* name) {
    BEGIN_HERE("module_function");
    if (find(module, "module") == nullptr) return kInvalidHandle;
    for (auto& [handle, thing] : things)
        if (thing.owner == module && thing.name == name) return give(function, handle);
    return kNotFound;
}
int function_set(void* function, int, int value) {
    BEGIN_HERE("function_set");
    if (find(function, "function") == nullptr) return kInvalidHandle;
    return value > here().shared ? kInvalidValue : 0;
}
int function_get(int* value, int attribute, void* function) {
    BEGIN_HERE("function_get");
    if (find(function, "function") == nullptr) return kInvalidHandle;
    return give(value, 100 + attribute);
}
int occupancy_blocks(int* blocks, void* function, int threads, size_t) {
    BEGIN_HERE("occupancy_blocks");
    if (find(function, "function") == nullptr) return kInvalidHandle;
    return give(blocks, 2048 / threads);
}
int occupancy_clusters(int* clusters, void* function, const LaunchShape* shape) {
    BEGIN_HERE("occupancy_clusters");
    if (find(function, "function") == nullptr) return kInvalidHandle;
    if (shape->cluster <= 1) return kInvalidValue;  // it wants a size
    return give(clusters, here().multiprocessors / static_cast<int>(shape->cluster));
}
int launch(void* function, const LaunchShape* shape, void* parameter, void* stream) {
    std::unique_lock<std::mutex> lock(guard);
    if (const int code = begins_here("launch")) return code;
    Thing* thing = find(function, "function");
    if (thing == nullptr || !is_stream(stream)) return kInvalidHandle;
    if (shape->blocks == 0 || shape->threads == 0 || shape->threads > 1024) return kInvalidValue;
    const auto* bytes = static_cast<const unsigned char*>(parameter);
    journal << "launch\n";
    launches.push_back({thing->name, *shape, std::vector<unsigned char>(bytes, bytes + thing->bytes)});
    const std::string name = thing->name;
    lock.unlock();  // the kernel may take long and wait for other threads
    if (kernel != nullptr) kernel(name.c_str(), shape, parameter);
    return 0;
}

int stream_create(void** stream, unsigned, int) {
    BEGIN_HERE("stream_create");
    return give(stream, add("stream"));
}
int stream_destroy(void* stream) {
    BEGIN_HERE("stream_destroy");
    return drop(stream, "stream");
}
int stream_synchronize(void* stream) {
    BEGIN_HERE("stream_synchronize");
    return is_stream(stream) ? 0 : kInvalidHandle;
}
int stream_query(void* stream) {
    BEGIN_HERE("stream_query");
    if (!is_stream(stream)) return kInvalidHandle;
    return not_ready > 0 ? (--not_ready, kNotReady) : 0;
}
int stream_wait_event(void* stream, void* event, unsigned) {
    BEGIN_HERE("stream_wait_event");
    if (!is_stream(stream) || find(event, "event") == nullptr) return kInvalidHandle;
    journal << "wait " << reinterpret_cast<uintptr_t>(stream) << ' ' << event << '\n';
    return 0;
}
int event_create(void** event, unsigned) {
    BEGIN_HERE("event_create");
    return give(event, add("event"));
}
int event_destroy(void* event) {
    BEGIN_HERE("event_destroy");
    return drop(event, "event");
}
int event_record(void* event, void* stream) {
    BEGIN_HERE("event_record");
    if (!is_stream(stream) || find(event, "event") == nullptr) return kInvalidHandle;
    journal << "record " << reinterpret_cast<uintptr_t>(stream) << ' ' << event << '\n';
    return 0;
}
int event_query(void* event) {
    BEGIN_HERE("event_query");
    if (find(event, "event") == nullptr) return kInvalidHandle;
    journal << "looked\n";
    return not_ready > 0 ? (--not_ready, kNotReady) : 0;
}
int event_synchronize(void* event) {
    BEGIN_HERE("event_synchronize");
    return find(event, "event") != nullptr ? 0 : kInvalidHandle;
}
int event_elapsed(float* milliseconds, void*, void*) {
    BEGIN_HERE("event_elapsed");
    return give(milliseconds, 1.5f);
}

size_t reserved_here() {
    size_t sum = 0;
    for (auto& [handle, thing] : things)
        if (thing.device == current.back() && std::strcmp(thing.kind, "pool") == 0) sum += thing.reserved;
    return sum;
}
int pool_create(void** pool, int) {
    BEGIN_HERE("pool_create");
    return give(pool, add("pool"));
}
int pool_destroy(void* pool) {
    BEGIN_HERE("pool_destroy");
    return drop(pool, "pool");
}
int pool_trim(void* pool, size_t) {
    BEGIN_HERE("pool_trim");
    Thing* thing = find(pool, "pool");
    if (thing == nullptr) return kInvalidHandle;
    thing->reserved = thing->used;
    return 0;
}
int pool_set(void* pool, int, void*) {
    BEGIN_HERE("pool_set");
    return find(pool, "pool") != nullptr ? 0 : kInvalidHandle;
}
int pool_get(void* pool, int attribute, void* value) {
    BEGIN_HERE("pool_get");
    Thing* thing = find(pool, "pool");
    if (thing == nullptr) return kInvalidHandle;
    return give(static_cast<uint64_t*>(value), uint64_t{attribute == kReserved ? thing->reserved : thing->used});
}
int allocate(Address* address, size_t bytes, void* pool, void* stream) {
    BEGIN_HERE("allocate");
    Thing* from = find(pool, "pool");
    if (from == nullptr || !is_stream(stream)) return kInvalidHandle;
    if (bytes == 0) return kInvalidValue;
    const size_t reserved = from->used + bytes > from->reserved ? from->used + bytes : from->reserved;
    if (reserved_here() - from->reserved + reserved > here().memory) return kOutOfMemory;
    from->reserved = reserved;
    from->used += bytes;
    void* memory = std::malloc(bytes);
    std::memset(memory, 0xa5, bytes);
    things[memory] = Thing{"memory", current.back(), "", bytes, pool, 0, 0};
    return give(address, reinterpret_cast<Address>(memory));
}
int release(Address address, void* stream) {
    BEGIN_HERE("release");
    void* memory = reinterpret_cast<void*>(address);
    Thing* thing = find(memory, "memory");
    if (thing == nullptr || !is_stream(stream)) return kInvalidHandle;
    if (Thing* pool = find(thing->owner, "pool")) pool->used -= thing->bytes;
    things.erase(memory);
    std::free(memory);
    return 0;
}
int memory_info(size_t* free_bytes, size_t* total_bytes) {
    BEGIN_HERE("memory_info");
    *free_bytes = here().memory - reserved_here();
    *total_bytes = here().memory;
    return 0;
}
int host_allocate(void** address, size_t bytes, unsigned) {
    BEGIN_HERE("host_allocate");
    void* memory = std::malloc(bytes);
    things[memory] = Thing{"pinned", current.back(), "", bytes, nullptr, 0, 0};
    return give(address, memory);
}
int host_release(void* address) {
    BEGIN_HERE("host_release");
    if (find(address, "pinned") == nullptr) return kInvalidHandle;
    things.erase(address);
    std::free(address);
    return 0;
}
// Of a device that can, memory that is mapped to be read is registered as that: here all memory is.
int host_register(void* address, size_t bytes, unsigned flags) {
    BEGIN_HERE("host_register");
    const auto start = reinterpret_cast<uintptr_t>(address);
    if (bytes == 0 || flags != (kRegisterPortable | (here().read_only != 0 ? kRegisterReadOnly : 0))) {
        return kInvalidValue;
    }
    for (auto& [first, thing] : registered)
        if (start < first + thing.bytes && first < start + bytes) return kAlreadyRegistered;
    registered[start] = Thing{"registered", current.back(), "", bytes, nullptr, 0, 0};
    return 0;
}
int host_unregister(void* address) {
    BEGIN_HERE("host_unregister");
    return registered.erase(reinterpret_cast<uintptr_t>(address)) == 1 ? 0 : kInvalidValue;
}
int managed_allocate(Address* address, size_t bytes, unsigned flags) {
    BEGIN_HERE("managed_allocate");
    if (bytes == 0 || flags != kManagedGlobal) return kInvalidValue;
    void* memory = std::aligned_alloc(size_t{1} << 21, bytes);
    std::memset(memory, 0xa5, bytes);
    things[memory] = Thing{"managed", current.back(), "", bytes, nullptr, 0, 0};
    return give(address, reinterpret_cast<Address>(memory));
}
int managed_advise(Address address, size_t bytes, int advice, int device) {
    BEGIN_HERE("managed_advise");
    const Thing* thing = find(reinterpret_cast<void*>(address), "managed");
    if (thing == nullptr || bytes > thing->bytes) return kInvalidValue;
    journal << "advise " << advice << ' ' << device << '\n';
    return 0;
}
int managed_release(Address address) {
    BEGIN_HERE("managed_release");
    void* memory = reinterpret_cast<void*>(address);
    if (find(memory, "managed") == nullptr) return kInvalidHandle;
    things.erase(memory);
    std::free(memory);
    return 0;
}
// Memory that is registered in part cannot be copied in one piece.
bool crosses_a_border(const void* from, size_t bytes) {
    const auto start = reinterpret_cast<uintptr_t>(from);
    for (auto& [first, thing] : registered) {
        const bool meets = start < first + thing.bytes && first < start + bytes;
        if (meets && (start < first || first + thing.bytes < start + bytes)) return true;
    }
    return false;
}
int copy_to_device(Address to, const void* from, size_t bytes, void* stream) {
    BEGIN_HERE("copy_to_device");
    if (!inside(to, bytes) || !is_stream(stream) || crosses_a_border(from, bytes)) return kInvalidValue;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return 0;
}
int copy_to_host(void* to, Address from, size_t bytes, void* stream) {
    BEGIN_HERE("copy_to_host");
    if (!inside(from, bytes) || !is_stream(stream)) return kInvalidValue;
    journal << "to_host " << (is_pinned(to) ? "pinned" : "pageable") << '\n';
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return 0;
}
int copy_on_device(Address to, Address from, size_t bytes, void* stream) {
    BEGIN_HERE("copy_on_device");
    if (!inside(to, bytes) || !inside(from, bytes) || !is_stream(stream)) return kInvalidValue;
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return 0;
}
int set_bytes(Address to, unsigned char value, size_t count, void* stream) {
    BEGIN_HERE("set_bytes");
    if (!inside(to, count) || !is_stream(stream)) return kInvalidValue;
    std::memset(reinterpret_cast<void*>(to), value, count);
    return 0;
}
int set_words(Address to, unsigned value, size_t count, void* stream) {
    BEGIN_HERE("set_words");
    if (!inside(to, 4 * count) || !is_stream(stream)) return kInvalidValue;
    for (size_t i = 0; i < count; ++i) reinterpret_cast<unsigned*>(to)[i] = value;
    return 0;
}
int pointer_attribute(void* value, int, Address address) {
    BEGIN_HERE("pointer_attribute");
    const Thing* thing = holder("memory", address);
    return thing != nullptr ? give(static_cast<int*>(value), thing->device) : kInvalidValue;
}
const DriverTable table = {
    init,
    driver_version,
    error_name,
    error_text,
    device_count,
    device_get,
    device_name,
    device_memory,
    device_attribute,
    context_retain,
    context_release,
    context_push,
    context_pop,
    module_load,
    module_unload,
    module_function,
    function_set,
    function_get,
    occupancy_blocks,
    occupancy_clusters,
    launch,
    stream_create,
    stream_destroy,
    stream_synchronize,
    stream_query,
    stream_wait_event,
    event_create,
    event_destroy,
    event_record,
    event_query,
    event_synchronize,
    event_elapsed,
    pool_create,
    pool_destroy,
    pool_trim,
    pool_set,
    pool_get,
    allocate,
    release,
    memory_info,
    host_allocate,
    host_release,
    host_register,
    host_unregister,
    managed_allocate,
    managed_advise,
    managed_release,
    copy_to_device,
    copy_to_host,
    copy_on_device,
    set_bytes,
    set_words,
    pointer_attribute,
};

}  // namespace

extern "C" {

const void* fake_table() { return &table; }

void fake_reset(int count, size_t memory) {
    const std::lock_guard<std::mutex> lock(guard);
    devices.assign(static_cast<size_t>(count), Device{});
    for (Device& device : devices) device.memory = memory;
    things.clear();
    registered.clear();
    launches.clear();
    failures.clear();
    journal.str("");
    calls = not_ready = init_code = 0;
    version = 13000;
    kernel = nullptr;
}

// The nth call of this name from now on fails once; "" is any call.
void fake_fail(const char* call, int nth, int code) {
    const std::lock_guard<std::mutex> lock(guard);
    failures.push_back({call, nth, code});
}

// All of them from the nth on.
void fake_refuse(const char* call, int nth, int code) {
    const std::lock_guard<std::mutex> lock(guard);
    failures.push_back({call, nth, code, false, {}, true});
}

// Every call of this name by other threads than this one fails.
void fake_fail_beside(const char* call, int code) {
    const std::lock_guard<std::mutex> lock(guard);
    failures.push_back({call, 0, code, true, std::this_thread::get_id()});
}

void fake_fail_no_more() {
    const std::lock_guard<std::mutex> lock(guard);
    failures.clear();
}

void fake_device(int ordinal, int major, int minor, int pools) {
    devices[static_cast<size_t>(ordinal)].major = major;
    devices[static_cast<size_t>(ordinal)].minor = minor;
    devices[static_cast<size_t>(ordinal)].pools = pools;
}

void fake_writable_alone(int ordinal) { devices[static_cast<size_t>(ordinal)].read_only = 0; }
void fake_unmanaged(int ordinal) { devices[static_cast<size_t>(ordinal)].managed = 0; }
void fake_without_clusters(int ordinal) { devices[static_cast<size_t>(ordinal)].clusters = 0; }

void fake_start(int code, int driver) {
    init_code = code;
    version = driver;
}

// Forgets sticky errors, so that a test can close the books.
void fake_heal() {
    for (Device& device : devices) device.sticky = 0;
}

void fake_not_ready(int looks) { not_ready = looks; }
void fake_on_launch(Kernel called) { kernel = called; }
int64_t fake_calls() { return calls; }
int fake_current() { return static_cast<int>(current.size()); }
int fake_current_device() { return current.empty() ? -1 : current.back(); }

// Living handles of a kind; "" counts all, with the contexts that are held.
int64_t fake_living(const char* kind) {
    const std::lock_guard<std::mutex> lock(guard);
    int64_t count = 0;
    for (auto& [handle, thing] : things)
        if (*kind == 0 || std::strcmp(thing.kind, kind) == 0) ++count;
    if (*kind == 0 || std::strcmp(kind, "registered") == 0) count += static_cast<int64_t>(registered.size());
    for (const Device& device : devices)
        if (*kind == 0 || std::strcmp(kind, "context") == 0) count += device.retained;
    return count;
}

int64_t fake_registered_bytes() {
    const std::lock_guard<std::mutex> lock(guard);
    size_t bytes = 0;
    for (auto& [first, thing] : registered) bytes += thing.bytes;
    return static_cast<int64_t>(bytes);
}

// A line for each launch: name, blocks, threads, cluster, shared bytes, parameter in hexadecimal.
const char* fake_launches() {
    const std::lock_guard<std::mutex> lock(guard);
    std::ostringstream lines;
    for (const Launch& one : launches) {
        lines << one.name << ' ' << one.shape.blocks << ' ' << one.shape.threads << ' ' << one.shape.cluster << ' '
              << one.shape.shared_bytes << ' ';
        for (const unsigned char byte : one.parameter)
            lines << "0123456789abcdef"[byte >> 4] << "0123456789abcdef"[byte & 15];
        lines << '\n';
    }
    text = lines.str();
    return text.c_str();
}

const char* fake_journal() {
    text = journal.str();
    return text.c_str();
}
}
