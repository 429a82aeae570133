"""kaldi-decoder's classes on CtcDecoder; tests/peers compares them with the original."""

import gc
import math

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph, GraphError, InputError
from arcbeam.compat import kaldi_decoder as ours
from arcbeam.compat.kaldi_decoder import graphs

kaldifst = pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")

LOG_PROBS = np.log(np.array([[0.6, 0.4], [0.3, 0.7], [0.2, 0.8]], np.float32))


def small():
    """States 0 -a:5-> 1 -b-> 1, with an epsilon arc to the final state 2."""
    fst = kaldifst.StdVectorFst()
    for _ in range(3):
        fst.add_state()
    fst.start = 0
    for state, arc in [(0, (1, 5, 0.5, 1)), (1, (2, 0, 0.25, 1)), (1, (0, 0, 0.75, 2))]:
        fst.add_arc(state, kaldifst.StdArc(*arc))
    fst.set_final(2, 0.125)
    return fst


def arcs_of(lattice):
    """The lines of a lattice: arcs (source, target, labels, costs), and final states (state, costs)."""
    lines = [line.split() for line in lattice.to_str(show_weight_one=True).splitlines()]
    return [(*map(int, line[:-1]), *map(float, line[-1].split(","))) for line in lines]


def faster(fst, **options):
    return ours.FasterDecoder(fst, ours.FasterDecoderOptions(**options))


def lattice_decoder(fst, **options):
    return ours.LatticeSimpleDecoder(fst, ours.LatticeSimpleDecoderConfig(**options))


@pytest.mark.parametrize("make", [faster, lambda fst: ours.SimpleDecoder(fst, 16.0)])
def test_the_best_path_of_a_small_graph(make):
    """The epsilon arc at the end becomes a part of the arc before it, as in the original."""
    decoder = make(small())
    assert (decoder.num_frames_decoded(), decoder.reached_final()) == (-1, False)
    assert decoder.get_best_path()[0] is False and decoder.get_best_path()[1].num_states == 0
    decoder.decode(ours.DecodableCtc(LOG_PROBS))
    assert (decoder.num_frames_decoded(), decoder.reached_final()) == (3, True)
    costs = [-float(np.float32(LOG_PROBS[frame, column])) for frame, column in ((0, 0), (1, 1), (2, 1))]
    labels = [(0, 1, 1, 5, 0.5), (1, 2, 2, 0, 0.25), (2, 3, 2, 0, 1.0)]
    for use_final_probs, final in ((True, 0.125), (False, 0.0)):
        ok, lattice = decoder.get_best_path(use_final_probs)
        assert ok and isinstance(lattice, kaldifst.Lattice)
        wanted = [(*arc, pytest.approx(cost, rel=1e-5)) for arc, cost in zip(labels, costs, strict=True)]
        assert arcs_of(lattice) == [*wanted, (3, final, 0.0)]  # to_str writes six digits
    ok, labels, words, weight = kaldifst.get_linear_symbol_sequence(decoder.get_best_path()[1])
    assert (ok, labels, words) == (True, [1, 2, 2], [5])
    assert weight.value1 + weight.value2 == pytest.approx(1.875 + sum(costs), rel=1e-6)


def test_an_utterance_without_frames():
    """The cost of an epsilon arc that nothing takes up is that of the end; an arc with a word stays."""
    for word, wanted in ((0, [(0, 0.875, 0.0)]), (3, [(0, 1, 0, 3, 0.75, 0.0), (1, 0.125, 0.0)])):
        fst = kaldifst.StdVectorFst()
        for _ in range(2):
            fst.add_state()
        fst.start = 0
        fst.add_arc(0, kaldifst.StdArc(0, word, 0.75, 1))
        fst.set_final(1, 0.125)
        decoder = faster(fst)
        decoder.init_decoding()
        assert decoder.reached_final() and decoder.num_frames_decoded() == 0
        assert arcs_of(decoder.get_best_path()[1]) == wanted


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_frames_in_parts_are_one_utterance(spoken, parts):
    """Whatever the chunks, with an offset or read from one matrix; results in between do not change later ones."""
    fst = kaldifst.StdVectorFst.read(str(spoken.fst))
    whole, chunked, counted = (faster(fst, max_active=3000) for _ in range(3))
    for one in spoken.utterances[:4]:
        whole.decode(ours.DecodableCtc(one))
        chunked.init_decoding()
        counted.init_decoding()
        decodable = ours.DecodableCtc(one)
        for chunk in np.array_split(one, parts):
            chunked.advance_decoding(ours.DecodableCtc(chunk, offset=chunked.num_frames_decoded()))
            counted.advance_decoding(decodable, max_num_frames=len(chunk))
            assert chunked.num_frames_decoded() == counted.num_frames_decoded()
            assert arcs_of(chunked.get_best_path()[1]) == arcs_of(counted.get_best_path()[1])
        assert arcs_of(chunked.get_best_path()[1]) == arcs_of(whole.get_best_path()[1])
        assert chunked.reached_final() == whole.reached_final()


def test_words_are_those_of_the_decoder(spoken):
    """As recipes with H, HL and HLG decode: a decoder for each utterance, and words by their labels."""
    fst = kaldifst.StdVectorFst.read(str(spoken.fst))
    found = CtcDecoder(spoken.graph, beam=16.0, max_active=3000, device="cpu").decode(spoken.utterances)
    for one, wanted in zip(spoken.utterances, found, strict=True):
        decoder = faster(fst, max_active=3000)
        decoder.decode(ours.DecodableCtc(one))
        assert decoder.reached_final()
        ok, best = decoder.get_best_path()
        assert ok
        ok, labels, words, weight = kaldifst.get_linear_symbol_sequence(best)
        assert ok and words == wanted.word_ids.tolist()
        assert labels == (wanted.tokens + 1).tolist()
        assert weight.value1 + weight.value2 == pytest.approx(-wanted.score, rel=1e-5)


def test_relative_costs_and_ends():
    fst = small()
    fst.add_arc(1, kaldifst.StdArc(1, 7, 0.0, 0))
    decoder = ours.SimpleDecoder(fst, 50.0)
    assert decoder.final_relative_cost() == math.inf
    assert decoder.decode(ours.DecodableCtc(LOG_PROBS[:1])) is True
    assert decoder.final_relative_cost() == pytest.approx(0.875)
    assert decoder.decode(ours.DecodableCtc(LOG_PROBS)) is True
    fst = kaldifst.StdVectorFst()
    for _ in range(2):
        fst.add_state()
    fst.start = 0
    fst.add_arc(0, kaldifst.StdArc(1, 1, 0.0, 1))
    decoder = ours.SimpleDecoder(fst, 50.0)
    assert decoder.decode(ours.DecodableCtc(LOG_PROBS[:1])) is True
    assert not decoder.reached_final() and decoder.final_relative_cost() == math.inf
    assert arcs_of(decoder.get_best_path()[1])[-1] == (1, 0.0, 0.0)
    assert decoder.decode(ours.DecodableCtc(LOG_PROBS)) is False  # nothing is alive
    assert decoder.get_best_path()[0] is False and decoder.num_frames_decoded() == 3


def test_lattices_are_those_of_the_decoder(spoken):
    fst = kaldifst.StdVectorFst.read(str(spoken.fst))
    made = CtcDecoder(spoken.graph, beam=16.0, max_active=None, lattice_beam=6.0, device="cpu")
    decoder = lattice_decoder(fst, lattice_beam=6.0)
    for one in spoken.utterances[:3]:
        wanted = made.decode(one, lattice=True)
        assert decoder.decode(ours.DecodableCtc(one)) is True and decoder.num_frames_decoded() == len(one)
        ok, raw = decoder.get_raw_lattice()
        assert ok and raw.start == 0 and raw.num_states == wanted.lattice.num_tokens
        lines = arcs_of(raw)
        assert sum(len(line) == 6 for line in lines) == wanted.lattice.num_links
        ok, path = decoder.get_best_path()
        assert ok and kaldifst.get_linear_symbol_sequence(path)[2] == wanted.word_ids.tolist()
        best = {0: 0.0}
        for line in lines:
            if len(line) == 6:  # targets are larger than sources
                source, target, _, _, graph_cost, acoustic_cost = line
                best[target] = min(best.get(target, math.inf), best[source] + graph_cost + acoustic_cost)
        ends = [best[line[0]] + line[1] for line in lines if len(line) == 3]
        assert min(ends) == pytest.approx(-wanted.score, abs=1e-3)  # to_str writes six digits


def test_the_end_of_an_utterance_with_a_lattice():
    decoder = lattice_decoder(small())
    for call in (decoder.get_raw_lattice, decoder.get_best_path):
        with pytest.raises(RuntimeError, match="expected an utterance of at least one frame, got none"):
            call()
    with pytest.raises(RuntimeError, match=r"^finalize_decoding: expected an utterance that has begun"):
        decoder.finalize_decoding()
    decoder.init_decoding()
    assert decoder.num_frames_decoded() == 0
    decoder.finalize_decoding()
    assert decoder.decode(ours.DecodableCtc(LOG_PROBS)) is True
    with pytest.raises(RuntimeError, match=r"^finalize_decoding: .* decode has ended it"):
        decoder.finalize_decoding()
    with pytest.raises(RuntimeError, match=r"^use_final_probs: expected True"):
        decoder.get_raw_lattice(use_final_probs=False)
    assert decoder.final_relative_cost() == pytest.approx(0.75 + 0.125)
    fst = small()
    fst.set_final(2, math.inf)
    decoder = lattice_decoder(fst)
    assert decoder.decode(ours.DecodableCtc(LOG_PROBS)) is False and decoder.final_relative_cost() == math.inf
    assert decoder.get_raw_lattice()[0] is True  # all ends are final then


def test_an_fst_is_compiled_once():
    fst = small()
    graph = graphs.graph_of(fst)
    assert graphs.graph_of(fst) is graph and graphs.graph_of(small()) is not graph
    fst.add_state()
    assert graphs.graph_of(fst) is not graph
    number = id(fst)
    del fst
    gc.collect()
    assert number not in graphs._compiled


@pytest.mark.parametrize("kind", ["StdVectorFst", "StdConstFst"])
def test_kinds_of_fst(kind):
    fst = small() if kind == "StdVectorFst" else kaldifst.StdConstFst(small())
    decoder = faster(fst)
    decoder.decode(ours.DecodableCtc(LOG_PROBS))
    assert decoder.reached_final()


def test_options_of_a_decoder_may_change():
    decoder = faster(small(), beam=0.0)
    decoder.decode(ours.DecodableCtc(LOG_PROBS))
    assert not decoder.reached_final()  # the epsilon arc costs more than the beam allows
    decoder.set_options(ours.FasterDecoderOptions())
    assert not decoder.reached_final()
    decoder.decode(ours.DecodableCtc(LOG_PROBS))
    assert decoder.reached_final()


def test_options_as_text():
    assert str(ours.FasterDecoderOptions()) == (
        "FasterDecoderOptions(beam=16, max_active=2147483647, min_active=20, beam_delta=0.5, hash_ratio=2)"
    )
    assert str(ours.LatticeSimpleDecoderConfig()) == (
        "LatticeSimpleDecoderConfig(beam=16, lattice_beam=10, prune_interval=25, determinize_lattice=True, "
        "prune_lattice=1, beam_ratio=0.9, prune_scale=0.1)"
    )
    decoder = lattice_decoder(small(), lattice_beam=3)
    assert decoder.get_config().lattice_beam == 3.0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"beam": -1.0}, "beam: expected a number of at least 0, got -1.0"),
        ({"max_active": 1}, "max_active: expected at least 2, got 1"),
        ({"min_active": 30}, "min_active: expected at most 20, because this search keeps no least number .* got 30"),
        ({"max_active": 10}, "min_active: expected a number from 0 to less than max_active, got 20"),
        ({"hash_ratio": 0.5}, "hash_ratio: expected a number of at least 1, got 0.5"),
    ],
)
def test_options_that_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        faster(small(), **options)


def test_what_is_refused():
    for options, name in (
        ({"beam": 0.0}, "beam"),
        ({"lattice_beam": 0.0}, "lattice_beam"),
        ({"prune_interval": 0}, "p"),
    ):
        with pytest.raises(ValueError, match=f"^{name}"):
            lattice_decoder(small(), **options)
    with pytest.raises(TypeError, match=r"^config: expected a FasterDecoderOptions of"):
        ours.FasterDecoder(small(), ours.LatticeSimpleDecoderConfig())
    with pytest.raises(TypeError, match=r"^beam: expected a number of at least 0, got str"):
        ours.SimpleDecoder(small(), "16")
    with pytest.raises(TypeError, match=r"^max_active: expected a int, got float"):
        ours.FasterDecoderOptions(max_active=3.5)
    with pytest.raises(TypeError, match="expected a kaldifst or pywrapfst FST, got"):
        ours.SimpleDecoder(Graph, 16.0)
    fst = small()
    fst.add_arc(2, kaldifst.StdArc(0, 0, 0.0, 1))
    with pytest.raises(GraphError, match="epsilon"):
        faster(fst)


def test_a_decoder_goes_on_after_bad_input():
    decoder, decodable = faster(small()), ours.DecodableCtc(LOG_PROBS)
    with pytest.raises(RuntimeError, match=r"^advance_decoding: expected a call of init_decoding before it"):
        decoder.advance_decoding(decodable)
    decoder.init_decoding()
    with pytest.raises(TypeError, match=r"^decodable: expected a DecodableCtc of .* got ndarray"):
        decoder.advance_decoding(LOG_PROBS)
    with pytest.raises(IndexError, match=r"^frame: expected frames from 2 to less than 5, got 0 to 4"):
        decoder.advance_decoding(ours.DecodableCtc(LOG_PROBS, offset=2))
    decoder.advance_decoding(decodable, max_num_frames=2)
    with pytest.raises(ValueError, match=r"^decodable: expected at least the 2 frames that have been decoded, got 1"):
        decoder.advance_decoding(ours.DecodableCtc(LOG_PROBS[:1]))
    bad = LOG_PROBS.copy()
    bad[2, 1] = np.nan
    with pytest.raises(InputError, match="column 1"):
        decoder.advance_decoding(ours.DecodableCtc(bad))
    with pytest.raises(ValueError, match="columns"):
        decoder.advance_decoding(ours.DecodableCtc(LOG_PROBS[:, :1]))
    decoder.advance_decoding(decodable)
    assert decoder.num_frames_decoded() == 3
    whole = faster(small())
    whole.decode(decodable)
    assert arcs_of(decoder.get_best_path()[1]) == arcs_of(whole.get_best_path()[1])


def test_decodables():
    decodable = ours.DecodableCtc(LOG_PROBS, 10)
    assert isinstance(decodable, ours.DecodableInterface)
    assert (decodable.num_frames_ready(), decodable.num_indices()) == (13, 2)
    assert (decodable.is_last_frame(11), decodable.is_last_frame(12)) == (False, True)
    assert decodable.log_likelihood(11, 2) == float(LOG_PROBS[1, 1])
    source = LOG_PROBS.astype(np.float64)
    copied = ours.DecodableCtc(source)
    source[:] = 0
    assert copied.log_likelihood(0, 1) == float(LOG_PROBS[0, 0])
    for call, reason in [
        (lambda: decodable.log_likelihood(9, 1), "frame: expected frames from 10 to less than 13, got 9 to 9"),
        (lambda: decodable.log_likelihood(10, 0), "index: expected an input label from 1 to 2, got 0"),
        (lambda: decodable.is_last_frame(13), "frame: expected less than 13, got 13"),
        (lambda: ours.DecodableCtc(LOG_PROBS[0]), "feats: expected two dimensions, frames and columns, got 1"),
        (lambda: ours.DecodableCtc(LOG_PROBS, -1), "offset: expected a number of frames of at least 0, got -1"),
    ]:
        with pytest.raises((IndexError, ValueError), match=f"^{reason}"):
            call()
    torch = pytest.importorskip("torch", reason="torch is not installed")
    given = torch.from_numpy(LOG_PROBS).requires_grad_()
    assert ours.DecodableCtc(given).log_likelihood(0, 1) == float(LOG_PROBS[0, 0])
