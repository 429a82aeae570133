"""Forced alignment on a real GPU: the CPU engine's bytes, of texts that were said and of others, in every launch."""

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph
from arcbeam.files.log_probs import find_inputs, read_all
from arcbeam.gpu.tuned import search_plan
from tests.decode.alignments import a_decoder, same


def on_both(log_probs, texts, demo_data, **options):
    """The alignments of a GPU, which are those of the CPU."""
    graph = Graph.greedy(demo_data / "tokens.txt")
    of_gpu, of_cpu = (CtcDecoder(graph, device=device, frame_shift=0.02) for device in ("cuda", "cpu"))
    found = of_gpu.align(log_probs, texts, errors="return", **options)
    same(found, of_cpu.align(log_probs, texts, errors="return", **options))
    return found


@pytest.fixture
def speech(demo_data):
    references = dict(line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    utterances = list(read_all(find_inputs([str(demo_data / "log_probs.npz")])))
    return [u.log_probs for u in utterances], [references[u.id] for u in utterances]


@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER])
def test_texts_of_speech(shape, speech, demo_data, monkeypatch):
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    log_probs, said = speech
    found = on_both(log_probs * 20, said * 20, demo_data)
    assert [one.text for one in found] == said * 20
    assert all(one.exact for one in found)
    assert all(one.doubtful for one in on_both(log_probs, said[1:] + said[:1], demo_data))
    starred = [" ".join([*text.split()[:1], "<star>", *text.split()[-1:]]) for text in said]
    assert all(one.exact for one in on_both(log_probs, starred, demo_data, star=1.0))


def test_recordings_in_one_piece(speech, demo_data):
    log_probs, said = speech
    on_both([np.concatenate(log_probs * 10)], [" ".join(said * 10)], demo_data)


def test_random_texts():
    rng = np.random.default_rng(5)
    batch = [np.log(rng.dirichlet(np.full(4, 0.4), n) + 1e-6).astype(np.float32) for n in rng.integers(0, 120, 700)]
    texts = [" ".join(rng.choice(["a", "ab", "aa", "bee", "<star>"], len(one) // 8)) for one in batch]
    same(a_decoder("cuda").align(batch, texts, star=0.5), a_decoder().align(batch, texts, star=0.5))
    halves = [one.astype(np.float16) for one in batch]
    same(a_decoder("cuda").align(halves, texts, star=0.5), a_decoder().align(halves, texts, star=0.5))
