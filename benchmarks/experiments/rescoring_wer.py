"""Word error rate with a large language model over the graph of a small one, by hypotheses a state.

The graph is that of a strongly pruned 3-gram; a 4-gram of the same text without pruning rescores it. Both come from
`data/make_large_lm.py` (option `folder`; `large-lm` in the cache); graph and models are made there on first use. The
scales were chosen on `ljspeech-200`; `test-other-100` is never tuned on. RTFx is one thread's, of CPU time. The last
row is a check from outside: the baseline's lexicon search, which knows neither graph nor small model, with KenLM's
probing file of the same 4-gram (``large.probing``), the same scales and words.
"""

import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import arcbeam
from arcbeam import baseline
from arcbeam.core.errors import ArcbeamError
from arcbeam.graph.token_table import TokenTable
from benchmarks.data import datasets
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import lm_task
from benchmarks.tasks.lm_task import ACOUSTIC_SCALE, LM_SCALE, MAX_ACTIVE, SETS
from data.word_errors import word_error_rate

ORDER = 32
TITLE = "Rescoring with a large language model"
BEAM, WIDE_BEAM = 17.0, 25.0
COLUMNS = [
    Column("language models", "models"),
    Column("beam", "beam", "{:g}"),
    Column("hypotheses a state", "hypotheses"),
    *(Column(f"{name}, word errors", f"errors_{name}") for name in SETS),
    *(Column(f"{name}, %", f"wer_{name}", "{:.2f}") for name in SETS),
    Column("errors in both", "errors"),
    *(Column(f"RTFx {name}", f"rtfx_{name}", "{:,.0f}") for name in SETS),
    Column("tokens a frame", "tokens", "{:.1f}"),
    Column("look-ups a frame", "lookups", "{:.1f}"),
    Column("status", "status"),
]
LIMITS = (*range(1, 9), None)
TAKES = {"folder": "of the models and graph (large-lm of the cache)"}
OUTSIDE = {"beam_size": 1000, "beam_threshold": 20.0, "beam_size_token": 20}


def decode(decoder: "arcbeam.CtcDecoder", context: Context) -> Row:
    """Errors, rates and work on every set."""
    row: Row = {"errors": 0}
    frames = tokens = lookups = 0
    for name in SETS:
        row |= _errors(row, name, decoder, context)
        frames, tokens = frames + decoder.stats.frames, tokens + decoder.stats.tokens
        lookups += decoder.stats.lookups
    return row | {"tokens": tokens / frames, "lookups": lookups / frames}


def _errors(row: Row, name: str, decoder: Any, context: Context) -> Row:
    dataset = datasets.load(name).first(context.utterances)
    began = time.process_time()
    texts = [h.text for h in decoder.decode(dataset.utterances)]
    seconds = time.process_time() - began
    words = sum(len(r.split()) for r in dataset.references)
    rate = word_error_rate(dataset.references, texts)
    return {
        f"errors_{name}": round(rate * words), f"wer_{name}": 100 * rate, f"rtfx_{name}": dataset.seconds / seconds,
        "errors": row["errors"] + round(rate * words),
    }  # fmt: skip


def outside(folder: Path, context: Context) -> Row:
    """The baseline with the same large model, scales and words."""
    from arcbeam.recipe.lexicon import Lexicon
    from arcbeam.recipe.word_lists import words_of_arpa

    row: Row = {"models": f"from outside: LexiconDecoder, beam size {OUTSIDE['beam_size']:,}"}
    row |= {"beam": OUTSIDE["beam_threshold"], "errors": 0}
    try:
        kenlm = lm_task.large_kenlm(folder)
    except (ArcbeamError, datasets.DataMissing) as error:
        return row | {"status": f"missing: {error}"}
    tokens = TokenTable.read(datasets.data_folder() / "tokens.txt")
    words = words_of_arpa(lm_task.small_arpa(folder, "small", context.progress))
    decoder = baseline.LexiconDecoder(
        baseline.with_separator(Lexicon.spell(words, tokens)), tokens, kenlm, threads=1, repeat_last_token=True,
        final_separator=False, lm_weight=LM_SCALE / ACOUSTIC_SCALE * math.log(10), **OUTSIDE,
    )  # fmt: skip
    for name in SETS:
        row |= _errors(row, name, decoder, context)
    return row


def run(context: Context) -> Iterator[Row]:
    folder = Path(context.options.get("folder", datasets.CACHE / "large-lm"))
    large, small = lm_task.large_model(folder, context.progress), lm_task.small_model(folder, "small", context.progress)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = lm_task.graph(folder, "small", context.progress)
    search = {"acoustic_scale": ACOUSTIC_SCALE, "max_active": MAX_ACTIVE, "threads": 1}
    for scale in sorted({1.0, ACOUSTIC_SCALE, ACOUSTIC_SCALE / LM_SCALE}):
        alone = arcbeam.CtcDecoder(graph, device="cpu", beam=BEAM, **search | {"acoustic_scale": scale})
        yield {"models": f"small alone, acoustic scale {scale:g}", "beam": BEAM} | decode(alone, context)
    runs = [(BEAM, n) for n in LIMITS] + [(12.0, 3), (12.0, None)]
    for beam, n in [*runs, (WIDE_BEAM, None)]:
        both = arcbeam.CtcDecoder(
            graph, language_model=large, graph_language_model=small, lm_scale=LM_SCALE, beam=beam,
            hypotheses_per_state=n, **search,
        )  # fmt: skip
        named = {"models": f"small and large, {LM_SCALE:g}", "beam": beam}
        yield named | {"hypotheses": n or "no limit"} | decode(both, context)
    yield outside(folder, context)
