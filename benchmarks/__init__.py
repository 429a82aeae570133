"""Benchmarks of arcbeam beside its peers: ``python -m benchmarks --list``.

One module an experiment in ``experiments/``, one interface for every engine in ``adapters/``, results as JSON lines in
``results/``. ``python -m benchmarks.report`` writes docs/benchmarks.md from the results alone.
"""
