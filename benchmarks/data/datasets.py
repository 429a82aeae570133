"""The log-probs that experiments decode: sets of real speech, and workloads made from text.

Sets are found through the environment variable ``ARCBEAM_DATA``, beside the checkout, or in the cache, where
`benchmarks.pack.packing` unpacks them; what is made from them (graphs, workloads) is kept in the cache: ``.cache``, or
where ``ARCBEAM_CACHE`` says.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.harness import seeds
from data import workload
from data.pieces import train_sentencepiece

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("ARCBEAM_CACHE", ROOT / ".cache"))
DEMO = ROOT / "data" / "demo"
REAL = ("demo", "test-other-100", "ljspeech-200", "an4-test", "throughput")
WORKLOAD_LINES = 400_000


class DataMissing(RuntimeError):
    """The data sets are not on this machine."""


def data_folder() -> Path:
    """Folder of the data sets. Raises DataMissing with the remedy."""
    for folder in (os.environ.get("ARCBEAM_DATA"), ROOT.parent / "shared" / "data", CACHE / "data"):
        if folder and (Path(folder) / "tokens.txt").exists():
            return Path(folder)
    raise DataMissing("set ARCBEAM_DATA to the folder of data sets (tokens.txt, throughput/log_probs.npz, ...)")


@dataclass(frozen=True)
class Dataset:
    """Utterances with their transcripts. log_probs [all frames, columns], natural logs."""

    name: str
    log_probs: npt.NDArray[np.floating]
    lengths: npt.NDArray[np.integer]
    ids: list[str]
    references: list[str]
    frame_shift: float  # seconds
    tokens: list[str]

    @cached_property
    def utterances(self) -> list[npt.NDArray[np.floating]]:
        return np.split(self.log_probs, np.cumsum(self.lengths)[:-1])

    @property
    def seconds(self) -> float:
        return float(self.lengths.sum()) * self.frame_shift

    def first(self, count: int | None) -> "Dataset":
        """The first utterances only; all of them where count is None."""
        if count is None or count >= len(self.ids):
            return self
        frames = int(self.lengths[:count].sum())
        return Dataset(
            self.name, self.log_probs[:frames], self.lengths[:count], self.ids[:count], self.references[:count],
            self.frame_shift, self.tokens,
        )  # fmt: skip


def read(folder: Path, name: str, frame_shift: float, tokens: Path) -> Dataset:
    with np.load(folder / "log_probs.npz") as file:
        log_probs, lengths, ids = file["log_probs"], file["lengths"], [str(i) for i in file["ids"]]
    rows = (line.split("\t", 1) for line in (folder / "reference.tsv").read_text(encoding="utf-8").splitlines())
    reference = {key: text.strip() for key, text in rows}
    columns = [line.rsplit(None, 1)[0] for line in tokens.read_text(encoding="utf-8").splitlines()]
    return Dataset(name, log_probs, lengths, ids, [reference[i] for i in ids], frame_shift, columns)


def sentencepiece_model(pieces: int) -> Path:
    """SentencePiece model of the workload of ``pieces`` pieces, trained on first use."""
    model = CACHE / f"workload-{pieces}" / f"spm{pieces}.model"
    if not model.exists():
        lines = workload.read_lines(data_folder() / "text" / "books.txt.xz", workload.TRAINING_LINES)
        train_sentencepiece(lines, pieces, model)
    return model


def workload_lines(pieces: int) -> Sequence[str]:
    """The text of a workload: the first lines of the books, or those of them that travelled, see `pack.packing`."""
    kept = CACHE / f"workload-{pieces}" / "lines.tsv"
    if kept.exists():
        return workload.KeptLines.read(kept)
    return workload.read_lines(data_folder() / "text" / "books.txt.xz", WORKLOAD_LINES)


def load(name: str, utterances: int | None = None) -> Dataset:
    """A set of real speech by the name of its folder, or ``workload-512``, ``workload-1024``.

    utterances : how many of a workload, which starts with the smaller ones (264); of real speech, the first at most
    """
    if name in REAL:
        if name == "demo":  # which comes with the source
            return read(DEMO, name, 0.02, DEMO / "tokens.txt").first(utterances)
        folder = data_folder()
        return read(folder / name, name, 0.02, folder / "tokens.txt").first(utterances)
    kind, _, pieces = name.partition("-")
    if kind != "workload" or not pieces.isdigit():
        raise KeyError(f"no data set {name!r}; there are: {', '.join(REAL)}, workload-512, workload-1024")
    count = workload.WorkloadOptions().utterances if utterances is None else utterances
    if name not in _made or len(_made[name].ids) < count:
        _made[name] = make_workload(name, int(pieces), count)
    seeds.used(name, workload.WorkloadOptions.seed)
    return _made[name].first(count)


_made: dict[str, Dataset] = {}  # the largest workload of each name that this process has made


def make_workload(name: str, pieces: int, utterances: int) -> Dataset:
    model, options = sentencepiece_model(pieces), workload.WorkloadOptions(utterances=utterances)
    made = workload.generate(workload_lines(pieces), model, options)
    return Dataset(name, made.log_probs, made.lengths, made.ids, made.references, workload.FRAME_SECONDS, made.tokens)
