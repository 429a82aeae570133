"""Beam search of transducers on one GPU, without the encoder: RNN-T and TDT, batches of 1 to 512, and NeMo's search.

The networks have the published size (LSTM and joint network of 640 units, 1,024 tokens) and random dense weights
(`data.synthetic_transducer`); an utterance has 150 frames of 80 ms. Their sharpness and the share of ambiguous labels
give as many live hypotheses a frame as networks that were trained over all paths have: with a beam of 4 and at most 8
hypotheses 2.9 for the RNN-T and 2.8 for the TDT, compared with 2.8 (`transducer_beam`). The infinite beam is the worst
case, in which nearly always all 8 are live. The CPU counts the live ones, of 16 utterances. `entries` is the mean
length of our n-best lists, which hold what ended within the beam; NeMo's have up to 8.

`ms` ends when the tokens, times and scores of all entries are in arrays on the host, `lists, ms` when all of them have
been read in Python, too. NeMo's `malsd_batch` has a beam size of 8, the same precision and CUDA graphs with the loop in
them: `NeMo, ms` ends when its hypotheses are on the GPU as a tree, `NeMo lists, ms` when their tokens are lists in
Python. All take turns; the rows of the infinite beam repeat NeMo's times, on which that beam has no effect.
The encoder output lies on the GPU. Before the turns, our answers in float32 are those of the CPU, byte for byte, and
those of the first utterance are the same in all batches, in bfloat16 as well.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam import TransducerDecoder
from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.experiments.gpu_ll24 import FRAME_SHIFT, FRAMES, batches_of, precisions_of
from benchmarks.harness import seeds, timing
from benchmarks.harness.registry import Column, Context, Row
from data import synthetic_transducer as synthetic

ON_GPU = True
KERNELS = ("transducer", "transducer_beam")
ORDER = 233
TITLE = "Beam search of transducers on a GPU"
BATCHES = (1, 32, 128, 512)
SHARPNESS, AMBIGUITY = 2.0, 0.04
NBEST = 8  # max_hypotheses, and NeMo's beam size
BEAMS = {4.0: BATCHES, float("inf"): (1, 128)}
CHECKED, COUNTED = 32, 16  # utterances that the CPU decodes, too, and those whose live hypotheses count
PARTS = ("tokens", "frames", "durations", "log_probs", "score", "posterior")
TAKES = {
    "batches": "sizes to run, as in 1,32",
    "precision": "float32 or bfloat16; without it both",
    "peer": "none, to leave NeMo out",
}
COLUMNS = [
    Column("model", "model"),
    Column("precision", "precision"),
    Column("beam", "beam", "{:g}"),
    Column("live", "live", "{:.2f}"),
    Column("batch", "batch", "{:,}"),
    Column("greedy, ms", "greedy_ms", "{:.2f}"),
    Column("ms", "ms", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("lists, ms", "lists_ms", "{:.2f}"),
    Column("entries", "entries", "{:.1f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("NeMo, ms", "peer_ms", "{:.2f}"),
    Column("ratio", "ratio", "{:.1f}"),
    Column("NeMo lists, ms", "peer_lists_ms", "{:.2f}"),
    Column("ratio of lists", "lists_ratio", "{:.1f}"),
    Column("same best tokens as NeMo, %", "equal", "{:.1f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for model in ("RNN-T", "TDT"):
        for precision in precisions_of(
            context
        ):  # in a process of its own: two of NeMo's graphs in one break each other
            row = {"model": model, "precision": precision}
            yield from gpu.rows_or_failure(row, rows_of, context, model, precision)


class Peer:
    """NeMo's search in one precision.

    status : why it has no turns, or None
    took : of each batch the time of its search and that of its search and lists
    """

    def __init__(self, wanted: bool, *network: Any, precision: str) -> None:
        self.search: Any = None
        self.status = None if wanted else "NeMo left out"
        self.took: dict[int, tuple[timing.Timing, timing.Timing]] = {}
        self.best: dict[int, list[list[int]]] = {}
        if wanted:
            try:
                from benchmarks.adapters.nemo_malsd import NemoMalsd

                self.search = NemoMalsd(*network, NBEST, device="cuda", precision=precision)
            except Exception as error:  # our rows are worth having without its own
                missing = isinstance(error, (ImportError, OSError))
                self.status = f"NeMo {'missing' if missing else 'failed'}: {adapters.why(error)}"

    def turns(self, frames: npt.NDArray[np.float32]) -> dict[str, Callable[[], object]]:
        """Its contenders for a batch, `search` and `lists`, which have run once; none where it is missing or fails."""
        search = self.search
        if search is None:
            return {}
        try:
            ready = search.prepare(frames)
            lists = search.nbest(search.decode(ready), normalized=False)
        except Exception as error:
            self.search, self.status = None, f"NeMo failed: {adapters.why(error)}"
            return {}
        self.best[len(frames)] = [one[0] if one else [] for one in lists]
        return {
            "search": lambda: search.decode(ready),
            "lists": lambda: search.nbest(search.decode(ready), normalized=False),
        }


class Setting(NamedTuple):
    """A network, as arrays, blank and durations, and its utterances [batch, frames, features]."""

    network: tuple[dict[str, npt.NDArray[np.float32]], int, Sequence[int] | None]
    batches: list[int]
    frames: npt.NDArray[np.float32]

    def decoder(self, **options: Any) -> TransducerDecoder:
        arrays, blank, durations = self.network
        return TransducerDecoder.from_arrays(arrays, blank, durations=durations, activation="relu", **options)


def setting(context: Context, model: str, usual: Sequence[int], least: int = 1) -> Setting:
    """Of a model, for the batches that are wanted; with at least so many utterances."""
    gpu.require()
    sizes = synthetic.Sizes()
    seed = seeds.used("network and utterances", 0)
    durations = synthetic.DURATIONS if model == "TDT" else None
    arrays = synthetic.weights(sizes, tdt=durations is not None, seed=seed, sharpness=SHARPNESS)
    batches = batches_of(context, usual)
    frames, _, _ = synthetic.utterances(max([*batches, least]), FRAMES, sizes, seed=seed, ambiguity=AMBIGUITY)
    return Setting((arrays, sizes.blank, durations), batches, frames)


def rows_of(context: Context, model: str, precision: str) -> Iterator[Row]:
    network, batches, frames = chosen = setting(context, model, BATCHES)
    sent = {batch: gpu.send([frames[:batch]])[0] for batch in batches}
    precisions, decoder = (precision,), chosen.decoder
    greedy = {precision: decoder(device="cuda", precision=precision) for precision in precisions}
    has_peer = context.options.get("peer") != "none"
    peers = {precision: Peer(has_peer, *network, precision=precision) for precision in precisions}
    for beam, usual in BEAMS.items():
        context.progress(f"{model}, beam {beam:g}: the answers")
        search = {"beam": beam, "max_hypotheses": NBEST}
        ours = {precision: decoder(device="cuda", precision=precision, **search) for precision in precisions}
        here = [batch for batch in batches if beam == min(BEAMS) or batch in usual]
        twin = decoder(device="cpu", **search)
        answers = twin.decode(frames[:CHECKED], nbest=NBEST)
        work = twin._search.engine.work()[:COUNTED]
        best, entries = {}, {}
        for precision, one in ours.items():
            found = {batch: one.decode(sent[batch], nbest=NBEST) for batch in here}
            for some in found.values():
                entries[precision, len(some)] = sum(len(h.nbest) for h in some) / len(some)
                compare(some[:1], found[here[0]], f"a batch of {here[0]}")
                if precision == "float32":
                    compare(some, answers, "the CPU")
            best |= {(precision, batch): [h.tokens.tolist() for h in some] for batch, some in found.items()}
        for batch in here:
            context.progress(f"{model}, beam {beam:g}, batch {batch}")
            took = timed(context, ours, greedy, peers, sent[batch], frames[:batch])
            for precision, peer in peers.items():
                arrays_took, lists_took = took[f"arrays {precision}"], took[f"lists {precision}"]
                row: Row = {"model": model, "precision": precision, "beam": beam, "batch": batch, "frames": FRAMES}
                row |= context.options
                row |= {
                    "live": sum(w["live"] for w in work) / sum(w["frames"] for w in work),
                    "greedy_ms": 1e3 * took[f"greedy {precision}"].seconds,
                    "ms": 1e3 * arrays_took.seconds,
                    "spread": [1e3 * s for s in arrays_took.spread()],
                    "lists_ms": 1e3 * lists_took.seconds,
                    "entries": entries[precision, batch],
                    "rtfx": batch * FRAMES * FRAME_SHIFT / arrays_took.seconds,
                    "status": peer.status,
                }
                if batch in peer.took:
                    theirs, their_lists = peer.took[batch]
                    pairs = zip(peer.best[batch], best[precision, batch], strict=True)
                    row |= {"peer_ms": 1e3 * theirs.seconds, "peer_lists_ms": 1e3 * their_lists.seconds}
                    row["ratio"], row["ratio_spread"] = timing.ratio(theirs, arrays_took)
                    row["lists_ratio"], row["lists_ratio_spread"] = timing.ratio(their_lists, lists_took)
                    row["equal"] = 100 * sum(a == b for a, b in pairs) / batch
                yield row


def timed(
    context: Context,
    ours: dict[str, TransducerDecoder],
    greedy: dict[str, TransducerDecoder],
    peers: dict[str, Peer],
    sent: Any,
    frames: npt.NDArray[np.float32],
) -> dict[str, timing.Timing]:
    """The turns of a batch, by contender and precision; NeMo's, unless it has had them, are kept in its Peer."""
    turns: dict[str, Callable[[], object]] = {}
    for precision, one in ours.items():
        turns[f"arrays {precision}"] = lambda d=one: d.decode(sent, nbest=NBEST)  # type: ignore[misc]
        turns[f"lists {precision}"] = lambda d=one: read(d.decode(sent, nbest=NBEST))  # type: ignore[misc]
        turns[f"greedy {precision}"] = lambda d=greedy[precision]: d.decode(sent)  # type: ignore[misc]
        if len(frames) not in peers[precision].took:
            theirs = peers[precision].turns(frames)
            turns |= {f"NeMo's {name} {precision}": turn for name, turn in theirs.items()}
    took = timing.interleave(turns, 3 * context.repeats, step=context.step)
    for precision, peer in peers.items():
        if f"NeMo's search {precision}" in took:
            peer.took[len(frames)] = took[f"NeMo's search {precision}"], took[f"NeMo's lists {precision}"]
    return took


def read(found: Sequence[Any]) -> list[list[Any]]:
    """The tokens of all entries of the n-best lists."""
    return [[entry.tokens for entry in hypothesis.nbest] for hypothesis in found]


def compare(found: Sequence[Any], wanted: Sequence[Any], whose: str) -> None:
    """Raises Wrong unless the n-best lists are the same bytes, as far as there are both."""
    for i, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if len(one.nbest) != len(other.nbest):
            raise gpu.Wrong(f"utterance {i}: {len(one.nbest)} entries, not the {len(other.nbest)} of {whose}")
        for k, pair in enumerate(zip(one.nbest, other.nbest, strict=True)):
            for name in PARTS:
                ours, theirs = (getattr(entry, name) for entry in pair)
                if ours is not None and np.asarray(ours).tobytes() != np.asarray(theirs).tobytes():
                    raise gpu.Wrong(f"utterance {i}, entry {k}: its {name} is not that of {whose}")
