"""Manifests of utterances: TSV, NeMo's JSON lines and Lhotse's cuts, and the ids of large jobs."""

import json
import os

import numpy as np
import pytest

from arcbeam import FormatError, read_log_probs
from arcbeam.core.errors import MissingDependencyError
from arcbeam.files import ids as ids_file
from arcbeam.files.ids import Ids
from arcbeam.files.log_probs import Unique, count, find_inputs

ONE = np.log(np.full((5, 3), 1 / 3, np.float32))
OTHER = np.log(np.full((2, 3), 1 / 3, np.float16))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with arrays, which is not the working folder."""
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "one.npy", ONE)
    np.savez(tmp_path / "arrays" / "other.npz", whatever=OTHER)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def lines(path, *rows):
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def same(found, **wanted):
    assert [name for name, _ in found] == list(wanted)
    for (_, array), expected in zip(found, wanted.values(), strict=True):
        assert array.dtype == expected.dtype and array.tobytes() == expected.tobytes()


def test_tsv(folder):
    path = lines(folder / "list.tsv", "a\tarrays/one.npy", "", f"b\t{folder}/arrays/other.npz")
    same(list(read_log_probs(path)), a=ONE, b=OTHER)
    assert count(find_inputs([str(path)])) == 2


@pytest.mark.parametrize("field", ["log_probs", "log_probs_filepath", "encoder_output_filepath", "logits"])
@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_json_lines_of_nemo(folder, field, ending):
    rows = {"audio_filepath": "a.wav", "duration": 1.5, "text": "ah", field: "arrays/one.npy"}, {
        "id": "b", field: "arrays/other.npz"
    }  # fmt: skip
    path = lines(folder / f"list.{ending}", *rows)
    same(list(read_log_probs(path)), one=ONE, b=OTHER)
    assert count(find_inputs([str(path)])) == 2


@pytest.mark.parametrize(
    ("name", "row", "reason"),
    [
        ("list.tsv", "arrays/one.npy", "list.tsv:1: expected 'id<TAB>path', got 'arrays/one.npy'"),
        ("list.tsv", "a\tb\tc", "list.tsv:1: expected 'id<TAB>path'"),
        ("list.tsv", "a\tarrays/list.scp", "list.tsv:1: .*expected a .npy or .npz file of one utterance, got '.scp'"),
        ("list.tsv", "a\tarrays/two.npz", "list.tsv:1: .*expected one utterance, .*got several"),
        ("list.tsv", "a\tarrays/cube.npy", "list.tsv:1: .*expected one utterance, .*got several"),
        ("list.jsonl", "nothing", "list.jsonl:1: expected a JSON object a line, got 'nothing'"),
        ("list.jsonl", [1], "list.jsonl:1: expected a JSON object a line"),
        ("list.json", "{", "list.json:1: expected a JSON object a line"),
        (
            "list.jsonl",
            {"audio_filepath": "a.wav"},
            "list.jsonl:1: expected the path of one array as one of log_probs, ",
        ),
        ("list.jsonl", {"log_probs": "a.npy", "logits": "b.npy"}, "got the fields log_probs, logits"),
        ("list.jsonl", {"log_probs": 3}, "list.jsonl:1: expected the path of one array"),
        ("list.jsonl", {"log_probs": "a.npy", "id": {}}, "list.jsonl:1: expected a name as id, got {}"),
        ("list.tsv", "a\t" + "b" * 70_000, "list.tsv:1: expected lines of less than 65536 characters"),
    ],
)
def test_bad_lines(folder, name, row, reason):
    np.savez(folder / "arrays" / "two.npz", a=ONE, b=ONE)
    np.save(folder / "arrays" / "cube.npy", np.stack([ONE, ONE]))
    (folder / "arrays" / "list.scp").write_text("")
    with pytest.raises(FormatError, match=reason):
        list(read_log_probs(lines(folder / name, row)))


def test_a_missing_file_is_named_with_its_line(folder):
    path = lines(folder / "list.tsv", "a\tarrays/one.npy", "b\tgone.npy")
    with pytest.raises(FileNotFoundError, match=r"list\.tsv:2 names it: 'gone\.npy'"):
        list(read_log_probs(path))


def test_a_folder_does_not_take_its_manifests(folder):
    lines(folder / "arrays" / "reference.tsv", "one\tah")
    assert [name for name, _ in read_log_probs(folder / "arrays")] == ["one", "whatever"]


def test_cuts_without_lhotse(folder):
    try:
        import lhotse  # noqa: F401
    except ImportError:
        with pytest.raises(MissingDependencyError, match="a manifest of cuts needs the package lhotse"):
            list(read_log_probs(lines(folder / "cuts.jsonl", {"id": "a", "type": "MonoCut"})))


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize("field", ["log_probs", "encoder_output", None])
def test_cuts_of_lhotse(folder, ending, field):
    lhotse = pytest.importorskip("lhotse", reason="lhotse is not installed")
    cuts = []
    with lhotse.NumpyFilesWriter(folder / "stored") as writer:
        for name, array in (("a", ONE), ("b", OTHER.astype(np.float32))):
            cut = lhotse.MonoCut(id=name, start=0.0, duration=len(array) * 0.02, channel=0)
            if field is None:
                features = lhotse.Features(
                    type="log-probs", num_frames=len(array), num_features=3, frame_shift=0.02, sampling_rate=16_000,
                    start=0.0, duration=cut.duration, storage_type=writer.name, storage_path=str(writer.storage_path),
                    storage_key=writer.write(f"{name}-1", array), channels=0,
                )  # fmt: skip
                cut.features = features
            else:
                setattr(cut, field, writer.store_array(f"{name}-1", array, temporal_dim=0, frame_shift=0.02, start=0))
            cuts.append(cut)
    path = folder / f"cuts.{ending}"
    lhotse.CutSet.from_cuts(cuts).to_file(path)
    same(list(read_log_probs(path)), a=ONE, b=OTHER.astype(np.float32))
    assert count(find_inputs([str(path)])) == 2
    lhotse.CutSet.from_cuts([lhotse.MonoCut(id="c", start=0.0, duration=1.0, channel=0)]).to_file(path)
    with pytest.raises(FormatError, match="cut 'c': expected one of log_probs, logits, encoder_output, or features"):
        list(read_log_probs(path))


def test_an_id_that_occurs_twice_is_found_among_many(folder):
    rows = [f"{number}\tarrays/one.npy" for number in range(5_000)]
    lines(folder / "first.tsv", *rows)
    lines(folder / "second.tsv", *(f"x{row}" for row in rows[:3_000]), rows[4_321])
    inputs = find_inputs([str(folder / "first.tsv"), str(folder / "second.tsv")])
    unique = Unique(inputs)
    with pytest.raises(FormatError, match=r"'4321' occurs twice: in .*first.tsv and in .*second.tsv"):
        for source in inputs:
            for entry in source.entries():
                unique.add(entry)


def test_two_ids_of_the_same_bits_are_two(folder, monkeypatch):
    """The names are read once more, so that no utterance is refused by mistake."""
    monkeypatch.setattr(ids_file, "hash", lambda name: 7, raising=False)
    same(list(read_log_probs(lines(folder / "l.tsv", "a\tarrays/one.npy", "b\tarrays/one.npy"))), a=ONE, b=ONE)
    with pytest.raises(FormatError, match="the utterance id 'a' occurs twice"):
        list(read_log_probs(lines(folder / "l.tsv", *["a\tarrays/one.npy", "b\tarrays/one.npy"] * 2)))


def test_a_set_of_ids_is_that_of_python():
    ids, known = Ids(), set()
    for number in np.random.default_rng(0).integers(0, 20_000, 30_000).tolist():
        assert ids.add(f"utterance-{number}") is (number not in known)
        known.add(number)
    assert len(ids) == len(known)
    assert all((f"utterance-{number}" in ids) is (number in known) for number in range(25_000))


@pytest.mark.parametrize("layout", ["packed", "padded", "ark"])
def test_entries_that_are_not_read_are_passed_over(tmp_path, layout):
    """What is read after them is what it would be."""
    arrays = {f"u{n}": np.random.default_rng(n).standard_normal((3 + n % 4, 5)).astype(np.float32) for n in range(40)}
    lengths = [len(one) for one in arrays.values()]
    path = tmp_path / ("a.ark" if layout == "ark" else "a.npz")
    if layout == "ark":
        pytest.importorskip("kaldiio").save_ark(str(path), arrays)
    elif layout == "packed":
        np.savez_compressed(path, log_probs=np.concatenate(list(arrays.values())), lengths=lengths, ids=list(arrays))
    else:
        padded = np.zeros((40, 6, 5), np.float32)
        for place, one in zip(padded, arrays.values(), strict=True):
            place[: len(one)] = one
        np.savez(path, log_probs=padded, lengths=lengths, ids=list(arrays))
    [source] = find_inputs([os.fspath(path)])
    for step in (2, 3, 7):
        found = {e.id: e.load().log_probs for n, e in enumerate(source.entries()) if n % step == 1}
        same(list(found.items()), **{name: one for n, (name, one) in enumerate(arrays.items()) if n % step == 1})
