#include "transducer/frames.hpp"

#include <algorithm>

#include "shared/half.hpp"
#include "shared/transducer_math.hpp"

namespace arcbeam::transducer {

bool Frames::begin(const Network& network, const EncoderOutput& input, BadValue& bad) {
    network_ = &network;
    input_ = input;
    projected_from_ = projected_to_ = 0;
    return input.is_half ? check(static_cast<const std::uint16_t*>(input.data), half_to_float, bad)
                         : check(static_cast<const float*>(input.data), [](float value) { return value; }, bad);
}

template <typename T, typename Load>
bool Frames::check(const T* rows, Load to_float, BadValue& bad) const {
    const std::size_t features = network_->encoder.inputs();
    for (std::uint32_t frame = 0; frame < input_.frames; ++frame) {
        const T* row = rows + static_cast<std::int64_t>(frame) * input_.row_stride;
        std::uint32_t found = 0;
        for (std::size_t i = 0; i < features; ++i) {
            found |= is_number(to_float(row[i])) ? 0U : 1U;
        }
        for (std::size_t i = 0; found != 0U && i < features; ++i) {
            if (!is_number(to_float(row[i]))) {
                bad = {frame, static_cast<std::uint32_t>(i)};
                return false;
            }
        }
    }
    return true;
}

void Frames::load(std::int64_t frame, float* to) const {
    const std::size_t features = network_->encoder.inputs();
    const std::int64_t row = frame * input_.row_stride;
    if (input_.is_half) {
        std::transform(static_cast<const std::uint16_t*>(input_.data) + row,
                       static_cast<const std::uint16_t*>(input_.data) + row + features, to, half_to_float);
    } else {
        std::copy_n(static_cast<const float*>(input_.data) + row, features, to);
    }
}

std::int64_t Frames::project(std::int64_t frame, AlignedFloats& scratch) {
    const Matrix& encoder = network_->encoder;
    if (frame >= projected_to_) {
        projected_from_ = frame;
        projected_to_ = std::min(std::int64_t{input_.frames}, frame + kProjectedFrames);
        const std::size_t from = encoder.room_for_inputs();
        const std::size_t to = encoder.room_for_outputs();
        projected_.grow(static_cast<std::size_t>(kProjectedFrames) * to);
        scratch.grow(static_cast<std::size_t>(kProjectedFrames) * from);
        const auto rows = static_cast<std::size_t>(projected_to_ - projected_from_);
        for (std::size_t i = 0; i < rows; ++i) {
            load(projected_from_ + static_cast<std::int64_t>(i), scratch.data() + i * from);
            network_->round(scratch.data() + i * from, encoder.inputs());
        }
        multiply_rows(network_->kernels, encoder, scratch.data(), from, rows, projected_.data(), to);
    }
    return projected_to_ - frame;
}

const float* Frames::projected(std::int64_t frame) const {
    return projected_.data() +
           static_cast<std::size_t>(frame - projected_from_) * network_->encoder.room_for_outputs();
}

}  // namespace arcbeam::transducer
