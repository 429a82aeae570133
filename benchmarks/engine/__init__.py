"""What measures the parts of our own engines: a stage, a kernel, a ceiling of the device, a place of a language model.

`kernels/` has the kernels that are compiled for this alone; `regression` is the gate of ``python -m benchmarks.check``.
What a stage is and how it is called says `benchmarks.stages`.
"""
