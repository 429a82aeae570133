"""The baseline compared with flashlight-text: one core each, and the baseline on two.

Same lexicon (the LibriSpeech vocabulary), 3-gram of books in KenLM, options and log-probs in one process, in turns; the
answers are compared first, as in `baseline_equal`. Words are spelled by letters (20 ms frames), or by the pieces of a
SentencePiece model of 256 (40 ms frames of synthetic log-probs of the set's sentences). 32 tokens a frame (all 29
letters), threshold 50, smearing "max", LM weight 2. Ratios are taken within a turn, once of time on the clock and once
of processor time, which a busy machine disturbs less.
"""

from collections.abc import Iterator
from typing import Any

from benchmarks import adapters
from benchmarks.adapters.baseline import Baseline
from benchmarks.data import datasets
from benchmarks.experiments import baseline_equal
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ORDER = 61
TITLE = "The baseline's speed compared with flashlight-text's"
SET, UTTERANCES = "throughput", {"letters": 10, "pieces 256": 5}
FRAME_SECONDS = {"letters": 0.02, "pieces 256": 0.04}
BEAM_SIZES = (500, 2_500)
COLUMNS = [
    Column("lexicon", "lexicon"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("beam_size", "beam_size", "{:,}"),
    Column("answers", "answers"),
    Column("RTFx flashlight-text", "peer_rtfx", "{:,.0f}"),
    Column("RTFx baseline", "rtfx", "{:,.0f}"),
    Column("ratio", "ratio", "{:.1f}"),
    Column("spread", "ratio_spread", "{:.1f}"),
    Column("ratio in CPU time", "cpu_ratio", "{:.1f}"),
    Column("RTFx baseline, 2 threads", "rtfx_2", "{:,.0f}"),
    Column("2 threads over 1", "threads_ratio", "{:.2f}"),
    Column("spread", "threads_spread", "{:.2f}"),
]


def run(context: Context) -> Iterator[Row]:
    for kind, count in UTTERANCES.items():
        dataset = datasets.load(SET).first(context.utterances or count)
        for beam_size in BEAM_SIZES:
            context.progress(f"{kind}, beam_size {beam_size:,}")
            options = {"beam_size": beam_size, "beam_size_token": 32, "beam_threshold": 50.0, "lm_weight": 2.0}
            task, utterances = baseline_equal.task_and_utterances(kind, dataset, options)
            peer = adapters.make("flashlight_text")(task)
            contenders: dict[str, Any] = {"peer": peer, "one": Baseline(task), "two": Baseline(task, threads=2)}
            found = baseline_equal.compare(utterances, contenders["one"], peer)
            if found.unexplained:
                raise AssertionError(f"answers differ without a reason: {found.unexplained}")
            ready = {name: c.prepare(utterances) for name, c in contenders.items()}
            timings = timing.interleave(
                {name: lambda c=c, r=ready[name]: c.decode(r) for name, c in contenders.items()},
                context.repeats, warm_up=False,
            )  # fmt: skip
            seconds = sum(map(len, utterances)) * FRAME_SECONDS[kind]
            ratio, spread = timing.ratio(timings["peer"], timings["one"])
            threads_ratio, threads_spread = timing.ratio(timings["one"], timings["two"])
            yield {
                "lexicon": kind,
                "minutes": seconds / 60,
                "utterances": len(utterances),
                "beam_size": beam_size,
                "answers": f"{len(utterances) - len(found.ties)} equal, {len(found.ties)} ties",
                "peer_rtfx": seconds / timings["peer"].seconds,
                "rtfx": seconds / timings["one"].seconds,
                "rtfx_2": seconds / timings["two"].seconds,
                "ratio": ratio,
                "ratio_spread": spread,
                "cpu_ratio": timing.cpu_ratio(timings["peer"], timings["one"]),
                "threads_ratio": threads_ratio,
                "threads_spread": threads_spread,
                "wall": {name: t.wall for name, t in timings.items()},
                "cpu": {name: t.cpu for name, t in timings.items()},
            }
