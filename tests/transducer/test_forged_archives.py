"""Archives of NeMo, and weights in checkpoints, that were made to do harm: refused, within the file's own memory."""

import gzip
import io
import tarfile

import numpy as np
import pytest

from arcbeam import FormatError, TransducerDecoder
from arcbeam.files.nemo_archive import read_config
from arcbeam.files.tar_file import read_members
from tests.files.mutants import little_memory  # noqa: F401 - a fixture
from tests.transducer.archives import icefall_names, nemo_file, nemo_names, torch_file
from tests.transducer.networks import random_arrays
from tests.transducer.test_loaders import CONFIG, FRAMES, TDT_CONFIG, arrays_of

pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")

BOMB = "a: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"b{i}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(8)
)


def read(path):
    return read_members(path, ("wanted",), "a tar archive")


def written(path, members, **options):
    """An archive of (header, content) pairs, which need not fit each other."""
    with tarfile.open(path, "w", **options) as archive:
        for info, content in members:
            archive.fileobj.write(info.tobuf(archive.format, "utf-8", "surrogateescape"))
            archive.fileobj.write(content + bytes(-len(content) % 512))
    return path


def info_of(name, size, kind=tarfile.REGTYPE, **fields):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    for key, value in fields.items():
        setattr(info, key, value)
    return info


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("compression", ["", "gz", "xz", "bz2"])
def test_members_of_every_common_form(tmp_path, form, compression):
    long = "folder/" + "n" * 90 + "/" + "m" * 60
    with tarfile.open(tmp_path / "a.tar", f"w:{compression}", format=form) as archive:
        archive.addfile(info_of("folder", 0, tarfile.DIRTYPE))
        archive.addfile(info_of("link", 0, tarfile.SYMTYPE, linkname="wanted"))
        archive.addfile(info_of(long, 700, mtime=1.5), io.BytesIO(bytes(700)))
        archive.addfile(info_of("./wanted", 513, mtime=2.25), io.BytesIO(b"w" * 513))
        archive.addfile(info_of("other/wanted", 3), io.BytesIO(b"not"))
    assert read(tmp_path / "a.tar") == {"wanted": b"w" * 513}


def test_a_size_that_headers_have_no_room_for(tmp_path):
    """Beyond 8 GiB the size is in a record before the file; here it is that of a small one."""
    info = info_of("wanted", 5)
    info.pax_headers = {"comment": "1 size=3", "size": "7"}
    path = written(tmp_path / "a.tar", [(info, b"content")], format=tarfile.PAX_FORMAT)
    assert read(path) == {"wanted": b"content"}


@pytest.mark.usefixtures("little_memory")
def test_forged_archives(tmp_path):
    path = tmp_path / "a.tar"
    sparse = info_of("wanted", 512, tarfile.GNUTYPE_SPARSE)
    for members, message in [
        (
            [(info_of("wanted", 1 << 33), b"")],
            r"expected at most \d+,\d+ bytes in the archive, got a member of 8,589,934,592",
        ),
        ([(info_of("other", 1 << 33), b"")], r".*got a member of 8,589,934,592"),
        ([(info_of("wanted", 11_000), b"short")], r"expected a tar archive, .*EOFError: expected \d+ more bytes"),
        ([(sparse, bytes(512))], "expected plain files in the archive, got a member of type b'S'"),
        ([(info_of("n", 1 << 34, tarfile.GNUTYPE_LONGNAME), b"")], ".*got a member of 17,179,869,184"),
        ([(info_of("n", 1 << 34, tarfile.XHDTYPE), b"")], ".*got a member of 17,179,869,184"),
        ([(info_of("", 0), b"")] * 10_001, "expected at most 10,000 members in the archive, got more"),
    ]:
        written(path, members, format=tarfile.GNU_FORMAT)
        with pytest.raises(FormatError, match=rf"a.tar: {message}"):
            read(path)
    header = info_of("wanted", 5).tobuf(tarfile.GNU_FORMAT)
    path.write_bytes(header[:124] + b"\xff" * 12 + header[136:])
    with pytest.raises(FormatError, match=r"a.tar: expected a tar archive, .*checksum of a header does not fit"):
        read(path)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE])
def test_archives_that_are_packed_small(tmp_path, kind):
    path = tmp_path / "a.nemo"
    with gzip.open(path, "wb", 1) as file:
        file.write(info_of("model_weights.ckpt", 600 << 20, kind).tobuf(tarfile.GNU_FORMAT))
        for _ in range(100):
            file.write(bytes(1 << 20))
    with pytest.raises(FormatError, match=r"a.nemo: expected at most 33,554,432 bytes"):
        TransducerDecoder.from_nemo(path)
    with pytest.raises(FormatError, match=r"a.nemo: expected a .nemo archive, .*EOFError"):
        TransducerDecoder.from_nemo(path, max_bytes="1GB")


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "more, message",
    [
        (BOMB + "joint: {vocabulary: [*a8]}\n", r"expected values without aliases, got \*a0"),
        ("a: &a {b: 1}\nc: {<<: *a}\n", r"without aliases, got \*a"),
        ("a: &a [*a]\n", r"without aliases, got \*a"),
        ("a: " + "[" * 3000, "RecursionError"),
        ("a: " + "9" * 5000, "ValueError: Exceeds the limit"),
        ("a: 9999-99-99\n", "ValueError: month must be"),
        ("a: {[b]: c}\n", "unhashable"),
        ("a: \xff\x00", "special characters"),
        ("a: 1" + ":1" * 40_000, "expected values of at most 65536 characters"),
        ("a: " + "b" * (2 << 20), r"expected at most 2,097,152 bytes, got 2,\d+,\d+; .* raise max_bytes"),
    ],
    ids=lambda value: value[:20],
)
def test_configurations(tmp_path, more, message):
    path = nemo_file(tmp_path / "m.nemo", CONFIG + more, nemo_names(arrays_of("rnnt")))
    with pytest.raises(FormatError, match=rf"m.nemo: (model_config.yaml: )?.*{message}"):
        TransducerDecoder.from_nemo(path)


def test_keys_of_a_configuration_are_text():
    """Also those that YAML takes for numbers or truths, whose hashes could be made to be equal."""
    text = b"a: {1: x, no: y, 2.5: z, [d]: 4}\n"
    with pytest.raises(FormatError, match=r"^m.nemo: expected the configuration of a model, .*unhashable"):
        read_config(text, "m.nemo")
    assert read_config(text.replace(b", [d]: 4", b""), "m.nemo") == {"a": {"1": "x", "no": "y", "2.5": "z"}}
    assert read_config(b"a: {<<: {b: 1}, c: 2}", "m.nemo") == {"a": {"b": 1, "c": 2}}


WRONG = {
    "a piece that is no text": ("[▁a, b,", "[▁a, yes,", "expected pieces that are text, got bool for token 1"),
    "half a surrogate": ("[▁a, b,", '[▁a, "\\ud800",', r"UnicodeEncodeError"),
    "a piece too few": ("k, l]", "k]", "expected 12 pieces, or 13 with the blank's, got 11"),
    "many symbols": ("max_symbols: 3", "max_symbols: 1e9", "TypeError: max_symbols: expected a whole number"),
    "less than nothing": ("max_symbols: 3", "max_symbols: -3", "ValueError: max_symbols: expected a whole number"),
    "a list of symbols": ("max_symbols: 3", "max_symbols: [3]", "TypeError: max_symbols"),
    "no time": ("window_stride: 0.01", "window_stride: .nan", "frame_shift: expected a number of seconds above 0"),
    "all at once": ("window_stride: 0.01", "window_stride: 0", "frame_shift: expected a number of seconds above 0"),
    "back in time": ("subsampling_factor: 8", "subsampling_factor: -8", "frame_shift"),
    "endless frames": ("subsampling_factor: 8", "subsampling_factor: 0x" + "f" * 999, "OverflowError"),
    "an activation of many": ("activation: relu", "activation: [relu]", "unsupported joint.jointnet.activation"),
    "durations of text": ("[0, 1, 2]", "[0, 1, two]", r"TypeError: durations\[2\]"),
    "negative durations": ("[0, 1, 2]", "[0, 1, -2]", r"ValueError: durations\[2\]"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_options_of_configurations(tmp_path, case):
    old, new, message = WRONG[case]
    assert old in TDT_CONFIG
    path = nemo_file(tmp_path / "m.nemo", TDT_CONFIG.replace(old, new), nemo_names(arrays_of("tdt")))
    with pytest.raises(FormatError, match=rf"m.nemo: .*{message}"):
        TransducerDecoder.from_nemo(path)
    # The options that the caller gives override the configuration.
    given = {"tokenizer": [*"abcdefghijklm"], "max_symbols": 3, "frame_shift": 0.1, "durations": [0, 1, 2]}
    found = TransducerDecoder.from_nemo(path, activation="relu", **given).decode(FRAMES)
    assert all(hypothesis.text for hypothesis in found)


def doubled(levels):
    """A list of two of a list of two of ...: small in a pickle, 2 ** levels numbers as an array."""
    whole = [1.0, 1.0]
    for _ in range(levels):
        whole = [whole, whole]
    return whole


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("value, got", [(doubled(40), "list"), ("a", "str"), (1.5, "float"), (None, "NoneType")])
def test_weights_that_are_no_tensors(tmp_path, value, got):
    weights = nemo_names(arrays_of("rnnt")) | {"joint.enc.weight": value}
    path = nemo_file(tmp_path / "m.nemo", CONFIG, weights)
    with pytest.raises(FormatError, match=rf"m.nemo: joint.enc.weight: expected a tensor, got {got}"):
        TransducerDecoder.from_nemo(path)
    checkpoint = tmp_path / "m.pt"
    checkpoint.write_bytes(torch_file({"model": {"decoder.embedding.weight": value}}))
    with pytest.raises(FormatError, match=rf"m.pt: decoder.embedding.weight: expected a tensor, got {got}"):
        TransducerDecoder.from_icefall(checkpoint)


@pytest.mark.usefixtures("little_memory")
def test_small_weights_of_large_tables(tmp_path):
    """Tokens times units, and times the places of the context, which no matrix of the file has."""
    path = tmp_path / "m.pt"
    arrays = random_arrays(6, layers=0, context=2, groups=1)
    del arrays["convolution_bias"]
    tokens, units, context = 20_000, arrays["convolution"].shape[0], 400
    arrays |= {
        "embedding": np.ones((tokens, 1), np.float32),
        "convolution": np.ones((units, 1, context), np.float32),
        "output_weight": np.ones((tokens, 15), np.float32),
        "output_bias": np.zeros(tokens, np.float32),
    }
    path.write_bytes(torch_file(icefall_names(arrays)))
    with pytest.raises(
        FormatError, match=r"m.pt: expected at most \d+,\d+,\d+ bytes of tables of the prediction network"
    ):
        TransducerDecoder.from_icefall(path)
    places = {f"decoder.prediction.embeds.{i}.weight": np.ones((1000, 1), np.float32) for i in range(17)}
    weights = nemo_names(arrays_of("rnnt")) | places
    del weights["decoder.prediction.embed.weight"]
    with pytest.raises(FormatError, match="unsupported context of 17 tokens, expected at most 16"):
        TransducerDecoder.from_nemo(nemo_file(tmp_path / "m.nemo", CONFIG, weights))


def test_scales_of_icefall_are_numbers(tmp_path):
    """The product of two axes may be far larger than either."""
    arrays = random_arrays(6, layers=0, context=2, groups=3)
    del arrays["convolution_bias"]
    weights = icefall_names(arrays) | {"decoder.embedding.scale": np.zeros((5, 1, 1), np.float32)}
    with pytest.raises(ValueError, match=r"decoder.embedding.scale: expected one number, got shape \[5, 1, 1\]"):
        TransducerDecoder.from_icefall(weights)
    path = tmp_path / "m.pt"
    path.write_bytes(torch_file(weights))
    with pytest.raises(FormatError, match=r"m.pt: decoder.embedding.scale: expected one number"):
        TransducerDecoder.from_icefall(path)


def test_what_does_not_fit_in_a_file_is_the_fault_of_the_file(tmp_path):
    """Of a state dict it is a ValueError or a TypeError, of a file a FormatError that names it."""
    for name, value, message in [
        ("joint.pred.weight", np.ones((15, 10), np.float32), r"expected shape \[15, 11\], got \[15, 10\]"),
        ("joint.enc.weight", np.ones((15, 7), np.int64), "expected an array of floats, got int64"),
        ("joint.enc.bias", np.full(15, np.nan, np.float32), "expected finite float32 weights, got nan"),
    ]:
        weights = nemo_names(arrays_of("rnnt")) | {name: value}
        with pytest.raises((TypeError, ValueError), match=rf"^state dict: {name}: {message}") as caught:
            TransducerDecoder.from_nemo(weights)
        assert not isinstance(caught.value, FormatError)
        path = nemo_file(tmp_path / "m.nemo", CONFIG, weights)
        with pytest.raises(FormatError, match=rf"m.nemo: {name}: {message}"):
            TransducerDecoder.from_nemo(path)
