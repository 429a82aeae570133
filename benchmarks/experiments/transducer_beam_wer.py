"""Word error rates of the beam search of transducers with phrases and language models, on the CPU.

The networks are those of `transducer_beam` that were trained with the sum over all paths. `models` says what a search
fuses: `tree`, the rare words of each utterance and 1,000 others as in `transducer_boosting`, with NeMo's
`depth_scaling` and with 1; `LM`, a 6-gram of pieces of a third of the books, and `larger LM`, one of all of them, with
the factors of the former (`benchmarks.data.pieces_lm`); `ILM` and `LODR`, the internal language model and a 2-gram of
what the network was trained on, which are subtracted. Their factors and `length_power` are tuned, in this run, on
sentences of the books that are in no set, in no model and in no text that a network was trained on, spoken by
recordings of `throughput` (`benchmarks.tasks.held_out_speech`): the rows of `held out`. Then they are fixed for all
sets. Factors that subtract more than the 6-gram adds are not chosen, because speech of another kind then fares far
worse; those that the guide recommends are measured, too. `test-other-100` and `ljspeech-200` are read books; `an4-test`
has spelled letters and digits, for which neither the networks nor the 6-gram are made.

`greedy` has the same tree, or the same 6-gram with a factor of its own; it subtracts nothing. The interval (95 %,
paired bootstrap) is that of the difference from it. Lists have ten texts at most, eight where `max_hypotheses` is 8. A
search error is as in `transducer_beam`; only searches without models are compared. NeMo's are its batched beam
searches, `malsd_batch` and, for an RNN-T, `maes_batch`, with its ranking by score / (labels + 1) where it has a model
and by the score alone where not, and with its defaults for the blank and for pruning.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam import BoostingTree
from arcbeam.transducer.ngram_lm import token_automaton
from arcbeam.transducer.token_automaton import TokenAutomaton
from benchmarks import adapters
from benchmarks.data import datasets, pieces_lm
from benchmarks.experiments import transducer_beam, transducer_boosting
from benchmarks.experiments.transducer_wer import MODELS, weights
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting, oracle, paired_bootstrap
from data.word_errors import word_errors

if TYPE_CHECKING:
    from data.spoken_text import Alphabet

ORDER = 50
TITLE = "Beam search of small transducers with phrases and language models"
SETS = ("test-other-100", "ljspeech-200", "an4-test")
HELD_OUT = "held out"
BEAM, WIDE, WIDEST = (4.0, 8), (8.0, 16), transducer_beam.WIDEST
LISTED = transducer_beam.LISTED
OTHERS = 1_000
TREES = (1.0, 2.0)
DEPTHS = (2.0, 1.0)
LM_FACTORS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
ILM_FACTORS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
LODR_FACTORS = (-0.1, -0.2, -0.3, -0.4, -0.5)
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
NEMO_BEAMS = (8, 16)  # with a model, and of maes_batch, the first alone: others take minutes
TAKES: dict[str, str] = {"models": "RNN-T, TDT or both with a comma between; default: both"}
COLUMNS = [
    Column("set", "set"),
    Column("model", "model"),
    Column("search", "search"),
    Column("models", "fused"),
    Column("beam", "beam", "{:g}"),
    Column("max_hypotheses", "most"),
    Column("boosting_tree_alpha", "tree", "{:g}"),
    Column("depth_scaling", "depth", "{:g}"),
    Column("ngram_lm_alpha", "lm", "{:g}"),
    Column("ilm_scale", "ilm", "{:g}"),
    Column("lodr_scale", "lodr", "{:g}"),
    Column("length_power", "power", "{:g}"),
    Column("words", "words", "{:,}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("above greedy, points", "above", "{:+.2f}"),
    Column("95 % of it", "interval", "{:+.2f}"),
    Column("oracle of 10, %", "oracle", "{:.2f}"),
    Column("search errors", "errors"),
    Column("gap, nats", "gap", "{:.4f}"),
    Column("status", "status"),
]


@dataclass(frozen=True)
class Factors:
    """Of the models that a search fuses, and the power with which it ranks; `depth` is a tree's `depth_scaling`."""

    tree: float = 0.0
    depth: float = 0.0
    lm: float = 0.0
    ilm: float = 0.0
    lodr: float = 0.0
    power: float = 0.0


PLAIN = {
    "LM + ILM": Factors(lm=0.3, ilm=0.15, power=0.5),
    "LM + LODR": Factors(lm=0.3, lodr=-0.3, power=0.5),
}  # the guide's, for any network


@cache
def automaton(arpa: Path, blank: int) -> TokenAutomaton:
    """What decoders make of a file, made once."""
    return token_automaton(arpa, None, blank + 1, blank)


@dataclass
class Speech:
    """A set for one network: references, encoder output, and by `depth_scaling` a tree for each utterance."""

    task: transducer_beam.Task
    references: list[str]
    trees: Mapping[float, Sequence[BoostingTree]]
    alphabet: "Alphabet"
    models: pieces_lm.Models
    known: dict[tuple[Any, ...], list[list[list[int]]]] = field(default_factory=dict)

    def tokens(self, factors: Factors, beam: tuple[float, int] | None, nbest: int = 1) -> list[list[list[int]]]:
        """The lists of each utterance; greedy search without a beam."""
        key = factors, beam, nbest
        if key not in self.known:
            options: dict[str, Any] = {}
            if factors.lm:
                options |= {
                    "ngram_lm_model": automaton(self.models.large, self.task.blank),
                    "ngram_lm_alpha": factors.lm,
                }
            if factors.lodr:
                options |= {"lodr_model": automaton(self.models.low_order, self.task.blank), "lodr_scale": factors.lodr}
            if factors.ilm:
                options["ilm_scale"] = factors.ilm
            if beam:
                options |= {"beam": beam[0], "max_hypotheses": beam[1], "length_power": factors.power}
            decoder = self.task.decoder(boosting_tree_alpha=factors.tree, **options)
            boost = self.trees[factors.depth] if factors.tree else None
            if beam:
                found = decoder.decode(self.task.encoded, boost=boost, nbest=min(nbest, beam[1]))
                self.known[key] = [[one.tokens.tolist() for one in h.nbest] for h in found]
            else:
                self.known[key] = [[h.tokens.tolist()] for h in decoder.decode(self.task.encoded, boost=boost)]
        return self.known[key]

    def errors(self, lists: Sequence[Sequence[Sequence[int]]]) -> list[int]:
        """Word errors of the first text of each list."""
        texts = [self.alphabet.text(texts[0]) if texts else "" for texts in lists]
        return [word_errors(r.split(), text.split()) for r, text in zip(self.references, texts, strict=True)]

    def log_probs(self, lists: Sequence[Sequence[Sequence[int]]]) -> npt.NDArray[np.float64]:
        """The exact one of the first text of each list."""
        return np.array([self.task.log_prob(at, texts[0] if texts else []) for at, texts in enumerate(lists)])

    def words(self) -> list[int]:
        return [len(reference.split()) for reference in self.references]

    def row(self, lists: Sequence[Sequence[Sequence[int]]], greedy: Factors) -> Row:
        """Word error rate, what it is above that of greedy search, and the oracle of the lists."""
        errors, base, words = self.errors(lists), self.errors(self.tokens(greedy, None)), self.words()
        said = [[self.alphabet.text(tokens) for tokens in texts[:LISTED]] or [""] for texts in lists]
        above = 100 * (sum(errors) - sum(base)) / sum(words)
        return {
            "words": sum(words), "wer": 100 * sum(errors) / sum(words), "above": above,
            "interval": paired_bootstrap.difference(errors, base, words),
            "oracle": oracle.oracle([r.split() for r in self.references], said, LISTED),
        }  # fmt: skip


def shown(fused: str, factors: Factors, beam: tuple[float, int] | None) -> Row:
    """The part of a row that says what was searched with."""
    used = {name: value for name, value in vars(factors).items() if value or (name == "power" and beam)}
    return {"search": "arcbeam" if beam else "greedy", "fused": fused, **used} | (
        {"beam": beam[0], "most": beam[1]} if beam else {}
    )


def tune(speech: Speech, context: Context) -> Iterator[tuple[str, Factors, tuple[float, int] | None, float]]:
    """What is tuned, with its word error rate: all factors of a kind, at the best power that its LM has."""

    def measured(fused: str, factors: Factors, beam: Any = BEAM) -> tuple[str, Factors, Any, float]:
        context.step(f"{fused}: {factors}")
        return fused, factors, beam, 100 * sum(speech.errors(speech.tokens(factors, beam))) / sum(speech.words())

    yield from (measured("greedy LM", Factors(lm=lm), None) for lm in (0.0, *LM_FACTORS))
    alone = [measured("LM", Factors(lm=lm, power=power)) for lm in (0.0, *LM_FACTORS) for power in POWERS]
    yield from alone
    power = best(alone).power
    for fused, name, values in (("LM + ILM", "ilm", ILM_FACTORS), ("LM + LODR", "lodr", LODR_FACTORS)):
        both = [
            measured(fused, replace(Factors(lm=lm, power=power), **{name: value}))
            for lm, value in itertools.product(LM_FACTORS, values)
        ]
        yield from both
        chosen = best(both)
        yield from (measured(fused, replace(chosen, power=other)) for other in POWERS if other != power)


def best(measured: Sequence[tuple[str, Factors, Any, float]]) -> Factors:
    """The factors with the fewest errors, of those that subtract no more than the 6-gram adds; of equals the first."""
    kept = [one for one in measured if one[1].ilm - one[1].lodr <= one[1].lm]
    return min(kept, key=lambda one: one[3])[1]


def searches(speech: Speech, tuned: dict[str, Factors], context: Context) -> Iterator[Row]:
    """The rows of a set."""
    plain: list[tuple[Row, list[list[list[int]]]]] = []
    for beam in (None, BEAM, WIDE, WIDEST):
        context.step(f"beam {beam}")
        plain.append((shown("", Factors(), beam), speech.tokens(Factors(), beam, LISTED)))
    plain += nemo(speech, "", Factors(), context)
    scores = [speech.log_probs(lists) if lists else None for _, lists in plain]
    highest = np.max([one for one in scores if one is not None], axis=0)
    for (row, lists), one in zip(plain, scores, strict=True):
        if one is None:
            yield row
        else:
            gaps = highest - one
            yield row | speech.row(lists, Factors()) | {
                "errors": int((gaps > transducer_beam.NEAR).sum()), "gap": float(gaps.mean()),
            }  # fmt: skip
    lm, greedy_lm = tuned["LM"], tuned["greedy LM"].lm
    trees = [Factors(tree=alpha, depth=depth) for depth in DEPTHS for alpha in TREES]
    kinds = [(f"tree, {OTHERS:,} others", one, one) for one in trees]
    kinds += [(fused, tuned[fused], Factors(lm=greedy_lm)) for fused in ("LM", "LM + ILM", "LM + LODR")]
    kinds += [(fused, factors, Factors(lm=greedy_lm)) for fused, factors in PLAIN.items() if factors != tuned[fused]]
    kinds += [("tree and LM", replace(one, lm=lm.lm, power=lm.power), replace(one, lm=greedy_lm)) for one in trees]
    for fused, factors, greedy in kinds:
        context.step(f"{fused}: {factors}")
        if not (factors.ilm or factors.lodr):
            yield shown(fused, greedy, None) | speech.row(speech.tokens(greedy, None), greedy)
        for beam in (BEAM, WIDE):
            yield shown(fused, factors, beam) | speech.row(speech.tokens(factors, beam, LISTED), greedy)
    larger = replace(speech, models=replace(speech.models, large=speech.models.whole), known={})
    greedy = Factors(lm=greedy_lm)
    yield shown("larger LM", greedy, None) | larger.row(larger.tokens(greedy, None), greedy)
    for fused in ("LM", "LM + ILM", "LM + LODR"):
        lists = larger.tokens(tuned[fused], WIDE, LISTED)
        yield shown(f"larger {fused}", tuned[fused], WIDE) | larger.row(lists, greedy)
    for row, lists in nemo(speech, "LM", Factors(lm=lm.lm, power=1.0), context):
        yield row | (speech.row(lists, Factors(lm=greedy_lm)) if lists else {})


def nemo(
    speech: Speech, fused: str, factors: Factors, context: Context
) -> list[tuple[Row, list[list[list[int]]]]]:  # fmt: skip
    """NeMo's searches; an empty list where NeMo is missing."""
    task, found = speech.task, []
    try:
        from benchmarks.adapters import nemo_malsd, nemo_sources

        nemo_sources.find()
        model = nemo_malsd.ngram_model(speech.models.large, task.blank) if factors.lm else None
    except (ImportError, OSError) as error:
        row = {"search": "NeMo", "fused": fused, "status": f"NeMo missing: {adapters.why(error)}"}
        return [(row, [])]
    least, most_of_all = NEMO_BEAMS
    every = [("malsd_batch", least)]
    if not fused:
        every += [("malsd_batch", most_of_all), *([] if task.durations else [("maes_batch", least)])]
    for kind, most in every:
        context.step(f"NeMo {kind} {most} {fused}")
        made = nemo_malsd.NemoMaes if kind == "maes_batch" else nemo_malsd.NemoMalsd
        peer = made(task.arrays, task.blank, task.durations, most, ngram_lm=model, ngram_lm_alpha=factors.lm)
        lists = peer.texts(task.encoded, transducer_beam.NEMO_BATCH, normalized=bool(factors.power))
        row = {"search": f"NeMo {kind}", "fused": fused, "most": most, "power": factors.power}
        found.append((row | ({"lm": factors.lm} if factors.lm else {}), lists))
    return found


class Network:
    """What the sum over all paths has trained, for any set."""

    def __init__(self, model: str, alphabet: "Alphabet", models: pieces_lm.Models) -> None:
        from benchmarks.tasks.exact_transducer import ExactTransducer
        from data import speech_transducer

        arrays = weights(f"{MODELS[model]}-full-sum")
        self.light, self.arrays = speech_transducer.load_light(arrays), speech_transducer.decoder_arrays(arrays)
        self.encode = speech_transducer.encode
        self.durations = speech_transducer.DURATIONS if model == "TDT" else None
        self.exact = ExactTransducer(self.arrays, alphabet.blank, self.durations)
        self.alphabet, self.models = alphabet, models

    def speech(
        self, references: list[str], log_probs: Sequence[npt.NDArray[np.floating]],
        trees: Mapping[float, Sequence[BoostingTree]],
    ) -> Speech:  # fmt: skip
        encoded = self.encode(self.light, log_probs)
        task = transducer_beam.Task(self.arrays, self.alphabet.blank, self.durations, encoded, self.exact)
        return Speech(task, references, trees, self.alphabet, self.models)


def run(context: Context) -> Iterator[Row]:
    from benchmarks.tasks import held_out_speech
    from data import train_transducer

    trained = datasets.CACHE / "transducer" / "pieces.model"
    pieces = trained if trained.exists() else datasets.data_folder() / "tokenizers" / "librispeech_bpe_256.model"
    alphabet = train_transducer.alphabet_of(datasets.data_folder(), pieces)
    models = pieces_lm.get(pieces)
    rare = boosting.RareWords(transducer_boosting.vocabulary())
    held_out = models.held_out[: context.utterances]
    log_probs = held_out_speech.spoken(held_out, alphabet)
    for model in context.options.get("models", ",".join(MODELS)).split(","):
        network = Network(model, alphabet, models)
        context.progress(f"{model}, {HELD_OUT}")
        tried: dict[str, list[Any]] = {}
        for one in tune(network.speech(held_out, log_probs, {}), context):
            tried.setdefault(one[0], []).append(one)
            yield {"set": HELD_OUT, "model": model, **shown(*one[:3]), "wer": one[3]}
        tuned = {fused: best(each) for fused, each in tried.items()}
        for name in SETS:
            context.progress(f"{model}, {name}: {tuned}")
            dataset = datasets.load(name).first(context.utterances)
            listed = transducer_boosting.lists(rare, dataset.references, 1, (), OTHERS)
            trees = {
                depth: [BoostingTree(phrases, str(pieces), depth_scaling=depth) for phrases in listed]
                for depth in DEPTHS
            }
            for row in searches(network.speech(dataset.references, dataset.utterances, trees), tuned, context):
                yield {"set": name, "model": model, **row}
