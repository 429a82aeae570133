"""Reads the configuration in a ``.nemo`` archive: YAML from anywhere in, options of a decoder out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.core.sizes import as_bytes
from arcbeam.files.reading import reading
from arcbeam.transducer.network import ACTIVATIONS
from arcbeam.transducer.options import TransducerOptions

CONFIG = "model_config.yaml"
CONFIG_BYTES = 2 << 20
"""The largest configuration, unless `max_bytes` says otherwise: the package pyyaml reads a megabyte in 10 s."""
LONGEST_VALUE = 1 << 16
MERGE, TEXT = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:str"
EXPECTED = "the configuration of a model"
MAX_SYMBOLS = ("max_symbols", "max_symbols_per_step")
DURATIONS = ("decoding.durations", "model_defaults.tdt_durations", "loss.tdt_kwargs.durations")
ACTIVATION = "joint.jointnet.activation"


def read_config(text: bytes, name: str, max_bytes: int | str | None = None) -> Any:
    """The values of a YAML configuration; FormatError for aliases, and above `max_bytes` (None: 2 MiB)."""
    yaml = require("yaml", "a .nemo archive", "pyyaml")

    class Loader(yaml.SafeLoader):  # type: ignore[name-defined]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):  # with which a few kilobytes can stand for gigabytes
                raise FormatError(f"{name}: expected values without aliases, got *{self.peek_event().anchor}")
            node = super().compose_node(parent, index)
            # Numbers in base 60 take time that grows with the square of their length.
            if isinstance(node, yaml.ScalarNode) and len(node.value) > LONGEST_VALUE:
                raise FormatError(f"{name}: expected values of at most {LONGEST_VALUE} characters, got a longer one")
            # Keys stay text, because numbers could be chosen to have equal hashes.
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                    key.tag = TEXT
            return node

    most = CONFIG_BYTES if max_bytes is None else as_bytes("max_bytes", max_bytes)
    if len(text) > most:
        raise FormatError(
            f"{name}: expected at most {most:,} bytes, got {len(text):,}; if you trust the file, raise max_bytes"
        )
    with reading(name, EXPECTED):
        return yaml.load(text, Loader)


def get(config: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path; `default` if there is none."""
    for key in path.split("."):
        config = config.get(key) if isinstance(config, Mapping) else None
    return default if config is None else config


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
        stride, factor = get(config, "preprocessor.window_stride"), get(config, "encoder.subsampling_factor")
        if type(stride) in (int, float) and type(factor) is int and "frame_shift" not in given:
            options["frame_shift"] = float(stride * factor)
        pieces = get(config, "joint.vocabulary")
        # The pieces of a WordPiece tokenizer mark the middle of words instead.
        if isinstance(pieces, list) and get(config, "tokenizer.type") != "wpe" and "tokenizer" not in given:
            options["tokenizer"] = _as_pieces(pieces)
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
