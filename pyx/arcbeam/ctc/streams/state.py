"""The saved state of a stream: what its arrays and facts are, and whether they fit a decoder (`arcbeam.streams.saved`).

A stream continues wherever a decoder has the same graph, models and options.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.ctc.boost.boost import Boost
from arcbeam.ctc.results import Outputs
from arcbeam.ctc.streams.saved_confidences import check_confidences, facts_of_method, method_of
from arcbeam.ctc.streams.saved_lattice import ENDED, GOES_ON, Dtypes, SavedEnd, checked_end
from arcbeam.ctc.streams.saved_log import checked_log
from arcbeam.ctc.streams.sentences import LmContext, SavedSearch, checked_dead_frames, checked_search
from arcbeam.files import section_file
from arcbeam.graph import graph_file
from arcbeam.lm.kenlm import KenLM
from arcbeam.streams.endpoints import Endpoint, as_facts
from arcbeam.streams.saved import (
    AGAIN,
    MOST_FRAMES,
    NAME,
    check_options,
    check_sections,
    endpoint_of,
    pack,
    unpack,
    waiting_of,
)

if TYPE_CHECKING:
    from arcbeam.core.confidence import ConfidenceMethod
    from arcbeam.ctc.boost._boost import BoostList
    from arcbeam.ctc.search import BeamSearch
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.new_words import NewWords

SEARCH: Dtypes = {
    "sources": np.dtype("<u4"),
    "arcs": np.dtype("<u4"),
    "states": np.dtype("<u4"),
    "costs": np.dtype("<f4"),
    "entries": np.dtype("<u4"),
}
KIND = section_file.Kind(
    name="the saved state of a CTC stream",
    magic=b"\x93ARCSTM\n",
    version=1,
    sections=SEARCH
    | GOES_ON
    | ENDED
    | {
        "settled": np.dtype("<u4"),
        "lm_context": np.dtype("<u4"),
        "waiting": np.dtype("<f4"),
        "confidences": np.dtype("<f4"),
        "about": np.dtype("u1"),
    },
    about={
        "frames": (int,),
        "alive": (bool,),
        "offset": (float,),
        "first_frame": (int,),
        "after_start": (bool,),
        "last_came": (bool,),
        "fired": (int,),
        "endpoint": (list, type(None)),
        "graph": (str,),
        "columns": (int,),
        "models": (list, type(None)),
        "options": (dict,),
        "boost": (dict, type(None)),
        "outputs": (dict, type(None)),
        "interim_answers": (bool,),
        "end": (dict, type(None)),
        "frame_confidence": (dict, type(None)),
        "logits": (bool,),
    },
    again=AGAIN,
)
OPTIONS = ("beam", "max_active", "acoustic_scale", "blank_penalty", "frame_shift")
LATTICE_OPTIONS = ("lattice_beam", "posterior_scale")
FRAME_OPTIONS = ("confidence_aggregation",)
RESCORING_OPTIONS = ("lm_scale", "hypotheses_per_state", "unknown_words")

_graphs: WeakKeyDictionary[Graph, str] = WeakKeyDictionary()
_lists: WeakKeyDictionary[BoostList, str] = WeakKeyDictionary()


class StreamState(NamedTuple):
    """What a stream is saved as."""

    settled: npt.NDArray[np.uint32]  # arcs that all paths begin with; with links none, unless the sentence has ended
    search: dict[str, Any]  # a `SavedSearch` without `dead_frames`, or with links GOES_ON or ENDED of `saved_lattice`
    first_frame: int  # frames of the sentences before
    lm_context: LmContext
    endpoint: Endpoint | None
    waiting: npt.NDArray[np.float32]  # [frames, columns]: log-probs, also of logits
    last_came: bool
    outputs: Outputs | None
    interim_answers: bool
    end: dict[str, Any] | None  # the facts of `saved_lattice.ended`, of a sentence that has ended with its lattice
    method: ConfidenceMethod | None
    confidences: npt.NDArray[np.float32] | None  # of the sentence's frames, and then of those that wait
    logits: bool  # whether later chunks are logits

    @property
    def has_begun(self) -> bool:
        """Whether the sentence has had a chunk."""
        return self.end is not None or len(self.search["states"]) > 0


def sections_of(outputs: Outputs | None, end: dict[str, Any] | None) -> Dtypes:
    """The arrays that a state has of the search, with their dtypes."""
    if outputs is None:
        return SEARCH
    return SEARCH | (GOES_ON if end is None else ENDED)


def write(state: StreamState, search: BeamSearch, boost: Boost | None) -> bytes:
    """The state as bytes, with what the stream was decoded with."""
    arrays = {name: state.search[name] for name in sections_of(state.outputs, state.end)}
    arrays |= {
        "settled": state.settled,
        "lm_context": np.array(state.lm_context.words, np.uint32),
        "waiting": state.waiting.reshape(-1),
    }
    if state.confidences is not None:
        arrays["confidences"] = state.confidences
    about = {name: state.search[name] for name in ("frames", "alive", "offset", "fired")} | {
        "first_frame": state.first_frame,
        "after_start": state.lm_context.after_start,
        "last_came": state.last_came,
        "endpoint": None if state.endpoint is None else as_facts(state.endpoint),
        "columns": state.waiting.shape[1],
        "outputs": None if state.outputs is None else state.outputs.as_facts(),
        "interim_answers": state.interim_answers,
        "end": state.end,
        "frame_confidence": None if state.method is None else facts_of_method(state.method),
        "logits": state.logits,
    }
    return pack(KIND, arrays, about | _made_with(search, boost, state.outputs, state.method))


def read(
    data: object, search: BeamSearch, boost: Boost | None
) -> tuple[StreamState, SavedSearch | None, SavedEnd | None]:
    """A state with its search or its ended sentence; TypeError, FormatError, or ValueError for another decoder's."""
    arrays, about = unpack(KIND, data)
    outputs, method = _outputs_of(about["outputs"]), method_of(about["frame_confidence"])
    expected = {*sections_of(outputs, about["end"]), "settled", "lm_context", "waiting"}
    if method is not None:
        expected.add("confidences")
    check_sections(arrays, expected)
    _check_made_with(about, search, boost, outputs, method)
    state = _state(arrays, about, search, outputs, method)
    if not state.has_begun:
        if state.search["frames"] or state.search["fired"] or state.last_came or len(state.settled):
            raise FormatError(f"{NAME}: expected tokens, because the stream has begun, got none")
        return state, None, None
    new_words: NewWords | None = None if boost is None else boost.compiled(search.graph).new_words
    fields = state.search | {"settled": state.settled}
    beam = search.options.lattice_beam
    if state.end is None:
        return state, checked_search(fields, search.graph, new_words, None if outputs is None else beam), None
    log = checked_log(fields | {"settled": state.settled[:0]}, search.graph, new_words)
    end = checked_end(fields, state.end, log, beam)
    if not np.array_equal(end.path[: len(state.settled)], state.settled):
        raise FormatError(f"{NAME}: the settled arcs are not the first of the best path")
    if any(len(fields[name]) for name in ("states", "costs", "entries")):
        raise FormatError(f"{NAME}: expected no tokens, because the sentence has ended, got {len(fields['states'])}")
    dead_frames = checked_dead_frames(fields, log.frames[-1:])
    saved = SavedSearch(
        **{name: fields[name] for name in SavedSearch._fields if name in fields}, dead_frames=dead_frames, ended=True
    )
    return state, saved, end


def _outputs_of(facts: dict[str, Any] | None) -> Outputs | None:
    if facts is None:
        return None
    try:
        outputs = Outputs(**facts)
    except (TypeError, ValueError) as error:
        raise FormatError(f"{NAME}: the stream's outputs cannot be read: {error}") from None
    if not outputs.needs_lattices:
        raise FormatError(f"{NAME}: expected a stream with some output, got {facts}")
    return outputs


def _state(
    arrays: dict[str, npt.NDArray[Any]],
    about: dict[str, Any],
    search: BeamSearch,
    outputs: Outputs | None,
    method: ConfidenceMethod | None,
) -> StreamState:
    """The state in the sections; FormatError if its numbers do not fit each other or the decoder."""
    if outputs is None and (about["end"] is not None or about["interim_answers"]):
        raise FormatError(f"{NAME}: expected neither an end nor interim answers of a stream without outputs")
    if outputs is not None and (about["end"] is not None) != bool(about["fired"] or about["last_came"]):
        raise FormatError(f"{NAME}: expected the end of a sentence where the last chunk has come or a rule has held")
    endpoint, columns = endpoint_of(about), about["columns"]
    for name in ("frames", "first_frame"):
        if not 0 <= about[name] < MOST_FRAMES:
            raise FormatError(f"{NAME}: expected a number of frames as {name}, got {about[name]}")
    if columns != search.columns:
        raise FormatError(f"{NAME}: expected waiting frames of {search.columns} columns, got {columns}")
    waiting = waiting_of(arrays, about, endpoint, columns, lambda values: values < np.inf, "finite values or -inf")
    words, rescoring = arrays["lm_context"], search.rescoring
    known = 0 if rescoring is None else len(rescoring.large_labels)
    most = 0 if rescoring is None else rescoring.large.order - 1
    if len(words) > most or np.any(words >= known) or np.any(words == 0):
        raise FormatError(f"{NAME}: expected at most {most} words of the graph from before the sentence, got others")
    confidences = None
    if method is not None:
        confidences = arrays["confidences"].copy()
        check_confidences(confidences, about["frames"] + len(waiting), method, search.graph, columns)
    state = StreamState(
        arrays["settled"].copy(),
        {name: about[name] for name in ("frames", "alive", "offset", "fired")},
        about["first_frame"],
        LmContext(tuple(words.tolist()), about["after_start"]),
        endpoint,
        waiting,
        about["last_came"],
        outputs,
        about["interim_answers"],
        about["end"],
        method,
        confidences,
        about["logits"],
    )
    state.search.update((name, arrays[name].copy()) for name in sections_of(outputs, about["end"]))
    return state


def _made_with(
    search: BeamSearch, boost: Boost | None, outputs: Outputs | None, method: ConfidenceMethod | None
) -> dict[str, Any]:
    """What answers depend on besides the log-probs, as a state names it."""
    rescoring, options = search.rescoring, search.options
    names = OPTIONS + (RESCORING_OPTIONS if rescoring is not None else ())
    names += LATTICE_OPTIONS if outputs is not None else ()
    names += FRAME_OPTIONS if method is not None else ()
    found = {name: getattr(options, name) for name in names}
    models = None
    if rescoring is not None:
        found["graph_lm_scale"] = rescoring.small_scale
        large = rescoring.large
        models = [large.mark if isinstance(large, KenLM) else large.digest, rescoring.small.digest]
    return {
        "graph": _digest_of_graph(search.graph),
        "models": models,
        "options": found,
        "boost": None if boost is None else _facts_of(boost, search.graph),
    }


def _check_made_with(
    about: dict[str, Any],
    search: BeamSearch,
    boost: Boost | None,
    outputs: Outputs | None,
    method: ConfidenceMethod | None,
) -> None:
    """ValueError that names what the stream was decoded with, if it is something else than what this decoder has."""
    ours = _made_with(search, boost, outputs, method)
    if about["graph"] != ours["graph"]:
        raise ValueError(
            f"{NAME}: expected a stream of this decoder's graph (digest {ours['graph']}), got one of another "
            f"({about['graph']}); restore it with a decoder of the graph that it was saved with"
        )
    if about["models"] != ours["models"]:
        raise ValueError(
            f"{NAME}: expected a stream {_of_models(ours['models'])}, as this decoder has, got one "
            f"{_of_models(about['models'])}; restore it with a decoder of the models that it was saved with"
        )
    check_options(about["options"], ours["options"], "CtcDecoder")
    if about["boost"] == ours["boost"]:
        return
    if about["boost"] is None:
        raise ValueError(f"{NAME}: expected boost=None, because the stream was saved without a boost, got {boost!r}")
    phrases = about["boost"].get("phrases")
    count = f"{phrases} phrase" if phrases == 1 else f"{phrases} phrases"
    raise ValueError(
        f"{NAME}: expected the boost of {count} that the stream was saved with, got "
        f"{'none' if boost is None else f'another one: {boost!r}'}; give it as decoder.restore(data, boost=...)"
    )


def _of_models(digests: list[Any] | None) -> str:
    if digests is None:
        return "without a large language model"
    return f"rescored with the models {' and '.join(map(str, digests))}"


def _digest_of_graph(graph: Graph) -> str:
    if graph not in _graphs:
        _graphs[graph] = graph_file.digest(graph)
    return _graphs[graph]


def _facts_of(boost: Boost, graph: Graph) -> dict[str, Any]:
    """What a state says of a boost: engines read nothing of it but the compiled list and its new words."""
    compiled = boost.compiled(graph)
    if compiled not in _lists:
        made = hashlib.blake2b(digest_size=16)
        arrays: list[npt.NDArray[Any]] = [compiled.states, compiled.arcs]
        if compiled.new_words is not None:
            new = compiled.new_words
            spelled = new.pronunciations
            arrays += [new.states, new.targets, new.columns, new.words, *new.symbols.arrays()]
            arrays += [spelled.words, spelled.offsets, spelled.columns]
        for array in arrays:
            made.update(f"{array.nbytes}\n".encode())
            made.update(np.ascontiguousarray(array).view(np.uint8).data)
        _lists[compiled] = made.hexdigest()
    return {"phrases": len(boost), "digest": _lists[compiled]}
