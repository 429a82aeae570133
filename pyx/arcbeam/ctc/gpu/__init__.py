"""The GPU engine of `CtcDecoder`: lanes, launches, staging of log-probs, and requests to a large language model.

Its kernels are in ``cuda/decode`` and ``cuda/rescore``. May import: arrays, ctc, gpu, gpu/tuned, graph, lm.
"""
