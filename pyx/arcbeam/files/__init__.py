"""Files from anywhere: reading, writing, mapping them, and the format of arcbeam's own.

The exception contract of every loader lives here (`reading`). May import: the root of arcbeam.
"""
