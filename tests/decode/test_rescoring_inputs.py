"""A large language model that does not fit the graph, the small model or the device: said clearly."""

import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import arcbeam
from arcbeam import CtcDecoder, FormatError, Graph, GraphError, LanguageModel
from tests.decode.language_models import language_model

WORDS = ["the", "cat", "sat"]
UNIGRAMS = {"the": 1.0, "cat": 2.0, "sat": 3.0, "</s>": 0.5}
SMALL = language_model(WORDS, {(): (UNIGRAMS, 0.0)})
LARGE = language_model([*WORDS, "<unk>"], {(): (UNIGRAMS | {"<unk>": 7.0}, 0.0), ("the",): ({"cat": 0.25}, 1.0)})
NARROW = language_model(["the", "<unk>"], {(): ({"the": 1.0, "<unk>": 7.0, "</s>": 0.5}, 0.0)})
LOGP = np.zeros((2, 1), np.float32)


def graph(words=WORDS, used=(1, 2), **meta):
    """Two frames: one word each."""
    arcs = [(i, i + 1, 1, word, 1.0) for i, word in enumerate(used)]
    meta = {"lm_digest": SMALL.digest} | meta
    return Graph.from_arcs(
        arcs, finals={len(used): 0.0}, num_columns=1, meta={k: v for k, v in meta.items() if v is not None},
        word_symbols=["<eps>", *words],
    )  # fmt: skip


def decode(one, large=LARGE, small=SMALL, **options):
    return CtcDecoder(one, language_model=large, graph_language_model=small, **options).decode([LOGP])[0]


def test_by_hand():
    found = decode(graph())
    # large: the 1, cat 0.25 after it, </s> 0.5 after nothing known; small: 1, 2, 0.5
    assert found.text == "the cat"
    assert found.rescoring_score == 2.0 - 0.25
    assert found.score == -(1.0 + 1.0) + 1.75
    assert decode(graph(), lm_scale=2.0).rescoring_score == 3.5 - (2.0 + 0.5 + 1.0)


def test_the_scale_of_the_graph():
    assert decode(graph(lm_scale=0.5)).rescoring_score == 3.5 * 0.5 - 1.75
    assert decode(graph(), graph_lm_scale=0.5).rescoring_score == 3.5 * 0.5 - 1.75
    assert decode(graph(lm_scale=0.5), graph_lm_scale=0.5).rescoring_score == 0.0
    with pytest.raises(ValueError, match=r"graph_lm_scale: expected 0\.5, which the graph was built with, got 1\.0"):
        decode(graph(lm_scale=0.5), graph_lm_scale=1.0)


def test_words_that_the_large_model_lacks():
    with pytest.raises(
        GraphError, match=r"language_model: it lacks 1 word \('cat'\) of the graph; unknown_words='unk'"
    ):
        decode(graph(), large=NARROW)
    assert decode(graph(used=(1, 1)), large=NARROW).text == "the the"  # of the words that arcs write only
    many = [f"w{i}" for i in range(30)]
    small = language_model(many, {(): (dict.fromkeys([*many, "</s>"], 1.0), 0.0)})
    with pytest.raises(GraphError, match=r"it lacks 30 words \('w0', .*'w9', \.\.\.\)"):
        decode(graph(many, range(1, 31), lm_digest=small.digest), small=small)
    assert decode(graph(), large=NARROW, unknown_words="unk").rescoring_score == 3.5 - 8.5
    # 'small' leaves cat its 2.0 of the small model; the and </s> are rescored
    assert decode(graph(), large=NARROW, unknown_words="small").rescoring_score == 0.0


def test_a_model_in_capitals():
    costs = {"THE": 1.0, "CAT": 2.0, "<unk>": 7.0, "</s>": 0.5}
    loud = language_model(["THE", "CAT", "<unk>"], {(): (costs, 0.0)})
    words = r"it lacks 2 words \('the', 'cat'\)"
    with pytest.raises(GraphError, match=f"{words} of the graph; it has them in upper case; unknown_words='unk' sco"):
        decode(graph(), large=loud)
    with pytest.warns(UserWarning, match=f"{words}, most of the graph's words; it has them in upper case"):
        decode(graph(), large=loud, unknown_words="unk")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decode(graph(used=(1, 1, 2)), large=NARROW, unknown_words="unk")  # it has half of them


def test_no_unk_in_the_large_model():
    large = language_model(["the"], {(): ({"the": 1.0, "</s>": 0.5}, 0.0), ("the",): ({"the": 1.0}, 0.25)})
    found = decode(graph(), large=large, unknown_words="unk")
    assert found.rescoring_score == pytest.approx(2.0 - 0.25 - 230.2585, abs=1e-3)


def test_a_small_model_that_is_not_the_graphs():
    with pytest.raises(GraphError, match=r"expected the model that the graph was built with .digest .*, got another"):
        decode(graph(), small=LARGE)
    with pytest.raises(GraphError, match=r"graph_language_model: it lacks 1 word \('cat'\) of the graph, so the graph"):
        decode(graph(lm_digest=NARROW.digest), small=NARROW)
    with pytest.warns(UserWarning, match="the graph does not record which language model it was built with") as warned:
        CtcDecoder(graph(lm_digest=None), language_model=LARGE, graph_language_model=SMALL)
    assert [w.filename for w in warned] == [__file__]  # where the decoder is made


def test_a_pickled_decoder_keeps_its_models():
    decoder = CtcDecoder(graph(), language_model=LARGE, graph_language_model=SMALL, lm_scale=4.0)
    again = pickle.loads(pickle.dumps(decoder))
    assert again.options == decoder.options
    found, wanted = again.decode([LOGP])[0], decoder.decode([LOGP])[0]
    assert (found.text, found.score, found.rescoring_score) == (wanted.text, wanted.score, wanted.rescoring_score)
    assert found.rescoring_score == 3.5 - 2 * (2.0 + 0.5 + 1.0)


def test_a_graph_without_words():
    bare = Graph.from_arcs([(0, 1, 1, 1, 0.0)], finals={1: 0.0}, num_columns=1)
    with pytest.raises(GraphError, match="the graph has no word symbols"), pytest.warns(UserWarning):
        decode(bare)
    silent = graph(used=(0, 0))
    assert decode(silent).text == ""


def test_half_of_it():
    with pytest.raises(ValueError, match="language_model: give graph_language_model, too"):
        CtcDecoder(graph(), language_model=LARGE)
    with pytest.raises(ValueError, match="graph_language_model: this needs a language_model"):
        CtcDecoder(graph(), graph_language_model=SMALL)
    with pytest.raises(ValueError, match="lm_scale, hypotheses_per_state: this needs a language_model"):
        CtcDecoder(graph(), lm_scale=2.0, hypotheses_per_state=1)
    with pytest.raises(
        TypeError, match=r"^language_model: expected an arcbeam\.LanguageModel, an arcbeam\.KenLM or a path, got int"
    ):
        decode(graph(), 4)
    with pytest.raises(TypeError, match=r"graph_language_model: expected an arcbeam\.LanguageModel or a path, got int"):
        decode(graph(), LARGE, 3)
    for models in ((Path("none.lm"), SMALL), (LARGE, "none.lm")):
        with pytest.raises(FileNotFoundError, match=r"none\.lm"):
            decode(graph(), *models)


@pytest.mark.parametrize(
    ("option", "value", "error", "message"),
    [
        ("lm_scale", -1.0, ValueError, "lm_scale: expected a number of at least 0"),
        ("lm_scale", "1", TypeError, "lm_scale: expected a number"),
        ("lm_scale", 1e39, ValueError, "lm_scale: expected a number within the range of float32"),
        ("lm_scale", 1e38, ValueError, r"lm_scale: .* range of float32, 0 to 1e\+30, got 1e\+38"),
        ("lm_scale", 10**400, ValueError, "lm_scale: expected a number of at least 0, got an integer of 1,329 bits"),
        ("graph_lm_scale", float("nan"), ValueError, "graph_lm_scale: expected a number"),
        ("hypotheses_per_state", 0, ValueError, "hypotheses_per_state: expected a whole number of at least 1"),
        ("hypotheses_per_state", 1.5, TypeError, "hypotheses_per_state: expected a whole number"),
        ("unknown_words", "skip", ValueError, "unknown_words: expected one of error, unk, small, got 'skip'"),
        ("placement", "gpu", ValueError, "placement: expected one of auto, .* host-direct, cpu, got 'gpu'"),
        ("placement", None, ValueError, "placement: expected one of .* got None"),
        ("gpu_budget", "2G", ValueError, "gpu_budget: expected a number of bytes, .* such as '2GiB' .*'2G'"),
        ("gpu_budget", 0, ValueError, "gpu_budget: expected a number of bytes, at least 1, .* got 0"),
        ("arc_cache", -1, ValueError, "arc_cache: expected a number of bytes, at least 0, .* got -1"),
        ("arc_cache", 0.5, TypeError, "arc_cache: expected a number of bytes, at least 0, .* got float"),
    ],
)
def test_options_are_checked(option, value, error, message):
    with pytest.raises(error, match=message):
        decode(graph(), **{option: value})


@pytest.mark.parametrize("placement", ["resident", "host", "host-direct"])
def test_placements_of_a_gpu(placement):
    message = f"placement: expected 'auto' or 'cpu' when the CPU decodes, got '{placement}'"
    with pytest.raises(arcbeam.UnsupportedError, match=message):
        decode(graph(), placement=placement, device="cpu")
    with pytest.raises(ValueError, match=r"placement: this needs a language_model, the large one that rescores"):
        CtcDecoder(graph(), placement=placement)


@pytest.mark.parametrize("option", ["memory_limit", "gpu_budget", "arc_cache"])
def test_memory_of_a_gpu_is_no_option_of_a_cpu(option):
    message = f"{option}: expected None with device='cpu', .*, got 64 bytes; leave it out, or give device='cuda'"
    with pytest.raises(ValueError, match=message):
        decode(graph(), device="cpu", **{option: 64})


def test_sizes_become_bytes_and_change_nothing_where_the_cpu_decodes():
    sized = CtcDecoder(
        graph(), language_model=LARGE, graph_language_model=SMALL, device="auto", placement="cpu", gpu_budget="2GiB",
        arc_cache=0,
    )  # fmt: skip
    assert sized.device == "cpu"
    assert (sized.options.gpu_budget, sized.options.arc_cache) == (2 << 30, 0)
    assert pickle.loads(pickle.dumps(sized)).options == sized.options
    found, wanted = sized.decode([LOGP])[0], decode(graph())
    assert (found.text, found.score) == (wanted.text, wanted.score)


def test_a_model_that_shrinks_between_two_batches(tmp_path):
    LARGE.save(tmp_path / "lm")
    one = CtcDecoder(graph(), language_model=LanguageModel.load(tmp_path / "lm"), graph_language_model=SMALL)
    assert one.decode([LOGP])[0].text == "the cat"
    os.truncate(tmp_path / "lm", 64)
    with pytest.raises(FormatError, match="the file shrank"):
        one.decode([LOGP])


def test_a_word_that_both_models_exclude_is_never_said():
    """+inf from both: the deviation is no number, and the path is not admitted."""
    never = language_model(WORDS, {(): (UNIGRAMS | {"cat": np.inf}, 0.0)})
    found = decode(graph(lm_digest=never.digest), large=never, small=never)
    assert (found.text, found.reached_final, found.complete) == ("the", False, False)


def test_dead_searches_report_the_last_live_frame():
    never = language_model(WORDS, {(): (UNIGRAMS | {"cat": np.inf}, 0.0)})
    found = decode(graph(), large=never)
    assert (found.text, found.reached_final, found.complete, len(found.tokens)) == ("the", False, False, 1)
    # the arc's 1, of which the small model's 1 comes off for the large model's 1
    assert (found.score, found.partial_score, found.rescoring_score) == (-np.inf, -1.0, 0.0)
