"""arcbeam.compat.kaldi_decoder compared with kaldi-decoder: the same calls on the same FSTs, in one run.

Costs are compared to 1e-3: the original's are rounded to float32 on the way. Where the labels of two best paths differ,
both cost the same; where a beam has dropped something, ours costs no more.
"""

import math

import numpy as np
import pytest

from arcbeam.compat import kaldi_decoder as ours

theirs = pytest.importorskip("kaldi_decoder", reason="the peer is missing: pip install '.[peers]'")
kaldifst = pytest.importorskip("kaldifst")

pytestmark = pytest.mark.filterwarnings("ignore:log_probs. expected:UserWarning")
BOTH = (theirs, ours)
GRAPHS = 400
WIDE = 60.0
NEAR = 1e-3


def random_fst(rng):
    """A graph of up to 8 states without epsilon cycles, final states among them."""
    fst = kaldifst.StdVectorFst()
    states = int(rng.integers(1, 9))
    for _ in range(states):
        fst.add_state()
    fst.start = 0
    for _ in range(int(rng.integers(5, 35))):
        source, target = map(int, rng.integers(0, states, 2))
        label = int(rng.integers(0, 5)) or int(target <= source)
        fst.add_arc(source, kaldifst.StdArc(label, int(rng.integers(0, 4)), float(rng.integers(-16, 160) / 64), target))
    for state in range(states):
        if rng.random() < 0.3:
            fst.set_final(state, float(rng.integers(0, 64) / 64))
    return fst


def examples():
    for seed in range(GRAPHS):
        rng = np.random.default_rng(seed)
        fst = random_fst(rng)
        yield seed, fst, -(rng.integers(0, 320, (int(rng.integers(1, 8)), 4)) / 64).astype(np.float32)


def sequence(lattice):
    """(input labels, words, cost) of a linear lattice."""
    ok, labels, words, weight = kaldifst.get_linear_symbol_sequence(lattice)
    assert ok
    return labels, words, weight.value1 + weight.value2


def shape(lattice):
    """The labels of each arc, and whether it has a cost of the log-probs."""
    lines = [line.split() for line in lattice.to_str(show_weight_one=True).splitlines()]
    return [tuple(line[2:4]) for line in lines if len(line) == 5]


def both_paths(make, log_probs, *use_final_probs):
    """For each library: what decode returned, what the decoder says of the end, and its path; None without one."""
    found = []
    for module in BOTH:
        decoder = make(module)
        decoder.decode(module.DecodableCtc(log_probs))
        ok, lattice = decoder.get_best_path(*use_final_probs)
        found.append((decoder, lattice if ok else None))
    return found


@pytest.mark.parametrize("use_final_probs", [True, False])
@pytest.mark.parametrize("kind", ["FasterDecoder", "SimpleDecoder"])
def test_best_paths_of_random_graphs(kind, use_final_probs):
    equal = paths = 0
    for seed, fst, log_probs in examples():

        def make(module, fst=fst):
            options = module.FasterDecoderOptions(beam=WIDE) if kind == "FasterDecoder" else WIDE
            return getattr(module, kind)(fst, options)

        (peer, wanted), (mine, found) = both_paths(make, log_probs, use_final_probs)
        assert (found is None) == (wanted is None), seed
        assert mine.num_frames_decoded() == peer.num_frames_decoded() == len(log_probs)
        assert mine.reached_final() == peer.reached_final(), seed
        if kind == "SimpleDecoder":
            assert mine.final_relative_cost() == pytest.approx(peer.final_relative_cost(), abs=NEAR), seed
        if wanted is None:
            continue
        one, other = sequence(found), sequence(wanted)
        paths += 1
        if one[:2] == other[:2]:
            equal += 1
            assert one[2] == pytest.approx(other[2], abs=NEAR), seed
            assert shape(found) == shape(wanted), seed  # epsilon arcs are merged in the same places
        elif use_final_probs:
            assert one[2] == pytest.approx(other[2], abs=NEAR), seed  # a tie
    assert paths > GRAPHS // 2 and equal >= 0.97 * paths


@pytest.mark.parametrize(("beam", "max_active"), [(2.0, 2**31 - 1), (8.0, 2**31 - 1), (WIDE, 3)])
def test_narrow_searches_of_random_graphs(beam, max_active):
    """The original compares with a bound that is not yet that of the frame, and keeps at least `min_active` tokens."""
    costs = []
    for _, fst, log_probs in examples():

        def make(module, fst=fst):
            options = module.FasterDecoderOptions(beam=beam, max_active=max_active, min_active=0)
            return module.FasterDecoder(fst, options)

        (_, wanted), (_, found) = both_paths(make, log_probs)
        if wanted is not None and found is not None:
            costs.append((sequence(found)[2], sequence(wanted)[2]))
    mine, peer = np.array(costs).T
    assert len(mine) > GRAPHS // 2
    assert np.mean(np.abs(mine - peer) < NEAR) >= 0.9, np.mean(np.abs(mine - peer) < NEAR)
    assert np.mean(mine > peer + NEAR) <= 0.1, np.mean(mine > peer + NEAR)


def test_utterances_in_parts():
    for seed, fst, log_probs in examples():
        decoders = [module.FasterDecoder(fst, module.FasterDecoderOptions(beam=WIDE)) for module in BOTH]
        chunk = 1 + seed % 3
        for decoder in decoders:
            decoder.init_decoding()
        for begin in range(0, len(log_probs), chunk):
            for module, decoder in zip(BOTH, decoders, strict=True):
                if seed % 2:
                    decoder.advance_decoding(module.DecodableCtc(log_probs[begin : begin + chunk], offset=begin))
                else:
                    decoder.advance_decoding(module.DecodableCtc(log_probs), max_num_frames=chunk)
            peer, mine = decoders
            assert mine.num_frames_decoded() == peer.num_frames_decoded()
            assert mine.reached_final() == peer.reached_final(), seed
            (wanted_ok, wanted), (ok, found) = peer.get_best_path(), mine.get_best_path()
            assert ok == wanted_ok
            if ok:
                assert sequence(found)[2] == pytest.approx(sequence(wanted)[2], abs=NEAR), seed


def test_utterances_without_frames():
    """Paths of epsilon arcs alone: their costs are those of the final state, where no label is lost."""
    paths = 0
    for seed, fst, _ in examples():
        found = []
        for module in BOTH:
            decoder = module.FasterDecoder(fst, module.FasterDecoderOptions(beam=WIDE))
            decoder.init_decoding()
            found.append(decoder.get_best_path())
        (wanted_ok, wanted), (ok, mine) = found
        assert ok == wanted_ok, seed
        assert mine.to_str(show_weight_one=True) == wanted.to_str(show_weight_one=True), seed
        paths += mine.num_states > 1
    assert paths > 5


def links(lattice):
    """The arcs of a lattice in any order: (labels, costs), and the costs of final states."""
    lines = [line.split() for line in lattice.to_str(show_weight_one=True).splitlines()]
    found = []
    for line in lines:
        costs = tuple(round(float(cost), 2) for cost in line[-1].split(","))
        found.append((*line[2:4], *costs) if len(line) == 5 else costs)
    return sorted(map(str, found))


def test_lattices_of_random_graphs():
    """The same links, but those within rounding of the lattice beam."""
    equal = count = 0
    for seed, fst, log_probs in examples():
        found = []
        for module in BOTH:
            config = module.LatticeSimpleDecoderConfig(beam=WIDE, lattice_beam=4.0)
            decoder = module.LatticeSimpleDecoder(fst, config)
            is_final = decoder.decode(module.DecodableCtc(log_probs))
            ok, raw = decoder.get_raw_lattice()
            found.append((is_final, ok, decoder.num_frames_decoded(), raw, decoder))
        assert found[0][:3] == found[1][:3], seed
        peer, mine = found[0][4], found[1][4]
        if not math.isinf(peer.final_relative_cost()) or not math.isinf(mine.final_relative_cost()):
            assert mine.final_relative_cost() == pytest.approx(peer.final_relative_cost(), abs=NEAR), seed
        if found[0][1]:
            count += 1
            equal += links(found[0][3]) == links(found[1][3])
            ours_best, their_best = mine.get_best_path()[1], peer.get_best_path()[1]
            assert sequence(ours_best)[2] == pytest.approx(sequence(their_best)[2], abs=NEAR), seed
    assert count > GRAPHS // 2 and equal >= 0.97 * count, (equal, count)


def test_speech_as_in_recipes(demo_data, tmp_path):
    """A decoder for each utterance, as icefall's recipes with H, HL and HLG have it: the same words and costs."""
    from arcbeam.cli.demo import demo_graph
    from benchmarks.data.openfst_writer import write_openfst

    write_openfst(demo_graph(demo_data, rebuild=False), tmp_path / "HLG.fst")
    fst = kaldifst.StdVectorFst.read(str(tmp_path / "HLG.fst"))
    archive = np.load(demo_data / "log_probs.npz")
    for one in np.split(archive["log_probs"].astype(np.float32), np.cumsum(archive["lengths"])[:-1]):
        (peer, wanted), (mine, found) = both_paths(
            lambda m: m.FasterDecoder(fst, m.FasterDecoderOptions(max_active=3000)), one
        )
        assert mine.reached_final() == peer.reached_final()
        assert sequence(found)[:2] == sequence(wanted)[:2]
        assert sequence(found)[2] == pytest.approx(sequence(wanted)[2], abs=NEAR)


def test_options_are_those_of_the_original():
    for name in ("FasterDecoderOptions", "LatticeSimpleDecoderConfig"):
        assert str(getattr(ours, name)()) == str(getattr(theirs, name)())
    for name in (name for name in dir(theirs) if name[0].isupper()):
        public = {attribute for attribute in dir(getattr(theirs, name)) if not attribute.startswith("_")}
        mine = getattr(ours, name)
        assert public <= {*dir(mine), *getattr(mine, "__dataclass_fields__", ())}, name
