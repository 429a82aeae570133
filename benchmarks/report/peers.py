"""arcbeam compared with other decoders, from the results in which both were measured in the same run.

Every condition that was measured counts: a line has the smallest and the largest figure of them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.registry import Column, Row
from benchmarks.report.results import Result

GK23 = "gk23_table3"


@dataclass(frozen=True)
class Pair:
    """One condition: speech decoded a second by both, in times of its own length, and their word error rates in %."""

    rtfx: float
    peer_rtfx: float
    ratio: float
    wer: float | None = None
    peer_wer: float | None = None


def _beside(rows: Iterable[Row]) -> Iterator[Pair]:
    """Rows that hold both decoders; the ratio is the median of those taken within a turn."""
    for row in rows:
        cells: Any = row
        if row.get("rtfx") and row.get("peer_rtfx"):
            wer = cells.get("wer")
            yield Pair(cells["rtfx"], cells["peer_rtfx"], cells["ratio"], wer, cells.get("peer_wer", wer))


def _of_precision(precision: str) -> Callable[[Iterable[Row]], Iterator[Pair]]:
    return lambda rows: _beside(row for row in rows if row.get("precision") == precision)


def _of_decoders(ours: str, peer: str) -> Callable[[Iterable[Row]], Iterator[Pair]]:
    """Rows of one decoder each, of several sets; the ratio is that of the medians."""

    def pairs(rows: Iterable[Row]) -> Iterator[Pair]:
        by_set: dict[object, dict[object, Any]] = {}
        for row in rows:
            if row.get("rtfx"):
                by_set.setdefault((row.get("graph"), row.get("set")), {})[row["decoder"]] = row
        for decoders in by_set.values():
            if ours in decoders and peer in decoders:
                a, b = decoders[ours], decoders[peer]
                yield Pair(a["rtfx"], b["rtfx"], a["rtfx"] / b["rtfx"], a.get("wer"), b.get("wer"))

    return pairs


# The experiment, our engine, the peer, what both decode, and the pairs that its rows hold.
COMPARED: list[tuple[str, str, str, str, Callable[[Iterable[Row]], Iterator[Pair]]]] = [
    ("gpu_riva", "GPU", "riva-asrlib-decoder, GPU", "words, graphs of 3-grams", _beside),
    ("gpu_nemo", "GPU", "NeMo's CTC beam search, GPU", "pieces, a 5-gram", _beside),
    ("gpu_ll24", "GPU, float32", "NeMo's label-looping, GPU", "RNN-T and TDT, greedy", _of_precision("float32")),
    ("gpu_ll24", "GPU, bfloat16", "NeMo's label-looping, GPU", "RNN-T and TDT, greedy", _of_precision("bfloat16")),
    ("faster_decoder", "1 core", "kaldi-decoder, 1 core", "words, graphs of 3-grams", _beside),
    (GK23, "GPU", "riva-asrlib-decoder, GPU", "words, graphs of 3-grams",
     _of_decoders("arcbeam cuda", "riva-asrlib-decoder")),
    (GK23, "1 core", "kaldi-decoder, 1 core", "words, graphs of 3-grams",
     _of_decoders("arcbeam cpu, 1 core", "kaldi-decoder FasterDecoder, 1 core")),
    (GK23, "1 core", "pyctcdecode, 1 core", "words, a 3-gram",
     _of_decoders("arcbeam cpu, 1 core", "pyctcdecode, 1 core")),
    (GK23, "1 core", "flashlight-text, 1 core", "words, a 3-gram",
     _of_decoders("arcbeam cpu, 1 core", "flashlight-text, 1 core")),
    ("baseline_speed", "baseline, 1 core", "flashlight-text, 1 core", "words, a 3-gram; the same search", _beside),
]  # fmt: skip


def _span(values: Iterable[float | None], form: str) -> str | None:
    texts = [form.format(value) for value in sorted(value for value in values if value is not None)]
    return None if not texts else texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


COLUMNS = [
    Column("compared with", "peer"),
    Column("what is decoded", "task"),
    Column("arcbeam on", "ours"),
    Column("conditions", "conditions"),
    Column("RTFx arcbeam", "rtfx"),
    Column("RTFx of the other", "peer_rtfx"),
    Column("ratio", "ratio"),
    Column("WER arcbeam, %", "wer"),
    Column("WER of the other, %", "peer_wer"),
    Column("measured on", "measured"),
]


def compared(results: Iterable[Result], link: Callable[[str], str]) -> Iterator[Row]:
    """A row for each peer and each run that holds it; `link` names the table of an experiment."""
    known = {(result.name, result.device): result for result in results}
    devices = sorted({device for _, device in known}, reverse=True)  # a GPU's before the CPU's
    for name, ours, peer, task, pairs_of in COMPARED:
        for device in devices:
            result = known.get((name, device))
            pairs = list(pairs_of(result.rows)) if result else []
            if result and pairs:
                yield {
                    "peer": peer,
                    "task": task,
                    "ours": ours,
                    "conditions": len(pairs),
                    "rtfx": _span((p.rtfx for p in pairs), "{:,.0f}"),
                    "peer_rtfx": _span((p.peer_rtfx for p in pairs), "{:,.0f}"),
                    "ratio": _span((p.ratio for p in pairs), "{:.1f}"),
                    "wer": _span((p.wer for p in pairs), "{:.1f}"),
                    "peer_wer": _span((p.peer_wer for p in pairs), "{:.1f}"),
                    "measured": f"[{device}]({link(name)}){result.warning[1]}",
                }
