"""What measures the parts of our own engines: a stage, machine code, a place of a language model; and `regression`,
the gate of ``python -m benchmarks.check``. What a stage is and how it is called says `benchmarks.stages`."""
