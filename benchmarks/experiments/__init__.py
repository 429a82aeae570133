"""The experiments: one module makes one table or figure, ``python -m benchmarks NAME``.

`benchmarks.harness.registry` finds them and says what such a module has.
"""
