"""Batches that come in, from NumPy, PyTorch, CuPy or JAX, on the host or a device: checked, never copied needlessly.

Their names are neutral: log-probs and encoder outputs are taken alike. May import: gpu.
"""
