"""Readers of log-probs: every layout gives the same utterances, every bad file a clear error."""

import io
import pickle
import tracemalloc
import zipfile

import kaldiio
import numpy as np
import pytest

import arcbeam
from arcbeam.cli.run import batches
from arcbeam.core.errors import FormatError
from arcbeam.files.log_probs import count, find_inputs, read_all

RNG = np.random.default_rng(7)
UTTERANCES = {f"utt-{n}": np.log(RNG.dirichlet(np.ones(5), n + 2)).astype(np.float32) for n in range(4)}
STACKED = np.concatenate(list(UTTERANCES.values()))
LENGTHS = np.array([len(u) for u in UTTERANCES.values()])
IDS = np.array(list(UTTERANCES))


def padded():
    batch = np.full((len(LENGTHS), LENGTHS.max(), 5), 9, np.float32)
    for row, utterance in zip(batch, UTTERANCES.values(), strict=True):
        row[: len(utterance)] = utterance
    return batch


def read(*paths):
    return {u.id: u.log_probs for u in read_all(find_inputs(map(str, paths)))}


def npz(save=np.savez, **arrays):
    def write(folder):
        save(folder / "a.npz", **arrays)
        return folder / "a.npz"

    return write


write_npz_named = npz(**UTTERANCES)


def write_npy_folder(folder):
    (folder / "all").mkdir()
    for name, log_probs in UTTERANCES.items():
        np.save(folder / "all" / f"{name}.npy", log_probs)
    (folder / "all" / "README.txt").write_text("not an input")
    return folder / "all"


def write_ark(folder, **settings):
    kaldiio.save_ark(str(folder / "a.ark"), UTTERANCES, scp=str(folder / "a.scp"), **settings)
    return folder / "a.ark"


def write_scp(folder, relative=False):
    write_ark(folder)
    if relative:
        (folder / "a.scp").write_text((folder / "a.scp").read_text().replace(f"{folder}/", ""))
    return folder / "a.scp"


LAYOUTS = {
    "packed npz": npz(np.savez_compressed, log_probs=STACKED, lengths=LENGTHS, ids=IDS),
    "padded npz": npz(log_probs=padded(), lengths=LENGTHS, ids=IDS.astype(bytes)),
    "npz by columns": npz(log_probs=np.asfortranarray(STACKED), lengths=LENGTHS, ids=IDS),
    "named npz": write_npz_named,
    "folder of npy": write_npy_folder,
    "ark": write_ark,
    "text ark": lambda folder: write_ark(folder, text=True),
    "scp": write_scp,
    "relative scp": lambda folder: write_scp(folder, relative=True),
    "ark and scp, read once": lambda folder: write_ark(folder).parent,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_utterances(layout, tmp_path):
    path = LAYOUTS[layout](tmp_path)
    got = dict(arcbeam.read_log_probs(path))
    assert list(got) == list(UTTERANCES)
    for name, expected in UTTERANCES.items():
        if layout == "text ark":
            np.testing.assert_allclose(got[name], expected, rtol=1e-6)
        else:
            np.testing.assert_array_equal(got[name], expected)
        assert got[name].dtype == np.float32
    assert count(find_inputs([str(path)])) == (None if layout in ("ark", "text ark") else 4)


def test_the_public_reader_looks_at_once_and_reads_later(tmp_path):
    with pytest.raises(FileNotFoundError):
        arcbeam.read_log_probs(tmp_path / "gone.npz")
    with pytest.raises(FormatError, match="unknown kind of input"):
        arcbeam.read_log_probs(__file__)
    path = write_npz_named(tmp_path)
    with pytest.raises(ValueError, match="max_bytes: expected a number of bytes"):
        arcbeam.read_log_probs(path, max_bytes="much")
    found = arcbeam.read_log_probs(path, max_bytes=200)
    assert next(found)[0] == "utt-0"
    with pytest.raises(FormatError, match=f"{path}: expected at most 200 bytes of content"):
        list(found)


def test_count_of_batches_and_single_arrays(tmp_path):
    np.save(tmp_path / "b.npy", np.zeros((11, 2, 3), np.float32))
    np.savez(tmp_path / "one.npz", log_probs=UTTERANCES["utt-0"])
    assert count(find_inputs([str(tmp_path)])) == 12


def test_kaldi_prefixes_name_files_of_any_name(tmp_path):
    write_ark(tmp_path)
    (tmp_path / "a.ark").rename(tmp_path / "plain")
    assert list(read(f"ark:{tmp_path}/plain")) == list(UTTERANCES)


@pytest.mark.parametrize("method", [1, 2, 3, 5])
def test_compressed_kaldi_matrices(method, tmp_path):
    got = read(write_ark(tmp_path, compression_method=method))
    for name, expected in UTTERANCES.items():
        np.testing.assert_allclose(got[name], expected, atol=0.2)


def test_double_and_big_endian_become_native_float32(tmp_path):
    doubles = {k: v.astype(np.float64) for k, v in UTTERANCES.items()}
    kaldiio.save_ark(str(tmp_path / "d.ark"), doubles)
    np.savez(tmp_path / "b.npz", big=UTTERANCES["utt-0"].astype(">f4"))
    got = read(tmp_path / "d.ark", tmp_path / "b.npz")
    assert {str(u.dtype) for u in got.values()} == {"float32"}
    np.testing.assert_array_equal(got["big"], got["utt-0"])


def test_float16_stays(tmp_path):
    np.save(tmp_path / "h.npy", UTTERANCES["utt-1"].astype(np.float16))
    assert read(tmp_path / "h.npy")["h"].dtype == np.float16


def test_batch_in_npy_is_numbered(tmp_path):
    np.save(tmp_path / "b.npy", np.zeros((11, 2, 3), np.float32))
    assert list(read(tmp_path / "b.npy"))[:2] == ["b-00", "b-01"]


def test_single_array_npz_is_named_by_its_file(tmp_path):
    np.savez(tmp_path / "one.npz", log_probs=UTTERANCES["utt-0"])
    assert list(read(tmp_path / "one.npz")) == ["one"]


def test_no_frames(tmp_path):
    np.savez(tmp_path / "a.npz", log_probs=np.zeros((0, 5), np.float32), lengths=np.array([0]), ids=np.array(["x"]))
    np.save(tmp_path / "y.npy", np.zeros((0, 5), np.float32))
    kaldiio.save_ark(str(tmp_path / "z.ark"), {"z": np.zeros((0, 5), np.float32)})
    assert {k: v.shape for k, v in read(tmp_path).items()} == {"x": (0, 5), "y": (0, 5), "z": (0, 5)}


def test_ranges_in_an_index(tmp_path):
    write_ark(tmp_path)
    line = (tmp_path / "a.scp").read_text().splitlines()[3]
    (tmp_path / "cut.scp").write_text(f"{line}[1:3]\n")
    np.testing.assert_array_equal(read(tmp_path / "cut.scp")["utt-3"], UTTERANCES["utt-3"][1:4])
    (tmp_path / "cut.scp").write_text(f"{line}[:,0:2]\n")
    np.testing.assert_array_equal(read(tmp_path / "cut.scp")["utt-3"], UTTERANCES["utt-3"][:, :3])
    for bad in ("[3:99]", "[3:2]", "[:2]"):
        (tmp_path / "cut.scp").write_text(line + bad)
        with pytest.raises(FormatError, match="does not fit a matrix of"):
            read(tmp_path / "cut.scp")


def test_files_are_read_on_request(tmp_path):
    write_ark(tmp_path)
    with open(tmp_path / "a.scp", "a") as index:
        index.write("late /nowhere/late.ark:5\n")
    stream = iter(read_all(find_inputs([str(tmp_path / "a.scp")])))
    assert [next(stream).id for _ in UTTERANCES] == list(UTTERANCES)
    with pytest.raises(FileNotFoundError, match=r"late\.ark"):
        next(stream)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("shape", [(500, 200, 50), (100_000, 50)])
def test_an_archive_is_read_an_utterance_at_a_time(tmp_path, save, shape):
    path, values = tmp_path / "a.npz", RNG.random(shape, np.float32)
    save(path, log_probs=values, lengths=np.full(500, 200))
    peaks = []
    tracemalloc.start()
    for number, (_, log_probs) in enumerate(arcbeam.read_log_probs(path)):
        assert np.array_equal(log_probs, values.reshape(500, 200, 50)[number])
        peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert len(peaks) == 500
    assert max(peaks) < values.nbytes / 10


def test_damage_in_the_midst_of_an_archive_is_found_when_all_has_been_read(tmp_path):
    path, values = tmp_path / "a.npz", RNG.random((4, 10_000, 5), np.float32)
    np.savez(path, log_probs=values)
    data = bytearray(path.read_bytes())
    data[data.index(values[0, 0].tobytes())] ^= 1
    path.write_bytes(data)
    found = []
    with pytest.raises(FormatError, match=rf"^{path}: .*Bad CRC-32"):
        found.extend(name for name, _ in arcbeam.read_log_probs(path))
    assert found == ["a-0", "a-1", "a-2"]


def test_batches_hold_to_both_limits(tmp_path):
    stream = list(read_all(find_inputs([str(write_npz_named(tmp_path))])))
    assert [len(b) for b in batches(stream, 3)] == [3, 1]
    assert [len(b) for b in batches(stream, 9, most_bytes=100)] == [2, 1, 1]
    assert list(batches([], 3)) == []


def test_an_id_that_comes_twice(tmp_path):
    first = write_npz_named(tmp_path)
    np.save(tmp_path / "utt-2.npy", UTTERANCES["utt-2"])
    with pytest.raises(FormatError, match=r"'utt-2' occurs twice: in .*a\.npz and in .*utt-2\.npy"):
        read(first, tmp_path / "utt-2.npy")


PACKED = {"log_probs": STACKED, "lengths": LENGTHS, "ids": IDS}
BAD_NPZ = [
    ({"lengths": LENGTHS[:-1], "ids": IDS[:-1]}, r"add up to 9 frames, but log_probs has 14"),
    ({"ids": IDS[:-1]}, "3 ids, but 4 lengths"),
    ({"lengths": LENGTHS - 3}, "must not be negative, got -1"),
    ({"lengths": LENGTHS.astype(np.float32)}, "lengths must be integers"),
    ({"lengths": LENGTHS.reshape(2, 2)}, "lengths must be integers"),
    ({"log_probs": STACKED[0]}, r"got the shape \(5,\)"),
    ({"log_probs": STACKED[0, 0]}, r"got the shape \(\)"),
    ({"log_probs": STACKED.astype(np.int32)}, "must be float16, float32 or float64, got int32"),
    ({"log_probs": STACKED.astype(np.complex64)}, "got complex64"),
    ({"log_probs": padded()[:3]}, "3 utterances in log_probs, but 4 lengths"),
    ({"log_probs": padded()[:, :4]}, "a length of 5 is beyond the 4 frames"),
    ({"ids": np.array(list(UTTERANCES), object)}, "got Python objects"),
    ({"ids": np.zeros(4)}, "ids must be names"),
    ({"ids": np.full(4, 0x110000, "<u4").view("<U1")}, "array 'ids': expected text, got the number 1114112, which is"),
    ({"ids": np.full(4, 0x110000, ">u4").view(">U1")}, "array 'ids': expected text, got the number 1114112, which is"),
    ({"ids": np.array([b"\xff"] * 4)}, "not UTF-8"),
]


@pytest.mark.parametrize(("change", "message"), BAD_NPZ)
def test_bad_npz(change, message, tmp_path):
    np.savez(tmp_path / "a.npz", **{**PACKED, **change})
    with pytest.raises(FormatError, match=message):
        read(tmp_path / "a.npz")


def test_bad_files(tmp_path):
    def expect(name, content, message, error=FormatError):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(error, match=message):
            read(tmp_path / name)

    expect("empty.npz", b"", "does not begin like a zip archive")
    expect("text.npz", b"hello", "does not begin like a zip archive")
    expect("empty.npy", b"", "empty.npy: expected an array, got something that does not begin like one")
    expect("a.wav", b"", "expected the log-probs that a model makes of audio, got audio; run the model first")
    expect("a.xyz", b"", "unknown kind of input '.xyz', expected one of .npz, .npy")
    expect("a.txt", b"\\data\\\nngram 1=2\n", r"unknown kind of input '.txt', .* scp:FILE, got an ARPA language model")
    expect("a.graph", b"\x93ARCBEAM", r"unknown kind of input '.graph', .*; commands that take a graph take it first")
    expect("empty.scp", b"only-an-id\n", r"empty.scp:1: expected 'id archive:offset'")
    expect("bytes.scp", b"\xff\xfe", "expected text in UTF-8")
    expect("pipe.scp", b"x cat /etc/passwd |\n", "is a shell command")
    expect("huge.scp", b"x a.ark:" + b"9" * 5000, "no file has an offset")
    expect("gone.scp", b"x gone.ark:3\n", r"and \S*gone.scp names it: 'gone.ark'", FileNotFoundError)
    expect("tab.scp", b"x\tgone.ark:3\n", "'gone.ark'", FileNotFoundError)
    expect("end.ark", b"name", "the file ends after b'name'")
    expect("long.ark", b"x" * 9999, "is this a Kaldi archive")
    expect("bytes.ark", b"\xff\xff ", "is this a Kaldi archive")
    expect("pickle.ark", b"x PKL" + pickle.dumps([1]), "expected a Kaldi matrix")
    expect("ali.ark", b"x \0B\4\2\0\0\0\4\1\0\0\0\4\1\0\0\0", "expected a matrix .* got a vector of integers")
    expect("vector.ark", b"x \0BFV \4\1\0\0\0\0\0\0\0", "expected a matrix .* got the type b'FV'")
    expect("ints.ark", b"x \0B\4\1\0\0\0\4\0\0\0\0", "expected a matrix")
    expect("row.ark", b"x  [ 1.0 2.0 ]\n", "got a vector of 2")
    expect("word.ark", b"x  [ one two\n three ]\n", "expected a matrix as text")
    expect("open.ark", b"x  [ 1.0 2.0\n 3.0", "expected a matrix as text")
    expect("huge.ark", b"x \0BFM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f", "does not fit in the 0 bytes that are left")
    expect("minus.ark", b"x \0BFM \4\xff\xff\xff\xff\4\1\0\0\0aaaa", "matrix of -1 x 1 does not fit")
    expect("header.ark", b"x \0BFM \4\1", "the header of the matrix is damaged")
    expect("cm.ark", b"x \0BCM \0\0\0\0\0\0\0\0\xff\xff\xff\x7f\xff\xff\xff\x7f", "does not fit")
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(FormatError, match="is not an array"):
        read(tmp_path / "other.npz")
    with zipfile.ZipFile(tmp_path / "none.npz", "w"):
        pass
    with pytest.raises(FormatError, match="contains no array"):
        read(tmp_path / "none.npz")
    (tmp_path / "bare").mkdir()
    with pytest.raises(FormatError, match="contains no input"):
        read(tmp_path / "bare")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing.npz")
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros((1, 1), np.float32))
    expect("archive.npy", buffer.getvalue(), "ends in .npz")
    np.save(tmp_path / "flat.npy", np.zeros(3, np.float32))
    with pytest.raises(FormatError, match=r"must be \[frames, columns\], got the shape \(3,\)"):
        read(tmp_path / "flat.npy")
