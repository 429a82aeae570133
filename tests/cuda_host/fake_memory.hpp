// The fake driver: memory of the device and of the host, and copies.
#pragma once

#include "fake_order.hpp"

namespace {

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
    BEGIN_WAITING("release");
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
    BEGIN_WAITING("host_release");
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
    BEGIN_WAITING("managed_release");
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
    return copy(stream, reinterpret_cast<void*>(to), from, bytes);
}
int copy_to_host(void* to, Address from, size_t bytes, void* stream) {
    BEGIN_HERE("copy_to_host");
    if (!inside(from, bytes) || !is_stream(stream)) return kInvalidValue;
    journal << "to_host " << (is_pinned(to) ? "pinned" : "pageable") << '\n';
    return copy(stream, to, reinterpret_cast<void*>(from), bytes);
}
int copy_on_device(Address to, Address from, size_t bytes, void* stream) {
    BEGIN_WAITING("copy_on_device");
    if (!inside(to, bytes) || !inside(from, bytes) || !is_stream(stream)) return kInvalidValue;
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return 0;
}
int set_bytes(Address to, unsigned char value, size_t count, void* stream) {
    BEGIN_WAITING("set_bytes");
    if (!inside(to, count) || !is_stream(stream)) return kInvalidValue;
    std::memset(reinterpret_cast<void*>(to), value, count);
    return 0;
}
int set_words(Address to, unsigned value, size_t count, void* stream) {
    BEGIN_WAITING("set_words");
    if (!inside(to, 4 * count) || !is_stream(stream)) return kInvalidValue;
    for (size_t i = 0; i < count; ++i) reinterpret_cast<unsigned*>(to)[i] = value;
    return 0;
}
// What is at an address: what a test has said of it comes first.
Thing at(Address address) {
    for (const Thing& one : lent) {
        const auto start = reinterpret_cast<Address>(one.owner);
        if (address >= start && address < start + one.bytes) return one;
    }
    for (auto& [handle, thing] : things) {
        const auto start = reinterpret_cast<Address>(handle);
        if (thing.bytes != 0 && std::strcmp(thing.kind, "function") != 0 && address >= start &&
            address < start + thing.bytes) {
            Thing found = thing;
            found.owner = handle;
            return found;
        }
    }
    if (!host_is_device) return Thing{"unknown", 0, "", 0, nullptr, 0, 0};
    return Thing{"memory", current.back(), "", 0, nullptr, 0, 0};  // of a length that nobody knows
}
// A real driver leaves at zero what it does not know.
int pointer_attributes(unsigned count, int* attributes, void** values, Address address) {
    BEGIN_HERE("pointer_attributes");
    const Thing thing = at(address);
    const bool managed = std::strcmp(thing.kind, "managed") == 0, unknown = std::strcmp(thing.kind, "unknown") == 0;
    const bool host = std::strcmp(thing.kind, "pinned") == 0 || std::strcmp(thing.kind, "moved") == 0;
    for (unsigned i = 0; i < count; ++i) {
        if (attributes[i] == kPointerMemoryType) {
            give(static_cast<int*>(values[i]), unknown ? 0 : host ? int{kHostMemory} : int{kDeviceMemory});
        } else if (attributes[i] == kPointerIsManaged) {
            give(static_cast<int*>(values[i]), int{managed});
        } else if (attributes[i] == kPointerOnDevice) {
            const bool elsewhere = unknown || std::strcmp(thing.kind, "moved") == 0;
            give(static_cast<Address*>(values[i]), elsewhere ? Address{0} : address);
        } else if (attributes[i] == kPointerDeviceOrdinal) {
            give(static_cast<int*>(values[i]), unknown ? -2 : thing.device);
        } else if (attributes[i] == kPointerRangeStart) {
            give(static_cast<Address*>(values[i]), reinterpret_cast<Address>(thing.owner));
        } else if (attributes[i] == kPointerRangeBytes) {
            give(static_cast<uint64_t*>(values[i]), uint64_t{thing.bytes});
        } else {
            return kInvalidValue;
        }
    }
    return 0;
}

}  // namespace
