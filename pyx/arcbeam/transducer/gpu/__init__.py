"""The GPU engine of `TransducerDecoder`. Its kernels are in ``cuda/transducer``.

May import: core, gpu, gpu/tuned, transducer, transducer/beam.
"""
