"""N-best lists on one core: time and oracle word error rate (WER) of arcbeam, pyctcdecode and flashlight-text.

Of the first n distinct answers to an utterance, the oracle WER at n counts the one nearest to the reference; at 1 it
is the WER. All decode the same log-probs of real speech with the same 3-gram and words; all give their answers as
texts or words on the host, arcbeam ten of them. They take turns. A peer's ratio is its time over that of the fastest
setting of arcbeam, in processor time, whose oracle WER at 10 is at most the peer's, taken within a turn. Before that
the answers are checked: arcbeam's ten are the first of its hundred. Settings, ours and the peers', were taken from
trials of some beams, prunings and acoustic scales on these utterances; LM weights, word scores, token beams and the
beam threshold were not tuned. A peer with 10 beams is the fastest that can have ten answers. pyctcdecode scores words
outside its list by an offset of its own; of flashlight's answers several have the same words. Rows of lattices have no
list: their oracle WER is that of the path of the lattice that is nearest to the reference (`Lattice.oracle_wer`); the
peers have no lattices. riva-asrlib-decoder decodes on a GPU alone: the same curves of it are in `gpu_lattice`, on other
utterances.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import arcbeam
from benchmarks.adapters import SearchOptions
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import contest, oracle
from benchmarks.tasks.contest import Contender

ORDER = 24
TITLE = "N-best lists compared with pyctcdecode and flashlight-text"
GRAPH, SET, UTTERANCES = "char-3gram", "test-other-100", 50
COUNTS = (1, 10, 100)
OURS = "arcbeam"
LATTICE_BEAMS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0)
LATTICE_SEARCHES = ((17.0, 1.0), (17.0, 1.5))  # beam and acoustic scale


@dataclass(frozen=True)
class Setting:
    """A decoder with its options."""

    label: str
    adapter: str
    options: SearchOptions
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        return self.adapter == "arcbeam_cpu"


SETTINGS = (
    *(
        Setting(f"{OURS}, beam {beam:g}, scale {scale:g}", "arcbeam_cpu", SearchOptions(beam, acoustic_scale=scale))
        for scale, beams in ((1.0, (17.0, 12.0)), (1.5, (17.0, 12.0, 10.0, 8.0)), (1.75, (7.0, 6.0)))
        for beam in beams
    ),
    *(
        Setting(f"pyctcdecode, {n} beams", "pyctcdecode", SearchOptions(10.0, acoustic_scale=1.5), {"beam_width": n})
        for n in (10, 20, 100)
    ),
    Setting("pyctcdecode, 500 beams", "pyctcdecode", SearchOptions(17.0, acoustic_scale=1.0), {"beam_width": 500}),
    *(
        Setting(f"flashlight-text, {size} beams", "flashlight_words", SearchOptions(acoustic_scale=1.5, beam_size=size))
        for size in (10, 20, 50, 500)
    ),
)
COLUMNS = [
    Column("decoder", "decoder"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("spread", "rtfx_spread", "{:,.0f}"),
    Column("WER, %", "oracle_1", "{:.2f}"),
    Column("oracle WER at 10, %", "oracle_10", "{:.2f}"),
    Column("at 100, %", "oracle_100", "{:.2f}"),
    Column("distinct answers an utterance", "entries", "{:.1f}"),
    Column("compared with", "compared"),
    Column("arcbeam is faster by", "ratio", "{:.1f}"),
    Column("spread of that", "ratio_spread", "{:.1f}"),
    Column("in CPU time", "cpu_ratio", "{:.1f}"),
    Column("lattice beam", "lattice_beam", "{:g}"),
    Column("links a frame", "links", "{:.1f}"),
    Column("oracle WER of the lattice, %", "oracle_lattice", "{:.2f}"),
    Column("settings", "settings"),
    Column("status", "status"),
]


def lists(setting: Setting, adapter: Any, files: graphs.GraphFiles, utterances: Any) -> list[list[str]]:
    """All answers of a decoder, best first; those of arcbeam are checked to begin with what will be timed."""
    found: list[list[str]] = adapter.alternatives(adapter.decode(adapter.prepare(utterances)))
    if not setting.is_ours:
        return found
    many = type(adapter)(files, setting.options, nbest=COUNTS[-1])
    longer: list[list[str]] = many.alternatives(many.decode(many.prepare(utterances)))
    if any(short != texts[: len(short)] for short, texts in zip(found, longer, strict=True)):
        raise AssertionError(f"{setting.label}: ten answers are not the first of a hundred")
    return longer


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(GRAPH, context.progress)
    dataset = datasets.load(SET).first(min(context.utterances or UTTERANCES, UTTERANCES))
    references = [reference.split() for reference in dataset.references]
    seats, answers, turns = {}, {}, {}
    for setting in SETTINGS:
        context.progress(f"answers of {setting.label}")
        more = {"nbest": 10} if setting.is_ours else setting.more
        seat = seats[setting.label] = contest.seat(
            Contender(setting.label, setting.adapter, more), files, setting.options
        )
        if seat.adapter is not None:
            answers[setting.label] = lists(setting, seat.adapter, files, dataset.utterances)
            prepared = seat.adapter.prepare(dataset.utterances)
            turns[setting.label] = lambda a=seat.adapter, p=prepared: a.decode(p)
    timings = timing.interleave(turns, context.repeats, warm_up=False, step=context.step)
    rates = {
        label: {f"oracle_{n}": oracle.oracle(references, found, n) for n in COUNTS} for label, found in answers.items()
    }
    ours = [setting.label for setting in SETTINGS if setting.is_ours]
    for setting in SETTINGS:
        label = setting.label
        row = seats[label].row
        if label in answers:
            mine = timings[label]
            row |= rates[label] | {
                "minutes": dataset.seconds / 60,
                "rtfx": dataset.seconds / mine.seconds,
                "rtfx_spread": [dataset.seconds / s for s in reversed(mine.spread())],
                "wall": mine.wall,
                "cpu": mine.cpu,
                "entries": sum(map(len, answers[label])) / len(references),
                "curve": oracle.curve(references, answers[label]),
            }
            as_good = [one for one in ours if rates[one]["oracle_10"] <= rates[label]["oracle_10"]]
            if not setting.is_ours and as_good:
                # By processor time: on a busy machine the clock would choose by chance.
                fastest = min(as_good, key=lambda one: statistics.median(timings[one].cpu))
                row["compared"] = fastest
                row["ratio"], row["ratio_spread"] = timing.ratio(mine, timings[fastest])
                row["cpu_ratio"] = timing.cpu_ratio(mine, timings[fastest])
        yield row
    for beam, scale in LATTICE_SEARCHES:
        yield from lattices(files.graph, dataset, references, SearchOptions(beam, acoustic_scale=scale))


def lattices(
    graph: arcbeam.Graph, dataset: datasets.Dataset, references: Sequence[Sequence[str]], options: SearchOptions
) -> Iterator[Row]:
    """The oracle WER of lattices of each beam, made from those of the largest one."""
    decoder = arcbeam.CtcDecoder(
        graph, beam=options.beam, max_active=options.max_active, acoustic_scale=options.acoustic_scale,
        lattice_beam=LATTICE_BEAMS[-1], threads=1, device="cpu",
    )  # fmt: skip
    found = [hypothesis.lattice for hypothesis in decoder.decode(dataset.utterances, lattice=True)]
    for beam in LATTICE_BEAMS:
        pruned = [lattice.prune(beam) for lattice in found if lattice is not None]
        yield {
            "decoder": f"{OURS}, beam {options.beam:g}, scale {options.acoustic_scale:g}, lattice",
            "lattice_beam": beam,
            "links": sum(lattice.num_links for lattice in pruned) / int(dataset.lengths.sum()),
            "oracle_lattice": oracle.of_lattices(references, pruned),
        }


def draw(rows: list[Row], path: Path) -> None:
    """Oracle WER against n, and against the lattice beam."""
    lists_of: dict[str, list[tuple[float, float]]] = {}
    beams: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        each: Any = row
        if "curve" in row:
            lists_of[each["decoder"]] = list(zip(oracle.CURVE, each["curve"], strict=True))
        if "oracle_lattice" in row:
            beams.setdefault(each["decoder"], []).append((each["lattice_beam"], each["oracle_lattice"]))
    oracle.draw(lists_of, beams, path)
