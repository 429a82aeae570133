// A growing array of plain values that keeps its memory between frames and does not clear the values it adds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace arcbeam::twin {

template <typename T>
class Buffer {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    Buffer() = default;
    Buffer(const Buffer& other) { *this = other; }
    Buffer(Buffer&&) noexcept = default;
    Buffer& operator=(const Buffer& other) {
        if (this != &other) {
            resize(other.size());
            std::copy(other.begin(), other.end(), begin());
        }
        return *this;
    }
    Buffer& operator=(Buffer&&) noexcept = default;
    ~Buffer() = default;

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] std::size_t capacity_bytes() const { return capacity_ * sizeof(T); }
    T* begin() { return data_.get(); }
    T* end() { return data_.get() + size_; }
    const T* begin() const { return data_.get(); }
    const T* end() const { return data_.get() + size_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }

    void clear() { size_ = 0; }

    // Makes room for `extra` more values, so that they can be added without a check.
    void make_room(std::size_t extra) {
        if (size_ + extra > capacity_) {
            grow(size_ + extra);
        }
    }

    void add_unchecked(const T& value) { data_[size_++] = value; }

    [[gnu::always_inline]] void add(const T& value) {
        make_room(1);
        add_unchecked(value);
    }

    // New values are left as they are.
    void resize(std::size_t size) {
        if (size > capacity_) {
            grow(size);
        }
        size_ = size;
    }

    void fill(std::size_t size, const T& value) {
        resize(size);
        std::fill(begin(), end(), value);
    }

  private:
    void grow(std::size_t needed) {
        const std::size_t capacity = std::max({needed, capacity_ + capacity_ / 2, std::size_t{64}});
        std::unique_ptr<T[]> larger(new T[capacity]);
        std::copy(begin(), end(), larger.get());
        data_ = std::move(larger);
        capacity_ = capacity;
    }

    std::unique_ptr<T[]> data_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace arcbeam::twin
