// The books of the fake driver: its devices, every handle that lives, what was launched, and which calls are to
// fail.
#pragma once

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "arcbeam/gpu/_driver_table.hpp"

namespace {

using namespace arcbeam::gpu;

constexpr int kInvalidDevice = 101, kCapturedEvent = 907;

struct Device {
    int major = 9, minor = 0, multiprocessors = 132, shared = 232448, pools = 1, clusters = 1, managed = 1;
    int blocks = 0;     // of any kernel, and its clusters, that a multiprocessor holds; 0: by their threads
    int read_only = 1;  // whether it registers memory that is mapped to be read
    size_t memory = size_t{1} << 30;
    int retained = 0;
    int sticky = 0;
    char context = 0;  // its address is the handle
};

// A handle of any kind: what it is, and whose.
struct Thing {
    const char* kind;
    int device;
    std::string name;  // of a kernel
    size_t bytes = 0;  // of an allocation; of a kernel's parameter
    void* owner = nullptr;
    size_t used = 0, reserved = 0;  // of a pool
    int binary = 0, ptx = 0;        // of a kernel: the versions of its code, as 90
};

struct Launch {
    std::string name;
    LaunchShape shape;
    std::vector<unsigned char> parameter;
};

struct Failure {
    std::string call;
    int countdown = 0;
    int code = 0;
    bool beside = false;  // every call of threads other than this one, too
    std::thread::id thread{};
    bool from_then_on = false;
};

std::mutex guard;
std::vector<Device> devices;
std::map<void*, Thing> things;
std::map<uintptr_t, Thing> registered;  // the host's own memory, by its first byte
std::vector<Thing> lent;      // memory of others than arcbeam, by what a test says of it; `owner` is its first byte
bool host_is_device = false;  // whether memory of the host counts as the current device's
std::vector<Launch> launches;
std::vector<Failure> failures;
std::set<void*> capturing;  // streams
std::set<void*> captured;   // events that were recorded on these
std::ostringstream journal;
std::string text;
uint64_t next_handle = 0x1000;
int64_t calls = 0;
int not_ready = 0;
int init_code = 0;
int version = 13000;
thread_local std::vector<int> current;  // ordinals

// Returns a result code.
using Kernel = int (*)(const char* name, const LaunchShape*, void* parameter);
Kernel kernel = nullptr;

// Counts a call and says how it ends: 0 to go on.
int begins(const char* call, int device = -1) {
    ++calls;
    for (auto& failure : failures) {
        if (failure.beside && failure.call == call && failure.thread != std::this_thread::get_id()) {
            return failure.code;
        }
        if (failure.countdown > 0 && (failure.call.empty() || failure.call == call) && --failure.countdown == 0) {
            if (failure.from_then_on) failure.countdown = 1;
            if (device < 0 && !current.empty()) device = current.back();
            if (is_sticky(failure.code) && device >= 0) devices[static_cast<size_t>(device)].sticky = failure.code;
            return failure.code;
        }
    }
    if (device >= 0) return devices[static_cast<size_t>(device)].sticky;
    return 0;
}

// The same for a call that needs a current context.
int begins_here(const char* call) {
    if (current.empty()) {
        ++calls;
        return kInvalidContext;
    }
    return begins(call, current.back());
}

Device& here() { return devices[static_cast<size_t>(current.back())]; }

Thing* find(void* handle, const char* kind) {
    auto found = things.find(handle);
    if (found == things.end() || std::strcmp(found->second.kind, kind) != 0) return nullptr;
    return found->second.device == current.back() ? &found->second : nullptr;
}

void* add(const char* kind) {
    void* handle = reinterpret_cast<void*>(next_handle += 16);
    things[handle] = Thing{kind, current.back(), "", 0, nullptr, 0, 0};
    return handle;
}

int drop(void* handle, const char* kind) {
    if (find(handle, kind) == nullptr) return kInvalidHandle;
    things.erase(handle);
    return 0;
}

// A stream of ours, or one that a producer may name: 1 and 2 are the default streams.
bool is_stream(void* handle) {
    return find(handle, "stream") != nullptr || (reinterpret_cast<uintptr_t>(handle) - 1 < 2);
}

bool inside(Address address, size_t bytes) {
    for (const Thing& one : lent) {
        const auto start = reinterpret_cast<Address>(one.owner);
        if (address >= start && address + bytes <= start + one.bytes) return one.device == current.back();
    }
    for (auto& [handle, thing] : things) {
        const auto start = reinterpret_cast<Address>(handle);
        if (std::strcmp(thing.kind, "memory") == 0 && address >= start && address + bytes <= start + thing.bytes)
            return thing.device == current.back();
    }
    return false;
}

// The allocation of a kind that an address is in.
const Thing* holder(const char* kind, Address address) {
    for (auto& [handle, thing] : things) {
        const auto start = reinterpret_cast<Address>(handle);
        if (std::strcmp(thing.kind, kind) == 0 && address >= start && address < start + thing.bytes) return &thing;
    }
    return nullptr;
}

bool is_pinned(const void* address) { return holder("pinned", reinterpret_cast<Address>(address)) != nullptr; }

template <class T>
int give(T* into, T value) {
    *into = value;
    return 0;
}

// How a call begins: the lock, and what it was told to answer.
#define BEGIN(call)                                \
    const std::lock_guard<std::mutex> lock(guard); \
    if (const int code = begins(call)) return code
#define BEGIN_HERE(call)                           \
    const std::lock_guard<std::mutex> lock(guard); \
    if (const int code = begins_here(call)) return code

}  // namespace
