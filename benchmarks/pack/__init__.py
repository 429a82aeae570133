"""What carries the benchmarks to a machine without a network, and brings what was proved there back as a result.

`packing` packs and unpacks what they need (``python -m benchmarks.pack``); `proof` runs the parts of ``make gpu-test``
where they can be run.
"""
