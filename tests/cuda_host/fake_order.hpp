// The fake driver: what is put off. Streams run at once, unless a test has launches wait for the host: then a
// kernel runs when the host first waits for something, and the copies that other streams have been given meanwhile
// arrive while it runs, when the test says.
#pragma once

#include <functional>

#include "fake_books.hpp"

namespace {

struct Copy {
    void* to;
    const void* from;
    size_t bytes;
};

bool puts_off = false;
std::function<int()> put_off;      // the launch
void* put_off_on = nullptr;        // its stream
std::vector<Copy> beside;          // copies of other streams, in their order
std::vector<Copy> after;           // of its own
std::set<void*> recorded_after;    // events
std::vector<Copy> running_beside;  // of the kernel that runs

// Runs what has been put off, without the lock; a copy that came too late is made after the kernel.
int catch_up(std::unique_lock<std::mutex>& lock) {
    if (!put_off) return 0;
    const std::function<int()> kernel_that_runs = std::move(put_off);
    std::vector<Copy> own;
    put_off = nullptr;
    running_beside.swap(beside);
    own.swap(after);
    beside.clear();
    recorded_after.clear();
    lock.unlock();
    const int code = kernel_that_runs();
    lock.lock();
    for (const Copy& copy : running_beside) std::memcpy(copy.to, copy.from, copy.bytes);
    for (const Copy& copy : own) std::memcpy(copy.to, copy.from, copy.bytes);
    running_beside.clear();
    return code;
}

// A copy is made now, or with the launch that has been put off.
int copy(void* stream, void* to, const void* from, size_t bytes) {
    if (put_off)
        (stream == put_off_on ? after : beside).push_back({to, from, bytes});
    else
        std::memmove(to, from, bytes);
    return 0;
}

// How a call begins that waits for what was put off, or that does not keep its place in a stream here.
#define BEGIN_WAITING(call)                           \
    std::unique_lock<std::mutex> lock(guard);         \
    if (const int late = catch_up(lock)) return late; \
    if (const int code = begins_here(call)) return code

}  // namespace
