"""What a list of phrases for each utterance costs on a GPU, over no list; known words alone, and with new words.

Every utterance has a list of its own, of 1,000 phrases of one to three words (`benchmarks.tasks.phrase_lists`). Of
`known words` at most two phrases are said in the utterance, of `not said` none: the search has more tokens then. In the
rows `new words` 100 of the phrases are words that the graph lacks, the graph has an open slot, and `none` is this graph
without lists. Scores are the default. Log-probs (float32) and lists are on the device: a list is compiled and sent
once, see `gpu_boost_lists`. First the paths are compared with the CPU twin's as bytes, with lists and without; then all
are timed in turns by the clock, one batch of all utterances, from the call until the paths are on the host. `of none`
is the share of the RTFx that stays, within each turn; the goal is at least 90 % at beam 17 and 85 % at beam 12, with
new words 80 %.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import arcbeam
from arcbeam.gpu.tuned import search_plan
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks.phrase_lists import NEW_WORDS, PHRASES, SAID, Vocabulary

ON_GPU = True
KERNELS = ("search", "boosted", "new_words")
ORDER = 207
TITLE = "Boosting: a list of 1,000 phrases for each utterance"
PLAIN, BOOSTED = "plain", "boosted"
KNOWN, OTHERS, NEW = "known words", "not said", "new words"
KINDS = {KNOWN: "", OTHERS: "", NEW: graphs.OPEN}  # and what follows the name of their graph
TAKES = {
    "graph": "only this one, as in spm512-3gram",
    "lists": f"only {', '.join(map(repr, KINDS))}",
    "shared": "KiB of shared memory that the blocks of a multiprocessor take with a boost, for tuning",
    "hot": "tokens from which on one of the last utterances gets a cluster, and how many are left then; 128,0: never",
}
COLUMNS = [
    Column("graph", "graph"),
    Column("set", "set"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("beam / max_active", "search"),
    Column("lists", "lists"),
    Column("RTFx, none", "plain_rtfx", "{:,.0f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("of none, %", "share", "{:.1f}"),
    Column("spread", "share_spread", "{:.1f}"),
    Column("goal, %", "goal", "{:.0f}"),
    Column("tokens a frame, none", "plain_tokens", "{:.0f}"),
    Column("tokens a frame", "tokens", "{:.0f}"),
    Column("phrases found", "found", "{:,}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for graph_name, set_name in gpu.WORKLOADS:
        if context.options.get("graph", graph_name) != graph_name:
            continue
        dataset = datasets.load(set_name).first(context.utterances)
        for lists, suffix in KINDS.items():
            if context.options.get("lists", lists) != lists:
                continue
            files = graphs.get(graph_name + suffix, context.progress)
            context.progress(f"{files.name}: {lists}")
            what = {"graph": files.name, "set": set_name, "lists": lists}
            yield from gpu.rows_or_failure(what, each_beam, context, files, dataset, lists)


def goal(kind: str, options: SearchOptions) -> int:
    """Percent of the RTFx that should stay."""
    return 80 if kind == NEW else 90 if options == gpu.WIDE else 85


def each_beam(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, kind: str) -> Iterator[Row]:
    gpu.require()
    if "shared" in context.options:
        search_plan.BOOSTED_SHARED_BYTES = int(context.options["shared"]) << 10
    if "hot" in context.options:
        tokens, lanes = map(int, context.options["hot"].split(","))
        search_plan.RESCORING_HOT_TOKENS, search_plan.RESCORING_HOT_LANES = tokens, lanes
    lists = Vocabulary(files.graph).lists(
        dataset.references, PHRASES, NEW_WORDS if kind == NEW else 0, 0 if kind == OTHERS else SAID
    )
    boosts = [arcbeam.Boost(phrases) for phrases in lists]
    arrays = gpu.send(dataset.utterances)
    utterances = [np.ascontiguousarray(u, np.float32) for u in dataset.utterances]
    for options in gpu.BEAMS:
        yield {
            "graph": files.name,
            "set": dataset.name,
            "minutes": dataset.seconds / 60,
            "utterances": len(dataset.ids),
            "search": gpu.beam_text(options),
            "lists": kind,
            "goal": goal(kind, options),
            "shared_kib": search_plan.BOOSTED_SHARED_BYTES >> 10,
            "hot": [search_plan.RESCORING_HOT_TOKENS, search_plan.RESCORING_HOT_LANES],
            **measured(context, files.graph, options, arrays, utterances, boosts, dataset.seconds),
        }


def measured(
    context: Context,
    graph: "arcbeam.Graph",
    options: SearchOptions,
    arrays: Sequence[Any],
    utterances: Sequence[Any],
    boosts: "Sequence[arcbeam.Boost]",
    seconds: float,
) -> Row:
    """Checks answers, then times: without lists and with them, by one decoder."""
    decoder, twin = gpu.decoder(graph, options), gpu.decoder(graph, options, device="cpu")
    gpu.compare(decoder.decode(arrays), twin.decode(utterances))
    plain = decoder.stats
    boosted = decoder.decode(arrays, boost=boosts)
    gpu.compare(boosted, twin.decode(utterances, boost=boosts))
    work = decoder.stats
    calls: dict[str, Callable[[], object]] = {
        PLAIN: lambda: decoder.decode(arrays),
        BOOSTED: lambda: decoder.decode(arrays, boost=boosts),
    }
    took = timing.interleave(calls, 2 * context.repeats)
    share, spread = timing.ratio(took[PLAIN], took[BOOSTED])
    row: Row = {
        "plain_rtfx": seconds / took[PLAIN].seconds,
        "plain_wall": took[PLAIN].wall,
        "rtfx": seconds / took[BOOSTED].seconds,
        "wall": took[BOOSTED].wall,
        "share": 100 * share,
        "share_spread": [100 * one for one in spread],
        "plain_tokens": plain.tokens / plain.frames,
        "tokens": work.tokens / work.frames,
        "found": sum(len(hypothesis.boosts) for hypothesis in boosted),
    }
    return row
