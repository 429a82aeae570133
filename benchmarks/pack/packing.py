"""Packs what the benchmarks need into a folder for a machine without a network, and unpacks it there into the cache.

    python -m benchmarks.pack FOLDER                # here
    python -m benchmarks.pack --unpack FOLDER       # there

Log-probs go as the byte planes of their float16 values, which pack better; workloads as the lines of text and the
SentencePiece models that they are made from; graphs as the language models that they are built from. `--only` takes
some of it. Some only go when they are named: `large-lm`, of the 12 M-state graph; `training`, the text and the pieces
that `data.train_transducer` takes besides log-probs; `recordings`, the acoustic model and audio that `gk23_table2`,
`gk23_table4` and `gk23_figure1` take.
"""

import argparse
import hashlib
import io
import json
import lzma
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.data import acoustic, corpus, datasets, graphs
from benchmarks.data.datasets import CACHE, REAL, data_folder
from benchmarks.harness import record
from data import make_demo_lm, workload
from data.pieces import Pieces

PIECES = (512, 1024)
UTTERANCES = 4096  # of each workload that can be made from the lines that travel
TRAINING_LINES = 400_000  # evenly spread over the books
MANIFEST = "manifest.json"
PRESET = 9 | lzma.PRESET_EXTREME
OF_DATA = ("lm", "model", "text", "tokenizers")  # folders that are found where the data sets are


def pack_set(folder: Path) -> bytes:
    """A set of real speech: `log_probs.npz` and `reference.tsv`, in one piece."""
    with np.load(folder / "log_probs.npz") as file:
        log_probs, lengths, ids = file["log_probs"], file["lengths"], file["ids"]
    if log_probs.dtype != np.float16:
        raise ValueError(f"{folder}: expected float16 log-probs, got {log_probs.dtype}")
    planes = np.ascontiguousarray(log_probs.view(np.uint8).reshape(*log_probs.shape, 2).transpose(2, 1, 0))
    reference = np.frombuffer((folder / "reference.tsv").read_bytes(), np.uint8)
    into = io.BytesIO()
    np.savez(into, planes=planes, lengths=lengths, ids=ids, reference=reference)
    return lzma.compress(into.getvalue(), preset=PRESET)


def unpack_set(packed: bytes, folder: Path) -> None:
    """What :func:`pack_set` packed, with the same log-probs, byte for byte."""
    with np.load(io.BytesIO(lzma.decompress(packed))) as file:
        planes, lengths, ids, reference = (file[name] for name in ("planes", "lengths", "ids", "reference"))
    log_probs = np.ascontiguousarray(planes.transpose(2, 1, 0)).reshape(planes.shape[2], -1).view(np.float16)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reference.tsv").write_bytes(reference.tobytes())
    np.savez(folder / "log_probs.npz", log_probs=log_probs, lengths=lengths, ids=ids)


Made = Iterator[tuple[str, Callable[[], bytes]]]  # name in the folder, and how its content is made


def speech() -> Made:
    yield "tokens.txt", lambda: (data_folder() / "tokens.txt").read_bytes()
    for name in REAL:
        yield f"speech/{name}.xz", lambda name=name: pack_set(data_folder() / name)  # type: ignore[misc]


def word_lm() -> Made:
    lm = data_folder() / "lm"
    yield (
        "lm/books.3gram.arpa.xz",
        (lm / "books.3gram.arpa.xz").read_bytes,
    )
    yield "lm/words.txt.xz", lambda: lzma.compress((lm / "words.txt").read_bytes(), preset=PRESET)


def workloads() -> Made:
    def lines(pieces: int) -> bytes:
        model = Pieces(datasets.sentencepiece_model(pieces))
        options = workload.WorkloadOptions(utterances=UTTERANCES)
        kept = workload.KeptLines.of(datasets.workload_lines(pieces), model, options)
        return lzma.compress(kept.text().encode(), preset=PRESET)

    for pieces in PIECES:
        yield f"workload-{pieces}/spm{pieces}.model", datasets.sentencepiece_model(pieces).read_bytes
        yield f"workload-{pieces}/lines.tsv.xz", lambda n=pieces: lines(n)  # type: ignore[misc]


def made_lm(graph: str) -> Callable[[], Made]:
    def items() -> Made:
        path = graphs.LMS[graph]
        if not path.exists():
            raise datasets.DataMissing(f"there is no {path}; data/make_lm.py makes it")
        yield f"made-lm/{path.name}", path.read_bytes

    return items


def training() -> Made:
    def lines() -> bytes:
        books = workload.read_lines(data_folder() / "text" / "books.txt.xz")
        kept = make_demo_lm.spread_lines(books, TRAINING_LINES)
        return lzma.compress("".join(f"{line}\n" for line in kept).encode(), preset=PRESET)

    model = "tokenizers/librispeech_bpe_256.model"
    yield model, (data_folder() / model).read_bytes
    yield "text/lines.txt.xz", lines


def recordings() -> Made:
    """The acoustic model, and the recordings of a set with a manifest."""
    chosen = corpus.data_set("test-other-100").recordings
    yield "model/quartznet15x5.onnx.xz", lambda: lzma.compress(acoustic.default_model().read_bytes())
    yield "tokens.txt", lambda: (data_folder() / "tokens.txt").read_bytes()
    for r in chosen:
        yield f"audio/{r.audio.name}", r.audio.read_bytes
    lines = [{"audio_filepath": r.audio.name, "duration": round(r.seconds, 6), "text": r.text} for r in chosen]
    yield "audio/manifest.json", lambda: "".join(json.dumps(line) + "\n" for line in lines).encode()


ITEMS: dict[str, Callable[[], Made]] = {
    "speech": speech,
    "lm": word_lm,
    "workloads": workloads,
    "pieces-lm": made_lm("spm512-5gram"),
    "large-lm": made_lm("char-large"),
    "training": training,
    "recordings": recordings,
}
USUAL = ("speech", "lm", "workloads", "pieces-lm")


def pack(folder: Path, items: Sequence[str] = USUAL) -> int:
    """Fills the folder; what it held of an earlier packing goes. Returns the bytes."""
    todo = [made for item in items for made in ITEMS[item]()]
    if (folder / MANIFEST).exists():
        shutil.rmtree(folder)
    with ThreadPoolExecutor() as workers:
        contents = dict(zip((name for name, _ in todo), workers.map(lambda made: made[1](), todo), strict=True))
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    manifest = {"commit": record.commit(), "items": list(items), "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    for name, content in sorted(contents.items()):
        print(f"{len(content) / 2**20:8.2f} MiB  {name}")
    total = sum(map(len, contents.values()))
    print(f"{total / 2**20:8.2f} MiB in all: {', '.join(items)}")
    return total


def unpack(folder: Path, cache: Path = CACHE) -> None:
    """Puts everything where the benchmarks look for it. Raises ValueError for a file that came to harm."""
    manifest = json.loads((folder / MANIFEST).read_text())
    for name, digest in manifest["files"].items():
        content = (folder / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError(f"{folder / name} is not what was packed")
        kind, _, rest = name.rpartition("/")
        if kind == "speech":
            unpack_set(content, cache / "data" / Path(rest).stem)
            continue
        place = cache / {"": "data", "made-lm": "lm"}.get(kind, f"data/{kind}" if kind in OF_DATA else kind)
        place.mkdir(parents=True, exist_ok=True)
        if rest in ("words.txt.xz", "lines.tsv.xz", "quartznet15x5.onnx.xz"):
            rest, content = rest.removesuffix(".xz"), lzma.decompress(content)
        (place / rest).write_bytes(content)
    print(f"unpacked {', '.join(manifest['items'])} of commit {manifest['commit'] or 'unknown'} into {cache}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pack", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--unpack", action="store_true", help="the other way, into the cache")
    parser.add_argument("--only", default=",".join(USUAL), help=f"of {', '.join(ITEMS)} (default: {', '.join(USUAL)})")
    args = parser.parse_args(argv)
    items = args.only.split(",")
    if unknown := [item for item in items if item not in ITEMS]:
        parser.error(f"--only: no {unknown[0]!r}; there are: {', '.join(ITEMS)}")
    try:
        if args.unpack:
            unpack(args.folder)
        else:
            pack(args.folder, items)
    except (datasets.DataMissing, FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
