"""The stages of the search, one module a stage, of the stage's name: how it is called, and what it works through.

`benchmarks.engine.stage_timing` finds and times them; ``tests/test_layout.py`` fails when a stage has no module here.
"""
