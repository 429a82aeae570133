"""What objects show: what they are, their sizes, where they decode, and the options that differ from the defaults."""

import pickle
import re

import numpy as np

from arcbeam import CtcDecoder, Graph, LanguageModel, SymbolTable, TokenTable, TransducerDecoder, baseline
from arcbeam.core.threads import usable_cores
from arcbeam.recipe.lexicon import Lexicon
from tests.baseline import small
from tests.decode import language_models
from tests.decode.test_rescoring_inputs import LARGE, SMALL, graph
from tests.graph import examples
from tests.transducer.networks import random_arrays


def test_graphs(tmp_path):
    one = examples.example()
    assert repr(one) == "<Graph of 4 states, 9 arcs, 4 columns, 5 words, blank in column 3>"
    bare = Graph.from_arcs([(0, 0, 1, 0, 0.0)], finals={0: 0.0})
    assert repr(bare) == "<Graph of 1 states, 1 arcs, 1 columns or more, blank not known>"
    one.save(tmp_path / "graph")
    path = str(tmp_path / "graph")
    assert repr(Graph.load(path)).endswith(f", blank in column 3, mapped from {path!r}>")
    assert repr(Graph.load(path, in_memory=True)) == repr(one)


def test_tables():
    assert repr(SymbolTable.from_list(map(str, range(1200)))) == "<SymbolTable of 1,200 symbols>"
    assert repr(SymbolTable.from_ids([1, 7], ["a", "b"])) == "<SymbolTable of 2 symbols, ids with gaps>"
    tokens = TokenTable.from_list(small.TOKENS)
    assert repr(tokens) == "<TokenTable of 5 tokens, blank '<blank>' in column 4>"
    assert repr(TokenTable.from_list("abc")) == "<TokenTable of 3 tokens, no blank>"
    lexicon = Lexicon.spell(["ab", "a", "x"], tokens)
    assert repr(lexicon) == (
        "<Lexicon of 2 words, 2 pronunciations, 1 words with a character that is no token skipped, separator '|'>"
    )


def test_language_models(tmp_path):
    model = language_models.language_model(["a"], {(): ({"a": 1.0, "</s>": 0.5}, 0.0)})
    assert repr(model) == "<LanguageModel of order 1, 1 words, 1 states, 2 arcs>"
    model.save(tmp_path / "lm")
    assert repr(LanguageModel.load(tmp_path / "lm")).endswith(f"2 arcs, mapped from {str(tmp_path / 'lm')!r}>")


def test_decoders():
    one = graph()
    assert repr(CtcDecoder(one, device="cpu")) == "<CtcDecoder of 3 states, 2 arcs on cpu>"
    changed = CtcDecoder(one, device="cpu", beam=12.0, max_active=None, threads=1)
    assert repr(changed) == "<CtcDecoder of 3 states, 2 arcs on cpu, beam=12.0, max_active=None, threads=1>"
    rescoring = CtcDecoder(one, device="cpu", language_model=LARGE, graph_language_model=SMALL, lm_scale=2.0)
    assert repr(rescoring) == f"<CtcDecoder of 3 states, 2 arcs on cpu, language_model={LARGE!r}, lm_scale=2.0>"


def test_transducers():
    threads = usable_cores()
    unsaid = TransducerDecoder.from_arrays(random_arrays(0), 3, device="cpu")
    assert unsaid.options.threads == threads and "threads" not in repr(unsaid)
    assert pickle.loads(pickle.dumps(unsaid)).__reduce__()[0].keywords["threads"] is None  # another machine's own
    decoder = TransducerDecoder.from_arrays(random_arrays(0), 3, device="cpu", threads=2)
    assert decoder.options.threads == 2
    assert re.fullmatch(
        r"<TransducerDecoder of an RNN-T with 13 tokens, [0-9]+ features on cpu, blank_id=3, threads=2>", repr(decoder)
    )
    tdt = TransducerDecoder.from_arrays(random_arrays(0, durations=2), 3, durations=[0, 1], device="cpu")
    assert re.fullmatch(r"<TransducerDecoder of a TDT with .* on cpu, blank_id=3, durations=\(0, 1\)>", repr(tdt))
    assert np.isfinite(tdt.nbytes)


def test_results_are_formatted_like_their_texts():
    one = CtcDecoder(examples.example(), device="cpu").decode(np.log(np.full((3, 4), 0.25, np.float32)))
    assert f"{one:>30}|{one}|{one:.2}" == f"{one!s:>30}|{one.text}|{one.text[:2]}" and one.text
    stream = CtcDecoder(examples.example(), device="cpu").stream()
    partial = stream.decode_chunk(np.log(np.full((3, 4), 0.25, np.float32)), last=True)
    assert f"{partial:_<30}" == f"{one.text:_<30}"
    frames = np.random.default_rng(0).standard_normal((9, len(random_arrays(0)["encoder_weight"][0])))
    decoder = TransducerDecoder.from_arrays(random_arrays(0), 3, device="cpu", tokenizer=[*"abcdefghijklm"])
    written, unsaid = decoder.decode(frames), TransducerDecoder.from_arrays(random_arrays(0), 3).decode(frames)
    assert written.text and f"{written:^99}" == f"{written.text:^99}"
    assert f"{decoder.stream().decode_chunk(frames, last=True):^99}" == f"{written.text:^99}"
    assert f"{unsaid:>99}" == f"{unsaid!r:>99}"
    found = baseline.LexiconDecoder(small.LEXICON, small.TOKENS).decode(np.zeros((4, 5), np.float32))
    assert f"{found:>20}" == f"{found.text:>20}" and f"{found.best:>20}" == f"{found.best.text:>20}"


def test_baseline():
    decoder = baseline.LexiconDecoder(small.LEXICON, small.TOKENS, nbest=3)
    assert repr(decoder) == "<LexiconDecoder of 4 words, 5 tokens, nbest=3>"
    assert repr(baseline.LexiconFreeDecoder(small.TOKENS)) == "<LexiconFreeDecoder of 5 tokens>"
