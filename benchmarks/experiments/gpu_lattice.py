"""More than one answer on one GPU: what lattices, n-best lists and confidences cost, compared with riva's.

Log-probs are on the device; batches of 264 utterances, and one utterance alone. First lattices, n-best lists,
confidences and words of minimum Bayes risk (MBR) are compared with the CPU engine's as bytes, and the arrays of words
and times with what each path says by itself. Then all are timed in turns by the clock, from the call until what is
requested lies in arrays of the host: `best` is of the best paths alone, `lattice` of lattices, `n-best` of ten
entries with words, times, scores and posteriors, and the confidence of every word of the best path, and `MBR` of the
words of minimum Bayes risk with times and confidences, and the confusion network. `texts` is `n-best`, and makes Python
strings of all entries and all words of the best paths, too.

riva gets the fastest of the settings of `gpu_riva`; whatever is requested, its threads make
lists and MBR words. Its entries may be others than ours, and so may its MBR words and their confidences: the shares are
in the table, the first differences in the result file. The oracle word error rate (WER) at n counts
the answer nearest to the reference among the first n, that of a lattice the path nearest to it. At more n than ten, and
for narrower lattices, they are counted once, after all times are taken, of a hundred answers and of the lattices
pruned; riva decodes again then, with the fastest of its settings.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from arcbeam.words import Word
from benchmarks import adapters
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.experiments import gpu_riva
from benchmarks.harness import record, timing
from benchmarks.harness.plots import Points
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import oracle, riva_answers

ON_GPU = True
ORDER = 205
TITLE = "Lattices, n-best lists and confidences"
KERNELS = ("search", "search_lattice")
NBEST = 10
ORACLES = (1, NBEST)
MANY = oracle.CURVE[-1]
LATTICE_BEAMS = (2.0, 4.0, 6.0, 8.0)
TAKES = {"oracles": "searches whose oracle WERs are counted at more n and lattice beams: wide (the default), all, none"}
SHOWN = 20  # differences from riva that the result file lists
CLOSE = 0.02  # confidences that differ by no more are counted as the same
COLUMNS = [
    Column("graph", "graph"),
    Column("set", "set"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("beam / max_active", "search"),
    Column("lattice beam", "lattice_beam", "{:g}"),
    Column("best, ms", "best_ms", "{:.1f}"),
    Column("lattice, ms", "lattice_ms", "{:.1f}"),
    Column("lattice / best", "lattice_ratio", "{:.2f}"),
    Column("spread", "lattice_spread", "{:.2f}"),
    Column("n-best, ms", "nbest_ms", "{:.1f}"),
    Column("texts, ms", "texts_ms", "{:.1f}"),
    Column("MBR, ms", "mbr_ms", "{:.1f}"),
    Column("alone: best, ms", "alone_best_ms", "{:.2f}"),
    Column("lattice, ms", "alone_lattice_ms", "{:.2f}"),
    Column("n-best, ms", "alone_nbest_ms", "{:.2f}"),
    Column("MBR, ms", "alone_mbr_ms", "{:.2f}"),
    Column("links a frame", "links", "{:.1f}"),
    Column("entries", "entries", "{:.1f}"),
    Column("oracle WER at 1, %", "oracle_1", "{:.2f}"),
    Column("at 10, %", "oracle_10", "{:.2f}"),
    Column("at 100, %", "oracle_100", "{:.2f}"),
    Column("of the lattice, %", "oracle_lattice", "{:.2f}"),
    Column("riva's at 1, %", "riva_oracle_1", "{:.2f}"),
    Column("at 10, %", "riva_oracle_10", "{:.2f}"),
    Column("at 100, %", "riva_oracle_100", "{:.2f}"),
    Column("of its lattice, %", "riva_oracle_lattice", "{:.2f}"),
    Column("riva decode_nbest, ms", "riva_nbest_ms", "{:.1f}"),
    Column("over n-best", "nbest_ratio", "{:.1f}"),
    Column("spread", "nbest_spread", "{:.1f}"),
    Column("riva decode_mbr, ms", "riva_mbr_ms", "{:.1f}"),
    Column("over MBR", "riva_mbr_ratio", "{:.1f}"),
    Column("spread", "riva_mbr_spread", "{:.1f}"),
    Column("its entries among ours, %", "among", "{:.2f}"),
    Column("the others", "why_missing"),
    Column("MBR words of either", "mbr_words", "{:,}"),
    Column("of one alone", "mbr_of_one"),
    Column("confidences within 0.02, %", "confidences_within", "{:.2f}"),
    Column("largest difference", "largest_difference", "{:.2f}"),
    Column("settings of riva", "peer_settings"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    with_oracles = counted(context)
    for graph_name, set_name in gpu.WORKLOADS:
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name).first(context.utterances or gpu_riva.BATCH)
        for options in gpu.BEAMS:
            context.progress(f"{graph_name}, {set_name}, beam {options.beam:g}")
            what = {"graph": graph_name, "set": set_name, "search": gpu.beam_text(options)}
            work = (context, files, dataset, replace(options, batch=gpu_riva.BATCH))
            choices = (gpu_riva.RIVA_SETTINGS, gpu_riva.RIVA_SETTINGS[1:], ())
            for row in gpu_riva.without_riva_at_last(what, one, work, choices):
                is_measured = options in with_oracles and "best_ms" in row
                yield row | oracles(what, work, row) if is_measured else row


def one(
    context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions,
    choice: gpu_riva.Settings,
) -> Iterator[Row]:  # fmt: skip
    gpu.require()
    more = {"lattice_beam": options.lattice_beam, "frame_shift": dataset.frame_shift}
    decoder = gpu.decoder(files.graph, options, **more)
    arrays = gpu.send(dataset.utterances)
    requested = {"nbest": NBEST, "confidence": True, "lattice": True, "mbr": True}
    found = decoder.decode(arrays, **requested)
    twin = gpu.decoder(files.graph, options, device="cpu", **more)
    utterances = [np.ascontiguousarray(u, np.float32) for u in dataset.utterances]
    compare(found, twin.decode(utterances, **requested))
    compare_arrays(files.graph, found)
    references = [reference.split() for reference in dataset.references]
    answers = [[entry.text for entry in h.nbest] for h in found]
    frames = sum(map(len, utterances))
    row: Row = {
        "graph": files.name,
        "set": dataset.name,
        "minutes": dataset.seconds / 60,
        "utterances": len(dataset.ids),
        "search": gpu.beam_text(options),
        "lattice_beam": options.lattice_beam,
        "links": sum(h.lattice.num_links for h in found) / frames,
        "tokens": sum(h.lattice.num_tokens for h in found) / frames,
        "entries": statistics.mean(len(h.nbest) for h in found),
        **{f"oracle_{n}": oracle.oracle(references, answers, n) for n in ORACLES},
    }
    timed = contenders(decoder, arrays)
    theirs = None
    try:
        if choice:
            theirs, row["tried"] = gpu_riva.fastest(context, files, dataset, options, choice, nbest=NBEST)
    except (ImportError, OSError) as error:
        row["status"] = f"missing: {adapters.why(error)}"
    if theirs is not None:
        ready = theirs.look_into(arrays)
        lists = theirs.decode_nbest(ready)
        row |= beside(found, lists, theirs.decode_mbr(ready))
        said = [adapters.distinct(texts) for texts in riva_answers.texts(found, lists)]
        row |= {f"riva_oracle_{n}": oracle.oracle(references, said, n) for n in ORACLES}
        row["peer_settings"] = theirs.settings
        timed |= {"riva_nbest": lambda: theirs.decode_nbest(ready), "riva_mbr": lambda: theirs.decode_mbr(ready)}
    timings = timing.interleave(timed, context.repeats)
    alone = timing.interleave(contenders(decoder, arrays[:1]), 3 * context.repeats)
    row |= {f"{name}_ms": 1e3 * taken.seconds for name, taken in timings.items()}
    row |= {f"{name}_wall": taken.wall for name, taken in timings.items()}
    row |= {f"alone_{name}_ms": 1e3 * taken.seconds for name, taken in alone.items()}
    row["lattice_ratio"], row["lattice_spread"] = timing.ratio(timings["lattice"], timings["best"])
    if theirs is not None:
        row["nbest_ratio"], row["nbest_spread"] = timing.ratio(timings["riva_nbest"], timings["nbest"])
        row["riva_mbr_ratio"], row["riva_mbr_spread"] = timing.ratio(timings["riva_mbr"], timings["mbr"])
    yield row


def counted(context: Context) -> Sequence[SearchOptions]:
    """The searches whose oracle WERs are counted at more n and lattice beams."""
    choices = {"wide": (gpu.WIDE,), "all": gpu.BEAMS, "none": ()}
    which = context.options.get("oracles", "wide")
    if which not in choices:
        raise ValueError(f"oracles: expected {', '.join(choices)}, got {which!r}")
    return choices[which]


def oracles(what: Row, work: tuple[Any, ...], row: Row) -> Row:
    """Those of a search that has been measured; where riva takes its process with it, ours alone, and what it said."""
    tried: Any = row.get("tried")
    settings = min(tried, key=lambda one: one[-1])[:-1] if tried else None
    told: list[object] = []
    for choice in (settings, None) if settings else (None,):
        [found] = gpu.rows_or_failure(what, count_oracles, *work, choice)
        if not record.failed(found):
            break
        told.append(found["status"])
        found = {}
    if found and found["oracle_10"] != row["oracle_10"]:
        raise gpu.Wrong(f"oracle WER at 10: {row['oracle_10']} of ten answers, {found['oracle_10']} of a hundred")
    return found | ({"no_oracles": told} if told else {})


def count_oracles(
    context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions,
    choice: Sequence[Any] | None,
) -> Iterator[Row]:  # fmt: skip
    """One row: oracle WERs at each n of the curve and at each lattice beam, ours and riva's.

    choice : riva's settings, None to leave riva out
    """
    gpu.require()
    references = [reference.split() for reference in dataset.references]
    beams = [beam for beam in LATTICE_BEAMS if beam <= options.lattice_beam]
    arrays = gpu.send(dataset.utterances)
    decoder = gpu.decoder(files.graph, options, lattice_beam=options.lattice_beam)
    found = decoder.decode(arrays, nbest=MANY, lattice=True)
    answers = [[entry.text for entry in h.nbest] for h in found]
    row = list_oracles("", references, answers) | {"oracle_10": oracle.oracle(references, answers, NBEST)}
    pruned = {beam: [h.lattice.prune(beam) for h in found] for beam in beams}
    row |= lattice_oracles("", [(beam, oracle.of_lattices(references, pruned[beam])) for beam in beams])
    if choice is not None:
        lanes, frames, tokens = choice
        riva = adapters.make("riva")(
            files, options, max_batch_size=lanes, frames_a_chunk=frames, frame_shift=dataset.frame_shift, tokens=tokens,
            nbest=MANY,
        )  # fmt: skip
        ready = riva.look_into(arrays)
        said = riva_answers.texts(found, riva.decode_nbest(ready))
        row |= list_oracles("riva_", references, [adapters.distinct(texts) for texts in said])
        ids = {word: label for label, word in enumerate(files.words())}
        try:
            lattices = riva.lattices(riva.padded(ready))
        except Exception as error:  # whatever riva may say: its lists are worth having
            row["riva_pruned_lattices"] = f"none: {type(error).__name__}: {error}"
        else:
            row |= lattice_oracles("riva_", oracle.of_kaldi_lattices(references, lattices, beams, ids))
    yield row


def list_oracles(whose: str, references: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> Row:
    found = oracle.curve(references, answers)
    return {f"{whose}curve": found, f"{whose}oracle_{MANY}": found[-1]}


def lattice_oracles(whose: str, found: Sequence[tuple[float, float]]) -> Row:
    return {f"{whose}lattice_curve": found, f"{whose}oracle_lattice": found[-1][1]}


def draw(rows: Sequence[Row], path: Path) -> None:
    """Oracle WER against n, and against the lattice beam; of results without any curve, at the n of the table."""
    rows = [row for row in rows if "curve" in row] or rows
    lists: dict[str, Points] = {}
    beams: dict[str, Points] = {}
    for whose, name in (("", "arcbeam"), ("riva_", "riva-asrlib-decoder")):
        for row in rows:
            each: Any = row
            label = f"{name}, {each['graph']}, beam {each['search'].split()[0]}"
            points = [(n, each[f"{whose}oracle_{n}"]) for n in ORACLES if f"{whose}oracle_{n}" in row]
            if f"{whose}curve" in row:
                points = list(zip(oracle.CURVE, each[f"{whose}curve"], strict=True))
            if points:
                lists[label] = points
            if f"{whose}lattice_curve" in row:
                beams[label] = [(beam, wer) for beam, wer in each[f"{whose}lattice_curve"]]
    oracle.draw(lists, beams, path)


def contenders(decoder: Any, arrays: Sequence[Any]) -> dict[str, Callable[[], object]]:
    """What is timed: each returns when its answers are arrays of the host; `texts` when they are Python strings."""

    def texts() -> object:
        found = decoder.decode(arrays, nbest=NBEST, confidence=True)
        return [([entry.text for entry in h.nbest], h.words) for h in found]

    return {
        "best": lambda: decoder.decode(arrays),
        "lattice": lambda: decoder.decode(arrays, lattice=True),
        "nbest": lambda: decoder.decode(arrays, nbest=NBEST, confidence=True),
        "texts": texts,
        "mbr": lambda: decoder.decode(arrays, mbr=True),
    }


def compare(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Raises Wrong unless paths, lattices, n-best lists, confidences and MBR words are the same bytes."""
    gpu.compare(found, wanted)
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        for name in ("links", "states", "steps", "scores", "final_scores", "best"):
            if getattr(one.lattice, name).tobytes() != getattr(other.lattice, name).tobytes():
                raise gpu.Wrong(f"utterance {i}: {name} of its lattice differ from the twin's")
        entries = [[(a.score, a.posterior, a.arcs.tobytes()) for a in h.nbest] for h in (one, other)]
        if entries[0] != entries[1]:
            raise gpu.Wrong(f"utterance {i}: its n-best list differs from the twin's")
        if (one.mbr, one.sausage) != (other.mbr, other.sausage):
            raise gpu.Wrong(f"utterance {i}: the words of minimum Bayes risk are {one.mbr!r}, expected {other.mbr!r}")
        if (one.words, one.confidence) != (other.words, other.confidence):
            raise gpu.Wrong(f"utterance {i}: confidences are {one.words!r}, expected {other.words!r}")


def compare_arrays(graph: Any, found: Sequence[Any]) -> None:
    """Raises Wrong unless the arrays of words and times of all entries say what each path does by itself."""
    results = found[0]._results
    made = results.answers.labels
    for i, hypothesis in enumerate(found):
        first = results.answers.first_entry.item(i)
        for place, entry in enumerate(hypothesis.nbest):
            labels, starts, ends = made.of(first + place)
            if labels.tolist() != [word for word in graph.words[entry.arcs].tolist() if word]:
                raise gpu.Wrong(f"utterance {i}: the words of entry {place} are not those of its path")
            words = graph.word_reader.words(entry.arcs, results.frame_shift, Word)
            frames = [(word.start_frame, word.end_frame) for word in words]
            of_labels = list(zip(starts.tolist(), ends.tolist(), strict=True))
            if entry.words != words or (graph.join != "pieces" and of_labels != frames):
                raise gpu.Wrong(f"utterance {i}: the times of entry {place} are {entry.words!r}, expected {words!r}")


def beside(found: Sequence[Any], lists: Sequence[Any], words: Sequence[Any]) -> Row:
    """How far riva's answers agree with ours."""
    missing = riva_answers.missing_entries(found, lists)
    of_one, differences = riva_answers.confidences(found, words)
    return {
        "riva_entries": statistics.mean(map(len, lists)),
        "among": 100 - 100 * len(missing) / max(1, sum(map(len, lists))),
        "missing": [str(one) for one in missing[:SHOWN]],
        "why_missing": "; ".join(
            f"{count} {why}" for why in riva_answers.REASONS if (count := sum(one.why == why for one in missing))
        ),
        "other_words": riva_answers.other_words(found, words)[:SHOWN],
        "mbr_words": len(differences),
        "mbr_of_one": of_one,
        "confidences_within": 100 * sum(one <= CLOSE for one in differences) / max(1, len(differences)),
        "largest_difference": max(differences, default=0.0),
    }
