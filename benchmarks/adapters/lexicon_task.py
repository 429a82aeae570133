"""The lexicon and the LM of a graph, as decoders with a prefix trie take them."""

import math

import numpy as np

from arcbeam.baseline import with_separator
from arcbeam.recipe.lexicon import Lexicon
from benchmarks.adapters import Answer, SearchOptions
from benchmarks.adapters.baseline import SpokenAnswer, Task
from benchmarks.data.graphs import GraphFiles

MENDED = {"repeat_last_token": True, "final_separator": False}  # rules that only the baseline has


def task_of(files: GraphFiles, options: SearchOptions, mended: bool = False) -> Task:
    """Words, spellings, LM and options of a graph's own. KenLM scores are log10, so their weight has a factor ln 10."""
    entries = files.lexicon()
    words = tuple(dict.fromkeys(word for word, _ in entries))
    position = {word: at for at, word in enumerate(words)}
    entries.sort(key=lambda entry: position[entry[0]])
    column = files.graph.separator_column
    lexicon = Lexicon(
        words,
        np.array([position[word] for word, _ in entries], np.uint32),
        np.cumsum([0, *(len(columns) for _, columns in entries)], dtype=np.uint32),
        np.array([c for _, columns in entries for c in columns], np.uint16),
        np.zeros(len(entries), np.float32),
        files.separator,
        column,
    )
    chosen = {
        "beam_size": options.beam_size,
        "beam_size_token": min(options.beam_size_token or len(files.tokens), len(files.tokens)),
        "beam_threshold": options.beam_threshold,
        "lm_weight": options.lm_weight * math.log(10),
        "word_score": options.word_score,
        **(MENDED if mended else {}),
    }
    return Task(files.tokens, lexicon if column is None else with_separator(lexicon), files.arpa(), column, chosen)


def describe(task: Task, options: SearchOptions) -> str:
    """The settings, for a table."""
    o = task.options
    return (
        f"beam size {o['beam_size']:,}, token beam {o['beam_size_token']}, beam threshold {o['beam_threshold']:g}, "
        f"LM weight {options.lm_weight:g} (natural logs), word score {o['word_score']:g}, "
        f"acoustic scale {options.acoustic_scale:g}"
    )


def best(found: list[list[SpokenAnswer]]) -> list[Answer]:
    """The best answer to each utterance; none where a beam died."""
    return [Answer(a[0].text, -a[0].score, True) if a else Answer("", math.inf, False) for a in found]
