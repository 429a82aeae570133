"""Options of `Graph.build`, which `arcbeam.recipe` checks."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from arcbeam.recipe.progress import Progress


class BuildKeywords(TypedDict, total=False):
    """The keywords of `BuildOptions`, for checks of types and for editors."""

    token_self_loops: bool
    lm_scale: float
    word_insertion_penalty: float
    epsilon_free: bool
    epsilon_free_limit: float
    separator: str | None
    separator_rule: str
    words_by_last_token: bool
    blank: str | int | None
    probabilities: bool | None
    token_encoding: str
    progress: "Progress | bool | None"
    openfst: str | os.PathLike[str] | None
    max_bytes: int | str | None
    open_slot: bool
    open_slot_score: float | None


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Options of :meth:`arcbeam.Graph.build`.

    Parameters
    ----------
    topology : str
        "compact", "normal", "eesen" or "identity"; see ``docs/guide/graphs.md``.
    token_self_loops : bool
        Whether a token may last more than one frame. ``identity`` never lets it.
    lm_scale : float
        Factor of the language model's log probabilities.
    word_insertion_penalty : float
        Added to the cost of each word (of each token if `lexicon` is None), natural log: above 0 means fewer words.
    epsilon_free : bool
        Remove the arcs that read no frame, as Fukunaga et al. 2019 do in their section 2.4. Every history then has
        the arcs of all that it backs off to.
    epsilon_free_limit : float
        The most arcs that this may make, as a multiple of those before; ValueError if there would be more.
    separator : str, optional
        The token between words, or the mark that begins a word's first piece. "auto": the lexicon's separator, or
        without a lexicon the one among <space>, |, U+2581 ... that the tokens have.
    separator_rule : {"auto", "one", "many", "optional", "loop", "none"}
        How often the separator token stands between words: once, once or more, at most once, any number of times,
        or never. With the first two, sentences begin and end with or without it. "auto" is "one" if the lexicon has
        a separator token, else "none".
    words_by_last_token : bool
        Write each word on the arc of its last token or earlier, so that no epsilon arc writes a word. Without this
        option and with the rules "one" and "many", a word that begins another is written by the separator after it,
        or by an epsilon arc that ends the sentence: a larger graph, but one that decodes faster. With other rules
        the option is always on.
    blank : str or int, optional
        The blank's token or column; None: the usual name that is among the tokens.
    probabilities : bool, optional
        Whether a lexicon file has probabilities; see `Lexicon.from_file`.
    token_encoding : {"names", "nemo"}
        For ``lexicon=None``: the words of `lm` are the tokens by name, or NeMo's characters chr(column + 100).
    progress : callable or bool, optional
        Called with a `arcbeam.recipe.progress.BuildEvent` when a step begins and ends. True writes lines to stderr,
        None does so if that is a terminal, and False is silent.
    openfst : path, optional
        Also write the graph as an OpenFst vector file, and the tables of its labels: of ``TLG.fst`` as
        ``TLG.tokens.txt`` and ``TLG.words.txt``.
    max_bytes : int, str or None
        Bytes, or a size such as ``"20GiB"``, that the text of a packed `lm` or lexicon may have. None: 20 times the
        size of the file, but at least 32 MiB.
    open_slot : bool
        Leave a place for words that the graph lacks: those of a request's `Boost` are decoded there. A request
        without new words is decoded as by a graph without the slot.
    open_slot_score : float, optional
        The score of a new word: a natural log, scaled by `lm_scale`. By default that of the unigram ``<unk>`` of
        `lm`, but at least -6.
    """

    topology: str = "compact"
    token_self_loops: bool = True
    lm_scale: float = 1.0
    word_insertion_penalty: float = 0.0
    epsilon_free: bool = False
    epsilon_free_limit: float = 8.0
    separator: str | None = "auto"
    separator_rule: str = "auto"
    words_by_last_token: bool = False
    blank: str | int | None = None
    probabilities: bool | None = None
    token_encoding: str = "names"
    progress: "Progress | bool | None" = None
    openfst: str | os.PathLike[str] | None = None
    max_bytes: int | str | None = None
    open_slot: bool = False
    open_slot_score: float | None = None
