"""torchaudio's ``cuda_ctc_decoder`` on one GPU, `arcbeam.compat.torchaudio` on the CPU's cores, and `CtcDecoder`.

The first two get the same call: log-probs, lengths, and torchaudio's defaults (beam of 10, frames skipped whose blank
is likelier than 0.95). They sum paths over tokens without a language model. The graph search has a 3-gram of words
besides, and is on the GPU as torchaudio's is. Letters with speech, and pieces with synthetic log-probs, a batch of 264.
Before anything is timed, our answers must not have more word errors than torchaudio's. In turns, by the clock, until
the best answers of all utterances are objects of Python.
"""

from collections.abc import Iterator
from typing import Any

from arcbeam.compat.torchaudio import cuda_ctc_decoder
from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from data.workload import word_error_rate

ON_GPU = True
ORDER = 215
TITLE = "Compared with torchaudio's cuda_ctc_decoder"
PEER, COMPAT, GRAPH = "torchaudio", "arcbeam.compat.torchaudio, on the CPU", "CtcDecoder"
BATCH = 264
COLUMNS = [
    Column("graph of CtcDecoder", "graph"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("decoder", "decoder"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("same text as torchaudio, %", "equal", "{:.1f}"),
    Column("faster than torchaudio by", "ratio", "{:.2f}"),
    Column("spread", "ratio_spread", "{:.2f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for graph, name in gpu.WORKLOADS:
        files = graphs.get(graph, context.progress)
        dataset = datasets.load(name).first(min(context.utterances or BATCH, BATCH))
        yield from gpu.rows_or_failure({"graph": graph}, contest, context, graph, files, dataset)


def contest(context: Context, graph: str, files: graphs.GraphFiles, dataset: datasets.Dataset) -> Iterator[Row]:
    gpu.require()
    search, sent = gpu.decoder(files.graph, gpu.NARROW), gpu.send(dataset.utterances)
    rows: dict[str, Row] = {
        name: {"graph": graph, "minutes": dataset.seconds / 60, "utterances": len(dataset.ids), "decoder": name}
        for name in (PEER, COMPAT, GRAPH)
    }
    decoders: dict[str, Any] = {}
    texts = {}
    for name, more in ((PEER, {}), (COMPAT, {"build": cuda_ctc_decoder})):
        context.progress(f"{graph}: {name}")
        try:
            adapter = adapters.make("torchaudio_cuda")(files, gpu.NARROW, **more)
        except (ImportError, OSError, AttributeError) as error:
            rows[name]["status"] = f"missing: {adapters.why(error)}"
            continue
        prepared = adapter.prepare(dataset.utterances)
        texts[name] = [answer.text for answer in adapter.answers(adapter.decode(prepared))]
        decoders[name] = lambda a=adapter, p=prepared: a.decode(p)
    decoders[GRAPH] = lambda: search.decode(sent)
    texts[GRAPH] = [one.text for one in decoders[GRAPH]()]
    errors = {name: 100 * word_error_rate(dataset.references, said) for name, said in texts.items()}
    if PEER in errors and errors[COMPAT] > errors[PEER]:
        raise gpu.Wrong(f"{graph}: {errors[COMPAT]:.2f} % word errors, torchaudio's {errors[PEER]:.2f}")
    took = timing.interleave(decoders, context.repeats)
    for name, row in rows.items():
        if name in took:
            row |= {"rtfx": dataset.seconds / took[name].seconds, "wall": took[name].wall, "wer": errors[name]}
            if PEER in took and name != PEER:
                row["ratio"], row["ratio_spread"] = timing.ratio(took[PEER], took[name])
                same = sum(a == b for a, b in zip(texts[name], texts[PEER], strict=True))
                row["equal"] = 100 * same / len(dataset.ids)
        yield row
