"""Benchmarks of arcbeam beside its peers: ``python -m benchmarks --list``.

Each experiment is a module in ``experiments/``; the other rooms hold what experiments are made of, and say in their
``__init__`` what lives there. Beside the rooms lie commands: ``python -m benchmarks.check`` and the others.

================  ===================================================================================
``harness/``      finds experiments, takes time, writes result files
``data/``         what is decoded: sets, recordings, acoustic models, graphs
``adapters/``     the decoders that are compared, behind one interface
``stages/``       the stages of the search, one by one
``engine/``       what measures the parts of our own engines
``tasks/``        what several experiments share
``pack/``         to a machine without a network and back
``experiments/``  one module a table or figure
``papers/``       what papers report themselves
``report/``       the page, the tables and the pictures, from the results: ``python -m benchmarks.report``
``results/``      one file an experiment and device, and the tables made from them
================  ===================================================================================
"""
