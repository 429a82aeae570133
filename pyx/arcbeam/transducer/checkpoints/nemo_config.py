"""What the configuration in a ``.nemo`` archive says of a transducer: options of a decoder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from arcbeam.core.errors import FormatError
from arcbeam.files.nemo_archive import CONFIG, EXPECTED, frame_shift_of, get
from arcbeam.files.reading import reading
from arcbeam.transducer.network import ACTIVATIONS
from arcbeam.transducer.options import TransducerOptions

MAX_SYMBOLS = ("max_symbols", "max_symbols_per_step")
DURATIONS = ("decoding.durations", "model_defaults.tdt_durations", "loss.tdt_kwargs.durations")
ACTIVATION = "joint.jointnet.activation"


def options_of(name: str, config: Any, given: Collection[str]) -> dict[str, Any]:
    """The decoder's options that a configuration sets, ``tokenizer`` among them; those `given` are not checked."""
    options: dict[str, Any] = {}
    with reading(f"{name}: {CONFIG}", EXPECTED):
        for path in DURATIONS:
            durations = get(config, path)
            if isinstance(durations, list) and durations:
                options["durations"] = list(durations)
                break
        greedy = get(config, "decoding.greedy")
        limits = [greedy[key] for key in MAX_SYMBOLS if key in greedy] if isinstance(greedy, Mapping) else []
        if limits:
            options["max_symbols"] = next((limit for limit in limits if limit), None)  # as in NeMo, 0 is no limit
        shift = None if "frame_shift" in given else frame_shift_of(config)
        if shift is not None:
            options["frame_shift"] = shift
        pieces = get(config, "joint.vocabulary")
        # The pieces of a WordPiece tokenizer mark the middle of words instead.
        if isinstance(pieces, list) and get(config, "tokenizer.type") != "wpe":
            options["tokenizer"] = list(pieces) if "tokenizer" in given else _as_pieces(pieces)
        # If the configuration has no limit of symbols, the caller has to give one.
        checked = {key: value for key, value in options.items() if key != "tokenizer" and value is not None}
        TransducerOptions(blank_id=0, **{key: value for key, value in checked.items() if key not in given})
    return options


def _as_pieces(pieces: list[Any]) -> list[str]:
    for i, piece in enumerate(pieces):
        if type(piece) is not str:
            raise FormatError(
                f"joint.vocabulary: expected pieces that are text, got {type(piece).__name__} for token {i}; "
                f"give tokenizer="
            )
        piece.encode()  # fails for half a surrogate pair, which is not text
    return list(pieces)


def check_pieces(name: str, options: Mapping[str, Any], tokens: int) -> None:
    """FormatError unless there are as many pieces as tokens of the model, with or without the blank's."""
    pieces = options.get("tokenizer")
    if pieces is not None and len(pieces) not in (tokens, tokens - 1):
        raise FormatError(
            f"{name}: {CONFIG}: joint.vocabulary: expected {tokens - 1} pieces, or {tokens} with the blank's, got "
            f"{len(pieces)}; give tokenizer="
        )


def activation_of(name: str, config: Any) -> str:
    """The joint network's activation; FormatError for one that is not supported."""
    activation = get(config, ACTIVATION, "relu")
    if type(activation) is not str or activation not in ACTIVATIONS:
        raise FormatError(f"{name}: unsupported {ACTIVATION} {activation!r}, expected one of {', '.join(ACTIVATIONS)}")
    return activation
