// Floats at addresses that suit vector loads, zero where nothing was written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace arcbeam::transducer {

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

class AlignedFloats {
  public:
    AlignedFloats() = default;
    explicit AlignedFloats(std::size_t size) { reset(size); }

    void reset(std::size_t size) {
        data_.reset();
        data_.reset(
            static_cast<float*>(::operator new(std::max<std::size_t>(size, 1) * sizeof(float), kAlignment)));
        size_ = size;
        std::fill_n(data_.get(), size, 0.0F);
    }

    // Makes room for at least this many; the content is lost when it has to grow.
    void grow(std::size_t size) {
        if (size > size_) {
            reset(size);
        }
    }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] float* data() { return data_.get(); }
    [[nodiscard]] const float* data() const { return data_.get(); }

  private:
    static constexpr std::align_val_t kAlignment{64};
    struct Free {
        void operator()(float* data) const { ::operator delete(data, kAlignment); }
    };
    std::unique_ptr<float[], Free> data_;
    std::size_t size_ = 0;
};

}  // namespace arcbeam::transducer
