"""Kaldi's compact lattices: what they hold, round trips as bytes, Kaldi's own reader, and damaged files."""

import gzip
import io
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import arcbeam
from arcbeam import FormatError
from arcbeam.files import kaldi_archives
from arcbeam.lattices import archives
from arcbeam.lattices.compact_lattice import ARC, FINAL
from arcbeam.lattices.kaldi_lattice import KaldiLattice
from tests.files.mutants import MUTANTS, attack, little_memory, mutate, mutate_text  # noqa: F401 - a fixture
from tests.lattice_files import kaldi_reader
from tests.lattice_files.random_lattices import nothing, paths, random_lattice

SEEDS = range(12)


def lattices(count=3):
    return {f"utt-{seed}": random_lattice(seed) for seed in range(count)}


def with_ends():
    """A lattice of Kaldi's whose final weights have strings, and whose start is state 1."""
    arcs = np.array([(1, 0, 7, 0.1, -2.5), (1, 2, 0, 1e-7, 3e8), (2, 0, 9, 0.0, 0.0)], ARC)
    finals = np.array([(0.25, 1.0), (np.inf, np.inf), (0.0, 0.0)], FINAL)
    return KaldiLattice(
        1, arcs, np.array([4, 4, 5], np.int32), np.array([0, 2, 2, 3]), finals, np.array([6, 7], np.int32),
        np.array([0, 2, 2, 2]),
    )  # fmt: skip


def kaldi_paths(lattice, scale):
    """{(words, labels): smallest cost}, by a walk over the arcs."""
    leaving, begins = defaultdict(list), lattice.label_begins
    for i, arc in enumerate(lattice.arcs.tolist()):
        leaving[arc[0]].append((*arc[1:], tuple(lattice.labels[begins[i] : begins[i + 1]].tolist())))
    found, pending = {}, [(lattice.start, 0.0, (), ())]
    while pending:
        state, cost, words, labels = pending.pop()
        graph, acoustic = lattice.finals[state].tolist()
        if np.isfinite(graph):
            ends = lattice.final_labels[lattice.final_label_begins[state] : lattice.final_label_begins[state + 1]]
            key = words, labels + tuple(ends.tolist())
            found[key] = min(found.get(key, np.inf), cost + graph + scale * acoustic)
        for target, word, graph, acoustic, string in leaving[state]:
            whole = cost + graph + scale * acoustic
            pending.append((target, whole, words + (word,) * (word != 0), labels + string))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_it_has_the_paths_of_the_lattice(seed):
    lattice = random_lattice(seed, acoustic_scale=0.5)
    kaldi = lattice.to_kaldi(determinize=False)
    wanted = {}
    for cost, words, labels in reversed(paths(lattice)):
        wanted[words, labels] = cost
    assert kaldi_paths(kaldi, 0.5) == wanted
    assert all(len(labels) == lattice.num_frames for _, labels in wanted)
    assert (kaldi.arcs["source"] < kaldi.arcs["target"]).all() and kaldi.start == 0
    best = kaldi.best_path(0.5)
    assert (best.graph_cost + 0.5 * best.acoustic_cost) == lattice.total_cost
    assert wanted[tuple(best.words.tolist()), tuple(best.labels.tolist())] == lattice.total_cost


@pytest.mark.parametrize("seed", SEEDS)
def test_chains_are_folded(seed):
    """No state but start and ends has one arc in and one out, unless both arcs have words."""
    kaldi = random_lattice(seed).to_kaldi(determinize=False)
    arcs = kaldi.arcs
    entering = np.bincount(arcs["target"], minlength=kaldi.num_states)
    leaving = np.bincount(arcs["source"], minlength=kaldi.num_states)
    inner = (entering == 1) & (leaving == 1) & np.isinf(kaldi.finals["graph_cost"])
    for state in np.flatnonzero(inner):
        into, out = arcs[arcs["target"] == state][0], arcs[arcs["source"] == state][0]
        assert into["word"] and out["word"]


def test_acoustic_costs_are_not_scaled():
    lattice = random_lattice(1, acoustic_scale=0.25)
    for determinize in (True, False):
        whole = lattice.to_kaldi(determinize=determinize)
        scaled = lattice.to_kaldi(acoustic_scale=1.0, determinize=determinize)
        assert np.array_equal(whole.arcs["acoustic_cost"], 4 * scaled.arcs["acoustic_cost"])
        assert np.array_equal(whole.arcs["graph_cost"], scaled.arcs["graph_cost"])
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="acoustic_scale: expected a number above 0"):
            lattice.to_kaldi(acoustic_scale=wrong)
    with pytest.raises(TypeError, match="acoustic_scale: expected a number above 0, or None, got str"):
        lattice.to_kaldi(acoustic_scale="x")


@pytest.mark.parametrize("text", [False, True])
def test_round_trips(tmp_path, text):
    given = {name: lattice.to_kaldi() for name, lattice in lattices(12).items()}
    given |= {"ends": with_ends(), "üt": nothing(random_lattice(0)._batch.graph).to_kaldi()}
    first, second, other = (tmp_path / name for name in ("first.ark", "second.ark", "other.ark"))
    arcbeam.write_lattices(first, lattices(12) | {"ends": given["ends"], "üt": given["üt"]}, text=text)
    read = dict(arcbeam.read_lattices(first))
    assert list(read) == list(given)
    assert read == given
    arcbeam.write_lattices(second, read.items(), text=text)
    assert first.read_bytes() == second.read_bytes()
    arcbeam.write_lattices(other, arcbeam.read_lattices(first), text=not text)  # and through the other form
    arcbeam.write_lattices(second, arcbeam.read_lattices(other), text=text)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("text", [False, True])
def test_indexes_and_files_of_one_lattice(tmp_path, text):
    given = {name: lattice.to_kaldi() for name, lattice in lattices().items()}
    ark, scp = tmp_path / "all.ark", tmp_path / "all.scp"
    arcbeam.write_lattices(ark, given, text=text, scp=scp)
    lines = scp.read_text().splitlines()
    scp.write_text("\n".join(reversed(lines)))
    assert dict(arcbeam.read_lattices(scp)) == given
    assert [name for name, _ in arcbeam.read_lattices(scp)] == ["utt-2", "utt-1", "utt-0"]
    begin, end = (int(line.rpartition(":")[2]) for line in lines[:2])
    (tmp_path / "one.lat").write_bytes(ark.read_bytes()[begin : end - len("utt-1 ")])
    assert list(arcbeam.read_lattices(tmp_path / "one.lat")) == [("one", given["utt-0"])]
    (tmp_path / "packed.ark.gz").write_bytes(gzip.compress(ark.read_bytes()))
    with pytest.raises(FormatError, match=r"got a file packed by gzip; unpack it first, as in gunzip --keep .*ark.gz"):
        list(arcbeam.read_lattices(tmp_path / "packed.ark.gz"))
    (tmp_path / "one.lat").write_bytes(ark.read_bytes()[begin : end - len("utt-1 ")] + b"more")
    with pytest.raises(FormatError, match="expected nothing after a file's only lattice"):
        list(arcbeam.read_lattices(tmp_path / "one.lat"))
    scp.write_text(f"utt {ark}:{1 << 40}\n")
    with pytest.raises(FormatError, match="starts beyond the end"):
        list(arcbeam.read_lattices(scp))
    scp.write_text(f"utt {ark}:3[0:1]\n")
    with pytest.raises(FormatError, match="expected no range"):
        list(arcbeam.read_lattices(scp))
    scp.write_text("utt cat all.ark |\n")
    with pytest.raises(FormatError, match="shell command"):
        list(arcbeam.read_lattices(scp))


@pytest.mark.parametrize("text", [False, True])
def test_through_a_pipe(tmp_path, monkeypatch, text):
    given = {name: lattice.to_kaldi() for name, lattice in lattices().items()}
    arcbeam.write_lattices(tmp_path / "a.ark", given, text=text)
    command = (
        "import arcbeam, sys; arcbeam.write_lattices('ark:-', arcbeam.read_lattices('ark:-'), text=len(sys.argv) > 1)"
    )
    data = (tmp_path / "a.ark").read_bytes()
    got = subprocess.run([sys.executable, "-c", command, *["t"] * text], input=data, capture_output=True, timeout=60)
    assert got.stdout == data, got.stderr
    for cut, message in (
        (b"", "-: expected a Kaldi archive of lattices, got an empty file"),
        (data[:-9], "^-: 'utt-2': "),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(cut)))
        with pytest.raises(FormatError, match=message):
            list(arcbeam.read_lattices("ark:-"))


def test_names_of_words(tmp_path):
    lattice = random_lattice(2)
    table = lattice._batch.graph.word_symbols
    table.write(tmp_path / "words.txt")
    arcbeam.write_lattices(tmp_path / "a.ark", {"utt": lattice})
    for words in (table, tmp_path / "words.txt", [symbol for _, symbol in table.items()]):
        [(_, found)] = arcbeam.read_lattices(tmp_path / "a.ark", words=words)
        assert found.best_path(0.5).text == lattice.text == lattice.to_kaldi().best_path(0.5).text != ""
    [(_, found)] = arcbeam.read_lattices(tmp_path / "a.ark")
    assert found.word_symbols is None and found.best_path(0.5).text is None
    [(_, found)] = arcbeam.read_lattices(tmp_path / "a.ark", words=["<eps>"])
    with pytest.raises(ValueError, match="expected a table with all words of the lattice, got one without the number"):
        found.best_path(0.5)


def plain(lattice):
    """A lattice as the second reader has it."""
    begins, ends = lattice.label_begins.tolist(), lattice.final_label_begins.tolist()
    arcs = [
        (s, t, word, (graph, acoustic, tuple(lattice.labels[begins[i] : begins[i + 1]].tolist())))
        for i, (s, t, word, graph, acoustic) in enumerate(lattice.arcs.tolist())
    ]
    finals = {
        s: (graph, acoustic, tuple(lattice.final_labels[ends[s] : ends[s + 1]].tolist()))
        for s, (graph, acoustic) in enumerate(lattice.finals.tolist())
        if np.isfinite(graph)
    }
    return lattice.start, finals, arcs


def test_another_reader_reads_the_same(tmp_path):
    given = {name: lattice.to_kaldi() for name, lattice in lattices(6).items()} | {"ends": with_ends()}
    arcbeam.write_lattices(tmp_path / "a", given)
    data, at = (tmp_path / "a").read_bytes(), 0
    for name, lattice in given.items():
        assert data[at:].startswith(name.encode() + b" ")
        start, finals, arcs, at = kaldi_reader.read_binary(data, at + len(name) + 1)
        finals = {state: weight for state, weight in finals.items() if weight is not None}
        assert (start, finals, arcs) == plain(lattice)
    assert at == len(data)
    arcbeam.write_lattices(tmp_path / "a", given, text=True)
    entries = (tmp_path / "a").read_text().removesuffix("\n\n").split("\n\n")
    for entry, (name, lattice) in zip(entries, given.items(), strict=True):
        assert entry.startswith(f"{name} \n")
        start, finals, arcs = kaldi_reader.read_text(entry.removeprefix(f"{name} \n"))
        rounded = [(s, t, word, (float(np.float32(g)), float(np.float32(a)), x)) for s, t, word, (g, a, x) in arcs]
        assert (start, finals, sorted(rounded)) == (*plain(lattice)[:2], sorted(plain(lattice)[2]))


def test_kaldi_reads_and_writes_the_same(tmp_path):
    """Through Kaldi's own library, from one form to the other and back."""
    program = kaldi_reader.build_kaldi(tmp_path)
    given = {name: lattice.to_kaldi() for name, lattice in lattices(12).items()} | {"ends": with_ends()}
    for text in (False, True):
        ours = tmp_path / f"ours-{text}"
        arcbeam.write_lattices(ours, given, text=text)
        for form in ("binary", "text"):
            theirs = tmp_path / f"theirs-{text}-{form}"
            subprocess.run([str(program), str(ours), str(theirs), form], check=True, timeout=60)
            assert dict(arcbeam.read_lattices(theirs)) == given, (text, form)


ENDS = [b"", b"\n", b"\n\n"]  # of a text archive: Kaldi takes the end of the file for the empty line
AT_THE_END = [b"a \n0 1 2 0.5,1,4\n1", b"a \n0\n\nb \n0 1 2\n1 0,0,"]


@pytest.mark.parametrize("data", AT_THE_END)
def test_the_last_lattice_of_text_needs_no_empty_line(tmp_path, data):
    found = []
    for end in ENDS:
        (tmp_path / "a.ark").write_bytes(data + end)
        found.append(list(arcbeam.read_lattices(tmp_path / "a.ark")))
    assert found[0] == found[1] == found[2] and len(found[0]) == data.count(b" \n")
    assert found[0][-1][1].num_arcs == 1
    (tmp_path / "a.ark").write_bytes(b"a \n")
    [(_, empty)] = arcbeam.read_lattices(tmp_path / "a.ark")
    assert (empty.num_states, empty.start) == (0, -1)


def test_kaldi_needs_no_empty_line_either(tmp_path):
    program = kaldi_reader.build_kaldi(tmp_path)
    for data in [*AT_THE_END, b"a \n"]:
        copies = []
        for end in ENDS[data.endswith(b"\n") :]:
            (tmp_path / "in").write_bytes(data.rstrip(b"\n") + end)
            subprocess.run([str(program), str(tmp_path / "in"), str(tmp_path / "out"), "text"], check=True, timeout=60)
            copies.append((tmp_path / "out").read_bytes())
        (tmp_path / "a.ark").write_bytes(data)
        arcbeam.write_lattices(tmp_path / "ours", arcbeam.read_lattices(tmp_path / "a.ark"))
        subprocess.run([str(program), str(tmp_path / "ours"), str(tmp_path / "out"), "text"], check=True, timeout=60)
        assert set(copies) == {(tmp_path / "out").read_bytes()}


def test_an_index_opens_each_archive_once(tmp_path, monkeypatch):
    given = {name: lattice.to_kaldi() for name, lattice in lattices(4).items()}
    indexes = []
    for name, part in (("a", ("utt-0", "utt-1")), ("b", ("utt-2", "utt-3"))):
        scp = tmp_path / f"{name}.scp"
        arcbeam.write_lattices(tmp_path / f"{name}.ark", {one: given[one] for one in part}, scp=scp)
        indexes.append(scp.read_text())
    (tmp_path / "all.scp").write_text("".join(indexes))
    opened = []

    def open_archive(archive, index):
        opened.append((archive.name, kaldi_archives.open_archive(archive, index)))
        return opened[-1][1]

    monkeypatch.setattr(archives, "open_archive", open_archive)
    assert dict(arcbeam.read_lattices(tmp_path / "all.scp")) == given
    assert [name for name, _ in opened] == ["a.ark", "b.ark"] and all(file.closed for _, file in opened)


def test_openfst_and_best_path():
    kaldifst = pytest.importorskip("kaldifst", reason="makes the object: .[build]")
    lattice = with_ends()
    fst = lattice.to_openfst(0.5)
    assert (fst.num_states, fst.start, fst.num_arcs(1)) == (3, 1, 2)
    assert float(fst.final(0).value) == 0.75
    assert [arc.olabel for arc in kaldifst.ArcIterator(fst, 1)] == [7, 0]
    best = lattice.best_path()
    assert (best.words.tolist(), best.labels.tolist()) == ([7], [4, 4, 6, 7])
    assert best.acoustic_cost == -1.5
    assert repr(lattice) == "<KaldiLattice, 3 states, 3 arcs>"


def test_lattices_without_a_best_path():
    none = nothing(random_lattice(0)._batch.graph).to_kaldi()
    with pytest.raises(ValueError, match="expected a path from the start"):
        none.best_path()
    arcs = np.array([(0, 1, 1, 0.0, 0.0), (1, 0, 1, 0.0, 0.0)], ARC)
    empty, zeros = np.zeros(0, np.int32), np.zeros(3, np.int64)
    cycle = KaldiLattice(0, arcs, empty, zeros, np.zeros(2, FINAL), empty, zeros)
    with pytest.raises(ValueError, match="expected a lattice without cycles"):
        cycle.best_path()


class Hypothesis:
    """What has a lattice and is none."""


def test_what_is_no_lattice(tmp_path):
    lattice = random_lattice(0)
    for wrong, message in [
        ({"a": Hypothesis()}, "expected a lattice for 'a', such as hypothesis.lattice .* got Hypothesis"),
        ({"a": None}, "expected a lattice for 'a', .*lattice=True.* got NoneType"),
        (lattice, "expected names with lattices, .* got Lattice"),
        ([lattice], "or pairs .*, got an item of type Lattice"),
        (None, "expected names with lattices, .* got NoneType"),
    ]:
        with pytest.raises(TypeError, match=message):
            arcbeam.write_lattices(tmp_path / "a.ark", wrong)
    with pytest.raises(TypeError, match="path: expected the name of an archive, got dict; the path comes first"):
        arcbeam.write_lattices({"a": lattice}, tmp_path / "a.ark")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a b", " a", "a\n", "a\t", 3])
def test_names_with_white_space(tmp_path, name):
    with pytest.raises(ValueError, match="expected names of utterances without white space"):
        arcbeam.write_lattices(tmp_path / "a.ark", {name: random_lattice(0)})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [list, iter])
def test_a_name_for_two_lattices(tmp_path, kind):
    """A sequence is refused before anything is written, and what came before stays."""
    (tmp_path / "a.ark").write_bytes(b"older")
    pairs = [(name, random_lattice(0)) for name in ("a", "b", "a")]
    with pytest.raises(ValueError, match="got 'a' for the items 0 and 2; rename one of them"):
        arcbeam.write_lattices(tmp_path / "a.ark", kind(pairs))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"older"]


DAMAGED = {
    "empty": (b"", "got an empty file"),
    "id alone": (b"utt", "the file ends after b'utt'"),
    "no lattice": (b"utt [ 1 2 ]", "byte 4: expected a lattice, binary or text"),
    "two words": (b"utt \n0 1 2 3 0,0,\n\n", "at most 4 fields"),
    "a weight": (b"utt \n0 1 2 0,nan,\n\n", "line at byte 5: expected a weight such as"),
    "a large cost": (b"utt \n0 1 2 0,1e39,\n\n", "fit in float32"),
    "a large label": (b"utt \n0 1 2 0,0,2147483648\n\n", "labels that fit in int32"),
    "a large state": (b"utt \n0 99999999 2 0,0,\n\n", "state 99999999 is mentioned"),
    "two ends": (b"utt \n0 0,0,\n0\n\n", "two final weights"),
    "no line feed": (b"utt ", "byte 4: expected a lattice, binary or text"),
    "a cut line": (b"utt \n0 1 2 0.5,1", "line at byte 5: expected a weight such as"),
    "other text": (b"utt \nxyz\n\n", "expected a state or word"),
    "on one line": (b"utt  0 1 2\n", "text begins on a line of its own"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damage_is_named(tmp_path, case):
    data, reason = DAMAGED[case]
    path = tmp_path / "bad.ark"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        list(arcbeam.read_lattices(path))
    assert str(caught.value).startswith(str(path)) and reason in str(caught.value)


def test_every_truncation_is_named(tmp_path):
    path = tmp_path / "a.ark"
    arcbeam.write_lattices(path, {"utt": with_ends()})
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            list(arcbeam.read_lattices(path))


def test_an_fst_of_another_kind(tmp_path):
    random_lattice(0).write(tmp_path / "plain.fst")
    with pytest.raises(FormatError, match="byte 26: expected a vector FST of 'compactlattice44', got 'vector' of"):
        list(arcbeam.read_lattices(tmp_path / "plain.fst"))


def read_all(path):
    for _, lattice in arcbeam.read_lattices(path):
        assert len(lattice.labels) == lattice.label_begins[-1]
        assert (lattice.arcs["target"] < lattice.num_states).all()
        try:
            lattice.best_path()
        except ValueError as error:
            assert "expected a" in str(error)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("text", [False, True])
def test_mutated_archives(tmp_path, text):
    whole = {name: lattice.to_kaldi() for name, lattice in lattices(2).items()} | {"ends": with_ends()}
    arcbeam.write_lattices(tmp_path / "whole", whole, text=text)
    data = Path(tmp_path / "whole").read_bytes()
    accepted = attack(f"lattices {text}", data, tmp_path / "m.ark", read_all, MUTANTS, mutate_text if text else mutate)
    assert 0 < accepted < MUTANTS
