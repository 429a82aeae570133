"""A graph with and without its input epsilons: size and speed.

Removing the epsilons (Fukunaga et al. 2019, section 2.4) multiplies arcs, as every back-off is written out; so this is
a graph of a small LM. Both give the same words but for ties, and are decoded in turns on one core.
"""

from collections.abc import Iterator

import arcbeam
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from data.workload import word_error_rate

ORDER = 60
TITLE = "Graphs without input epsilons"
TAKES: dict[str, str] = {}
COLUMNS = [
    Column("graph", "graph"),
    Column("states", "states", "{:,}"),
    Column("arcs", "arcs", "{:,}"),
    Column("epsilon arcs", "epsilon_arcs", "{:,}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("spread", "spread", "{:,.0f}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("tokens a frame", "tokens", "{:,.0f}"),
    Column("arcs leaving", "leaving", "{:,.0f}"),
    Column("arcs read", "read", "{:,.0f}"),
]


def run(context: Context) -> Iterator[Row]:
    dataset = datasets.load("test-other-100").first(context.utterances)
    made, decoders = {}, {}
    for name, epsilon_free in (("with epsilons", False), ("epsilon-free", True)):
        context.progress(f"building the graph {name}")
        made[name] = graphs.make("char-small", epsilon_free=epsilon_free, progress=False)
        decoders[name] = arcbeam.CtcDecoder(made[name], beam=17.0, max_active=10_000, threads=1, device="cpu")
    utterances = [u.astype("float32") for u in dataset.utterances]
    found = {name: decoder.decode(utterances) for name, decoder in decoders.items()}
    timings = timing.interleave(
        {name: lambda d=d: d.decode(utterances) for name, d in decoders.items()}, context.repeats, warm_up=False
    )
    for name, graph in made.items():
        work = decoders[name].stats
        yield {
            "graph": name,
            "states": graph.num_states,
            "arcs": graph.num_arcs,
            "epsilon_arcs": int((graph.columns == 0xFFFF).sum()),
            "rtfx": dataset.seconds / timings[name].seconds,
            "spread": [dataset.seconds / s for s in reversed(timings[name].spread())],
            "wer": 100 * word_error_rate(dataset.references, [h.text for h in found[name]]),
            "tokens": work.tokens / work.frames,
            "leaving": work.leaving_arcs / work.frames,
            "read": work.read_arcs / work.frames,
        }
