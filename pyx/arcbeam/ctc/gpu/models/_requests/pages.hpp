// Memory of zeros that takes none of the machine's memory before it is written, in huge pages where the system has
// them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace arcbeam::requests {

template <typename T>
class Pages {
  public:
    Pages() = default;
    explicit Pages(std::size_t count) : bytes_(count * sizeof(T)) {
        memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory_ == MAP_FAILED) {
            memory_ = nullptr;
            throw std::bad_alloc();
        }
        if (bytes_ >= kHuge) {
            madvise(memory_, bytes_, MADV_HUGEPAGE);  // only a request; it may fail
        }
    }
    ~Pages() {
        if (memory_ != nullptr) {
            munmap(memory_, bytes_);
        }
    }
    Pages(Pages&& other) noexcept { swap(other); }
    Pages& operator=(Pages&& other) noexcept {
        Pages(std::move(other)).swap(*this);
        return *this;
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    T* get() const { return static_cast<T*>(memory_); }
    T& operator[](std::size_t at) const { return get()[at]; }

  private:
    static constexpr std::size_t kHuge = std::size_t{2} << 20U;

    void swap(Pages& other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(bytes_, other.bytes_);
    }

    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace arcbeam::requests
