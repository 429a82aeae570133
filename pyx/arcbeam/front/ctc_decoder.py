"""`arcbeam.ctc_decoder`: a decoder from the files that a model and a language model come as."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_bool
from arcbeam.ctc.decoder import CtcDecoder
from arcbeam.ctc.options import DecoderKeywords, DecoderOptions
from arcbeam.front.graphs import Parts, graph_of
from arcbeam.lm.kenlm import KenLM
from arcbeam.tokens.formats import read_tokens
from arcbeam.tokens.model_tokens import table_of

if TYPE_CHECKING:
    from arcbeam.ctc.rescoring import LargeModel
    from arcbeam.graph.inputs import StrPath
    from arcbeam.lm.language_model import LanguageModel
    from arcbeam.recipe.lexicon import Lexicon


WIDTH = "is an option of other decoders: beam= is a difference of costs, and max_active= limits the tokens of a frame"
WEIGHT = "is an option of other decoders: acoustic_scale= weighs the log-probs against the language model"
PENALTY = "is an option of other decoders: Graph.build(..., word_insertion_penalty=...) has minus this"


class CtcDecoderKeywords(DecoderKeywords, total=False):
    """Keywords of `ctc_decoder`, for checks of types and for editors."""

    lexicon: StrPath | Lexicon | None
    words: StrPath | Iterable[str] | None
    word_delimiter: str | None
    topology: str | None
    cache: bool
    language_model: LargeModel | StrPath | None


@lists_options(
    DecoderOptions, beam_width=WIDTH, beam_size=WIDTH, alpha=WEIGHT, lm_weight=WEIGHT, beta=PENALTY, word_score=PENALTY
)
def ctc_decoder(
    tokens: Any,
    lm: StrPath | LanguageModel | KenLM | None = None,
    *,
    lexicon: StrPath | Lexicon | None = None,
    words: StrPath | Iterable[str] | None = None,
    blank: str | int | None = None,
    word_delimiter: str | None = None,
    topology: str | None = None,
    cache: bool = True,
    language_model: LargeModel | StrPath | None = None,
    **options: Unpack[DecoderKeywords],
) -> CtcDecoder:
    """Makes a decoder from the tokens of a model and an ARPA language model.

    The graph is built once and kept in the user's cache folder (``ARCBEAM_CACHE`` names another) by the content of its
    inputs; the next call with the same content loads it. On a terminal, a build that takes more than two seconds shows
    its progress. A graph with other options comes from `Graph.build`.

    Parameters
    ----------
    tokens
        The columns of the model's log-probs, in order: a list of labels; a text file with a token a line (icefall,
        sherpa-onnx, onnx-asr, torchaudio); ``vocab.json`` or ``tokenizer.json`` of Hugging Face, or one of its
        tokenizers or processors; a SentencePiece ``.model``; a ``.nemo`` archive or a model object of NeMo;
        ``alphabet.json`` of pyctcdecode; or a `TokenTable`.
    lm : path, LanguageModel, KenLM, optional
        An ARPA over words: plain, .gz, .xz or .bz2; or a model that was made from one. Without it all words are equally
        likely, and without `lexicon` and `words`, too, the decoder writes the best label of each frame.
    lexicon : path or Lexicon, optional
        Lines ``word token token ...``. By default the words are spelled in characters or cut into pieces, as the tokens
        are.
    words : path or iterable of str, optional
        The words that may be written, one a line. By default those of `lm`.
    blank : str or int, optional
        The blank's token or column; the number of the tokens for the column after the last of them. By default what the
        format says, or the usual name that is among the tokens.
    word_delimiter : str, optional
        The token between words, or the mark that begins a word's first piece. By default the usual one that is there.
    topology : str, optional
        That of the graph, as of `Graph.build`. By default ``"normal"`` if words of one token may follow each other
        with no token between and there are at most 1,100 tokens, else ``"compact"``. Without `lm`, `lexicon` and
        `words` as of `Graph.greedy`: ``"normal"`` for up to 300 tokens, else ``"greedy"``.
    cache : bool
        Whether to keep the graph, and to load one that was kept.
    language_model : LanguageModel, KenLM or path, optional
        A large language model whose scores replace those of `lm` during the search, as for `CtcDecoder`.
    **options
        Those of :class:`arcbeam.DecoderOptions`, by keyword. ``frame_shift`` is by default the model's, where `tokens`
        say it.

    Returns
    -------
    CtcDecoder
        Its ``graph`` is the graph that was built or loaded.

    Raises
    ------
    TypeError, ValueError
        It is not known which token is the blank, or several tokens may stand between words; no word of the language
        model can be spelled; `lm` is not an ARPA; or an option does not fit. The message names the option that settles
        it.
    FormatError
        A file breaks its format; the message names the line.
    MissingDependencyError
        A package is missing that builds graphs or reads the tokens.
    OSError
        A file cannot be read.

    Warns
    -----
    UserWarning
        The blank, or how words are cut into pieces, had to be guessed; words of `lm` cannot be spelled; or the graph
        could not be kept.

    Examples
    --------
    >>> decoder = arcbeam.ctc_decoder("tokens.txt", lm="3gram.arpa.gz")
    >>> print(decoder.decode(log_probs))
    """
    check_bool("cache", cache)
    model = read_tokens(tokens, blank)
    graph = graph_of(Parts(model, table_of(model, blank), lm, lexicon, words, word_delimiter, topology), cache)
    if options.get("frame_shift") is None:
        options["frame_shift"] = model.frame_shift
    if language_model is None:
        return CtcDecoder(graph, **options)
    if lm is None:
        raise ValueError("language_model: expected lm, too, the ARPA of the graph, whose scores it takes the place of")
    small = lm.path if isinstance(lm, KenLM) else lm  # whose scores are read from its ARPA
    return CtcDecoder(graph, language_model=language_model, graph_language_model=small, **options)
