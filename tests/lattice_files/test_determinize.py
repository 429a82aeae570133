"""Determinised lattices: against all paths of the raw lattice, against n-best lists, and against Kaldi's own."""

import lzma
import subprocess
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arcbeam
from arcbeam.ctc.lattice import forms
from arcbeam.ctc.lattice._lattice import nbest
from arcbeam.lattices.determinizing import UNIT, determinized
from tests.hypothesis_examples import examples
from tests.lattice_files import kaldi_reader
from tests.lattice_files.compact_paths import all_paths, best_paths, bushes, random_compact
from tests.lattice_files.random_lattices import nothing, random_lattice

BEAMS = (0.0, 0.5, 2.0, np.inf)


def check(found, raw, beam, scale=1.0):
    """One arc a word; each word sequence within the beam has its best path; no path is new."""
    arcs = found.arcs
    assert (arcs["word"] != 0).all()
    assert len(np.unique(arcs[["source", "word"]])) == len(arcs)
    assert (arcs["source"] < arcs["target"]).all() and found.start in (0, -1)
    wanted, got = best_paths(raw, scale), best_paths(found, scale)
    assert len(got) == len(all_paths(found, scale))
    if not wanted:
        assert found.num_states == 0
        return wanted
    best = min(wanted.values())[0]
    within = {words: path for words, path in wanted.items() if path[0] <= best + beam}
    assert {words: got.get(words) for words in within} == within
    assert set(all_paths(found, scale)) <= set(all_paths(raw, scale))
    assert min(got.values())[0] == best
    assert least_through(found, scale).max() <= best + beam
    return within


def least_through(lattice, scale):
    """The cost of the best path through each arc and each end."""
    of_arcs, of_ends = lattice.costs(scale)
    before, rest = np.full(lattice.num_states, np.inf), of_ends.copy()
    before[lattice.start] = 0.0
    for arc, cost in zip(lattice.arcs, of_arcs, strict=True):
        before[arc["target"]] = min(before[arc["target"]], before[arc["source"]] + cost)
    for arc, cost in zip(lattice.arcs[::-1], of_arcs[::-1], strict=True):
        rest[arc["source"]] = min(rest[arc["source"]], rest[arc["target"]] + cost)
    through = before[lattice.arcs["source"]] + of_arcs + rest[lattice.arcs["target"]]
    return np.append(through, (before + of_ends)[np.isfinite(of_ends)])


@settings(deadline=None, max_examples=examples(2000))
@given(st.integers(0, 2**32 - 1), st.sampled_from(BEAMS), st.sampled_from([1.0, 0.5]))
def test_all_word_sequences_within_the_beam(seed, beam, scale):
    rng = np.random.default_rng(seed)
    raw = random_compact(rng, states=int(rng.integers(1, 9)), arcs=int(rng.integers(0, 20)))
    found = raw.determinize(beam, scale)
    check(found, raw, beam, scale)
    assert found.beam == beam
    assert raw.ordered().determinize(beam, scale) == found  # whatever the order of states


@pytest.mark.parametrize("costs", [1, 2, 8])
@pytest.mark.parametrize("beam", BEAMS)
def test_many_random_lattices(beam, costs):
    """Lattices in which many paths have the same words, and with one cost or two many of those the same cost."""
    merged = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        raw = random_compact(rng, states=10, arcs=24, words=2, silent=0.5, costs=costs)
        merged += len(all_paths(raw, 1.0)) - len(check(raw.determinize(beam), raw, beam))
    assert merged > 1000


@pytest.mark.parametrize("seed", range(12))
def test_what_a_decoder_finds(seed):
    lattice = random_lattice(seed, acoustic_scale=0.5)
    found, raw = lattice.to_kaldi(), lattice.to_kaldi(determinize=False)
    check(found, raw, lattice.lattice_beam, 0.5)
    assert found.num_arcs <= raw.num_arcs
    for _, labels, _, _ in all_paths(found, 0.5):
        assert len(labels) == lattice.num_frames
    best = found.best_path(0.5)
    assert best.graph_cost + 0.5 * best.acoustic_cost == lattice.total_cost
    small = lattice.prune(1.0)
    check(small.to_kaldi(), small.to_kaldi(determinize=False), 1.0, 0.5)


def test_nothing_to_determinise():
    empty = nothing(random_lattice(0)._batch.graph).to_kaldi()
    assert (empty.num_states, empty.start) == (0, -1)
    assert empty.determinize() == empty


def test_values_that_are_refused():
    lattice = random_lattice(0)
    raw = lattice.to_kaldi(determinize=False)
    with pytest.raises(ValueError, match="beam: expected a number of at least 0, got -1"):
        raw.determinize(-1.0)
    with pytest.raises(ValueError, match="acoustic_scale: expected a number above 0, got 0"):
        raw.determinize(acoustic_scale=0.0)
    with pytest.raises(TypeError, match="determinize: expected a bool, got str"):
        lattice.to_kaldi(determinize="no")
    with pytest.raises(ValueError, match=r"expected costs whose magnitudes add up to less than 2\*\*30 nats"):
        raw.determinize(acoustic_scale=1e9)


def test_the_limit_makes_the_beam_smaller():
    """What is left is complete within the beam that the lattice says, and the best path is always there."""
    raw = bushes(9)
    wanted = best_paths(raw, 1.0)
    beams = []
    for limit in (0, 100, 1000, 3000, 1 << 25):
        found = determinized(raw, raw.cost_parts(1.0), 100.0, 1.0, limit)
        got = best_paths(found, 1.0)
        below = {words: path for words, path in wanted.items() if path[0] < found.beam}  # the best path costs 0
        assert {words: got.get(words) for words in below} == below and min(got.values())[0] == min(wanted.values())[0]
        assert got.items() <= wanted.items()
        assert np.isfinite(least_through(found, 1.0)).all()  # nothing leads nowhere
        beams.append(found.beam)
    assert beams == sorted(beams) and beams[0] < beams[2] < 100.0 == beams[-1]


def test_a_lattice_that_would_grow_without_end():
    """2**40 word sequences that share nothing."""
    found = determinized(bushes(40), bushes(40).cost_parts(1.0), 100.0, 1.0, 1 << 16)
    assert 0.0 < found.beam < 100.0 and 40 <= found.num_arcs < 1 << 16
    assert sum(found.best_path()[2:4]) == sum(bushes(40).best_path()[2:4])


def test_a_smaller_beam_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(forms, "determinized", partial(determinized, step_limit=1))
    lattice = random_lattice(9)
    beam = lattice.to_kaldi().beam
    assert beam < lattice.lattice_beam
    with pytest.warns(UserWarning, match=f"lattice of 'utt' is complete within {beam:.2f} of its best path"):
        arcbeam.write_lattices(tmp_path / "a.ark", {"utt": lattice})
    arcbeam.write_lattices(tmp_path / "raw.ark", {"utt": lattice}, determinize=False)
    [(_, raw)] = arcbeam.read_lattices(tmp_path / "raw.ark")
    assert raw == lattice.to_kaldi(determinize=False)


@pytest.fixture(scope="module")
def graph(demo_data, tmp_path_factory):
    """A graph of the words that the demo's speakers say and of some thousand others."""
    pytest.importorskip("kaldifst", reason="builds the graph: arcbeam[build]")
    said = {word for line in (demo_data / "reference.tsv").read_text().splitlines() for word in line.split()[1:]}
    arpa = lzma.decompress((demo_data / "novels.3gram.arpa.xz").read_bytes()).decode()
    lines = arpa.split("\\1-grams:\n")[1]
    rows = [line.split("\t")[:2] for line in lines.split("\n\n")[0].splitlines()]
    kept = [row for i, row in enumerate(rows) if row[1] in said or row[1][0] == "<" or i % 10 == 0]
    total = np.log10(sum(10.0 ** float(cost) for cost, word in kept if word != "<s>"))
    folder = tmp_path_factory.mktemp("lm")
    unigrams = "".join(f"{-99 if word == '<s>' else float(cost) - total:.6f}\t{word}\n" for cost, word in kept)
    (folder / "1gram.arpa").write_text(f"\\data\\\nngram 1={len(kept)}\n\n\\1-grams:\n{unigrams}\n\\end\\\n")
    words = sorted(word for _, word in kept if word[0] != "<")
    (folder / "lexicon.txt").write_text("".join(f"{word} {' '.join(word)}\n" for word in words))
    return arcbeam.Graph.build(
        demo_data / "tokens.txt", folder / "lexicon.txt", folder / "1gram.arpa", separator="<space>", progress=False
    )


@pytest.fixture(scope="module")
def speech(demo_data, graph):
    """Lattices of the demo's speech."""
    archive = np.load(demo_data / "log_probs.npz")
    batch = np.split(archive["log_probs"], np.cumsum(archive["lengths"])[:-1])
    decoder = arcbeam.CtcDecoder(graph, acoustic_scale=0.5, beam=14.0, lattice_beam=8.0, device="cpu", threads=1)
    found = [hypothesis.lattice for hypothesis in decoder.decode(batch, lattice=True)]
    return dict(zip(archive["ids"].tolist(), found, strict=True))


def in_float64(lattice, links):
    """(graph cost, acoustic cost, labels) of a path; the acoustic cost is not scaled, as Kaldi writes it."""
    end = lattice.links["target"][links[-1]]
    columns = lattice.columns[links]
    graph = lattice.graph_scores[links].sum() + lattice.final_graph_scores[end]
    acoustic = lattice.acoustic_scores[links].sum() + (lattice.final_scores[end] - lattice.final_graph_scores[end])
    return (
        -float(graph),
        -float(acoustic) / lattice.acoustic_scale,
        tuple((columns[columns != 0xFFFF].astype(int) + 1).tolist()),
    )


def follow(lattice, words):
    """(arcs, end state) of the path of these words, or None."""
    state, path = lattice.start, []
    for word in words:
        arcs = np.arange(*lattice.first_arcs[[state, state + 1]])
        [*path_on] = arcs[lattice.arcs["word"][arcs] == word].tolist()
        if not path_on:
            return None
        path += path_on
        state = int(lattice.arcs["target"][path[-1]])
    return (path, state) if np.isfinite(lattice.finals["graph_cost"][state]) else None


def test_the_n_best_of_speech(speech, tmp_path):
    """Each word sequence of an n-best list within the beam has the same alignment and, up to the rounding of the
    numbers that are written, the same costs; fifty best paths have fifty word sequences."""
    kaldifst = pytest.importorskip("kaldifst")
    arcbeam.write_lattices(tmp_path / "a.ark", speech)
    read = dict(arcbeam.read_lattices(tmp_path / "a.ark"))
    compared, most_paths = 0, 0
    for name, lattice in speech.items():
        written = read[name]
        assert written == lattice.to_kaldi()
        entries = nbest(*lattice._found, lattice.words, 50, scale=1.0)
        bounds = entries.first_link.tolist()
        for begin, end, cost in zip(bounds, bounds[1:], entries.costs.tolist(), strict=False):
            links = entries.links[begin:end]
            words = lattice.words[links]
            path = follow(written, words[words != 0].tolist())
            if cost > lattice.total_cost + lattice.lattice_beam:
                continue  # need not be there
            arcs, state = path
            graph, acoustic, labels = in_float64(lattice, links)
            parts = [written.labels[written.label_begins[arc] : written.label_begins[arc + 1]] for arc in arcs]
            ends = written.final_labels[written.final_label_begins[state] : written.final_label_begins[state + 1]]
            assert tuple(np.concatenate([*parts, ends]).tolist()) == labels and len(labels) == lattice.num_frames
            for part, wanted in (("graph_cost", graph), ("acoustic_cost", acoustic)):
                numbers = np.append(written.arcs[part][arcs], written.finals[part][state])
                rounding = np.spacing(np.abs(numbers)).astype(np.float64).sum() / 2 + UNIT * len(links)
                assert abs(numbers.astype(np.float64).sum() - wanted) <= rounding
            compared += 1
        fst = written.to_openfst(lattice.acoustic_scale)
        best = kaldifst.shortest_path(fst, n=50)
        found = words_of(kaldifst, best)
        assert len(set(found)) == len(found)
        most_paths = max(most_paths, len(found))
        assert all(follow(written, words) for words in found)
        raw = lattice.to_kaldi(determinize=False)
        assert (raw.arcs["word"] == 0).any()
    assert compared > 200 and most_paths == 50


def words_of(kaldifst, fst):
    """The words of all paths of a tree of paths."""
    found, pending = [], [(fst.start, ())]
    for state, words in pending:
        if np.isfinite(float(fst.final(state).value)):
            found.append(words)
        arcs = kaldifst.ArcIterator(fst, state)
        pending += [(arc.nextstate, words + (arc.olabel,) * (arc.olabel != 0)) for arc in arcs]
    return found


DETERMINIZE = r"""
namespace fst {
template <typename A> class Fst;
template <typename A> class ExpandedFst;
template <typename A> class MutableFst;
using States = ArcTpl<LatticeWeightTpl<float>>;
using Lattice = VectorFst<States, VectorState<States, std::allocator<States>>>;
struct DeterminizeLatticePrunedOptions {
    float delta = 1.0F / 1024;
    int max_mem = -1, max_loop = -1, max_states = -1, max_arcs = -1;
    float retry_cutoff = 0.5F;
};
template <typename A> void Invert(MutableFst<A>*);
template <typename A> bool TopSort(MutableFst<A>*);
template <typename W, typename I>
bool DeterminizeLatticePruned(const ExpandedFst<ArcTpl<W>>&, double,
                              MutableFst<ArcTpl<CompactLatticeWeightTpl<W, I>>>*, DeterminizeLatticePrunedOptions);
}  // namespace fst
namespace kaldi {
class LatticeHolder {
  public:
    bool Read(std::istream&);
    fst::Lattice* lattice = nullptr;
};
}  // namespace kaldi
int main(int, char** argv) {  // lattice-determinize-pruned: an archive in, the same determinised out, and a beam
    std::ifstream in(argv[1], std::ios::binary), again(argv[1], std::ios::binary);
    std::ofstream out(argv[2], std::ios::binary);
    std::string key;
    while (in >> key) {
        in.get();
        again >> key;
        again.get();
        kaldi::LatticeHolder from;
        kaldi::CompactLatticeHolder into;
        if (!from.Read(in) || !into.Read(again)) return 1;
        auto* states = reinterpret_cast<fst::MutableFst<fst::States>*>(from.lattice);
        fst::Invert(states);
        fst::TopSort(states);
        if (!fst::DeterminizeLatticePruned<fst::LatticeWeightTpl<float>, int>(
                *reinterpret_cast<fst::ExpandedFst<fst::States>*>(states), std::stod(argv[3]),
                reinterpret_cast<fst::MutableFst<fst::Arc>*>(into.lattice), {})) return 2;
        out << key << ' ';
        if (!kaldi::WriteCompactLattice(out, true, *into.lattice)) return 3;
    }
}
"""


@pytest.mark.parametrize("beam", [0.75, 2.25, 100.0])
def test_kaldi_determinises_to_the_same(tmp_path, beam):
    """Kaldi's own program finds the same best path of each word sequence within the beam."""
    program = kaldi_reader.build_kaldi(tmp_path, DETERMINIZE)
    raw = {f"utt-{seed}": random_lattice(seed).to_kaldi(determinize=False) for seed in range(40)}
    raw |= {
        f"any-{seed}": random_compact(np.random.default_rng(seed), states=9, arcs=20).ordered() for seed in range(80)
    }
    raw = {name: lattice for name, lattice in raw.items() if all_paths(lattice, 1.0)}
    arcbeam.write_lattices(tmp_path / "raw", raw)
    subprocess.run([str(program), str(tmp_path / "raw"), str(tmp_path / "det"), str(beam)], check=True, timeout=60)
    theirs = dict(arcbeam.read_lattices(tmp_path / "det"))
    compared = 0
    for name, lattice in raw.items():
        ours, kaldis = (best_paths(one, 1.0) for one in (lattice.determinize(beam), theirs[name]))
        best = min(ours.values())[0]
        within = [{words: path for words, path in one.items() if path[0] <= best + beam} for one in (ours, kaldis)]
        assert within[0] == within[1], name
        compared += len(within[0])
    assert len(raw) > 80 and compared > len(raw)


def test_kaldi_determinises_speech_to_the_same(speech, tmp_path):
    """The same word sequences with the same alignments; its costs differ, because Kaldi's states merge nearly equal
    ones."""
    program = kaldi_reader.build_kaldi(tmp_path, DETERMINIZE)
    raw = {name: lattice.to_kaldi(acoustic_scale=1.0, determinize=False) for name, lattice in speech.items()}
    arcbeam.write_lattices(tmp_path / "raw", raw)
    subprocess.run([str(program), str(tmp_path / "raw"), str(tmp_path / "det"), "8.0"], check=True, timeout=60)
    compared = 0
    for name, theirs in arcbeam.read_lattices(tmp_path / "det"):
        below = speech[name].total_cost + 7.5  # a sequence whose cost is near the beam may be on either side of it
        ours, kaldis = (
            {
                tuple(path.words.tolist()): path.labels.tolist()
                for path in one.nbest(200)
                if path.graph_cost + path.acoustic_cost < below
            }
            for one in (speech[name].to_kaldi(acoustic_scale=1.0), theirs)
        )
        assert ours == kaldis
        compared += len(ours)
    assert compared > 100
