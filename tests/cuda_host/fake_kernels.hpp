// The fake driver: modules, launches, and the streams and events that order them.
#pragma once

#include "fake_order.hpp"

namespace {

// A module goes with its kernels.
int drop_module(void* module) {
    for (auto thing = things.begin(); thing != things.end();)
        thing = thing->second.owner == module ? things.erase(thing) : std::next(thing);
    return drop(module, "module");
}

int version_of(const std::string& capability) {
    const size_t dot = capability.find('.');
    return 10 * std::stoi(capability.substr(0, dot)) + std::stoi(capability.substr(dot + 1));
}

// An image is text: a line "arch 9.0" for each architecture with machine code, "ptx 8.0" for PTX, and
// "kernel NAME BYTES" for each kernel. Machine code runs on its generation from its minor number on; PTX is
// compiled for any newer device, and the code is then the device's, but knows what the PTX knew.
int module_load(void** module, const void* image, char* log, size_t log_bytes) {
    BEGIN_HERE("module_load");
    std::istringstream lines(static_cast<const char*>(image));
    std::string word, name;
    const int device = 10 * here().major + here().minor;
    int machine = 0, ptx = 0;
    std::vector<Thing> kernels;
    while (lines >> word >> name) {
        if (word == "kernel") {
            kernels.push_back(Thing{"function", current.back(), name, 0, nullptr, 0, 0});
            lines >> kernels.back().bytes;
            continue;
        }
        const int told = version_of(name);
        if (word == "arch" && told / 10 == device / 10 && told <= device) machine = std::max(machine, told);
        if (word == "ptx" && told <= device) ptx = std::max(ptx, told);
    }
    if (machine == 0 && ptx == 0) {
        std::strncpy(log, "nothing fits", log_bytes);
        *module = nullptr;
        return kNoBinaryForGpu;
    }
    void* handle = add("module");
    for (Thing& one : kernels) {
        one.owner = handle;
        one.binary = machine != 0 ? machine : device;
        one.ptx = machine != 0 ? machine : ptx;
        things[add("function")] = one;
    }
    return give(module, handle);
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
    const Thing* thing = find(function, "function");
    if (thing == nullptr) return kInvalidHandle;
    if (attribute == kFunctionPtxVersion) return give(value, thing->ptx);
    return give(value, attribute == kFunctionBinaryVersion ? thing->binary : 100 + attribute);
}
int occupancy_blocks(int* blocks, void* function, int threads, size_t) {
    BEGIN_HERE("occupancy_blocks");
    if (find(function, "function") == nullptr) return kInvalidHandle;
    return give(blocks, here().blocks != 0 ? here().blocks : 2048 / threads);
}
int occupancy_clusters(int* clusters, void* function, const LaunchShape* shape) {
    BEGIN_HERE("occupancy_clusters");
    if (find(function, "function") == nullptr) return kInvalidHandle;
    if (shape->cluster <= 1) return kInvalidValue;  // it wants a size
    const int most = here().multiprocessors / static_cast<int>(shape->cluster);
    return give(clusters, here().blocks != 0 ? here().blocks : most);
}
int launch(void* function, const LaunchShape* shape, void* parameter, void* stream) {
    BEGIN_WAITING("launch");
    Thing* thing = find(function, "function");
    if (thing == nullptr || !is_stream(stream)) return kInvalidHandle;
    if (capturing.count(stream) != 0) return 0;  // it goes to the graph, and does not run
    if (shape->blocks == 0 || shape->threads == 0 || shape->threads > 1024) return kInvalidValue;
    // A real driver launches such code, each of whose blocks then takes itself for a cluster.
    if (shape->cluster > 1 && (here().clusters == 0 || std::min(thing->binary, thing->ptx) < 90))
        return kInvalidValue;
    const auto* bytes = static_cast<const unsigned char*>(parameter);
    journal << "launch\n";
    launches.push_back({thing->name, *shape, std::vector<unsigned char>(bytes, bytes + thing->bytes)});
    if (kernel == nullptr) return 0;
    // The kernel may take long and wait for other threads, so it runs without the lock.
    std::vector<unsigned char> bytes_of_its_own(bytes, bytes + thing->bytes);
    put_off = [name = thing->name, of = *shape, given = std::move(bytes_of_its_own)]() mutable {
        return kernel(name.c_str(), &of, given.data());
    };
    put_off_on = stream;
    return puts_off ? 0 : catch_up(lock);
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
    BEGIN_WAITING("stream_synchronize");
    return is_stream(stream) ? 0 : kInvalidHandle;
}
int stream_query(void* stream) {
    BEGIN_WAITING("stream_query");
    if (!is_stream(stream)) return kInvalidHandle;
    return not_ready > 0 ? (--not_ready, kNotReady) : 0;
}
int stream_wait_event(void* stream, void* event, unsigned) {
    BEGIN_HERE("stream_wait_event");
    if (!is_stream(stream) || find(event, "event") == nullptr) return kInvalidHandle;
    if (captured.count(event) != 0) capturing.insert(stream);
    journal << "wait " << reinterpret_cast<uintptr_t>(stream) << ' ' << event << '\n';
    return 0;
}
int stream_capturing(void* stream, int* status) {
    BEGIN_HERE("stream_capturing");
    if (!is_stream(stream)) return kInvalidHandle;
    return give(status, capturing.count(stream) != 0 ? 1 : 0);
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
    if (capturing.count(stream) != 0) captured.insert(event);
    if (put_off) recorded_after.insert(event);
    journal << "record " << reinterpret_cast<uintptr_t>(stream) << ' ' << event << '\n';
    return 0;
}
int event_query(void* event) {
    std::unique_lock<std::mutex> lock(guard);
    if (recorded_after.count(event) != 0 && not_ready == 0) {
        if (const int late = catch_up(lock)) return late;
    }
    if (const int code = begins_here("event_query")) return code;
    if (find(event, "event") == nullptr) return kInvalidHandle;
    if (captured.count(event) != 0) return kCapturedEvent;
    journal << "read\n";
    return not_ready > 0 ? (--not_ready, kNotReady) : 0;
}
int event_synchronize(void* event) {
    BEGIN_WAITING("event_synchronize");
    return find(event, "event") != nullptr ? 0 : kInvalidHandle;
}
int event_elapsed(float* milliseconds, void*, void*) {
    BEGIN_HERE("event_elapsed");
    return give(milliseconds, 1.5f);
}

}  // namespace
