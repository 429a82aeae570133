// A CUDA driver without a GPU, behind the table of calls that arcbeam makes. It keeps books on every handle, runs
// streams at once, holds device memory in host memory, records launches, and fails the call it is told to fail.
// It is stricter than a real driver: a freed or foreign handle, a wrong current context and an address outside of
// any allocation are errors every time.
#include "fake_devices.hpp"
#include "fake_kernels.hpp"
#include "fake_memory.hpp"

namespace {

struct Region {
    const void* first;
    size_t bytes;
    const char* kind;
};

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
    stream_capturing,
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
    pointer_attributes,
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
    lent.clear();
    host_is_device = false;
    launches.clear();
    failures.clear();
    capturing.clear();
    captured.clear();
    journal.str("");
    calls = not_ready = init_code = 0;
    version = 13000;
    kernel = nullptr;
    puts_off = false;
    put_off = nullptr;
    beside.clear();
    after.clear();
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

// Memory of others: "memory" of a device, "managed", "pinned" of the host, or "moved", which kernels reach
// elsewhere.
void fake_lend(const char* kind, int ordinal, Address address, size_t bytes) {
    const std::string wanted = kind;
    for (const char* known : {"memory", "managed", "pinned", "moved"})
        if (wanted == known)
            lent.push_back(Thing{known, ordinal, "", bytes, reinterpret_cast<void*>(address), 0, 0});
}
void fake_take_back() { lent.clear(); }
void fake_host_is_device(int whether) { host_is_device = whether != 0; }

void fake_writable_alone(int ordinal) { devices[static_cast<size_t>(ordinal)].read_only = 0; }
void fake_unmanaged(int ordinal) { devices[static_cast<size_t>(ordinal)].managed = 0; }
void fake_without_clusters(int ordinal) { devices[static_cast<size_t>(ordinal)].clusters = 0; }

// From now on so many multiprocessors, each of which has room for so many blocks or clusters of any kernel.
void fake_size(int ordinal, int multiprocessors, int blocks) {
    devices[static_cast<size_t>(ordinal)].multiprocessors = multiprocessors;
    devices[static_cast<size_t>(ordinal)].blocks = blocks;
}

void fake_start(int code, int driver) {
    init_code = code;
    version = driver;
}

// Forgets sticky errors, so that a test can close the books.
void fake_heal() {
    for (Device& device : devices) device.sticky = 0;
}

// From now on so many bytes are an array of somebody else's.

// A capture of a CUDA graph begins on a stream, which another may be pulled into; and all captures end.
void fake_capture(uint64_t stream) { capturing.insert(reinterpret_cast<void*>(stream)); }
int fake_capturing() { return static_cast<int>(capturing.size()); }
void fake_end_capture() {
    capturing.clear();
    captured.clear();
}

void fake_not_ready(int looks) { not_ready = looks; }
void fake_on_launch(Kernel called) { kernel = called; }
// From now on kernels run when the host waits.
void fake_put_off() { puts_off = true; }
// For a kernel that runs: the copies beside it, which it need not wait for; returns how many there are.
size_t fake_beside(const Copy** copies) {
    *copies = running_beside.data();
    return running_beside.size();
}

// The memory that kernels may touch, at most so much of it; returns how much there is.
size_t fake_memory(Region* found, size_t most) {
    const std::lock_guard<std::mutex> lock(guard);
    size_t count = 0;
    const auto add_region = [&](const void* first, const Thing& thing) {
        if (count < most) found[count] = {first, thing.bytes, thing.kind};
        ++count;
    };
    for (auto& [handle, thing] : things) {
        for (const char* kind : {"memory", "pinned", "managed"})
            if (std::strcmp(thing.kind, kind) == 0) add_region(handle, thing);
    }
    for (auto& [first, thing] : registered) add_region(reinterpret_cast<void*>(first), thing);
    for (const Thing& thing : lent) add_region(thing.owner, thing);
    return count;
}

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
