"""The configuration of a model of NeMo: that in a ``.nemo`` archive, which is a tar file with YAML, or of an object."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.core.sizes import as_bytes
from arcbeam.files.reading import reading
from arcbeam.files.tar_file import read_members

CONFIG = "model_config.yaml"
CONFIG_BYTES = 2 << 20
"""The largest configuration, unless `max_bytes` says otherwise: the package pyyaml reads a megabyte in 10 s."""
LONGEST_VALUE = 1 << 16
MERGE, TEXT = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:str"
EXPECTED = "the configuration of a model"
ARCHIVE = "a .nemo archive, which is a tar file"


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


def config_of(source: Any) -> Any:
    """The configuration of a model object, or of the archive with this path."""
    if is_model(source):
        return source.cfg
    name = os.fsdecode(source)
    return config_in(read_members(source, (CONFIG,), ARCHIVE), name)


def config_in(content: Mapping[str, bytes], name: str) -> Any:
    """The configuration among the files of an archive; FormatError if there is none."""
    if CONFIG not in content:
        raise FormatError(f"{name}: expected {CONFIG} in the archive, got none")
    return read_config(content[CONFIG], f"{name}: {CONFIG}")


def is_model(source: Any) -> bool:
    """Whether this is a model object of NeMo."""
    return all(hasattr(source, name) for name in ("cfg", "state_dict", "change_decoding_strategy"))


def get(config: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path, a sequence as a list; `default` if there is none."""
    for key in path.split("."):
        config = config.get(key) if isinstance(config, Mapping) else None
    if config is None:
        return default
    return list(config) if isinstance(config, Sequence) and not isinstance(config, str) else config


def frame_shift_of(config: Any) -> float | None:
    """The seconds from one frame of the encoder's output to the next, if a configuration says so."""
    stride, factor = get(config, "preprocessor.window_stride"), get(config, "encoder.subsampling_factor")
    layers = get(config, "encoder.jasper")
    if factor is None and isinstance(layers, list):  # Jasper, QuartzNet, Citrinet: each layer has a stride
        strides = [get(layer, "stride") for layer in layers]
        strides = [step[0] if isinstance(step, list) and step else step for step in strides]
        factor = math.prod(strides) if all(type(step) is int for step in strides) else None
    if type(stride) in (int, float) and type(factor) is int:
        return float(stride * factor)
    return None
