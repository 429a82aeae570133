"""What lattices answer equals an enumeration of their paths; batches give the same bytes in every order."""

import math
from itertools import pairwise

import numpy as np
import pytest

from arcbeam.ctc.lattice import _lattice
from arcbeam.ctc.lattice._lattices import Lattices
from arcbeam.ctc.lattice.answers import AnswerRequest
from tests.lattice.oracle import MbrOracle, Paths, edit_distance
from tests.lattice.random_lattices import chain, grid_lattice, random_lattice
from tests.lattice.writing import writing

SHAPES = [
    {},
    {"steps": 6, "width": 2, "silent": 0.6},
    {"steps": 3, "width": 5, "degree": 3.0, "tied": 0.8, "words": 2, "most_slack": 4},
    {"steps": 5, "width": 3, "epsilon": 0.7, "silent": 0.8},
    {"steps": 1, "width": 5, "epsilon": 1.0, "degree": 3.0},
    {"steps": 5, "width": 3, "tied": 1.0, "words": 1, "silent": 0.3},
    {"steps": 4, "width": 3, "silent": 1.0},
]


def cases(count=60, most_paths=4000):
    """Random lattices of each shape, with their words and their paths."""
    rng = np.random.default_rng(5)
    for shape in SHAPES:
        for _ in range(count):
            lattice, words = random_lattice(rng, **shape)
            yield rng, lattice, words, Paths(lattice, words)


def of(*lattices):
    return Lattices.of_arrays(list(lattices))


def entries_of(found, words):
    bounds = found.first_link.tolist()
    links = [tuple(found.links[a:b].tolist()) for a, b in pairwise(bounds)]
    spoken = [tuple(int(words[i]) for i in path if words[i]) for path in links]
    return list(zip(spoken, found.costs.tolist(), links, strict=True))


def test_the_random_lattices_are_worth_it():
    sizes = [len(paths.by_words) for _, _, _, paths in cases()]
    assert sum(size > 10 for size in sizes) > 80
    assert sum(len(paths.pinches()) > 2 for _, _, _, paths in cases(20)) > 30


def test_nbest_lists_are_those_of_an_enumeration():
    for rng, lattice, words, paths in cases():
        n = int(rng.integers(1, 12))
        scale = float(rng.choice([0.0, 0.5, 1.0, 3.0]))
        found = _lattice.nbest(of(lattice), 0, words, n, scale=scale)
        expected = paths.nbest(n, scale)
        assert entries_of(found, words) == [entry[:3] for entry in expected]
        assert not found.truncated
        np.testing.assert_allclose(found.posteriors, [entry[3] for entry in expected], rtol=1e-12)


def test_a_longer_list_begins_with_the_shorter():
    for _, lattice, words, _ in cases(10):
        lists = [entries_of(_lattice.nbest(of(lattice), 0, words, n), words) for n in range(1, 15)]
        for shorter, longer in pairwise(lists):
            assert longer[: len(shorter)] == shorter


def test_posteriors_are_those_of_an_enumeration():
    for rng, lattice, _, paths in cases(30):
        scale = float(rng.choice([0.0, 0.7, 1.0, 2.5]))
        found = _lattice.posteriors(of(lattice), 0, scale=scale)
        np.testing.assert_allclose(found.links, paths.link_posteriors(scale), rtol=1e-12)
        assert found.log_total == pytest.approx(math.log(paths.total(scale)), rel=1e-12, abs=1e-15)
        assert (found.links >= 0).all() and (found.links <= 1).all()


def test_posteriors_of_the_links_into_a_step_sum_to_1():
    lattice, _ = grid_lattice(np.random.default_rng(2), steps=300, tokens=20, degree=3)
    found = _lattice.posteriors(of(lattice), 0)
    step = np.searchsorted(lattice["first_token"], lattice["links"]["target"], side="right")
    np.testing.assert_allclose(np.bincount(step, found.links)[2:], 1.0, rtol=1e-12)


def test_confidences_are_those_of_the_paper():
    for rng, lattice, words, paths in cases():
        scale = float(rng.choice([0.0, 0.5, 1.0]))
        found, truncated = _lattice.confidences(of(lattice), 0, words, scale=scale)
        np.testing.assert_allclose(found, MbrOracle(paths, scale).confidences(), rtol=1e-12, atol=1e-14)
        assert not truncated and (found >= 0).all() and (found <= 1).all()


def test_minimum_bayes_risk_is_that_of_the_paper():
    changed = 0
    for rng, lattice, words, paths in cases():
        scale = float(rng.choice([0.3, 0.5, 1.0]))
        found = _lattice.mbr(of(lattice), 0, words, scale=scale)
        spoken, errors, sausage = MbrOracle(paths, scale).decode()
        assert found.words.tolist() == [word for word, _ in spoken]
        np.testing.assert_allclose(found.confidences, [p for _, p in spoken], rtol=1e-12, atol=1e-14)
        assert found.errors == pytest.approx(errors, rel=1e-12, abs=1e-13)
        mine = found.sausage()
        assert [sorted(w for w, _ in slot) for slot in mine] == [sorted(w for w, _ in slot) for slot in sausage]
        for slot, expected in zip(mine, sausage, strict=True):
            assert [p for _, p in slot] == pytest.approx([p for _, p in expected], rel=1e-12, abs=1e-14)
            assert sum(p for _, p in slot) == pytest.approx(1.0, rel=1e-12)
            assert slot == sorted(slot, key=lambda pair: (-pair[1], pair[0]))
        assert (found.begins <= found.ends).all() and (found.ends <= len(lattice["first_token"])).all()
        changed += found.words.tolist() != list(paths.spoken(lattice["best"].tolist()))
    assert changed > 20


def test_one_path_is_certain():
    lattice, words = chain([3, 0, 1, 0, 2])
    found = _lattice.mbr(of(lattice), 0, words)
    assert found.words.tolist() == [3, 1, 2] and found.confidences.tolist() == [1.0] * 3 and found.errors == 0.0
    assert found.begins.tolist() == [0.0, 2.0, 4.0] and found.ends.tolist() == [1.0, 3.0, 5.0]
    assert found.sausage() == [[(3, 1.0)], [(1, 1.0)], [(2, 1.0)]]
    assert _lattice.nbest(of(lattice), 0, words, 5).posteriors.tolist() == [1.0]
    assert _lattice.posteriors(of(lattice), 0).links.tolist() == [1.0] * 5


def two_ways(word, other, slack):
    """Token 0 to token 1 by one of two links, between words 8 and 9."""
    lattice, _ = chain([8, word, 9])
    links = np.insert(lattice["links"], 2, np.array((1, 2, 7, slack), lattice["links"].dtype))
    links["arc"] = range(4)
    lattice |= {
        "links": links,
        "first_link": np.array([0, 1, 3, 4, 4], np.uint32),
        "best": np.array([0, 1, 3], np.uint32),
    }
    return lattice, np.array([8, word, other, 9], np.uint32)


@pytest.mark.parametrize("slack", [0.0, 0.5, 3.0])
def test_two_alternatives_have_a_closed_form(slack):
    share = 1 / (1 + math.exp(-slack))
    lattice, words = two_ways(5, 6, slack)
    found, _ = _lattice.confidences(of(lattice), 0, words)
    assert found.tolist() == pytest.approx([1.0, share, 1.0], rel=1e-15)
    slots = _lattice.mbr(of(lattice), 0, words).sausage()
    assert [[w for w, _ in slot] for slot in slots] == [[8], [5, 6], [9]]
    lattice, words = two_ways(5, 0, slack)  # deleted by the other path
    found, _ = _lattice.confidences(of(lattice), 0, words)
    assert found.tolist() == pytest.approx([1.0, share, 1.0], rel=1e-15)
    lattice, words = two_ways(0, 6, slack)  # inserted
    found, _ = _lattice.confidences(of(lattice), 0, words)
    assert found.tolist() == [1.0, 1.0]
    slots = _lattice.mbr(of(lattice), 0, words).sausage()
    assert [[w for w, _ in slot] for slot in slots] == [[8], [0, 6], [9]]
    assert slots[1][0][1] == pytest.approx(share, rel=1e-15)


def test_fewest_errors_are_those_of_an_enumeration():
    for rng, lattice, words, paths in cases():
        reference = rng.integers(1, 5, rng.integers(0, 7)).tolist()
        found = _lattice.oracle(of(lattice), 0, words, reference)
        assert found.errors == paths.oracle(reference)
        path = tuple(found.links.tolist())
        assert edit_distance(paths.spoken(path), tuple(reference)) == found.errors
        best = [p for p, _ in paths.paths if edit_distance(paths.spoken(p), tuple(reference)) == found.errors]
        assert path == min(best)
        little = _lattice.oracle(of(lattice), 0, words, reference, room=1)
        assert (little.errors, tuple(little.links.tolist())) == (found.errors, path)


@pytest.mark.parametrize("room", [1, 20_000, 100_000])
def test_fewest_errors_do_not_depend_on_the_room(room):
    rng = np.random.default_rng(8)
    lattice, words = grid_lattice(rng, steps=500, tokens=6, degree=3, words_every=3, vocabulary=4)
    reference = rng.integers(1, 5, 170)
    whole = _lattice.oracle(of(lattice), 0, words, reference)
    found = _lattice.oracle(of(lattice), 0, words, reference, room=room)
    assert (found.errors, found.links.tobytes()) == (whole.errors, whole.links.tobytes()) and whole.errors > 0


def test_pruned_lattices_hold_the_paths_within_the_beam():
    for rng, lattice, _, paths in cases():
        beam = float(rng.integers(0, 200)) / 64
        pruned = _lattice.prune(of(lattice), 0, beam)[0]
        kept = pruned.arrays(0)
        near = {number for path, excess in paths.paths if excess <= beam for number in path}
        assert kept["links"]["arc"].tolist() == lattice["links"]["arc"][sorted(near)].tolist()
        states = {0} | {paths.links[number][1] for number in near}
        assert kept["states"].tolist() == sorted(states)
        numbers = {state: number for number, state in enumerate(kept["states"].tolist())}
        for link in kept["links"]:
            whole = lattice["links"][int(link["arc"])]
            assert (link["source"], link["target"]) == (numbers[whole["source"]], numbers[whole["target"]])
            assert link["slack"] == whole["slack"]
        steps = np.searchsorted(kept["states"], lattice["first_token"])
        assert kept["first_token"].tolist() == steps.tolist()
        assert kept["first_link"].tolist() == np.searchsorted(kept["links"]["source"], range(len(states) + 1)).tolist()
        ends = [state - paths.first_end for state in kept["states"].tolist() if state >= paths.first_end]
        assert kept["end_extras"].tolist() == [x if x <= beam else np.inf for x in lattice["end_extras"][ends].tolist()]
        best = kept["links"]["arc"][kept["best"]]
        assert best.tolist() == lattice["links"]["arc"][lattice["best"]].tolist()
        assert (kept["total_cost"], kept["complete"]) == (lattice["total_cost"], True)
        again = _lattice.prune(pruned, 0, beam)[0].arrays(0)
        assert all(np.array_equal(again[name], kept[name]) for name in kept)


def batch_of(sizes):
    """Lattices of one word table: each has arcs of its own."""
    rng = np.random.default_rng(11)
    lattices, tables, arcs = [], [], 0
    for size in sizes:
        lattice, words = grid_lattice(rng, steps=size, tokens=6, degree=3, words_every=3, vocabulary=4)
        lattice["links"]["arc"] += arcs
        arcs += len(words)
        lattices.append(lattice)
        tables.append(words)
    return lattices, writing(np.concatenate(tables))


def bytes_of(mbr):
    values = vars(mbr)
    return {name: value.tobytes() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def by_utterance(answers):
    """The answers of each utterance as bytes."""
    found = []
    for i in range(len(answers.first_entry) - 1):
        a, b = answers.first_entry[i : i + 2]
        words = slice(*answers.first_word[i : i + 2])
        arcs = [answers.arcs[slice(*answers.first_arc[k : k + 2])].tobytes() for k in range(a, b)]
        found.append(
            (
                answers.costs[a:b].tobytes(),
                answers.posteriors[a:b].tobytes(),
                arcs,
                answers.confidences[words].tobytes(),
                None if answers.mbr is None else bytes_of(answers.mbr.of(i)),
            )
        )
    return found


def test_threads_and_orders_give_the_same_bytes():
    lattices, graph = batch_of([5, 60, 2, 33, 1, 47, 12, 60, 3])
    options = {"nbest": 7, "confidence": True, "mbr": True, "posterior_scale": 0.7}
    alone = _lattice.AnswerEngine(graph, threads=1)
    expected = by_utterance(alone.answers(of(*lattices), AnswerRequest(**options)))
    assert expected == [by_utterance(alone.answers(of(one), AnswerRequest(**options)))[0] for one in lattices]
    order = [4, 2, 8, 0, 7, 1, 3, 6, 5]
    for threads in (1, 2, 5):
        engine = _lattice.AnswerEngine(graph, threads=threads)
        assert by_utterance(engine.answers(of(*lattices), AnswerRequest(**options))) == expected
        found = by_utterance(engine.answers(of(*[lattices[i] for i in order]), AnswerRequest(**options)))
        assert found == [expected[i] for i in order]


def test_a_batch_answers_as_single_lattices_do():
    lattices, graph = batch_of([5, 20, 9])
    batch = of(*lattices)
    engine = _lattice.AnswerEngine(graph, threads=2)
    found = engine.answers(batch, AnswerRequest(nbest=6, confidence=True, mbr=True))
    alone = engine.answers(batch, AnswerRequest(nbest=0, mbr=True))
    assert len(alone.costs) == len(alone.confidences) == 0 and alone.first_entry.tolist() == [0] * 4
    for i, lattice in enumerate(lattices):
        words = _lattice.link_words(batch, i, graph)
        single = _lattice.nbest(batch, i, words, 6)
        a, b = found.first_entry[i : i + 2]
        assert found.costs[a:b].tobytes() == single.costs.tobytes()
        assert found.posteriors[a:b].tobytes() == single.posteriors.tobytes()
        arcs = found.arcs[found.first_arc[a] : found.first_arc[b]]
        assert arcs.tolist() == lattice["links"]["arc"][single.links].tolist()
        confidences, _ = _lattice.confidences(batch, i, words)
        assert found.confidences[slice(*found.first_word[i : i + 2])].tobytes() == confidences.tobytes()
        wanted = bytes_of(_lattice.mbr(batch, i, words))
        assert bytes_of(found.mbr.of(i)) == bytes_of(alone.mbr.of(i)) == wanted


def test_an_utterance_without_a_lattice_has_no_answers():
    nothing = {name: [] for name in ("first_token", "states", "costs", "links", "first_link", "end_extras", "best")}
    nothing |= {"total_cost": 0.0, "reached_final": False, "complete": False}
    lattices, graph = batch_of([4])
    engine = _lattice.AnswerEngine(graph, threads=1)
    found = engine.answers(of(nothing, *lattices, nothing), AnswerRequest(nbest=3, confidence=True, mbr=True))
    assert len(found.mbr.of(1).words) > 0
    for i in (0, 2):
        assert len(found.mbr.of(i).words) == len(found.mbr.of(i).sausage()) == 0 == found.mbr.of(i).errors
    assert found.first_entry.tolist() == [0, 0, 3, 3] and found.first_word[1] == 0
    batch, words = of(nothing), np.empty(0, np.uint32)
    assert len(_lattice.nbest(batch, 0, words, 3).costs) == 0
    assert _lattice.mbr(batch, 0, words).sausage() == []
    assert _lattice.oracle(batch, 0, words, [1, 2]).errors == 2
    assert len(_lattice.posteriors(batch, 0).links) == 0
    assert len(_lattice.prune(batch, 0, 1.0)[0].arrays(0)["states"]) == 0


def test_one_token_is_a_lattice():
    lattice, words = chain([])
    assert entries_of(_lattice.nbest(of(lattice), 0, words, 3), words) == [((), 3.5, ())]
    assert _lattice.confidences(of(lattice), 0, words)[0].tolist() == []
    assert _lattice.mbr(of(lattice), 0, words).sausage() == []


def test_bad_requests_are_refused():
    lattices, graph = batch_of([3])
    engine, batch = _lattice.AnswerEngine(graph, threads=1), of(*lattices)
    words = _lattice.link_words(batch, 0, graph)
    with pytest.raises(ValueError, match="nbest of at least 1, got 0"):
        _lattice.nbest(batch, 0, words, 0)
    for scale in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="posterior scale of at least 0, and finite"):
            engine.answers(batch, AnswerRequest(posterior_scale=scale))
        with pytest.raises(ValueError, match="posterior scale of at least 0, and finite"):
            _lattice.posteriors(batch, 0, scale=scale)
    with pytest.raises(ValueError, match=f"one word for each of the lattice's {len(words)} links, got 2"):
        _lattice.nbest(batch, 0, words[:2], 1)
    with pytest.raises(ValueError, match="beam of at least 0"):
        _lattice.prune(batch, 0, -0.5)
    with pytest.raises(IndexError, match="below 1, got 1"):
        _lattice.posteriors(batch, 1)
