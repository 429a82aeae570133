"""What carries the benchmarks to a machine without a network, and brings what was proved there back as a result.

`packing` packs and unpacks what they need (``python -m benchmarks.pack``), `arpa_columns` makes a language model small
for the way, `proof` runs the parts of ``make gpu-test`` where they can be run.
"""
