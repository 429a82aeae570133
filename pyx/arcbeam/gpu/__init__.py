"""A GPU through CUDA's driver: devices, memory, streams, launches, kernel images; nothing about decoding.

What was tuned by measurement is in `tuned`. May import: the root of arcbeam.
"""
