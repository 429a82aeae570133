"""Two threads over one: the same set, the same decoder options, in turns.

Utterances are handed to the threads longest first; the answers are compared as bytes before anything is timed.
"""

from collections.abc import Iterator

from benchmarks.adapters import SearchOptions
from benchmarks.adapters.arcbeam_cpu import ArcbeamCpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ORDER = 20
TITLE = "Two threads over one"
COLUMNS = [
    Column("graph", "graph"),
    Column("set", "set"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("beam / max_active", "search"),
    Column("RTFx 1 thread", "rtfx_1", "{:,.0f}"),
    Column("RTFx 2 threads", "rtfx_2", "{:,.0f}"),
    Column("ratio", "ratio", "{:.2f}"),
    Column("spread", "ratio_spread", "{:.2f}"),
]


def run(context: Context) -> Iterator[Row]:
    for graph_name, set_name in (("char-3gram", "throughput"), ("spm512-3gram", "workload-512")):
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name).first(context.utterances)
        for beam, max_active in ((17.0, 10_000), (12.0, 5_000)):
            context.progress(f"{graph_name}, beam {beam:g}")
            options = SearchOptions(beam, max_active)
            decoders = {threads: ArcbeamCpu(files, options, threads) for threads in (1, 2)}
            prepared = decoders[1].prepare(dataset.utterances)
            paths = [[h.arcs.tobytes() for h in d.decode(prepared)] for d in decoders.values()]
            if paths[0] != paths[1]:
                raise AssertionError("one thread and two give different paths")
            turns = {str(n): lambda d=d, p=prepared: d.decode(p) for n, d in decoders.items()}
            timings = timing.interleave(turns, context.repeats, warm_up=False)
            ratio, spread = timing.ratio(timings["1"], timings["2"])
            yield {
                "graph": graph_name,
                "set": set_name,
                "minutes": dataset.seconds / 60,
                "search": f"{beam:g} / {max_active:,}",
                "rtfx_1": dataset.seconds / timings["1"].seconds,
                "rtfx_2": dataset.seconds / timings["2"].seconds,
                "ratio": ratio,
                "ratio_spread": spread,
            }
