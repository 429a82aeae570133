"""Real speech in random chunks: no stable word ever changes, and the final results are those of the whole."""

import itertools

import numpy as np
import pytest

from arcbeam import CtcDecoder
from tests.decode.equality import same
from tests.decode.moving import ASKED, beside
from tests.decode.test_streams import in_chunks
from tests.decode.test_streams_emulated import answers

MOST = 20  # utterances of a set


@pytest.mark.parametrize("beam", [8.0, 14.0])
@pytest.mark.parametrize("name", ["demo", "test-other-100", "ljspeech-200", "an4-test"])
def test_no_stable_word_is_taken_back(arcbeam_data, demo_data, name, beam):
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    from arcbeam.cli.demo import demo_graph

    archive = np.load(arcbeam_data / name / "log_probs.npz")
    batch = np.split(archive["log_probs"], np.cumsum(archive["lengths"])[:-1])[:MOST]
    graph = demo_graph(demo_data, rebuild=False)
    decoder = CtcDecoder(graph, beam=beam, acoustic_scale=1.5, frame_shift=0.02, device="cpu", threads=2)
    wholes = decoder.decode(batch)
    stable_before_the_end = 0
    for seed, most in ((0, 4), (1, 25), (2, 200)):
        found, partials = in_chunks(decoder, batch, np.random.default_rng(seed), most=most)
        same(found, wholes)
        for final, of_stream in zip(found, partials, strict=True):
            for before, after in itertools.pairwise(of_stream):
                assert after.stable_words[: before.num_stable] == before.stable_words
                assert after.text.startswith(before.stable_text)
            for partial in of_stream:
                assert partial.stable_text == " ".join(word.word for word in partial.stable_words)
                assert final.words[: partial.num_stable] == partial.stable_words
            stable_before_the_end += of_stream[-2].num_stable if len(of_stream) > 1 else 0
    assert stable_before_the_end > sum(len(one.words) for one in wholes)  # of three times as many


@pytest.mark.parametrize("name", ["demo", "test-other-100"])
def test_lattices_move_with_their_streams(arcbeam_data, demo_data, name):
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    from arcbeam.cli.demo import demo_graph

    archive = np.load(arcbeam_data / name / "log_probs.npz")
    batch = np.split(archive["log_probs"], np.cumsum(archive["lengths"])[:-1])[:4]
    graph, given = demo_graph(demo_data, rebuild=False), {"acoustic_scale": 1.5, "frame_shift": 0.02, "device": "cpu"}
    decoders = [CtcDecoder(graph, beam=12.0, threads=threads, **given) for threads in (1, 2)]
    found, _, _ = beside(decoders, batch, np.random.default_rng(1), most=100, asked=[ASKED[0] | {"mbr": False}])
    wholes = decoders[0].decode(batch, nbest=4, confidence=True, lattice=True)
    same([finals[-1] for finals in found], wholes)
    assert [answers(finals[-1]) for finals in found] == list(map(answers, wholes))
