"""The experiment on lattices on an emulated GPU: a tiny input, and a peer that is a stub."""

import struct

import pytest

from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.data import datasets
from benchmarks.experiments import gpu_lattice
from benchmarks.harness import registry
from benchmarks.harness.registry import Context
from benchmarks.tasks import oracle
from tests.benchmarks.on_emulated_gpu import Entry, Peer, missing, rows_of
from tests.benchmarks.tiny import give, graph_of_words
from tests.decode.random_graphs import random_log_probs


@pytest.fixture
def small(small, monkeypatch, tmp_path):
    """The words have names, the numbers that they are."""
    give(monkeypatch, graph_of_words(tmp_path / "named.arcbeam", [*map(str, range(1, 50))]))
    return small


@pytest.fixture
def other_references(monkeypatch):
    """References that are not what the search says: the first word of each sentence is a word of no graph."""
    load = datasets.load

    def another(name, utterances=None):
        made = load(name, utterances)
        made.references[:] = [" ".join(["what", *text.split()[1:]]) for text in made.references]
        return made

    monkeypatch.setattr(datasets, "load", another)


def test_rows(small):
    rows = rows_of("gpu_lattice")
    assert [(row["search"], row["lattice_beam"]) for row in rows] == [("17 / 10,000", 8.0), ("12 / 5,000", 4.0)]
    for row in rows:
        assert (row["among"], row["confidences_within"], row["missing"], row["other_words"]) == (100.0, 100.0, [], [])
        assert (row["mbr_of_one"], row["largest_difference"]) == (0, 0.0)
        assert row["oracle_10"] <= row["oracle_1"] == 0.0 == row["riva_oracle_1"] == row["riva_oracle_10"]
        assert min(row["nbest_ratio"], row["riva_mbr_ratio"], row["alone_mbr_ms"]) > 0
        assert row["links"] >= row["tokens"] - 1 > 1 and row["entries"] == row["riva_entries"] > 1
    assert {kernel for kernel, _ in small.launched} <= {"wide", "dense", "cluster"}


def test_oracles_at_more_answers_and_lattice_beams(small, other_references):
    wide, narrow = rows_of("gpu_lattice")
    assert wide["curve"] == wide["riva_curve"] and wide["lattice_curve"] == wide["riva_lattice_curve"]
    assert wide["curve"][0] == wide["oracle_1"] >= wide["curve"][5] == wide["oracle_10"] > 0
    assert wide["curve"] == sorted(wide["curve"], reverse=True) and wide["curve"][-1] == wide["oracle_100"]
    beams, rates = zip(*wide["lattice_curve"], strict=True)
    assert beams == (2.0, 4.0, 6.0, 8.0) and list(rates) == sorted(rates, reverse=True)
    assert wide["oracle_100"] >= wide["oracle_lattice"] == rates[-1] == wide["riva_oracle_lattice"] > 0
    assert not {"curve", "lattice_curve", "oracle_100", "riva_curve"} & set(narrow)
    wide, narrow = registry.load("gpu_lattice").run(Context(1, 6, {"oracles": "all"}))
    assert [beam for beam, _ in narrow["lattice_curve"]] == [2.0, 4.0] and narrow["riva_curve"]
    for row in registry.load("gpu_lattice").run(Context(1, 6, {"oracles": "none"})):
        assert "curve" not in row and "riva_curve" not in row and row["nbest_ratio"] > 0
    with pytest.raises(ValueError, match="oracles: expected wide, all, none, got 'some'"):
        next(registry.load("gpu_lattice").run(Context(1, 6, {"oracles": "some"})))


def test_riva_dies_of_a_hundred_answers(small, monkeypatch):

    def rows(what, function, *arguments):
        if function is gpu_lattice.count_oracles and arguments[-1] is not None:
            return iter([what | {"status": "failed: the process ended with -11"}])
        return function(*arguments)

    monkeypatch.setattr(gpu, "rows_or_failure", rows)
    wide, _ = registry.load("gpu_lattice").run(Context(1, 6))
    assert wide["no_oracles"] == ["failed: the process ended with -11"] and "status" not in wide
    assert wide["curve"] and wide["lattice_curve"] and "riva_curve" not in wide and wide["nbest_ratio"] > 0


def test_ten_answers_that_are_not_the_first_of_a_hundred(small, other_references, monkeypatch):
    count = gpu_lattice.count_oracles
    monkeypatch.setattr(gpu_lattice, "count_oracles", lambda *work: (row | {"oracle_10": -1.0} for row in count(*work)))
    with pytest.raises(gpu.Wrong, match=r"oracle WER at 10: [\d.]+ of ten answers, -1.0 of a hundred"):
        list(registry.load("gpu_lattice").run(Context(1, 6)))


MADE_UP = [
    {
        "graph": "letters", "search": "17 / 10,000", "oracle_1": 3.0, "oracle_10": 2.0, "curve": [3.0] * 5 + [2.0] * 7,
        "lattice_curve": [[2.0, 2.5], [4.0, 1.5], [8.0, 0.5]], "riva_oracle_1": 3.5, "riva_oracle_10": 2.5,
        "riva_curve": [3.5] * 5 + [2.5] * 7, "riva_lattice_curve": [[2.0, 2.5], [8.0, 1.0]],
    },
    {"graph": "letters", "search": "12 / 5,000", "oracle_1": 3.1, "oracle_10": 2.1},
    {"graph": "pieces", "search": "17 / 10,000", "status": "failed: CudaError"},
]  # fmt: skip


def test_the_picture_of_a_made_up_result(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(oracle, "line_plots", lambda path, panels, *rest, **how: drawn.append(panels))
    gpu_lattice.draw(MADE_UP, tmp_path / "plot.png")
    lists, beams = drawn[0]["answers (n)"], drawn[0]["lattice beam"]
    assert list(lists) == list(beams) == ["arcbeam, letters, beam 17", "riva-asrlib-decoder, letters, beam 17"]
    assert lists["arcbeam, letters, beam 17"][5] == (10, 2.0) and len(lists["arcbeam, letters, beam 17"]) == 12
    assert beams["riva-asrlib-decoder, letters, beam 17"] == [(2.0, 2.5), (8.0, 1.0)]
    gpu_lattice.draw(MADE_UP[1:], tmp_path / "plot.png")  # as of results without curves
    assert drawn[1] == {"answers (n)": {"arcbeam, letters, beam 12": [(1, 3.1), (10, 2.1)]}}


@pytest.mark.parametrize("rows", [MADE_UP, MADE_UP[1:], MADE_UP[2:]], ids=["curves", "an older result", "nothing"])
def test_there_is_a_picture_whatever_there_is(tmp_path, rows):
    pytest.importorskip("matplotlib", reason="plots need .[bench]")
    gpu_lattice.draw(rows, tmp_path / "plot.png")
    assert min(struct.unpack(">II", (tmp_path / "plot.png").read_bytes()[16:24])) > 300


def test_no_riva(small, monkeypatch):
    monkeypatch.setattr(adapters, "make", missing)
    for row in registry.load("gpu_lattice").run(Context(1, 3)):
        assert row["status"] == "missing: No module named 'riva'"
        assert row["lattice_ratio"] > 0 and "nbest_ratio" not in row


def test_riva_says_something_else(small, monkeypatch):
    class Other(Peer):
        def decode_nbest(self, prepared):
            first, *rest = super().decode_nbest(prepared)
            return [[*first, Entry([91, 92, 93, 94, 95], -9.0)], *rest]

        def decode_mbr(self, prepared):
            rest = super().decode_mbr(prepared)[1:]
            return [[("what", 0.0, 0.0, 1.0)], *([(w, a, b, c - 0.5) for w, a, b, c in words] for words in rest)]

        def lattices(self, prepared):
            raise RuntimeError("no lattices today")

    monkeypatch.setattr(adapters, "make", lambda name: Other)
    rows = list(registry.load("gpu_lattice").run(Context(1, 6)))
    assert rows[0]["riva_pruned_lattices"] == "none: RuntimeError: no lattices today" and rows[0]["riva_curve"]
    for row in rows:
        assert row["missing"] == [
            "utterance 0, riva's entry 10 of score -9.000, not in our lattice: ['<91>', '<92>', '<93>', '<94>', '<95>']"
        ]
        assert row["why_missing"] == "1 not in our lattice"
        assert row["other_words"][0].endswith("riva: ['what']") and len(row["other_words"]) == 1
        assert row["among"] < 100 and row["confidences_within"] == 0 and row["largest_difference"] == 1.0
        assert row["mbr_of_one"] >= 1 and row["mbr_words"] > 1


@pytest.mark.parametrize("what", ["words of entry", "times of entry"])
def test_arrays_that_are_not_the_paths_are_not_timed(small, what):
    files = gpu_lattice.graphs.get("any")
    decoder = gpu.decoder(files.graph, gpu.WIDE, device="cpu", frame_shift=0.04)
    found = decoder.decode([random_log_probs(1, 30, 12)], nbest=3)
    gpu_lattice.compare_arrays(files.graph, found)
    labels = found[0]._results.answers.labels
    (labels.labels if what == "words of entry" else labels.ends)[-1] += 1
    with pytest.raises(gpu.Wrong, match=f"utterance 0: the {what} {len(found[0].nbest) - 1} are"):
        gpu_lattice.compare_arrays(files.graph, found)


@pytest.mark.parametrize("what", ["lattice", "n-best list", "confidences"])
def test_answers_that_are_not_the_twins_are_not_timed(small, monkeypatch, what):
    experiment = registry.load("gpu_lattice")
    decode = gpu.decoder

    def another(graph, options, device="cuda", **more):
        wrong = {"lattice": {"lattice_beam": 3.0}, "confidences": {"posterior_scale": 0.5}}.get(what, {})
        made = decode(graph, options, device, **(more | (wrong if device == "cpu" else {})))
        if what == "n-best list" and device == "cpu":
            monkeypatch.setattr(type(made), "decode", with_fewer_entries(type(made).decode, made))
        return made

    def with_fewer_entries(right, of):
        def fewer(self, *arguments, **requested):
            return right(self, *arguments, **(requested | ({"nbest": 2} if self is of else {})))

        return fewer

    monkeypatch.setattr(gpu, "decoder", another)
    with pytest.raises(gpu.Wrong, match=what if what != "confidences" else "n-best list|confidences"):
        list(experiment.run(Context(1, 3)))
