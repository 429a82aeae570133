"""The life of a batch on a GPU: what it requests, its memory, its windows, its launches and its results.

May import: arrays, core, ctc/boost, ctc/gpu, ctc/gpu/models, ctc/gpu/searches, ctc/lattice, gpu, gpu/tuned.
"""
