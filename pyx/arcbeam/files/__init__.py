"""Files from anywhere: reading, writing and mapping them, and arcbeam's own format.

The exception contract of every loader is here (`reading`). May import: core.
"""
