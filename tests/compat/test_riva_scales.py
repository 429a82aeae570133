"""How parts of costs are scaled, as riva-asrlib-decoder does it: n-best lists, words of fewest errors, lattices."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import CtcDecoder, read_lattices
from arcbeam.compat.riva.scales import MBR, NBEST, Scales
from tests.benchmarks.test_openfst_writer import DENSE_GRAPHS
from tests.compat.riva_decoders import decoder, ours, post

SCALES = st.builds(
    Scales,
    *[st.sampled_from([0.5, 1.0, 2.0])] * 2,
    *[st.sampled_from([0.0, 0.0, 0.25])] * 2,
    st.sampled_from([0.0, 0.5]),
)


def scaled_cost(scales, graph_cost, acoustic_cost, words, times):
    """The rule, for a path as a whole."""
    for _ in range(times):
        graph_cost, acoustic_cost = (
            scales.lm * graph_cost + scales.acoustic_to_lm * acoustic_cost + scales.word_penalty * words,
            scales.lm_to_acoustic * graph_cost + scales.acoustic * acoustic_cost,
        )
    return graph_cost + acoustic_cost


@given(DENSE_GRAPHS, st.integers(1, 4), st.integers(0, 2**32 - 1), SCALES)
@pytest.mark.filterwarnings("ignore:log_probs. expected:UserWarning")
def test_scaled_lists_are_the_best_of_all_paths(graph, frames, seed, scales):
    """Each word sequence has the cost of its best path, by enumeration; costs are binary fractions, so sums are exact.

    Paths that are scaled together may change their order in between, which is why all of them are compared."""
    log_probs = -np.random.default_rng(seed).integers(0, 64, (frames, 4)).astype(np.float32) / 64
    made = CtcDecoder(graph, device="cpu", threads=1, beam=math.inf, lattice_beam=4.0, max_active=None)
    [found] = made.decode([log_probs], lattice=True)
    if not found.complete:
        return
    lattice, best = found.lattice, {}
    paths = {0: [(0.0, 0.0, ())]}
    parts = zip(lattice.links, lattice.graph_scores, lattice.acoustic_scores, lattice.words, strict=True)
    for link, graph_score, acoustic_score, word in parts:
        if sum(map(len, paths.values())) > 20_000:
            return
        grown = [
            (g - graph_score, a - acoustic_score, (*w, int(word)) if word else w) for g, a, w in paths[link["source"]]
        ]
        paths.setdefault(int(link["target"]), []).extend(grown)
    for token in np.flatnonzero(np.isfinite(lattice.final_scores)).tolist():
        for graph_cost, acoustic_cost, words in paths.get(token, []):
            cost = scaled_cost(scales, graph_cost - lattice.final_graph_scores[token], acoustic_cost, len(words), NBEST)
            best[words] = min(best.get(words, math.inf), cost)
    entries = scales.of_lattice(lattice, NBEST).nbest(5)
    costs = [0.0 - entry.score for entry in entries]
    assert costs == sorted(best.values())[:5]
    assert [best[tuple(entry.word_ids.tolist())] for entry in entries] == costs


def test_scaled_words_are_those_of_the_scaled_lattice(spoken):
    """Scales that are alike give by the general way what posteriors of the scale give."""
    for hypothesis in ours(spoken, posterior_scale=9.0).decode(spoken.utterances, lattice=True):
        scaled = Scales(3.0, 3.0).of_lattice(hypothesis.lattice, MBR).mbr
        assert scaled.text == hypothesis.mbr.text
        assert [w[:3] for w in scaled.words] == [w[:3] for w in hypothesis.mbr.words]
        wanted = [w.confidence for w in hypothesis.mbr.words]
        assert [w.confidence for w in scaled.words] == pytest.approx(wanted, abs=1e-9)  # sums in another order


def test_scales_change_the_order(spoken):
    """Without the graph's part, whole words are preferred otherwise."""
    plain = decoder(spoken, **post(nbest=8)).decode_nbest(spoken.padded, spoken.lengths)
    made = decoder(spoken, **post(nbest=8, acoustic_scale=10.0, lm_scale=5.0))
    other = made.decode_nbest(spoken.padded, spoken.lengths)
    assert any([e.words for e in a] != [e.words for e in b] for a, b in zip(plain, other, strict=True))
    for entries in other:
        assert [e.score for e in entries] == sorted(e.score for e in entries)
        assert all(len(e.words) == len(e.word_start_times_seconds) == len(e.word_durations_seconds) for e in entries)
    assert all(words for words in made.decode_mbr(spoken.padded, spoken.lengths))


@pytest.mark.parametrize("determinize", [True, False])
def test_lattices_that_are_written(spoken, tmp_path, determinize):
    keys = [f"utterance-{i}" for i in range(len(spoken.utterances))]
    wanted = [h.lattice.to_kaldi(determinize=determinize) for h in ours(spoken).decode(spoken.utterances, lattice=True)]
    for scale, specifier in ((1.0, "ark,t:{}"), (2.0, "ark:{}")):
        made = decoder(spoken, determinize_lattice=determinize, **post(acoustic_scale=2.0 * scale, lm_scale=scale))
        path = tmp_path / f"{scale}.ark"
        made.decode_write_lattice(spoken.padded, spoken.lengths, keys, specifier.format(path))
        found = dict(read_lattices(path))
        assert list(found) == keys
        for lattice, plain in zip(found.values(), wanted, strict=True):
            assert lattice.arcs["word"].tolist() == plain.arcs["word"].tolist()
            assert lattice.labels.tolist() == plain.labels.tolist()
            for name, factor in (("graph_cost", scale), ("acoustic_cost", 2.0 * scale)):
                assert lattice.arcs[name].tolist() == (np.float32(factor) * plain.arcs[name]).tolist()
    with pytest.raises(ValueError, match=r"^keys: expected a name for each of the 13 utterances, got 2"):
        made.decode_write_lattice(spoken.padded, spoken.lengths, keys[:2], f"ark:{tmp_path}/x")


def test_lattices_without_the_postprocessor(spoken, tmp_path):
    made = decoder(spoken, use_lattice_postprocessor=False, **post(acoustic_scale=5.0))
    made.decode_write_lattice(spoken.padded[:1], spoken.lengths[:1], ["a"], f"ark:{tmp_path}/a.ark")
    [(_, lattice)] = read_lattices(tmp_path / "a.ark")
    assert lattice == ours(spoken).decode(spoken.utterances[:1], lattice=True)[0].lattice.to_kaldi()
    for call in (made.decode_nbest, made.decode_mbr):
        with pytest.raises(ValueError, match=r"^use_lattice_postprocessor: expected True for n-best lists"):
            call(spoken.padded, spoken.lengths)
