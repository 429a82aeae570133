"""Every figure that was found by measurement: shapes of launches, sizes of buffers, where a language model lives.

May import: core.
"""
