"""What a decode gives beside the best path: n-best lists, confidences, minimum Bayes risk, on both devices."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph, SymbolTable, TokenTable
from arcbeam.ctc.lattice import _lattice
from tests.decode import graphs
from tests.decode.entries import check_entries
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.small_search import ROOMY
from tests.decode.test_streams import GRAPH
from tests.lattice.oracle import edit_distance

BATCH = [random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7, 30))]
OPTIONS = {"beam": 6.0, "max_active": 60}


def decoder(**options):
    return CtcDecoder(GRAPH, device="cpu", **OPTIONS, **options)


REQUESTED = {"nbest": 5, "confidence": True, "mbr": True}


def as_values(hypotheses):
    return [
        (
            h.text, h.words, h.confidence, h.mbr, h.sausage,
            [(a.text, a.words, a.score, a.posterior, a.arcs.tolist()) for a in h.nbest],
        )
        for h in hypotheses
    ]  # fmt: skip


def test_the_hypothesis_comes_first_and_the_rest_falls_off():
    plain = decoder().decode(BATCH)
    found = decoder(frame_shift=0.04).decode(BATCH, nbest=10, confidence=True)
    assert [h.score for h in found] == [h.score for h in plain]
    for one in found:
        assert one.nbest[0].arcs.tolist() == one.arcs.tolist()
        assert math.isclose(one.nbest[0].score, one.score, rel_tol=1e-12)
        texts = [alternative.text for alternative in one.nbest]
        assert len(set(texts)) == len(texts) <= 10
        scores = [alternative.score for alternative in one.nbest]
        assert scores == sorted(scores, reverse=True)
        assert one.confidence == one.nbest[0].posterior
        assert 0 < sum(alternative.posterior for alternative in one.nbest) <= 1 + 1e-9
        assert all(0 <= word.confidence <= 1 for word in one.words)
        assert one.nbest.is_all == (len(one.nbest) < 10)
        assert not one.nbest.truncated and not one.confidence_truncated
        for other in one.nbest:
            parts = other.graph_score + other.acoustic_score + other.rescoring_score
            assert math.isclose(parts, other.score, rel_tol=1e-12)
    assert max(len(one.nbest) for one in found) > 3


def pieces():
    """A graph of pieces, of which some open words; one is the mark of a word's start alone."""
    names = ["<eps>", "▁", *(f"{'▁' * (i % 3 == 0)}p{i}" for i in range(2, 50))]
    symbols = SymbolTable.from_list(names)
    return Graph(**GRAPH.fields() | {"word_symbols": symbols, "join": "pieces", "separator": "▁"})


@pytest.mark.parametrize("graph", [GRAPH, pieces()], ids=["words", "pieces"])
def test_entries_say_what_their_paths_do(graph):
    for shift in (None, 0.04):
        made = CtcDecoder(graph, device="cpu", frame_shift=shift, **OPTIONS)
        found = made.decode(BATCH, nbest=10, confidence=True)
        entries, words = check_entries(found)
        assert entries > 30 and words > 30
        labels = found[0]._results.answers.labels
        assert len(labels.first_label) == entries + 1 and labels.first_label[-1] == len(labels.labels)
        assert labels.starts.dtype == labels.ends.dtype == np.int64 and (labels.starts < labels.ends).all()
        for one in found:
            again = pickle.loads(pickle.dumps(one))
            assert [entry.to_dict() for entry in again.nbest] == [entry.to_dict() for entry in one.nbest]
    assert made.decode(BATCH, confidence=True)[0]._results.answers.labels is None


def test_no_output_is_there_without_a_request():
    for one in decoder().decode(BATCH):
        assert (one.nbest, one.confidence, one.lattice, one.mbr, one.sausage) == (None,) * 5
        assert one.confidence_truncated is None
        assert all(word.confidence is None for word in one.words)
        assert not {"nbest", "confidence"} & set(one.to_dict())


def test_minimum_bayes_risk_and_the_confusion_network():
    for one in decoder(frame_shift=0.04).decode(BATCH, lattice=True):
        assert one.mbr.text == " ".join(word.word for word in one.mbr.words)
        for rivals in one.sausage:
            assert math.isclose(sum(posterior for _, posterior in rivals), 1.0, abs_tol=1e-6)
            assert [p for _, p in rivals] == sorted((p for _, p in rivals), reverse=True)
        assert 0 <= one.mbr.errors < math.inf and not one.mbr.truncated
        assert one.lattice.oracle_wer(one.text).errors == 0
        links = one.lattice.posteriors
        assert links.size == one.lattice.num_links and (links.size == 0 or 0 <= links.min() <= links.max() <= 1)


def test_minimum_bayes_risk_of_a_batch_is_that_of_its_lattices():
    for options in ({}, {"frame_shift": 0.04, "posterior_scale": 0.3}):
        with_lattices = decoder(**options).decode(BATCH, lattice=True)
        requested = decoder(**options).decode(BATCH, mbr=True)
        for one, other in zip(requested, with_lattices, strict=True):
            assert (one.mbr, one.sausage) == (other.mbr, other.sausage) and one.text == other.text
            assert (one.nbest, one.confidence, one.lattice) == (None,) * 3
            said = one.to_dict()
            assert said["mbr"]["text"] == one.mbr.text and len(said["mbr"]["words"]) == len(one.mbr.words)
            assert [[tuple(rival) for rival in rivals] for rivals in said["sausage"]] == one.sausage
            assert "mbr" not in other.to_dict() and "sausage" not in other.to_dict()
            again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(one))))
            assert (again.mbr, again.sausage, again.to_dict()) == (one.mbr, one.sausage, said)
    assert any(one.mbr.words for one in requested)


def test_threads_batches_and_runs_give_the_same():
    wanted = as_values(decoder(threads=1).decode(BATCH, **REQUESTED))
    assert as_values(decoder(threads=4).decode(BATCH[::-1], **REQUESTED))[::-1] == wanted
    again = decoder(threads=2)
    for _ in range(2):
        assert as_values([again.decode([one], **REQUESTED)[0] for one in BATCH]) == wanted
        again.release()


def test_a_gpu_gives_the_same(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    gpu = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    assert as_values(gpu.decode(BATCH, **REQUESTED)) == as_values(decoder().decode(BATCH, **REQUESTED))


def test_a_larger_scale_is_more_certain():
    def certain(scale):
        found = decoder(posterior_scale=scale).decode(BATCH, confidence=True)
        return float(np.mean([one.confidence for one in found]))

    assert certain(0.1) < certain(1.0) < certain(10.0) <= 1.0


def test_a_narrower_lattice_is_the_wider_one_pruned():
    wide, narrow = (decoder(lattice_beam=beam).decode(BATCH, lattice=True) for beam in (8.0, 3.0))
    for one, other in zip(wide, narrow, strict=True):
        pruned = one.lattice.prune(3.0)
        assert pruned.links.tobytes() == other.lattice.links.tobytes()
        assert pruned.states.tobytes() == other.lattice.states.tobytes()
        assert pruned.final_scores.tobytes() == other.lattice.final_scores.tobytes()


def test_dead_refused_and_silent_utterances():
    dying, bad, silent = BATCH[-1].copy(), BATCH[-1].copy(), np.zeros((0, 12), np.float32)
    dying[11:] = -np.inf
    bad[3, 2] = np.nan
    requested = {"nbest": 4, "confidence": True, "lattice": True, "mbr": True}
    dead, refused, quiet = decoder().decode([dying, bad, silent], errors="return", **requested)
    assert len(dead.nbest) == 1 and dead.nbest[0].score == -math.inf and dead.confidence == 0.0
    assert refused.nbest == [] and refused.confidence == 0.0 and refused.lattice.num_links == 0
    assert dead.words and all(word.confidence == 0.0 for word in [*dead.words, *dead.mbr.words])
    assert dead.mbr.text == dead.text and dead.mbr.errors == len(dead.words)
    assert dead.mbr == dead.lattice.mbr and [entry.posterior for entry in dead.nbest] == [0.0]
    assert all(len(rivals) == 1 for rivals in dead.sausage)
    nothing = decoder().decode([np.full((4, 12), -np.inf, np.float32)], **requested)[0]
    assert (nothing.text, nothing.confidence, nothing.mbr.errors) == ("", 0.0, 0.0)
    assert math.copysign(1.0, nothing.graph_score) == math.copysign(1.0, nothing.nbest[0].graph_score) == 1.0
    assert refused.mbr == ("", [], 0.0, False) and refused.sausage == []
    assert quiet.nbest[0].text == quiet.text and 0 < quiet.confidence <= 1
    assert decoder().decode(BATCH[:1])[0].complete


@pytest.mark.parametrize("name", ["confidence", "lattice", "mbr"])
def test_flags_are_bools(name):
    one = decoder()
    for call in (lambda **requested: one.decode(BATCH, **requested), one.stream):
        with pytest.raises(TypeError, match=f"{name}: expected a bool, got str"):
            call(**{name: "no"})


def test_words_of_least_risk_that_the_hypothesis_has_take_their_times_from_it():
    same = others = 0
    for seed in range(6):
        batch = [random_log_probs(seed + at, 20, 12) for at in range(4)]
        one = decoder(frame_shift=0.04, posterior_scale=0.3)
        for found in one.decode(batch, mbr=True, lattice=True):
            known = found._mbr.same_as
            for word, at in zip(found.mbr.words, known.tolist(), strict=True):
                if at == 0xFFFFFFFF:
                    others += 1
                    continue
                assert word._replace(confidence=None) == found.words[at]
                same += 1
            assert np.all(np.diff(known[known != 0xFFFFFFFF].astype(int)) > 0)
            assert found.lattice.mbr == found.mbr == pickle.loads(pickle.dumps(found.lattice)).mbr
            assert found.lattice.prune(20.0).mbr == pickle.loads(pickle.dumps(found.lattice)).prune(20.0).mbr
    assert same > 20 and others > 5


def test_words_of_least_risk_have_the_seconds_of_their_frames_and_none_is_empty():
    between = others = 0
    for seed in range(6):
        batch = [random_log_probs(seed + at, 20, 12) for at in range(4)]
        for found in decoder(frame_shift=0.04, posterior_scale=0.3).decode(batch, mbr=True):
            known = found._mbr
            for word, place in zip(found.mbr.words, range(len(known.words)), strict=True):
                assert word.start_frame < word.end_frame
                assert (word.start, word.end) == (word.start_frame * 0.04, word.end_frame * 0.04)
                if known.same_as[place] == 0xFFFFFFFF:
                    others += known.begins[place] != word.start_frame
                    between += round(known.begins[place]) == round(known.ends[place])
    assert others > 5 and between > 0


def segmented():
    """A graph that writes "ab" as one piece or as two, and then "c"; and log-probs of "ab c"."""
    tokens = TokenTable.from_list(["<blank>", "▁a", "b", "▁ab", "▁c"])
    arcs = [(0, 0, 1, 0, 0.0), *((0, 0, label + 1, label, 0.5) for label in range(1, 5))]
    symbols = SymbolTable.from_list(["<eps>", "▁a", "b", "▁ab", "▁c"])
    graph = Graph.from_arcs(
        arcs, start=0, finals={0: 0.0}, tokens=tokens, word_symbols=symbols, join="pieces", separator="▁"
    )
    likely = [{1: 0.45, 3: 0.5}, {0: 0.9}, {2: 0.5, 0: 0.45}, {0: 0.9}, {4: 0.9}]
    probs = np.full((len(likely), 5), 1e-4)
    for row, frame in zip(probs, likely, strict=True):
        row[list(frame)] = list(frame.values())
    return graph, np.log(probs / probs.sum(1, keepdims=True)).astype(np.float32)


def test_answers_about_pieces_are_of_words():
    graph, log_probs = segmented()
    one = CtcDecoder(graph, device="cpu", lattice_beam=12.0, frame_shift=0.04)
    found = one.decode([log_probs], nbest=10, mbr=True, lattice=True)[0]
    assert [entry.text for entry in found.nbest].count("ab c") == 2  # entries are sequences of pieces
    assert found.mbr.text == "ab c" == " ".join(word.word for word in found.mbr.words)
    assert [word[:5] for word in found.mbr.words] == [word[:5] for word in found.words]
    for lattice in (found.lattice, pickle.loads(pickle.dumps(found.lattice)), found.lattice.prune(2.0)):
        assert lattice.mbr.text == "ab c"
        for reference, errors, words in [
            ("ab c", 0, ["ab", "c"]), ("a c", 0, ["a", "c"]), ("ab", 0, ["ab"]), ("abc c", 1, ["ab", "c"]),
            ("", 0, []), ("a b c", 1, ["a", "c"]),
        ]:  # fmt: skip
            if lattice.num_links == found.lattice.num_links:
                least = lattice.oracle_wer(reference)
                assert least.errors == errors and (errors or least.words == words)
        assert lattice.oracle_wer("ab c")[:2] == (0, ["ab", "c"])


def test_the_oracle_of_pieces_is_that_of_all_paths():
    one = CtcDecoder(pieces(), device="cpu", **OPTIONS | {"beam": 4.0})
    rng = np.random.default_rng(1)
    checked = 0
    for seed in range(8):
        found = one.decode([random_log_probs(seed, 6, 12)], nbest=5000, lattice=True)[0]
        assert found.nbest.is_all
        texts = [entry.text.split() for entry in found.nbest]
        for text in [texts[-1], texts[0][::-1], list(rng.permutation([*texts[0], *texts[-1]]))]:
            reference = tuple(map(str, text))
            least = found.lattice.oracle_wer(list(reference))
            assert least.errors == min(edit_distance(tuple(other), reference) for other in texts)
            assert edit_distance(tuple(least.words), reference) == least.errors and least.words in texts
            checked += len(texts)
    assert checked > 100


@pytest.mark.parametrize("nbest", [0, -1, 2.5, "3"])
def test_bad_requests(nbest):
    one = decoder()
    with pytest.raises((TypeError, ValueError), match="nbest: expected"):
        one.decode(BATCH, nbest=nbest)
    assert one.decode(BATCH, nbest=2)[0].nbest


@pytest.mark.parametrize(
    ("name", "value"), [("lattice_beam", -1.0), ("lattice_beam", math.nan), ("posterior_scale", -0.5),
                        ("posterior_scale", math.inf)]
)  # fmt: skip
def test_bad_options(name, value):
    with pytest.raises(ValueError, match=f"{name}: expected"):
        decoder(**{name: value})


def test_pickles_and_dictionaries():
    one = decoder(frame_shift=0.04).decode(BATCH, nbest=3, confidence=True, lattice=True)[-1]
    copy = pickle.loads(pickle.dumps(one))
    assert as_values([copy]) == as_values([one])
    assert copy.to_dict() == one.to_dict()
    assert copy.lattice.links.tobytes() == one.lattice.links.tobytes()
    assert [entry["text"] for entry in one.to_dict()["nbest"]] == [entry.text for entry in one.nbest]
    assert one.to_dict()["words"][0]["confidence"] == one.words[0].confidence


def test_limits_are_said(monkeypatch):
    class Hurried(_lattice.AnswerEngine):
        def answers(self, lattices, request):
            return super().answers(lattices, replace(request, step_limit=1))

    monkeypatch.setattr("arcbeam.ctc.answering.AnswerEngine", Hurried)
    found = decoder().decode(BATCH, nbest=10, confidence=True)
    alone = decoder().decode(BATCH, confidence=True)
    for one in (found[-1], alone[-1], pickle.loads(pickle.dumps(found[-1]))):
        assert one.confidence_truncated and one.to_dict()["confidence_truncated"]
    said = found[-1].to_dict()
    assert found[-1].nbest.truncated and said["nbest_truncated"] and not said["nbest_is_all"]


def test_random_graphs_have_no_nan():
    for seed in range(30):
        graph = random_graph(seed, states=40, columns=6)
        batch = [graphs.random_log_probs(seed + i, 4 + i, 6) for i in range(3)]
        wide = CtcDecoder(graph, device="cpu", beam=9.0, lattice_beam=math.inf)
        for one in wide.decode(batch, nbest=50, confidence=True):
            numbers = [one.confidence, *(word.confidence for word in one.words), *(a.posterior for a in one.nbest)]
            assert all(0 <= number <= 1 for number in numbers)
