"""Lattices: `Lattice`, n-best lists, word posteriors, minimum Bayes risk, pruning and rescoring.

May import: arrays, core, ctc, ctc/boost, ctc/cpu, ctc/streams, graph, lattices, lm.
"""
