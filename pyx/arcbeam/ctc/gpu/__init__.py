"""The GPU engine of `CtcDecoder`: lanes, launches, staging of log-probs, and requests to a large language model.

Its kernels are in ``cuda/decode`` and ``cuda/rescore``; ``cuda/arrays`` has one that makes log-probs of logits.
May import: arrays, core, ctc/boost, ctc/gpu/models, ctc/gpu/searches, ctc/lattice, ctc/streams, gpu, gpu/tuned, graph,
lm.
"""
