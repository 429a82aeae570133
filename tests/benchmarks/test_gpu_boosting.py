"""The experiments on the speed of boosting on an emulated GPU, with tiny graphs, networks and lists."""

import pytest

from arcbeam.gpu.tuned import search_plan
from benchmarks.adapters import gpu as on_gpu
from benchmarks.experiments import gpu_boost_lists, gpu_boosting, gpu_transducer_boosting
from benchmarks.harness.registry import Context
from benchmarks.tasks import phrase_lists
from tests.benchmarks.on_emulated_gpu import rows_of
from tests.benchmarks.test_gpu_transducers import SIZES, synthetic
from tests.benchmarks.tiny import give, graph_of_words
from tests.simt.build import LONG
from tests.transducer.conftest import gpu  # noqa: F401


@pytest.fixture
def worded(small, monkeypatch, tmp_path):
    """The tiny graph with the names of its words, and short lists."""
    give(monkeypatch, graph_of_words(tmp_path / "words.arcbeam"))
    for module, names in ((gpu_boosting, {"PHRASES": 12, "NEW_WORDS": 2}), (gpu_boost_lists, {"PHRASES": 12})):
        for name, value in names.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(gpu_boost_lists, "LONG", 40)
    monkeypatch.setattr(phrase_lists.Vocabulary, "new_words", lambda self, number, count=2: ["new", "newer"][:count])
    return small


@pytest.mark.filterwarnings("ignore:boost. :UserWarning")
def test_rows_of_boosting(worded):
    rows = rows_of("gpu_boosting", utterances=6 if LONG else 3)
    kinds = [gpu_boosting.KNOWN, gpu_boosting.OTHERS, gpu_boosting.NEW]
    assert [(row["lists"], row["search"]) for row in rows] == [
        (kind, search) for kind in kinds for search in ("17 / 10,000", "12 / 5,000")
    ]
    assert [row["goal"] for row in rows] == [90, 85, 90, 85, 80, 80]
    assert all(len(row["wall"]) == 2 and row["share"] > 0 for row in rows)
    assert {"wide"} <= {kernel for kernel, _ in worded.launched}


def test_answers_that_are_not_the_twins_are_not_timed(worded, monkeypatch):
    decode = on_gpu.decoder

    def another(graph, options, device="cuda", **more):
        made = decode(graph, options, device, **more)
        if device == "cpu":
            monkeypatch.setattr(type(made), "decode", without_lists(type(made).decode, made))
        return made

    def without_lists(right, of):
        return lambda self, batch, boost=None: right(self, batch, **({} if self is of else {"boost": boost}))

    monkeypatch.setattr(on_gpu, "decoder", another)
    with pytest.raises(on_gpu.Wrong):
        list(gpu_boosting.run(Context(1, 6, {"lists": gpu_boosting.KNOWN})))


def test_launches_can_be_tuned(worded, monkeypatch):
    for name in ("BOOSTED_SHARED_BYTES", "RESCORING_HOT_TOKENS", "RESCORING_HOT_LANES"):
        monkeypatch.setattr(search_plan, name, getattr(search_plan, name))
    options = {"lists": gpu_boosting.KNOWN, "shared": "100", "hot": "64,3"}
    for row in gpu_boosting.run(Context(1, 3, options)):
        assert (row["shared_kib"], row["hot"]) == (100, [64, 3])


def test_rows_of_new_lists(worded):
    many, one = rows_of("gpu_boost_lists")
    assert (many["lists"], many["phrases"], one["lists"], one["phrases"]) == (6, 12, 1, 40)
    assert many["mb"] > 0 and len(many["turns_ms"]["total"]) == 2
    parts = many["made_ms"], many["compiled_ms"], many["one_core_ms"]
    assert all(part > 0 for part in parts)


def test_lists_by_hand():
    """A list has at most so many phrases of the reference, and no two that are the same."""
    vocabulary = phrase_lists.Vocabulary.__new__(phrase_lists.Vocabulary)
    vocabulary.words = ["alpha", "beta", "delta", "gamma", "omega", "theta"]
    vocabulary.set = frozenset(vocabulary.words)
    said = "alpha unheard beta gamma"
    runs = {"alpha", "beta", "gamma", "beta gamma"}
    one, other = (vocabulary.phrases(said, number, 30, most_said=1) for number in (0, 1))
    assert one == vocabulary.phrases(said, 0, 30, most_said=1) != other
    assert len(set(one)) == 30 and one[0] in runs and {len(phrase.split()) for phrase in one} == {1, 2, 3}
    new = vocabulary.new_words(0, 5)
    assert len(set(new)) == 5 and not vocabulary.set & set(new)
    made = vocabulary.lists([said, said], 10, new_words=3)
    assert [len(phrases) for phrases in made] == [10, 10]
    assert made[1][-3:] == vocabulary.new_words(1, 3)


def test_rows_of_transducers(gpu, monkeypatch, tmp_path):  # noqa: F811
    module = gpu_transducer_boosting
    monkeypatch.setattr(synthetic, "Sizes", lambda: SIZES)
    for name, value in {"FRAMES": 8, "BATCHES": (1, 3), "PHRASES": 20, "TEXTS": 5, "CACHE": tmp_path}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(on_gpu, "rows_or_failure", lambda what, function, *arguments: function(*arguments))
    rows = list(module.run(Context(1, options={"precision": "float32"})))
    assert [(row["model"], row["batch"], row["fused"]) for row in rows] == [
        (model, batch, fused) for model in ("RNN-T", "TDT") for batch in (1, 3) for fused in ("lists", "6-gram")
    ]
    assert all(row["share"] > 0 for row in rows)
    assert [row["goal"] for row in rows[:2]] == [90, 85]
