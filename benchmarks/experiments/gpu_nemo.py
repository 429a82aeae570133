"""One GPU and NeMo's batched CTC beam search (CUDA graphs, n-gram LM on the GPU): a 5-gram of pieces, no lexicon.

The LM is one ARPA file: NeMo reads it, arcbeam decodes the open-vocabulary graph made from it, with the LM weight 0.6
in its weights; so a hypothesis has the same score in both. Each of NeMo's beams stands beside the narrowest of ours
whose WER is no higher and whose score is no lower in any utterance but 1 in 100. Batches of 264 utterances; log-probs
are on the device, NeMo's padded. In turns, by the clock: `ratio` takes from ours the paths on the host and from NeMo
the search alone, whose hypotheses then lie as back-pointers on the GPU; `with texts` takes both to their texts.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import adapters
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.adapters.arcbeam_cuda import ArcbeamCuda
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from data.word_errors import word_error_rate

ON_GPU = True
ORDER = 210
TITLE = "Compared with NeMo's batched beam search"
GRAPH, SET, BATCH = "spm512-5gram", "workload-512", 264
THEIR_BEAMS = (4, 8, 16)
# Beams of ours, the narrowest first, and max_active.
OUR_BEAMS = ((5.0, 200), (6.0, 500), (8.0, 1_000), (10.0, 2_000), (12.0, 5_000), (17.0, 10_000))
SLACK = 0.01  # natural log
COLUMNS = [
    Column("beam size NeMo", "peer_beam"),
    Column("beam / max_active arcbeam", "search"),
    Column("RTFx arcbeam", "rtfx", "{:,.0f}"),
    Column("RTFx NeMo", "peer_rtfx", "{:,.0f}"),
    Column("ratio", "ratio", "{:.1f}"),
    Column("spread", "ratio_spread", "{:.1f}"),
    Column("ratio with texts", "text_ratio", "{:.1f}"),
    Column("WER arcbeam, %", "wer", "{:.2f}"),
    Column("WER NeMo, %", "peer_wer", "{:.2f}"),
    Column("same words, %", "equal", "{:.1f}"),
    Column("better score, %", "better", "{:.1f}"),
    Column("worse, %", "worse", "{:.1f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(GRAPH, context.progress)
    dataset = datasets.load(SET, context.utterances or BATCH)
    yield from gpu.rows_or_failure({}, every_beam, context, files, dataset)


def every_beam(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset) -> Iterator[Row]:
    gpu.require()
    utterances = [np.ascontiguousarray(u, np.float32) for u in dataset.utterances]
    arrays = gpu.send(utterances)
    scale = graphs.PIECES_LM_SCALE
    ours: list[tuple[SearchOptions, ArcbeamCuda, list[Any], float]] = []
    for beam, max_active in OUR_BEAMS:
        options = SearchOptions(beam, max_active, lm_weight=scale, batch=BATCH)
        decoder = ArcbeamCuda(files, options)
        found = decoder.decode(arrays)
        gpu.check(found, files.graph, options, utterances)
        wer = 100 * word_error_rate(dataset.references, [h.text for h in found])
        context.progress(f"arcbeam {gpu.beam_text(options)}: WER {wer:.2f} %")
        ours.append((options, decoder, found, wer))
    for size in THEIR_BEAMS:
        context.progress(f"NeMo, beam {size}")
        theirs = ready = None
        row: Row = {"peer_beam": size, "utterances": len(utterances), "minutes": dataset.seconds / 60}
        try:
            theirs = adapters.make("nemo")(files, replace(ours[0][0]), beam_size=size)
        except (ImportError, OSError) as error:
            row["status"] = f"missing: {adapters.why(error)}"
        said = []
        if theirs is not None:
            try:
                ready = theirs.prepare(utterances)
                said = theirs.answers(theirs.decode(ready))
            except Exception as error:  # of torch, triton or the driver: our own figures are worth having then, too
                theirs, row["status"] = None, f"failed: {type(error).__name__}: {adapters.why(error)}"
            else:
                row["peer_wer"] = 100 * word_error_rate(dataset.references, [a.text for a in said])
        options, decoder, found, wer = match(ours, said, float(row.get("peer_wer", 100.0)))  # type: ignore[arg-type]
        row |= {"search": gpu.beam_text(options), "wer": wer}
        contenders = {"paths": lambda d=decoder: d.search(arrays), "texts": lambda d=decoder: d.decode(arrays)}
        if theirs is not None:
            contenders["their search"] = lambda t=theirs, r=ready: t.search(r)
            contenders["their texts"] = lambda t=theirs, r=ready: t.answers(t.decode(r))
            better, worse = scores(found, said)
            row |= {
                "equal": 100 * sum(h.text == a.text for h, a in zip(found, said, strict=True)) / len(said),
                "better": 100 * better,
                "worse": 100 * worse,
                "peer_settings": theirs.settings,
            }
        took = timing.interleave(contenders, context.repeats)
        row |= {"rtfx": dataset.seconds / took["paths"].seconds, "wall": took["paths"].wall}
        if theirs is not None:
            row["ratio"], row["ratio_spread"] = timing.ratio(took["their search"], took["paths"])
            row["text_ratio"] = timing.ratio(took["their texts"], took["texts"])[0]
            row["peer_rtfx"] = dataset.seconds / took["their search"].seconds
            row["peer_wall"] = took["their search"].wall
        yield row


def scores(found: list[Any], said: list[adapters.Answer]) -> tuple[float, float]:
    """Shares of the utterances in which our score is higher than theirs, and lower."""
    # Of two searches that died neither is better.
    gains = [0.0 if h.score == -a.cost else h.score + a.cost for h, a in zip(found, said, strict=True)]
    return sum(g > SLACK for g in gains) / len(gains), sum(g < -SLACK for g in gains) / len(gains)


def match(ours: list[Any], said: list[adapters.Answer], their_wer: float) -> Any:
    """The narrowest of our beams that is no worse than theirs; the widest if none is."""
    for one in ours:
        if one[3] <= their_wer and (not said or scores(one[2], said)[1] <= 0.01):
            return one
    return ours[-1]
