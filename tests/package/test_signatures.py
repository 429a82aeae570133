"""Every option of the public face is spelled out: in the signature, with the options' own defaults, and in the docs."""

import dataclasses
import inspect
import re

import pytest

import arcbeam
from arcbeam import adapters, baseline, transducer
from arcbeam.adapters.hugging_face import TransformersDecoder
from arcbeam.adapters.onnx_model import OnnxCtcModel
from arcbeam.compat.flashlight.options import LexiconDecoderOptions
from arcbeam.ctc.batches import DecodeKeywords, OutputKeywords
from arcbeam.ctc.options import DecoderKeywords
from arcbeam.front.ctc_decoder import CtcDecoderKeywords
from arcbeam.graph.build_options import BuildKeywords, BuildOptions
from arcbeam.graph.inputs import Wording, WordingKeywords
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.transducer.options import TransducerKeywords

Graph, LanguageModel, TransducerDecoder = arcbeam.Graph, arcbeam.LanguageModel, arcbeam.TransducerDecoder

PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (arcbeam, adapters, baseline, transducer)
    for name in module.__all__
} | {"arcbeam.recipe.lexicon.Lexicon": Lexicon}

OF_AUDIO = {
    "model", "lm", "processor", "toolkit", "model_type", "quantization", "preprocessor", "transducer", "blank",
    "window_seconds", "overlap_seconds", "batch_size", "endpoint", "confidence",
}  # fmt: skip
# What takes the options of a dataclass, and those for which it has a default of its own.
OF_MODEL = {"blank_id", "max_symbols", "frame_shift"}
SPELLED_OUT = [
    (arcbeam.CtcDecoder, arcbeam.DecoderOptions, set()),
    (baseline.LexiconDecoder, baseline.LexiconOptions, set()),
    (baseline.LexiconFreeDecoder, baseline.LexiconFreeOptions, set()),
    (TransducerDecoder, arcbeam.TransducerOptions, set()),
    (TransducerDecoder.from_arrays, arcbeam.TransducerOptions, OF_MODEL),
    (TransducerDecoder.from_nemo, arcbeam.TransducerOptions, OF_MODEL),
    (TransducerDecoder.from_icefall, arcbeam.TransducerOptions, {"blank_id", "max_symbols"}),
    (Graph, Wording, set()),
    (Graph.from_arcs, Wording, set()),
    (Graph.from_fst, Wording, set()),
    (Graph.load, Wording, set()),
    (Graph.build, BuildOptions, set()),
    (arcbeam.ctc_decoder, arcbeam.DecoderOptions, set()),
    (arcbeam.from_nemo, arcbeam.DecoderOptions, set()),
    (arcbeam.from_transformers, arcbeam.DecoderOptions, set()),
    (arcbeam.Transcriber, arcbeam.DecoderOptions, set()),
]
# What names its options in an error although none of them is by keyword alone.
NAME_OPTIONS = [
    arcbeam.ConfidenceMethod,
    arcbeam.KaldiLattice,
    arcbeam.KaldiLattice.best_path,
    arcbeam.KaldiLattice.determinize,
    arcbeam.KaldiLattice.nbest,
    arcbeam.KaldiLattice.to_openfst,
    arcbeam.Lattice.nbest,
    arcbeam.Lattice.oracle_wer,
    arcbeam.Lattice.plot,
    arcbeam.Lattice.prune,
    arcbeam.Lattice.to_dot,
    arcbeam.Lattice.to_kaldi,
    arcbeam.Lattice.to_openfst,
    arcbeam.Lattice.write,
    arcbeam.SymbolTable,
    arcbeam.SymbolTable.from_ids,
    arcbeam.SymbolTable.from_list,
    arcbeam.SymbolTable.read,
    arcbeam.TokenTable,
    arcbeam.TokenTable.from_list,
    arcbeam.TokenTable.read,
    arcbeam.read_lattices,
    LanguageModel,
    Lexicon,
    baseline.LexiconDecoder.decode,
]


def callables():
    """Public functions, classes and methods, by name."""
    for name, value in PUBLIC.items():
        yield name, value
        for method in members(value) if inspect.isclass(value) else ():
            if not method.startswith("_") and callable(getattr(value, method)):
                yield f"{name}.{method}", getattr(value, method)


def members(kind):
    """The names in a class and in its bases, as far as they are arcbeam's."""
    return sorted({name for base in kind.__mro__ if base.__module__.startswith("arcbeam") for name in vars(base)})


def parameters(function):
    return {n: p for n, p in inspect.signature(function).parameters.items() if n != "self"}


def name_of(function):
    return getattr(function, "__qualname__", str(function))


@pytest.mark.parametrize(("name", "function"), [pytest.param(*pair, id=pair[0]) for pair in callables()])
def test_nothing_is_hidden(name, function):
    if inspect.isclass(function) and issubclass(function, Exception):
        return
    for parameter in parameters(function).values():
        assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL), parameter
        assert parameter.annotation is not parameter.empty, f"{parameter}: expected a type"


@pytest.mark.parametrize(
    ("function", "options", "own"), [pytest.param(*entry, id=name_of(entry[0])) for entry in SPELLED_OUT]
)
def test_options_are_those_of_the_dataclass(function, options, own):
    known = parameters(function)
    for field in dataclasses.fields(options):
        assert field.name in known
        if field.name in own:
            continue
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        assert known[field.name].default == default, field.name
        if field.name != "durations":  # a sequence in, a tuple out
            assert known[field.name].annotation == field.type, field.name


@pytest.mark.parametrize(
    ("keywords", "options", "own"),
    [
        (BuildKeywords, BuildOptions, {"topology"}),
        (WordingKeywords, Wording, set()),
        (DecoderKeywords, arcbeam.DecoderOptions, set()),
        (TransducerKeywords, arcbeam.TransducerOptions, {"blank_id", "durations", "max_symbols", "frame_shift"}),
    ],
)
def test_what_editors_know_of_options_is_the_dataclass(keywords, options, own):
    known = {name: getattr(kind, "__forward_arg__", kind) for name, kind in keywords.__annotations__.items()}
    assert known == {f.name: f.type for f in dataclasses.fields(options) if f.name not in own}


@pytest.mark.parametrize(
    ("keywords", "function", "own"),
    [
        (DecodeKeywords, arcbeam.CtcDecoder.decode, {"log_probs", "lengths"}),
        (OutputKeywords, TransformersDecoder.decode, {"logits", "attention_mask", "cuda_stream"}),
        (OutputKeywords, OnnxCtcModel.transcribe, {"audio", "sample_rate", "channel", "batch_size"}),
        (CtcDecoderKeywords, arcbeam.ctc_decoder, {"tokens", "lm", "blank"}),
        (CtcDecoderKeywords, arcbeam.from_nemo, {"model", "lm", "decoder_type", "transducer"}),
        (CtcDecoderKeywords, arcbeam.from_transformers, {"model", "processor", "lm", "blank", "transducer"}),
        (CtcDecoderKeywords, arcbeam.Transcriber, OF_AUDIO),
    ],
)
def test_what_editors_know_of_options_is_the_signature(keywords, function, own):
    known = {name: getattr(kind, "__forward_arg__", kind) for name, kind in keywords.__annotations__.items()}
    assert known == {name: one.annotation for name, one in parameters(function).items() if name not in own}
    first = arcbeam.CtcDecoder.decode if keywords in (DecodeKeywords, OutputKeywords) else arcbeam.ctc_decoder
    for name in known:
        assert parameters(function)[name].default == parameters(first)[name].default, name


@pytest.mark.parametrize(
    "kind",
    [
        TransformersDecoder.decode,
        OnnxCtcModel.transcribe,
        arcbeam.from_nemo,
        arcbeam.from_onnx,
        arcbeam.from_transformers,
        arcbeam.Transcriber,
        LexiconDecoderOptions,
        arcbeam.CtcDecoder,
        TransducerDecoder,
        TransducerDecoder.from_arrays,
        TransducerDecoder.from_nemo,
        TransducerDecoder.from_icefall,
        baseline.LexiconDecoder,
        Graph.build,
    ],
    ids=name_of,
)
def test_options_are_explained_once(kind):
    """By the docstring itself, or by that of the options' dataclass."""
    text = inspect.getdoc(kind)
    explained = [n for names in re.findall(r"^([\w, ]+)(?: : |$)", text, re.M) for n in names.split(", ")]
    assert {name: explained.count(name) for name in parameters(kind)} == dict.fromkeys(parameters(kind), 1)


def with_keywords():
    """Public functions and classes that take something by keyword alone."""
    for _, function in callables():
        is_record = inspect.isclass(function) and issubclass(function, (Exception, tuple, list))
        if not is_record and any(p.kind is p.KEYWORD_ONLY for p in parameters(function).values()):
            yield function


@pytest.mark.parametrize("function", [*dict.fromkeys(with_keywords()), *NAME_OPTIONS], ids=name_of)
def test_an_unknown_option_is_told_the_known_ones(function):
    known = ", ".join(parameters(function))
    expected = f"one of {re.escape(known)}" if known else "none"
    with pytest.raises(TypeError, match=f"^unknown option zebra: expected {expected}$"):
        function(zebra=3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: arcbeam.CtcDecoder(), r"^graph: expected CtcDecoder\(graph, \.\.\.\), got no graph$"),
        (
            lambda: arcbeam.CtcDecoder.decode(None),
            r"^log_probs: expected decode\(log_probs, \.\.\.\), got no log_probs$",
        ),
        (
            lambda: arcbeam.Batcher.submit(None, object(), last=True),
            r"^chunk: expected submit\(stream, chunk, \.\.\.\), got no chunk; chunk is an array .*, or None ",
        ),
        (lambda: Graph(), r"^columns: expected Graph\(columns, .*\), got no columns and no "),
        (lambda: Graph.from_arcs([]), r"^finals: expected from_arcs\(arcs, finals=\.\.\., \.\.\.\), got no finals$"),
        (lambda: arcbeam.Lattice.nbest(None), r"^n: expected nbest\(n\), got no n$"),
        (lambda: arcbeam.Batcher.submit(None), r"got no stream and no chunk; chunk is"),
        (
            lambda: arcbeam.CtcDecoder.stream(None, object()),
            r"^stream\(\.\.\.\): expected at most 0 arguments without a name, got 1; .* names: boost=, endpoint=, ",
        ),
        (
            lambda: arcbeam.TokenTable.from_list(["a"], 0, 3),
            r"^from_list\(tokens, blank\): expected at most 2 arguments without a name, got 3$",
        ),
        (
            lambda: arcbeam.Stream.finish(None, []),
            r"^finish\(\): expected at most 0 arguments without a name, got 1; finish takes no chunk: decode_chunk\(",
        ),
        (
            lambda: arcbeam.CtcDecoder.decode(None, [], log_probs=[]),
            r"^log_probs: expected it once, got it by place and",
        ),
        (
            lambda: TransformersDecoder.decode(None, [], logits=True),
            r"^logits: expected it once, got it by place and by name; leave out logits=$",
        ),
        (
            lambda: arcbeam.DecoderOptions(3),
            r"^DecoderOptions\(\.\.\.\): expected at most 0 .* names: beam=, max_active=, ",
        ),
    ],
)
def test_missing_arguments_and_those_without_a_name(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: arcbeam.ctc_decoder([], beam_width=5), r"; beam_width is .* beam= .* and max_active= "),
        (lambda: arcbeam.ctc_decoder([], alpha=0.5, beta=1.0), r"; alpha is .* acoustic_scale= .*; beta is .*_penalty"),
        (
            lambda: TransducerDecoder.from_arrays({}, beam_size=5),
            r"; beam_size is here max_hypotheses, with a beam in nats",
        ),
        (lambda: TransducerDecoder.from_icefall({}, lm="x"), r"; lm is here ngram_lm_model"),
        (lambda: arcbeam.Stream.decode_chunk(None, [], logits=True), r"; logits is an option of decoder\.stream\(\)$"),
        (
            lambda: arcbeam.CtcDecoder.decode_chunks(None, [], [], logits=True),
            r"; logits is an option of decoder\.stream\(\)$",
        ),
        (lambda: arcbeam.Stream.finish(None, lengths=[3]), r"lengths: expected none$"),
    ],
)
def test_options_of_other_decoders_are_answered_by_those_of_this_one(call, message):
    with pytest.raises(TypeError, match=rf"^unknown option .*{message}"):
        call()


@pytest.mark.parametrize("given", [None, 3, ["graph.arcbeam"], object()])
@pytest.mark.parametrize(("function", "name"), [(Graph.load, "path"), (arcbeam.from_onnx, "folder")])
def test_what_is_no_path(function, name, given):
    with pytest.raises(TypeError, match=rf"^{name}: expected the path of a .*, got {type(given).__name__}$"):
        function(given)


def test_kaldi_s_least_number_of_tokens_is_answered_by_the_beam():
    with pytest.raises(TypeError, match=r"^unknown option min_active: .*; min_active is .*: use a wider beam \(docs/"):
        arcbeam.CtcDecoder(None, min_active=200)


@pytest.mark.parametrize(
    ("name", "module"),
    [(name, "transducer") for name in transducer.__all__ if name not in arcbeam.__all__]
    + [("Word", "words"), ("WordScore", "lm.language_model")],
)
def test_names_too_general_for_the_top_are_in_their_modules(name, module):
    assert name not in arcbeam.__all__
    with pytest.raises(AttributeError, match=f"no attribute '{name}': from arcbeam.{module} import {name}$"):
        getattr(arcbeam, name)
    namespace = {}
    exec(f"from arcbeam.{module} import {name}", namespace)
    assert namespace[name].__name__ == name


def test_a_name_that_is_nowhere():
    with pytest.raises(AttributeError, match=r"module 'arcbeam' has no attribute 'Zebra'$"):
        arcbeam.Zebra  # noqa: B018
