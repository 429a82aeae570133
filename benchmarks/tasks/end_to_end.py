"""From samples to words, part by part: what GK23's Table 2 and Figure 1 are made from.

The parts follow each other, and each is timed until its work is done, on a GPU, too. Features and log-probs are made
once in a turn for all decoders, whose totals therefore differ in the decoder alone. Audio files are read beforehand.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.adapters import Adapter, why
from benchmarks.data.acoustic import AcousticModel
from benchmarks.tasks import gk23

PARTS = ("features", "model", "decoder")


@dataclass
class Pass:
    """One pass over a corpus: seconds of each part, the text of each recording."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    texts: dict[int, str] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def run(
    model: AcousticModel,
    decoders: Mapping[str, Adapter],
    waves: Sequence[np.ndarray],
    batches: Sequence[Sequence[int]],
    step: Callable[[str], None] = lambda text: None,
    failed: dict[str, str] | None = None,
) -> dict[str, Pass]:
    """One turn of all decoders over recordings, given as samples, in batches of positions.

    A model may work on fewer recordings at a time (`model.batch`) than decoders are given.

    features : samples to the model's device, and log-mel features
    model : log-probs
    decoder : words, and the way of the log-probs to the decoder; on the GPU they stay there if it takes them so
    failed : where given, decoders that raise get their reason there, and take no further part
    """
    found = {label: Pass() for label in decoders}
    taking_part = dict(decoders)
    for batch in batches:
        said: list[Any] = []
        extracting = modelling = 0.0
        for first in range(0, len(batch), model.batch):
            step(f"{model.name}: {first} of {len(batch)} recordings")
            started = time.perf_counter()
            features = model.features(model.load([waves[i] for i in batch[first : first + model.batch]]))
            extracted = time.perf_counter()
            log_probs, frames = model.log_probs(features)
            extracting, modelling = extracting + extracted - started, modelling + time.perf_counter() - extracted
            said += [log_probs[row, :n] for row, n in enumerate(frames)]
        for label, decoder in list(taking_part.items()):
            step(f"{label}, {len(batch)} recordings")
            began = time.perf_counter()
            try:
                decoded = decode(decoder, said)
            except Exception as error:
                if failed is None:
                    raise
                failed[label] = f"failed: {type(error).__name__}: {why(error)}"
                del taking_part[label], found[label]
                continue
            spent = (extracting, modelling, time.perf_counter() - began)
            for part, seconds in zip(PARTS, spent, strict=True):
                found[label].seconds[part] += seconds
            found[label].texts.update(zip(batch, (a.text for a in decoder.answers(decoded)), strict=True))
    return found


def decode(decoder: Adapter, said: Sequence[Any]) -> Any:
    """Words of what an acoustic model gave; through the host where the decoder does not take it as it lies."""
    if hasattr(decoder, "look_into") and str(getattr(said[0], "device", "cpu")).startswith("cuda"):
        return decoder.decode(decoder.look_into(said))
    return decoder.decode(decoder.prepare([gk23.host(values) for values in said]))
