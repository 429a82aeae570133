// The door for tests in Python: one C function.
#include <cstring>
#include <exception>

#include "runtime.hpp"

namespace {

void tell(const char* text, char* error, std::size_t size) {
    if (size == 0U) return;
    std::strncpy(error, text, size - 1U);
    error[size - 1U] = '\0';
}

}  // namespace

// 0: ran to its end; 1: the kernel has a bug; 2: no such launch.
extern "C" __attribute__((visibility("default"))) int emulate(const char* kernel,
                                                              const arcbeam::emulator::Launch* options,
                                                              const void* params, std::size_t params_bytes,
                                                              std::uint64_t* steps, char* error, std::size_t size) {
    try {
        *steps = arcbeam::emulator::launch(kernel, *options, params, params_bytes);
        return 0;
    } catch (const arcbeam::emulator::KernelError& bug) {
        tell(bug.what(), error, size);
        return 1;
    } catch (const std::exception& refusal) {
        tell(refusal.what(), error, size);
        return 2;
    }
}
