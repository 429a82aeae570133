"""What a file is, by its first bytes: for messages about a file that stands where another belongs."""

from __future__ import annotations

import codecs
import lzma
import os
import zlib
from itertools import pairwise

from arcbeam.core.errors import FormatError
from arcbeam.files.reading import reading

BEGINNINGS = {
    b"\x93ARCBEAM": "a graph of arcbeam",
    b"\x93ARCBLM": "a language model of arcbeam, which LanguageModel.load and decode --language-model take",
    b"\x93ARCSTM": "the saved state of a CTC stream, which CtcDecoder.restore takes",
    b"\x93ARCTDS": "the saved state of a transducer's stream, which TransducerDecoder.restore takes without a beam",
    b"\x93ARCTBS": "the saved state of a transducer's stream, which TransducerDecoder.restore takes with a beam",
    b"mmap lm http": "KenLM's binary language model, which arcbeam.KenLM and decode --language-model take",
    b"\xd6\xfd\xb2\x7e": "an FST of OpenFst",
    b"\x93NUMPY": "an array of NumPy (.npy)",
    b"BZh": "a file packed by bzip2",
    b"\x89HDF": "an HDF5 file",
    b"fLaC": "audio (FLAC)",
    b"RIFF": "audio (WAV)",
    b"OggS": "audio (Ogg)",
    b"\x7fELF": "a program",
    b"\xff\xfe": "text in UTF-16, which a text editor can save as UTF-8",
    b"\xfe\xff": "text in UTF-16, which a text editor can save as UTF-8",
    b"%PDF": "a PDF document",
}
ZIP = b"PK\x03\x04"
PACKERS = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz"}  # from whose first bytes the content's can be read
ARPA = b"\\data\\"  # how an ARPA begins
BEGINNING = 512
"""The bytes by which a file is recognised."""
READERS = {
    "an .npz": "TransducerDecoder.from_arrays",
    "a file of torch.save": "TransducerDecoder.from_icefall",
    "a tar archive": "TransducerDecoder.from_nemo",
}
"""What reads transducers from files of these kinds."""
XZ_BYTES = 192 << 20
"""Bytes that decompressing xz may take: three times the dictionary of ``xz -9``."""
FEWEST_SYMBOLS = 3  # the lines by which a table is recognised
TAR, TAR_AT = b"ustar", 257
KALDI_NAME = 256
"""The bytes in which the name of the first utterance of a binary archive ends."""


def begins_arpa(head: bytes) -> bool:
    """Whether a file with these first bytes is an ARPA, with or without a byte order mark."""
    return head[:BEGINNING].removeprefix(codecs.BOM_UTF8).lstrip().startswith(ARPA)


def known_kind(head: bytes) -> str | None:
    """A name for a file with these first bytes, with its article; None for one of no known kind."""
    if begins_arpa(head):
        return "an ARPA language model: give it as lm= (--lm), or to LanguageModel.build (build-lm)"
    if b" \0B" in head[:KALDI_NAME]:
        return "an archive of Kaldi (ark:FILE)"
    if head.startswith(ZIP):
        return _kind_of_zip(head)
    if head[TAR_AT : TAR_AT + len(TAR)] == TAR:
        return "a tar archive, such as a .nemo"
    for beginning, packer in PACKERS.items():
        if head.startswith(beginning):
            content = known_kind(_unpacked(head, packer))
            return f"a file packed by {packer}" + (f", {content}" if content else "")
    if _is_table(head[:BEGINNING]):
        return "a table of symbols and their numbers, as tokens= (--tokens) and words= (--words) of a graph take it"
    return next((name for beginning, name in BEGINNINGS.items() if head.startswith(beginning)), None)


def other_kind(path: str | os.PathLike[str], *expected_kinds: str) -> str | None:
    """The known kind of a file; None where it is one of those expected, named by a part of their names, or no file."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        head = file.read(BEGINNING)
    found = known_kind(head) if head else kind_of(head)
    return None if found is None or any(name in found for name in expected_kinds) else found


def refuse_other(path: str | os.PathLike[str], expected: str, *expected_kinds: str) -> None:
    """FormatError for a file of a known kind that is not what was expected, as `other_kind` says."""
    if (got := other_kind(path, *expected_kinds)) is not None:
        reader = next((f", which {name} reads" for kind, name in READERS.items() if got.startswith(kind)), "")
        raise FormatError(f"{os.fsdecode(path)}: expected {expected}, got {got}{reader}")


def _kind_of_zip(head: bytes) -> str:
    """What a zip archive is by the name of its first member."""
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if name.endswith(b".npy"):
        return "an .npz of NumPy"
    return "a file of torch.save" if name.endswith(b"data.pkl") else "a zip archive"


def _unpacked(head: bytes, packer: str) -> bytes:
    """The first bytes of a packed file's content, of its own first bytes; none where these are too few, or damaged."""
    try:
        with reading("", "a compressed file"):
            if packer == "gzip":
                return zlib.decompressobj(wbits=31).decompress(head, BEGINNING)
            return lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_BYTES).decompress(head, BEGINNING)
    except FormatError:
        return b""


def _is_table(head: bytes) -> bool:
    """Whether all lines have a symbol and a number, and the numbers follow each other from 0 or 1."""
    lines = [line.split() for line in head.split(b"\n")[:-1]]  # the last may be cut
    if len(lines) < FEWEST_SYMBOLS or not all(1 <= len(line) <= 2 and line[-1].isdigit() for line in lines):
        return False
    ids = [int(line[-1]) for line in lines]
    return any(len(line) == 2 for line in lines) and ids[0] in (0, 1) and all(b == a + 1 for a, b in pairwise(ids))


def kind_of(head: bytes) -> str:
    """A name for a file with these first bytes, with its article."""
    if not head:
        return "an empty file"
    return known_kind(head) or f"a file that begins with {head[:8]!r}"


def not_text(data: bytes, error: UnicodeDecodeError) -> str:
    """What a file is that should have been text: its kind if that is known, otherwise the first byte that is none."""
    return known_kind(data) or f"the byte 0x{error.object[error.start]:02x} at byte {error.start}"
