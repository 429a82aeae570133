"""Forced alignment on a real GPU: the CPU's bytes, from log-probs on the host and on the device."""

import numpy as np

from arcbeam import CtcDecoder, Graph
from benchmarks.adapters import gpu as on_gpu
from benchmarks.data import datasets
from tests.decode.test_align import a_decoder, same
from tests.decode.test_align_emulated import SAID, a_batch


def test_every_text_of_a_small_graph(room):
    batch = a_batch() * 50
    for star in (0.0, 1.0):
        wanted = a_decoder().align(batch, SAID * 50, star=star)
        same(a_decoder("cuda").align(batch, SAID * 50, star=star), wanted)
        same(a_decoder("cuda").align(on_gpu.send(batch), SAID * 50, star=star), wanted)


def test_speech():
    """The demo's recordings with their texts, with those of others, and all in one piece."""
    demo = datasets.load("demo")
    graph = Graph.greedy(demo.tokens)
    of_gpu, of_cpu = (CtcDecoder(graph, device=device, frame_shift=0.02) for device in ("cuda", "cpu"))
    utterances = [np.ascontiguousarray(one, np.float32) for one in demo.utterances]
    others = [*demo.references[1:], *demo.references[:1]]
    for texts in (demo.references, others):
        wanted = of_cpu.align(utterances, texts, errors="return")
        found = of_gpu.align(on_gpu.send(utterances), texts, errors="return")
        assert [one.error is None for one in found] == [one.error is None for one in wanted]
        fits = [i for i, one in enumerate(wanted) if one.error is None]
        same([found[i] for i in fits], [wanted[i] for i in fits])
    whole, text = np.concatenate(utterances), " ".join(demo.references)
    same([of_gpu.align(whole, text)], [of_cpu.align(whole, text)])
