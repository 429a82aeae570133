"""The GPU engine of `TransducerDecoder`. Its kernels are in ``cuda/transducer``.

May import: gpu, gpu/tuned, transducer.
"""
