"""Pictures of lattices: posteriors are those of all paths, boxes do not cover each other, what is left out is said."""

import itertools
import math
import re
import sys
from collections import Counter

import numpy as np
import pytest

from arcbeam import MissingDependencyError
from arcbeam.lattices import pictures, word_graph
from arcbeam.lattices.pictures import Box, Picture
from arcbeam.lattices.word_graph import Edge
from tests.lattice_files.random_lattices import nothing, random_lattice

SEEDS = range(12)


def graph_of(lattice, least=0.0, span=(-math.inf, math.inf)):
    return word_graph.word_graph(
        lattice.links, lattice.words, lattice.steps, lattice.posteriors, lattice.best, least, span
    )


def weighted_paths(lattice):
    """All paths as (links, posterior)."""
    leaving = [np.flatnonzero(lattice.links["source"] == token).tolist() for token in range(lattice.num_tokens)]
    found, pending = [], [((), 0)]
    while pending:
        path, token = pending.pop()
        if np.isfinite(lattice.final_scores[token]):
            found.append((path, float(np.exp(lattice.scores[list(path)].sum() + lattice.final_scores[token]))))
        pending += [((*path, link), int(lattice.links["target"][link])) for link in leaving[token]]
    total = sum(weight for _, weight in found)
    return [(path, weight / total) for path, weight in found]


@pytest.mark.parametrize("least", [0.0, 0.05])
@pytest.mark.parametrize("together", [0, 6])
@pytest.mark.parametrize("seed", SEEDS)
def test_posteriors_are_those_of_all_paths(monkeypatch, seed, together, least):
    monkeypatch.setattr(word_graph, "TOGETHER", together)
    lattice = random_lattice(seed)
    found = graph_of(lattice, least)
    links, of_link = word_graph._occurrences(lattice.links["source"], lattice.words, lattice.steps)
    posteriors = Counter()
    for link in links.tolist():
        posteriors[of_link[link]] += lattice.posteriors[link]
    on_best = {of_link[link] for link in lattice.best.tolist() if of_link[link]}
    kept = {group for group, posterior in posteriors.items() if posterior >= least or group in on_best}
    assert found.left_out == len(posteriors) - len(kept)
    assert sorted(node.posterior for node in found.nodes[1:-1]) == pytest.approx(
        sorted(min(posteriors[group], 1.0) for group in kept), abs=1e-9
    )
    assert [node.frame for node in found.nodes] == sorted(node.frame for node in found.nodes)
    pairs = Counter()
    for path, weight in weighted_paths(lattice):
        said = ["start", *(of_link[link] for link in path if of_link[link]), "end"]
        for a, b in itertools.pairwise(said):
            if a != b and {a, b} <= {"start", "end", *kept}:
                pairs[a, b] += weight
    best_said = ["start", *(of_link[link] for link in lattice.best.tolist() if of_link[link]), "end"]
    best_pairs = {(a, b) for a, b in itertools.pairwise(best_said) if a != b}
    wanted = sorted(min(p, 1.0) for pair, p in pairs.items() if p >= max(least, 1e-300) or pair in best_pairs)
    assert sorted(edge.posterior for edge in found.edges if edge.posterior > 1e-5) == pytest.approx(
        [p for p in wanted if p > 1e-5], abs=1e-5
    )
    assert sum(edge.best for edge in found.edges) == len(best_pairs)


def test_links_of_a_word_near_each_other_are_one_occurrence():
    sources = np.array([0, 3, 9, 20, 4], np.uint32)
    words = np.array([1, 1, 1, 1, 2], np.uint32)
    _, of_link = word_graph._occurrences(sources, words, np.arange(30, dtype=np.int32))
    assert of_link.tolist() == [1, 1, 1, 2, 3]


def test_a_stretch_and_the_most_words(monkeypatch):
    monkeypatch.setattr(word_graph, "TOGETHER", 0)
    lattice = random_lattice(2)
    whole = graph_of(lattice)
    assert len(whole.nodes) > 5 and whole.left_out == 0
    middle = graph_of(lattice, span=(2.0, 5.0))
    assert [n for n in whole.nodes[1:-1] if 2.0 <= n.frame <= 5.0] == middle.nodes[1:-1]
    assert (middle.nodes[0].frame, middle.nodes[-1].frame) == (2.0, 5.0)
    best = sum(n.best for n in whole.nodes[1:-1])
    assert 0 < best < len(whole.nodes) - 3
    monkeypatch.setattr(word_graph, "MOST_WORDS", best + 1)
    few = graph_of(lattice)
    assert {n for n in whole.nodes if n.best} <= set(few.nodes) and few.left_out == len(whole.nodes) - len(few.nodes)
    assert len(few.nodes) == best + 3
    monkeypatch.setattr(word_graph, "MOST_WORDS", best - 1)
    with pytest.raises(ValueError, match=f"expected a stretch of at most {best - 1} words .* got {best}; .* start="):
        graph_of(lattice)


PICTURE = Picture(
    [Box(0.0, "", 1.0, True), Box(0.5, 'a"b\\', 0.9, True), Box(0.6, "c$d$", 0.1, False), Box(1.0, "", 1.0, True)],
    [Edge(0, 1, 0.9, True), Edge(1, 3, 0.9, True), Edge(0, 2, 0.1, False), Edge(2, 3, 0.1, False)],
    "seconds",
    "left out: 1 less probable word",
)


def test_dot():
    text = pictures.to_dot(PICTURE)
    assert '1 [label="a\\"b\\\\\\n0.5", penwidth=2.20, color="#c0392bed"];' in text
    assert '2 [label="c$d$\\n0.6", penwidth=0.60, color="#34495e5e"];' in text
    assert 'label="left out: 1 less probable word";' in text
    drawn = re.findall(r"  (\d) -> (\d) \[penwidth=(\d\.\d\d), [^]]*?(, style=bold)?\];", text)
    assert [(int(s), int(t), bool(bold)) for s, t, _, bold in drawn] == [
        (s, t, best) for s, t, _, best in PICTURE.lines
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_dot_has_every_word_and_line(seed):
    lattice = random_lattice(seed)
    picture, text = lattice._picture(), lattice.to_dot()
    assert text.count("penwidth") == len(picture.lines) + sum(bool(box.word) for box in picture.boxes)
    bold = [(line.source, line.target) for line in picture.lines if line.best]
    assert text.count("style=bold") == len(bold) and text.count("circle") == 2
    assert bold[0][0] == 0 or any(line[0] == 0 for line in bold)


def test_boxes_of_a_row_do_not_overlap():
    rng = np.random.default_rng(1)
    for _ in range(50):
        count = int(rng.integers(1, 40))
        boxes = [Box(0.0, "w", float(rng.random()), bool(rng.random() < 0.3)) for _ in range(count)]
        middles, widths = rng.random(count) * 300, 5 + rng.random(count) * 40
        rows = pictures.rows_of(boxes, middles, widths)
        for i, j in itertools.combinations(range(count), 2):
            if rows[i] == rows[j]:
                assert abs(middles[i] - middles[j]) >= (widths[i] + widths[j]) / 2 - 1e-9
        assert all(row != 0 or box.best for row, box in zip(rows, boxes, strict=True))
        assert not any(box.best for box in boxes) or 0 in rows


def test_plot():
    matplotlib = pytest.importorskip("matplotlib", reason="draws: .[bench]")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    lattice = random_lattice(2)
    ax, picture = lattice.plot(), lattice._picture()
    assert sorted(text.get_text() for text in ax.texts) == sorted(box.word for box in picture.boxes if box.word)
    assert len(ax.patches) == len(picture.lines)
    widths = {round(patch.get_linewidth(), 6): patch.get_alpha() for patch in ax.patches}
    assert [widths[width] for width in sorted(widths)] == sorted(widths.values())  # the thicker the less transparent
    assert ax.get_xlabel() == "seconds" and ax.get_title(loc="left") == picture.note
    _, given = pyplot.subplots()
    assert random_lattice(2, frame_shift=None).plot(given) is given and given.get_xlabel() == "frames"
    nothing(lattice._batch.graph).plot()
    with pytest.raises(
        TypeError, match=r"ax: expected axes of matplotlib, or None, got str; .*savefig\('x.png'\) writes"
    ):
        lattice.plot("x.png")
    assert [text.get_text() for text in pictures.plot(PICTURE).texts] == ['a"b\\', r"c\$d\$"]
    pyplot.close("all")


def test_no_word_covers_another():
    matplotlib = pytest.importorskip("matplotlib", reason="draws: .[bench]")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rng = np.random.default_rng(2)
    names = ["considerable", "a", "of", "iiii", "WWWW", "them"]
    times, posteriors = np.sort(rng.random(30) * 3).tolist(), rng.random(30).tolist()
    inner = [Box(t, str(rng.choice(names)), p, p > 0.5) for t, p in zip(times, posteriors, strict=True)]
    ax = pictures.plot(Picture([Box(0.0, "", 1.0, True), *inner, Box(3.0, "", 1.0, True)], [], "seconds", ""))
    ax.figure.draw_without_rendering()
    places = [text.get_bbox_patch().get_window_extent() for text in ax.texts]
    assert len(places) == 30
    assert not any(a.overlaps(b) for a, b in itertools.combinations(places, 2))
    assert all(ax.figure.bbox.x0 <= place.x0 and place.x1 <= ax.figure.bbox.x1 for place in places)
    pyplot.close("all")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"least": -0.1}, "least: expected a number of at least 0|least: expected a number from 0 to 1"),
        ({"least": 1.5}, "least: expected a number from 0 to 1, got 1.5"),
        ({"start": 2.0, "end": 1.0}, "end: expected a time after start, got start=2.0 and end=1.0"),
        ({"end": math.nan}, "end: expected a time after start"),
    ],
)
def test_bad_requests(options, message):
    with pytest.raises(ValueError, match=message):
        random_lattice(0).to_dot(**options)


@pytest.mark.parametrize(
    ("packages", "draw", "said"),
    [
        (["matplotlib"], lambda lattice: lattice.plot(), "pip install matplotlib"),
        (["kaldifst", "pywrapfst"], lambda lattice: lattice.to_openfst(), "pip install kaldifst"),
    ],
)
def test_without_a_package(monkeypatch, packages, draw, said):
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=said):
        draw(random_lattice(0))
