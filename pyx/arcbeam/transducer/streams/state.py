"""The saved state of a transducer's stream: its arrays and facts, and whether they fit a decoder (`streams.saved`).

The state of the search is that of `TransducerState`, or with a beam what `beam_state` says.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.files import section_file
from arcbeam.streams.endpoints import as_facts
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
from arcbeam.streams.waiting import Waiting
from arcbeam.transducer.fusion import fusions_of
from arcbeam.transducer.hypothesis import FIELDS, TransducerState, left_of
from arcbeam.transducer.states import states_of
from arcbeam.transducer.streams import beam_state
from arcbeam.transducer.streams.sentence import Sentence

if TYPE_CHECKING:
    from arcbeam.transducer.boosting_tree import BoostingTree
    from arcbeam.transducer.search import TransducerSearch

STATE = {"hidden": np.dtype("<f4"), "cell": np.dtype("<f4"), "context": np.dtype("<i4")}
SECTIONS = {name: np.dtype(kind).newbyteorder("<") for name, kind in FIELDS.items()} | {
    "waiting": np.dtype("<f4"), "about": np.dtype("u1"),
}  # fmt: skip
ABOUT = {
    "frames": (int,),
    "first_frame": (int,),
    "fired": (int,),
    "last_came": (bool,),
    "endpoint": (list, type(None)),
    "network": (str,),
    "options": (dict,),
    "ngram_lm": (str,),
    "boosting_tree": (str,),
}
KIND = section_file.Kind(
    name="the saved state of a transducer's stream",
    magic=b"\x93ARCTDS\n",
    version=1,
    sections=SECTIONS | STATE,
    about=ABOUT | {"skip": (int,), "in_tree": (int,), "in_ngram_lm": (int,)},
    again=AGAIN,
)
BEAM_KIND = section_file.Kind(
    name="the saved state of a transducer's stream with a beam",
    magic=b"\x93ARCTBS\n",
    version=1,
    sections=SECTIONS | beam_state.DTYPES,
    about=ABOUT | {"offset": (float,), "labels": (int,), "nbest": (int, type(None)), "lodr": (str,)},
    again=AGAIN,
)
OPTIONS = ("blank_id", "durations", "max_symbols", "precision", "frame_shift")

BEAM_OPTIONS = ("beam", "max_hypotheses", "merge", "length_power", "settle_frames", "ilm_scale")

_networks: WeakKeyDictionary[TransducerSearch, str] = WeakKeyDictionary()


def write(sentence: Sentence, waiting: npt.NDArray[np.float32], search: TransducerSearch) -> bytes:
    """The state of a stream in a sentence, after which frames wait, with what it was decoded with."""
    state = sentence.state or search.start(sentence.boost, sentence.first_frame)
    arrays: dict[str, npt.NDArray[Any]] = dict(sentence.tokens)
    arrays["waiting"] = waiting.reshape(-1)
    about = {
        "frames": int(state.frames),
        "first_frame": sentence.first_frame,
        "fired": sentence.fired,
        "last_came": sentence.last_came,
        "endpoint": None if sentence.endpoint is None else as_facts(sentence.endpoint),
    } | _made_with(search, sentence.boost)
    if search.form.takes_back:
        offset, labels = state.numbers()
        about |= {"offset": offset, "labels": labels, "nbest": sentence.nbest}
        return pack(BEAM_KIND, arrays | state.arrays(), about)
    arrays |= {name: getattr(state, name).reshape(-1) for name in STATE}
    about |= {
        "skip": int(state.skip), "in_tree": int(state.boosting_tree[0]), "in_ngram_lm": int(state.ngram_lm[0]),
    }  # fmt: skip
    return pack(KIND, arrays, about)


def read(data: object, search: TransducerSearch, boost: BoostingTree | None) -> Sentence:
    """The saved sentence; TypeError: no bytes, FormatError: damaged, ValueError: of another decoder or tree."""
    has_beam = search.form.takes_back
    arrays, about = unpack(BEAM_KIND if has_beam else KIND, data)
    _check_made_with(about, search, boost)
    names = search.form.fields
    check_sections(arrays, {*names, *(beam_state.DTYPES if has_beam else STATE), "waiting"})
    endpoint = endpoint_of(about)
    try:
        begun = Sentence.begun(search.form, endpoint, boost, None)
    except ValueError as error:
        raise FormatError(f"{NAME}: its endpoint cannot be read: {error}") from None
    written: dict[str, npt.NDArray[Any]] = {name: arrays[name].astype(dtype) for name, dtype in names.items()}
    _check_numbers(about, written, search)
    found: dict[str, Any]
    if has_beam:
        found = _with_beam(arrays, about, search, boost, len(written["tokens"]))
    else:
        state = _state(arrays, about, search, boost)
        found = {"state": state, "models": state.ngram_lm}
    waiting = waiting_of(arrays, about, endpoint, search.spec.columns, np.isfinite, "finite features")
    return replace(
        begun,
        first_frame=about["first_frame"],
        written=written,
        count=len(written["tokens"]),
        is_final=about["last_came"] or about["fired"] > 0,
        fired=about["fired"],
        waiting=(Waiting(waiting),) if len(waiting) else (),
        last_came=about["last_came"],
        **found,
    )


def _with_beam(
    arrays: dict[str, npt.NDArray[Any]],
    about: dict[str, Any],
    search: TransducerSearch,
    boost: BoostingTree | None,
    settled: int,
) -> dict[str, Any]:
    """What a sentence has of its search; the hypothesis of the frames so far is found once more."""
    nbest = about["nbest"]
    if nbest is not None and not 1 <= nbest <= search.options.max_hypotheses:
        raise FormatError(f"{NAME}: expected nbest up to {search.options.max_hypotheses}, got {nbest}")
    state = beam_state.checked(arrays, about, settled, search, boost)
    [found] = search.decode(search.no_frames(), [state], boost, "raise", None)
    left = left_of(found)
    return {"state": state, "best": (found, 0), "models": left.models, "nbest": nbest}


def _check_numbers(about: dict[str, Any], written: dict[str, npt.NDArray[Any]], search: TransducerSearch) -> None:
    """FormatError unless the tokens are some that the decoder could have written on these frames."""
    first, frames = about["first_frame"], about["frames"]
    skip = about.get("skip", 0)
    if not 0 <= first <= frames < MOST_FRAMES or skip < 0:
        raise FormatError(f"{NAME}: expected frames of a sentence, got {first} to {frames}, skip {skip}")
    if len({len(array) for array in written.values()}) > 1:
        raise FormatError(f"{NAME}: expected as many values of each kind as tokens, got {_lengths(written)}")
    tokens, on = written["tokens"], written["frames"]
    blank = search.options.blank_id
    if np.any(tokens < 0) or np.any(tokens >= search.tokens) or np.any(tokens == blank):
        raise FormatError(f"{NAME}: expected tokens below {search.tokens} but the blank, {blank}, got others")
    if len(on) and (on[0] < first or on[-1] >= frames or np.any(np.diff(on) < 0)):
        raise FormatError(f"{NAME}: expected tokens on frames from {first} to {frames}, in their order, got others")
    if not np.isfinite(written["log_probs"]).all() or np.any(written.get("durations", tokens) < 0):
        raise FormatError(f"{NAME}: expected finite log-probs and durations of at least 0, got others")
    # Some methods go below 0: with Gibbs' entropy, the linear norm and a small alpha, by far.
    if not np.isfinite(written.get("confidence", tokens)).all():
        raise FormatError(f"{NAME}: expected finite confidences, got others")


def _lengths(written: dict[str, npt.NDArray[Any]]) -> str:
    return ", ".join(f"{name} {len(array)}" for name, array in written.items())


def _state(
    arrays: dict[str, npt.NDArray[Any]],
    about: dict[str, Any],
    search: TransducerSearch,
    boost: BoostingTree | None,
) -> TransducerState:
    shapes = search.form.state_shapes
    for name, shape in shapes.items():
        if arrays[name].size != np.prod(shape, dtype=np.int64):
            raise FormatError(f"{NAME}: expected {name} of shape {list(shape)}, got {arrays[name].size} values")
    hidden, cell, context = (
        arrays[name].astype(kind.newbyteorder("=")).reshape(shapes[name]) for name, kind in STATE.items()
    )
    state = TransducerState(
        hidden, cell, context, about["skip"], about["frames"],
        boosting_tree=(about["in_tree"], about["boosting_tree"]), ngram_lm=(about["in_ngram_lm"], about["ngram_lm"]),
    )  # fmt: skip
    for name, digest in (("in_tree", "boosting_tree"), ("in_ngram_lm", "ngram_lm")):
        if about[name] and not about[digest]:
            raise FormatError(f"{NAME}: expected {name} to be 0, because there is none, got {about[name]}")
    try:
        states_of([state], 1, shapes, search.tokens)
        fusions_of([boost], search.ngram_lm, [state])
    except (TypeError, ValueError) as error:
        raise FormatError(f"{NAME}: {error}") from None
    return state


def _made_with(search: TransducerSearch, boost: BoostingTree | None) -> dict[str, Any]:
    """What answers depend on besides the encoder's output, as a state names it."""
    options, ngram_lm = search.options, search.ngram_lm
    found = {name: getattr(options, name) for name in OPTIONS}
    found["durations"] = None if options.durations is None else list(options.durations)
    confidence: Any = options.confidence
    found["confidence"] = None if confidence is None else dataclasses.asdict(confidence)
    if confidence is not None:
        found["confidence_aggregation"] = options.confidence_aggregation
    found |= {name: getattr(options, name) for name in (BEAM_OPTIONS if search.form.takes_back else ())}
    if search.lodr is not None:
        found["lodr_scale"] = options.lodr_scale
    if boost is not None:
        found["boosting_tree_alpha"] = options.boosting_tree_alpha
    if ngram_lm is not None:
        found["ngram_lm_alpha"] = options.ngram_lm_alpha
    made = {
        "network": _digest(search),
        "options": found,
        "ngram_lm": "" if ngram_lm is None else ngram_lm.digest,
        "boosting_tree": "" if boost is None else boost.automaton.digest,
    }
    if search.form.takes_back:
        made["lodr"] = "" if search.lodr is None else search.lodr.digest
    return made


def _check_made_with(about: dict[str, Any], search: TransducerSearch, boost: BoostingTree | None) -> None:
    """ValueError that names what the stream was decoded with, if it is something else than what this decoder has."""
    ours = _made_with(search, boost)
    if about["network"] != ours["network"]:
        raise ValueError(
            f"{NAME}: expected a stream of this decoder's network (digest {ours['network']}), got one of another "
            f"({about['network']}); restore it with a decoder of the network that it was saved with"
        )
    for name, what, how in (
        ("ngram_lm", "n-gram model", "TransducerDecoder(..., ngram_lm_model=...)"),
        ("boosting_tree", "tree", "decoder.restore(data, boost=...)"),
        ("lodr", "n-gram model for LODR", "TransducerDecoder(..., lodr_model=...)"),
    ):
        if about.get(name) != ours.get(name):
            theirs = f"with {'another' if ours[name] else 'some'} {what}" if about[name] else f"without {what}"
            have = f"with this {what}" if ours[name] else f"without {what}"
            raise ValueError(f"{NAME}: expected a stream {have}, got one {theirs}; give the same as {how}")
    check_options(about["options"], ours["options"], "TransducerDecoder")


def _digest(search: TransducerSearch) -> str:
    """Of all weights and what else makes a network; worked out once for each decoder."""
    if search not in _networks:
        made = hashlib.blake2b(digest_size=16)
        for part in search.networks:
            _update(made, part)
        _networks[search] = made.hexdigest()
    return _networks[search]


def _update(made: Any, value: Any) -> None:
    if dataclasses.is_dataclass(value):
        made.update(f"{type(value).__name__}\n".encode())
        for field in dataclasses.fields(value):
            made.update(f"{field.name}\n".encode())
            _update(made, getattr(value, field.name))
    elif isinstance(value, np.ndarray):
        made.update(f"{value.shape} {value.dtype.str}\n".encode())
        made.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    elif isinstance(value, tuple):
        for item in value:
            _update(made, item)
    else:
        made.update(f"{value!r}\n".encode())
