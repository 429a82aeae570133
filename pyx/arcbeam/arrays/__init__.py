"""Takes batches in from NumPy, PyTorch, CuPy or JAX, on the host or a device: checked, never copied needlessly.

Names are neutral here, because log-probs and encoder outputs are taken in the same way. May import: core, gpu.
"""
