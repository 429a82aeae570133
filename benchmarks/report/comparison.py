"""arcbeam compared with its peers, a row a task, from results in which both were measured together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.registry import Column, Row
from benchmarks.report.results import Result, latest

WIDE, NARROW = "17 / 10,000", "12 / 5,000"  # beam / max_active


@dataclass(frozen=True)
class Pair:
    """Speech decoded a second by both, in times of its own length; the ratio; and how accurate each is.

    ours, peers : percents, of which less is better; None where they were not measured
    equal : percent of the results that are the same, or of the best of lists; None where they were not compared
    """

    rtfx: float
    peer_rtfx: float
    ratio: float
    ours: float | None = None
    peers: float | None = None
    equal: float | None = None


def _beside(row: Mapping[str, Any]) -> Pair:
    """A row that has both decoders."""
    return Pair(row["rtfx"], row["peer_rtfx"], row["ratio"], row.get("wer"), row.get("peer_wer"), _equal(row))


def _equal(row: Mapping[str, Any]) -> float | None:
    """Percent of the results that are the same: as the row says, or as "54 of 60", or as "264 equal, 2 ties"."""
    if "same" in row:
        equal, of = map(int, row["same"].split(" of "))
        return 100 * equal / of
    if "answers" in row:
        counts = {kind: int(count) for count, kind in (part.split(" ", 1) for part in row["answers"].split(", "))}
        return 100 * counts.get("equal", 0) / sum(counts.values())
    return row.get("equal")


def _of_decoders(ours: str, peer: str, error: str = "wer") -> Callable[[list[Any]], Pair | None]:
    """Rows of one decoder each; the ratio is that of the turns, where a row has it."""

    def pair(rows: list[Any]) -> Pair | None:
        measured = [row for row in rows if row.get("rtfx") and row.get("compared", peer) == peer]
        by_name = {row["decoder"]: row for row in measured}
        a, b = by_name.get(ours), by_name.get(peer)
        if not a or not b:
            return None
        return Pair(a["rtfx"], b["rtfx"], a.get("ratio") or a["rtfx"] / b["rtfx"], a[error], b[error], _equal(a))

    return pair


def _graph_search(beam: float) -> Callable[[list[Any]], Pair | None]:
    """The graph search at a beam, and pyctcdecode with its default of 100 beams."""

    def pair(rows: list[Any]) -> Pair | None:
        return _of_decoders("CtcDecoder", PYCTC)(
            [row for row in rows if row.get("beam") == beam or row.get("width") == 100]
        )

    return pair


def _first(rows: list[Any]) -> Pair | None:
    return next((_beside(row) for row in rows if row.get("peer_rtfx")), None)


def _fastest_peer(rows: list[Any]) -> Pair | None:
    measured = [_beside(row) for row in rows if row.get("peer_rtfx")]
    return max(measured, key=lambda pair: pair.peer_rtfx, default=None)


def _lists(rows: list[Any]) -> Pair | None:
    """Both decoders' milliseconds for a batch with n-best lists; the WER of the best of ten."""
    for row in rows:
        if row.get("riva_nbest_ms"):
            rtfx = [60e3 * row["minutes"] / row[key] for key in ("nbest_ms", "riva_nbest_ms")]
            return Pair(*rtfx, row["nbest_ratio"], row["oracle_10"], row["riva_oracle_10"])
    return None


def _lists_of_a_beam(rows: list[Any]) -> Pair | None:
    """Until the n-best lists of both are Python objects."""
    for row in rows:
        if row.get("peer_lists_ms"):
            speech = row["rtfx"] * row["ms"]
            rtfx = [speech / row[key] for key in ("lists_ms", "peer_lists_ms")]
            return Pair(*rtfx, row["lists_ratio"], equal=row["equal"])
    return None


def _torch(rows: list[Any]) -> Pair | None:
    by_name = {row["contender"]: row for row in rows if row["batch"] == 1}
    ours, torch = by_name.get("arcbeam, label-looping"), by_name.get("torch")
    return Pair(ours["rtfx"], torch["rtfx"], ours["ratio"], equal=100.0) if ours and torch else None  # or it had failed


@dataclass(frozen=True)
class Task:
    """A row: the experiment, on a GPU or not, and which of its rows count.

    accuracy : what is compared in percent
    readme : whether the README has it, too
    """

    task: str
    data: str
    peer: str
    experiment: str
    gpu: bool
    where: Mapping[str, object]
    pair: Callable[[list[Any]], Pair | None] = _first
    accuracy: str = "WER"
    readme: bool = False


RIVA, KALDI, PYCTC = "riva-asrlib-decoder", "kaldi-decoder", "pyctcdecode"
FLASHLIGHT, SHERPA = "flashlight-text", "sherpa-onnx"
TASKS = (
    Task("words", "512 pieces, a 3-gram, beam 17, batches of 264", RIVA, "gpu_riva", True,
         {"graph": "spm512-3gram", "search": WIDE}, readme=True),
    Task("words", "letters, a 3-gram, beam 17, batches of 264", RIVA, "gpu_riva", True,
         {"graph": "char-3gram", "search": WIDE}, readme=True),
    Task("words", "letters, a 3-gram, beam 17, 688 utterances of 4 s at once", RIVA, "gpu_letters", True,
         {"measure": "best path", "utterances": 688, "search": WIDE}),
    Task("words", "512 pieces, a 3-gram, beam 17, one utterance alone", RIVA, "gpu_single", True,
         {"graph": "spm512-3gram", "search": WIDE, "kind": "short"}),
    Task("words", "letters, a 3-gram, beam 17, one utterance alone", RIVA, "gpu_single", True,
         {"graph": "char-3gram", "search": WIDE, "kind": "short"}, readme=True),
    Task("partial results, every 0.4 s", "letters, a 3-gram, beam 12, 256 streams", RIVA, "gpu_streams", True,
         {"graph": "char-3gram", "search": NARROW, "streams": 256}, readme=True),
    Task("partial results, every 0.4 s", "512 pieces, a 3-gram, beam 17, 256 streams", RIVA, "gpu_streams", True,
         {"graph": "spm512-3gram", "search": WIDE, "streams": 256}),
    Task("10-best lists with confidences", "512 pieces, a 3-gram, beam 17", RIVA, "gpu_lattice", True,
         {"graph": "spm512-3gram", "search": WIDE}, _lists, "WER of the best of ten", readme=True),
    Task("pieces, no lexicon", "512 pieces, a 5-gram of them, beam 5", "NeMo's CTC beam search", "gpu_nemo", True,
         {"search": "5 / 200"}, _fastest_peer, readme=True),
    Task("RNN-T, greedy", "batches of 128, float32", "NeMo's label-looping", "gpu_ll24", True,
         {"model": "RNN-T", "precision": "float32", "batch": 128}, readme=True),
    Task("TDT, greedy", "batches of 128, float32", "NeMo's label-looping", "gpu_ll24", True,
         {"model": "TDT", "precision": "float32", "batch": 128}, readme=True),
    Task("RNN-T, n-best lists", "batches of 128, float32, beam 4", "NeMo's malsd_batch", "gpu_transducer_beam", True,
         {"model": "RNN-T", "precision": "float32", "batch": 128, "beam": 4.0}, _lists_of_a_beam, readme=True),
    Task("TDT, n-best lists", "batches of 128, float32, beam 4", "NeMo's malsd_batch", "gpu_transducer_beam", True,
         {"model": "TDT", "precision": "float32", "batch": 128, "beam": 4.0}, _lists_of_a_beam, readme=True),
    Task("words", "512 pieces, a 3-gram, beam 17", KALDI, "faster_decoder", False,
         {"graph": "spm512-3gram", "search": WIDE}, readme=True),
    Task("words", "letters, a 3-gram, beam 17", KALDI, "faster_decoder", False,
         {"graph": "char-3gram", "search": WIDE}),
    Task("words", "letters, a 3-gram, beam 12", PYCTC, "compat_pyctcdecode", False, {"labels": "letters"},
         _graph_search(12.0), readme=True),
    Task("words", "letters, a 3-gram, beam 17", PYCTC, "compat_pyctcdecode", False, {"labels": "letters"},
         _graph_search(17.0)),
    Task("words", "512 pieces, a 3-gram, beam 12", PYCTC, "compat_pyctcdecode", False, {"labels": "512 pieces"},
         _graph_search(12.0)),
    Task("words", "512 pieces, a 3-gram, beam 17", PYCTC, "compat_pyctcdecode", False, {"labels": "512 pieces"},
         _graph_search(17.0)),
    Task("words, pyctcdecode's search", "letters, a 3-gram, beam width 100", PYCTC, "compat_pyctcdecode", False,
         {"labels": "letters", "width": 100}, _of_decoders("arcbeam.compat.pyctcdecode", PYCTC)),
    Task("words, pyctcdecode's search", "512 pieces, a 3-gram, beam width 100", PYCTC, "compat_pyctcdecode", False,
         {"labels": "512 pieces", "width": 100}, _of_decoders("arcbeam.compat.pyctcdecode", PYCTC)),
    Task("words, Flashlight's search", "letters, a 3-gram, beam size 500", FLASHLIGHT, "baseline_speed", False,
         {"lexicon": "letters", "beam_size": 500}, readme=True),
    Task("10-best lists", "letters, a 3-gram", PYCTC, "nbest_peers", False, {},
         _of_decoders("arcbeam, beam 7, scale 1.75", f"{PYCTC}, 100 beams", "oracle_10"), "WER of the best of ten"),
    Task("1,000 boosted words an utterance", "letters, a 3-gram, beam 12", PYCTC, "boost_rare_words", False,
         {"why": "timed", "score": 10.0},
         _of_decoders("arcbeam, beam 12", f"{PYCTC}, tuned")),
    Task("RNN-T, beam search", "4 hypotheses, utterance after utterance", SHERPA, "transducer_beam_sherpa", False,
         {"model": "RNN-T", "most": 4}, _of_decoders("arcbeam", SHERPA), readme=True),
    Task("TDT, beam search", "4 hypotheses, utterance after utterance", SHERPA, "transducer_beam_sherpa", False,
         {"model": "TDT", "most": 4}, _of_decoders("arcbeam", SHERPA)),
    Task("RNN-T, greedy", "utterance after utterance", "a loop in PyTorch", "ll24_cpu", False,
         {"model": "RNN-T"}, _torch),
)  # fmt: skip

COLUMNS = [
    Column("task", "task"),
    Column("data", "data"),
    Column("on", "device"),
    Column("RTFx of arcbeam", "rtfx", "{:,.0f}"),
    Column("RTFx of the peer", "peer_rtfx"),
    Column("ratio", "ratio", "{:.1f}"),
    Column("same results", "equal", "{:.1f} %"),
    Column("as accurate?", "accuracy"),
    Column("measured", "measured"),
]


def accuracy(pair: Pair, what: str) -> str:
    """Whether the peer is no better, with the figures; nothing where no error rates were measured."""
    if pair.ours is None or pair.peers is None:
        return "yes: the same" if pair.equal == 100 else ""
    more = round(pair.ours, 2) - round(pair.peers, 2)
    said = "yes" if more <= 0 else f"{more:.2f} points worse"
    return f"{said}: {what} {pair.ours:.2f} %, the peer's {pair.peers:.2f} %"


def rows(measured: list[Result], link: Callable[[str], str]) -> Iterator[Row]:
    """A row for each task that was measured; `link` names the table of an experiment."""
    for task in TASKS:
        result = latest(measured, task.experiment, task.gpu)
        chosen = [row for row in result.rows if task.where.items() <= row.items()] if result else []
        pair = task.pair(chosen)
        if result and pair:
            yield {
                "task": task.task,
                "data": task.data,
                "device": result.gpu.removeprefix("NVIDIA ").split(" ")[0] if task.gpu else "one core",
                "rtfx": pair.rtfx,
                "peer": task.peer,
                "peer_rtfx": f"{task.peer} {pair.peer_rtfx:,.0f}",
                "ratio": pair.ratio,
                "equal": pair.equal,
                "accuracy": accuracy(pair, task.accuracy),
                "measured": f"[{result.day_and_commit}]({link(task.experiment)})",
                "readme": task.readme,
            }
