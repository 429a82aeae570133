"""Dynamic batching: `Batcher`, the chunks that wait for it, and its counters.

May import: arrays, core, streams.
"""
