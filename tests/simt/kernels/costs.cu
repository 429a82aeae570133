// The arithmetic of scores on the device: what must not be fused.
#include <cmath>

#include "shared/cost.hpp"
#include "shared/simt.cuh"

using namespace arcbeam::simt;

struct CostParams {
    Array<const float> costs, logp, weights;
    Array<float> out;
    float acoustic_scale;
};

ARCBEAM_KERNEL(extend_costs, 256, CostParams) {
    const std::uint32_t i = block_rank() * block_size() + thread_rank();
    if (i >= params.out.size) return;
    const float acoustic = arcbeam::acoustic_cost(load_readonly(params.logp.at(i)), params.acoustic_scale);
    params.out[i] =
        arcbeam::extend(load_readonly(params.costs.at(i)), acoustic, load_readonly(params.weights.at(i)));
}

// Twice as exact as the law allows, on purpose.
ARCBEAM_KERNEL(extend_fused, 256, CostParams) {
    const std::uint32_t i = block_rank() * block_size() + thread_rank();
    if (i >= params.out.size) return;
    const float logp = load_readonly(params.logp.at(i));
    params.out[i] = std::fma(-params.acoustic_scale, logp, load_readonly(params.costs.at(i)));
}
