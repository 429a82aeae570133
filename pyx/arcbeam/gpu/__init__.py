"""A GPU through CUDA's driver: devices, memory, streams, launches, kernel images; nothing about decoding.

Figures that were tuned by measurement are in `tuned`. May import: core.
"""
