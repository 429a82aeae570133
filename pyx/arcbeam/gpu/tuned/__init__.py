"""Every figure that was found by measurement: shapes of launches, sizes of buffers, where a language model is stored.

May import: core.
"""
