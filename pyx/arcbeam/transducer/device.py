"""The device on which a transducer is decoded, and the memory that it holds there."""

from __future__ import annotations

from dataclasses import dataclass

from arcbeam.core.errors import UnsupportedError
from arcbeam.core.warn import warn
from arcbeam.gpu.devices import resolve_device, why_no_cuda
from arcbeam.transducer.network import LstmPrediction, StatelessPrediction
from arcbeam.transducer.options import TransducerOptions

MOST_LAYERS = 8
"""The most layers of an LSTM on a GPU."""
MOST_HYPOTHESES = 32
"""The most hypotheses of an utterance that live on a GPU: one for each thread of a warp."""
LONGEST_DURATION = 64
"""The longest duration of beam search on a GPU, in frames: hypotheses of each frame up to it have a place."""


@dataclass(frozen=True)
class TransducerMemory:
    """Bytes that a transducer decoder holds.

    Attributes
    ----------
    weights : int
        Matrices, biases, and the tables of everything that depends on a token alone; on the CPU nothing else counts.
    encoder_output : int
        Encoder output from the host; 0 while it comes from the GPU.
    projected : int
        The encoder's part of the joint network, for each frame of a group of utterances.
    hypotheses, batch : int
        The tokens that utterances have written, and with a beam their histories and lattices; their states, and the
        activations of a round.
    pinned : int
        Memory of the host: encoder output on its way to the device, results on their way back.
    automata : int
        Boosting trees and the n-gram models, of GPUs.

    The states of streams lie in the host's memory, and are not counted.
    """

    weights: int
    encoder_output: int = 0
    projected: int = 0
    hypotheses: int = 0
    batch: int = 0
    pinned: int = 0
    automata: int = 0

    @property
    def device_bytes(self) -> int:
        """All but the pinned memory."""
        return self.weights + self.encoder_output + self.projected + self.hypotheses + self.batch + self.automata


def ordinal_of(options: TransducerOptions, prediction: LstmPrediction | StatelessPrediction) -> int | None:
    """The number of the GPU that decodes, None for the CPU. ``"auto"`` warns if the GPU cannot decode this network."""
    why = _why_no_gpu(options, prediction)
    if why is None or options.device == "cpu":
        return resolve_device(options.device)
    if options.device == "auto":
        if why_no_cuda() is None:
            warn(
                f'device: "auto" decodes on the CPU, because {why}; '
                'give device="cpu" to choose the CPU without this warning'
            )
        return None
    if options.beam is not None:
        raise UnsupportedError(f'device: expected "cpu", because {why}; got {options.device!r}')
    return resolve_device(options.device)


def _why_no_gpu(options: TransducerOptions, prediction: LstmPrediction | StatelessPrediction) -> str | None:
    """Why no GPU takes this decoder; None if one does."""
    layers = len(getattr(prediction, "layers", ()))
    if layers > MOST_LAYERS:
        return f"a GPU takes at most {MOST_LAYERS} LSTM layers, and the network has {layers}"
    if options.beam is None:
        return None
    if options.max_hypotheses > MOST_HYPOTHESES:
        return f"a GPU takes max_hypotheses up to {MOST_HYPOTHESES}, and it is {options.max_hypotheses}"
    longest = max(options.durations or (0,))
    if longest > LONGEST_DURATION:
        return f"with a beam a GPU takes durations up to {LONGEST_DURATION} frames, and the longest is {longest}"
    return None
