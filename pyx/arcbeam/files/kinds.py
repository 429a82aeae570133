"""What a file is, by its first bytes: for messages about a file that stands where another belongs."""

BEGINNINGS = {
    b"\x93ARCBEAM": "a graph of arcbeam",
    b"\x93ARCBLM": "a language model of arcbeam, which LanguageModel.load and decode --language-model take",
    b"\x93ARCSTM": "the saved state of a stream",
    b"\x93ARCTDS": "the saved state of a transducer's stream",
    b"mmap lm http": "KenLM's binary language model, which arcbeam.KenLM and decode --language-model take",
    b"\xd6\xfd\xb2\x7e": "an FST of OpenFst",
    b"\x93NUMPY": "an array of NumPy (.npy)",
    b"PK\x03\x04": "a zip archive, such as an .npz of NumPy",
    b"\x1f\x8b": "a file packed by gzip",
    b"\xfd7zXZ\x00": "a file packed by xz",
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
ARPA = b"\\data\\"  # how an ARPA begins
KALDI_NAME = 256
"""The bytes in which the name of the first utterance of a binary archive ends."""


def known_kind(head: bytes) -> str | None:
    """A name for a file with these first bytes, with its article; None for one of no known kind."""
    if head.lstrip().startswith(ARPA):
        return "an ARPA language model, which build-lm and build-graph --lm take"
    if b" \0B" in head[:KALDI_NAME]:
        return "an archive of Kaldi (ark:FILE)"
    return next((name for beginning, name in BEGINNINGS.items() if head.startswith(beginning)), None)


def kind_of(head: bytes) -> str:
    """A name for a file with these first bytes, with its article."""
    if not head:
        return "an empty file"
    return known_kind(head) or f"a file that begins with {head[:8]!r}"


def not_text(data: bytes, error: UnicodeDecodeError) -> str:
    """What a file is that should have been text: its kind if that is known, otherwise the first byte that is none."""
    return known_kind(data) or f"the byte 0x{error.object[error.start]:02x} at byte {error.start}"
