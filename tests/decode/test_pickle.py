"""Decoders go to other processes: pickled and copied."""

import copy
import json
import math
import pickle

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph
from arcbeam.words import Word
from tests.decode import graphs, test_rescoring_inputs
from tests.decode.equality import same

BATCH = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((30, 0, 4))]
BATCH[2][3] = -np.inf  # its search dies


def test_a_pickled_decoder_is_made_anew(device, tmp_path):
    built = graphs.random_graph(4, states=60, columns=12)
    built.save(tmp_path / "graph.arcbeam")
    batch = [graphs.random_log_probs(1, 4, 12)]
    decoder = CtcDecoder(Graph.load(tmp_path / "graph.arcbeam"), device=device, beam=4.0, max_active=20)
    wanted = decoder.decode(batch)
    data = pickle.dumps(decoder)
    assert len(data) < 2000, "the graph goes by its path"
    again = pickle.loads(data)
    assert (again.options, again.stats.frames) == (decoder.options, 0)
    same(again.decode(batch), wanted)
    twin = copy.copy(decoder)
    assert twin.graph is decoder.graph
    same(twin.decode(batch), wanted)


def hypotheses(states, **options):
    graph = graphs.random_graph(4, states=states, columns=12)
    spoiled = np.full((1, 12), np.nan, np.float32)
    return CtcDecoder(graph, beam=4.0, max_active=20, **options).decode([*BATCH, spoiled], errors="return")


@pytest.mark.parametrize("again", [lambda h: pickle.loads(pickle.dumps(h)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("frame_shift", [None, 0.02])
def test_a_hypothesis_travels_whole(device, again, frame_shift):
    found = hypotheses(60, device=device, frame_shift=frame_shift)
    assert len(found[0].words) > 2
    travelled = [again(h) for h in found]
    same(travelled, found)
    for one, other in zip(travelled, found, strict=True):
        assert one.to_dict() == other.to_dict()
        assert (one.word_ids.tobytes(), one.rescoring_score) == (other.word_ids.tobytes(), other.rescoring_score)
        assert one.acoustic_score == other.acoustic_score
        assert repr(one) == repr(other)
        assert type(one.error) is type(other.error) and str(one.error) == str(other.error)
        assert (one.complete, one.score) == (other.complete, other.score)


def test_a_pickled_hypothesis_leaves_its_graph_behind():
    """Its size is that of its own arrays and words, whatever the graph's, and it loads where the graph is not."""
    small, large = (hypotheses(states) for states in (60, 20_000))
    for found in (small, large):
        for one in found:
            data = pickle.dumps(one)
            assert len(data) < 1500 + 40 * len(one.words) + 4 * (len(one.arcs) + len(one.tokens) + len(one.word_ids))
            assert b"Graph" not in data
    decoder = CtcDecoder(
        test_rescoring_inputs.graph(), language_model=test_rescoring_inputs.LARGE,
        graph_language_model=test_rescoring_inputs.SMALL,
    )  # fmt: skip
    (rescored,) = decoder.decode([test_rescoring_inputs.LOGP])
    data = pickle.dumps(rescored)
    assert b"LanguageModel" not in data and b"Graph" not in data
    again = pickle.loads(data)
    assert (again.text, again.rescoring_score, again.acoustic_score) == ("the cat", 1.75, rescored.acoustic_score)


def plain(value):
    """Whether JSON has it as it is."""
    if isinstance(value, dict):
        return all(type(name) is str and plain(inner) for name, inner in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return type(value) in (str, int, float, bool, type(None))


def test_as_a_dictionary(device):
    found, empty, dead, bad = (h.to_dict() for h in hypotheses(60, device=device, frame_shift=0.02))
    one = hypotheses(60, device=device, frame_shift=0.02)[0]
    assert list(found) == [
        "text", "words", "score", "partial_score", "acoustic_score", "graph_score", "rescoring_score", "boost_score",
        "reached_final", "complete", "error", "boosts", "tokens", "word_ids", "arcs",
    ]  # fmt: skip
    for name in ("text", "score", "acoustic_score", "graph_score", "reached_final", "complete", "error"):
        assert found[name] == getattr(one, name)
    for name in ("tokens", "word_ids", "arcs"):
        assert found[name] == getattr(one, name).tolist()
    assert [Word(**word) for word in found["words"]] == one.words
    assert (empty["words"], empty["score"], empty["tokens"]) == ([], empty["partial_score"], [])
    assert (dead["complete"], dead["score"], dead["error"]) == (False, None, None) and math.isfinite(
        dead["partial_score"]
    )
    assert (bad["score"], bad["partial_score"], bad["text"]) == (None, None, "")
    assert bad["error"].endswith("got nan in utterance 3, frame 0, column 0")
    for values in (found, empty, dead, bad):
        assert plain(values)
        assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_options_tell_the_number_of_threads(monkeypatch):
    graph = graphs.random_graph(4, states=60, columns=12)
    monkeypatch.setattr("arcbeam.ctc.decoder.usable_cores", lambda: 3)
    decoder = CtcDecoder(graph, device="cpu")
    assert decoder.options.threads == 3 and CtcDecoder(graph, device="cpu", threads=2).options.threads == 2
    monkeypatch.setattr("arcbeam.ctc.decoder.usable_cores", lambda: 5)
    assert pickle.loads(pickle.dumps(decoder)).options.threads == 5  # those of the machine that has the copy
