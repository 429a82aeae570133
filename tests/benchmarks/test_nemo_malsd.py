"""The adapter of NeMo's beam search of transducers: on a small network it writes the labels that were put in."""

import pytest

from benchmarks.adapters import nemo_sources
from data import synthetic_transducer as synthetic
from data.token_ngrams import write_arpa

SIZES = synthetic.Sizes(tokens=33, units=256, joint=296, features=256)
BEAM_SIZE = 4


@pytest.fixture(scope="module")
def adapter():
    """The module; skips where NeMo cannot be loaded."""
    for package in ("torch", "omegaconf"):
        pytest.importorskip(package, reason="NeMo needs it")
    try:
        nemo_sources.find()
    except ImportError as error:
        pytest.skip(str(error))
    from benchmarks.adapters import nemo_malsd

    return nemo_malsd


@pytest.fixture(params=["RNN-T", "TDT"])
def durations(request):
    return synthetic.DURATIONS if request.param == "TDT" else None


def made(adapter, durations, **options):
    arrays = synthetic.weights(SIZES, tdt=durations is not None)
    return adapter.NemoMalsd(arrays, SIZES.blank, durations, BEAM_SIZE, **options)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_known_labels(adapter, durations, precision):
    search = made(adapter, durations, precision=precision)
    frames, texts, _ = synthetic.utterances(5, 30, SIZES)
    lists = search.nbest(search.decode(search.prepare(frames)), normalized=False)
    assert [one[0] for one in lists] == texts
    assert all(1 < len(one) <= BEAM_SIZE for one in lists)
    cut = [frames[i, :n] for i, n in enumerate((30, 7, 30, 12, 1))]
    found = search.texts(cut, 2, normalized=False)
    assert [found[0], found[2]] == [list({tuple(text): text for text in lists[i]}.values()) for i in (0, 2)]
    assert [len(one[0]) < len(text) for one, text in zip(found, texts, strict=True)] == [False, True, False, True, True]
    assert all(len(set(map(tuple, one))) == len(one) for one in found)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_a_graph_records(adapter, durations, precision):
    """The steps of the graph, with their lasting buffers, one by one: larger batches first, so that rows are left."""
    search = made(adapter, durations, precision=precision)
    steps = made(adapter, durations, precision=precision)
    steps.computer.force_cuda_graphs_mode("no_graphs")
    for batch, ambiguity in ((4, 0.5), (2, 0.3)):
        frames, _, _ = synthetic.utterances(batch, 24, SIZES, ambiguity=ambiguity)
        wanted = search.decode(search.prepare(frames))
        with adapter.torch.inference_mode():
            found = steps.computer.modified_alsd_cuda_graphs(*steps.prepare(frames))[0]
        assert found.scores.dtype == getattr(adapter.torch, precision)
        if batch == 4:  # fewer rows than buffers have another rounding in torch
            assert found.scores.equal(wanted.scores)
        assert steps.nbest(found, normalized=True) == search.nbest(wanted, normalized=True)


def test_adaptive_expansion(adapter):
    search = adapter.NemoMaes(synthetic.weights(SIZES, tdt=False), SIZES.blank, None, BEAM_SIZE)
    frames, texts, _ = synthetic.utterances(5, 30, SIZES)
    found = search.texts(list(frames), 2, normalized=False)
    assert [one[0] for one in found] == texts and all(len(one) <= BEAM_SIZE for one in found)


@pytest.mark.parametrize("kind", ["NemoMalsd", "NemoMaes"])
def test_a_model_of_tokens_takes_part(adapter, kind, tmp_path):
    """With the factor 0 lists are those of no model; a large one prefers what the model was counted from."""
    path = tmp_path / "tokens.arpa"
    texts = [[token] * 30 for token in range(3)]
    write_arpa(path, texts, 2, SIZES.blank, lambda token: chr(100 + token))
    model = adapter.ngram_model(path, SIZES.blank)
    frames = list(synthetic.utterances(4, 24, SIZES, ambiguity=0.9)[0])
    arrays, found = synthetic.weights(SIZES, tdt=False), {}
    for alpha in (None, 0.0, 3.0):
        fused = {} if alpha is None else {"ngram_lm": model, "ngram_lm_alpha": alpha}
        search = getattr(adapter, kind)(arrays, SIZES.blank, None, BEAM_SIZE, **fused)
        found[alpha] = search.texts(frames, 4, normalized=True)

    def rare(lists):
        """Labels that the model has hardly seen, in the best texts."""
        return sum(token > 2 for texts in lists for token in texts[0])

    assert [texts[0] for texts in found[0.0]] == [texts[0] for texts in found[None]]
    assert rare(found[3.0]) < rare(found[None])
