"""One core against kaldi-decoder's FasterDecoder: same graph, same log-probs, same run.

Both decode each set in turn, and the turns are repeated; the ratio is taken within a turn. Before that the answers
are compared utterance by utterance. Log-probs are float32 in memory; a decode ends with the word labels. FasterDecoder
sums costs in double precision and has min_active at 0. Arcs and tokens a frame are arcbeam's: `leaving` are the
emitting arcs of the expanded tokens, of which only `read` had to be scored.
"""

from collections.abc import Iterator

from benchmarks import adapters
from benchmarks.adapters import SearchOptions
from benchmarks.adapters.arcbeam_cpu import ArcbeamCpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import agreement, memory
from data.word_errors import word_error_rate

ORDER = 10
TITLE = "One core compared with FasterDecoder"
WORKLOADS = (("char-3gram", "throughput"), ("spm512-3gram", "workload-512"))
BEAMS = ((17.0, 10_000), (12.0, 5_000))
TAKES = {
    "graph": "one of its graphs alone",
    "fst": "the OpenFst type that FasterDecoder reads: vector or const (vector)",
    "acoustic_scale": "factor of the log-probs (1)",
}
COLUMNS = [
    Column("graph", "graph"),
    Column("set", "set"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("beam / max_active", "search"),
    Column("RTFx arcbeam", "rtfx", "{:,.0f}"),
    Column("RTFx FasterDecoder", "peer_rtfx", "{:,.0f}"),
    Column("ratio", "ratio", "{:.2f}"),
    Column("spread", "ratio_spread", "{:.2f}"),
    Column("ratio in CPU time", "cpu_ratio", "{:.2f}"),
    Column("WER arcbeam, %", "wer", "{:.2f}"),
    Column("WER FasterDecoder, %", "peer_wer", "{:.2f}"),
    Column("answers", "answers"),
    Column("tokens a frame", "tokens", "{:,.0f}"),
    Column("arcs leaving", "leaving", "{:,.0f}"),
    Column("arcs read", "read", "{:,.0f}"),
    Column("admitted", "admitted", "{:,.0f}"),
    Column("peak MiB arcbeam", "peak_mib", "{:,}"),
    Column("peak MiB FasterDecoder", "peer_peak_mib", "{:,}"),
]


def run(context: Context) -> Iterator[Row]:
    only, fst_type = context.options.get("graph"), context.options.get("fst", "vector")
    scale = float(context.options.get("acoustic_scale", 1.0))
    for graph_name, set_name in WORKLOADS:
        if only and graph_name != only:
            continue
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name).first(context.utterances)
        for beam, max_active in BEAMS:
            context.progress(f"{graph_name}, {set_name}, beam {beam:g}")
            yield one(context, files, dataset, SearchOptions(beam, max_active, scale), fst_type)


def one(
    context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions, fst_type: str
) -> Row:
    faster = adapters.make("kaldi_decoder")
    ours, theirs = ArcbeamCpu(files, options), faster(files, options, fst_type)
    prepared = {adapter: adapter.prepare(dataset.utterances) for adapter in (ours, theirs)}
    answers = {adapter: adapter.answers(adapter.decode(ready)) for adapter, ready in prepared.items()}
    work = ours.decoder.stats

    wide = SearchOptions(options.beam + 8, 1_000_000, options.acoustic_scale)
    verdicts = agreement.compare(
        ours.graph, dataset.utterances, options.acoustic_scale, answers[ours], answers[theirs],
        lambda: (ArcbeamCpu(files, wide), faster(files, wide)),
    )  # fmt: skip
    kinds = agreement.tally(verdicts)
    if kinds.get(agreement.UNEXPLAINED):
        raise AssertionError(f"answers differ without a reason: {kinds}")
    context.progress(f"answers: {kinds}")

    timings = timing.interleave(
        {a.name: lambda a=a: a.decode(prepared[a]) for a in (ours, theirs)}, context.repeats, warm_up=False
    )
    mine, peer = timings[ours.name], timings[theirs.name]
    ratio, spread = timing.ratio(peer, mine)
    peaks = [
        memory.measure(name, files.name, dataset.name, options.beam, options.max_active, context.utterances)
        for name in ("arcbeam_cpu", "kaldi_decoder")
    ]
    texts = {adapter: [a.text for a in found] for adapter, found in answers.items()}
    return {
        "graph": files.name,
        "set": dataset.name,
        "minutes": dataset.seconds / 60,
        "utterances": len(dataset.ids),
        "search": f"{options.beam:g} / {options.max_active:,}",
        "acoustic_scale": options.acoustic_scale,
        "fst_type": fst_type,
        "rtfx": dataset.seconds / mine.seconds,
        "peer_rtfx": dataset.seconds / peer.seconds,
        "ratio": ratio,
        "ratio_spread": spread,
        "cpu_ratio": timing.cpu_ratio(peer, mine),
        "wall": mine.wall,
        "peer_wall": peer.wall,
        "wer": 100 * word_error_rate(dataset.references, texts[ours]),
        "peer_wer": 100 * word_error_rate(dataset.references, texts[theirs]),
        "answers": ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())),
        "tokens": work.tokens / work.frames,
        "leaving": work.leaving_arcs / work.frames,
        "read": work.read_arcs / work.frames,
        "admitted": work.admitted / work.frames,
        "peak_mib": peaks[0],
        "peer_peak_mib": peaks[1],
    }
