"""Large language models, boosts and new words on a GPU, and the threads that answer its lookups.

May import: core, ctc/boost, ctc/gpu/searches, gpu, gpu/tuned, graph, lm.
"""
