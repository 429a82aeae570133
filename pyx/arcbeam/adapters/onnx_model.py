"""Speech models in ONNX files with our decoders: audio in, hypotheses out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

import numpy as np

from arcbeam.adapters.onnx_acoustic import check_features, frames_axis
from arcbeam.adapters.onnx_audio import Samples, read_audio
from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_count
from arcbeam.core.errors import FormatError
from arcbeam.ctc.decoder import CtcDecoder
from arcbeam.transducer.decoder import TransducerDecoder

if TYPE_CHECKING:
    from arcbeam.ctc.batches import OutputKeywords
    from arcbeam.ctc.hypothesis import Hypotheses, Hypothesis
    from arcbeam.transducer.fusion import Boosts as Trees
    from arcbeam.transducer.hypothesis import TransducerHypothesis

Decoder = TypeVar("Decoder", CtcDecoder, TransducerDecoder)

MORE_FRAMES = 2  # that a model makes of the padding of its convolutions


class OnnxModel(Generic[Decoder]):
    """What the models of both kinds share: the features and the acoustic model of onnx-asr.

    Attributes
    ----------
    onnx_asr : onnx_asr.adapters.TextResultsAsrAdapter
        The model as ``onnx_asr.load_model`` returns it, with onnx-asr's own greedy decoding and voice activity
        detection.
    """

    def __init__(self, model: Any, name: str, decoder: Decoder) -> None:
        self.onnx_asr, self._name = model, name
        self.decoder: Decoder = decoder

    @property
    def sample_rate(self) -> int:
        """Samples a second that the acoustic model takes; other rates are resampled to it."""
        return int(self.onnx_asr.asr._get_sample_rate())

    @lists_options()
    def encode(
        self, audio: Any, *, sample_rate: int = 16_000, channel: int | str | None = None, batch_size: int = 1
    ) -> Any:
        """The output of the acoustic model, which `decoder` decodes.

        Parameters
        ----------
        audio : array [samples] or [samples, channels], path, or list of these
            Samples are floats from -1 to 1. A path is that of an audio file, of any format that the package soundfile
            reads; WAV files of whole numbers need no package.
        sample_rate : int
            Samples a second of arrays; files say their own. onnx-asr resamples the usual rates from 8,000 to 48,000.
        channel : int, "mean" or None
            The channel of recordings with several.
        batch_size : int
            Recordings that the acoustic model takes at a time. With 1, the result of a recording does not depend on
            the others; with more, a model that is not exact about padding may give slightly other values, and a GPU is
            used better.

        Returns
        -------
        float32 [frames, columns or features], or a list of them
            Of a CTC model natural-log probabilities; of a transducer the encoder's output. An array for one recording,
            a list for a list, in the host's memory wherever the model runs.

        Raises
        ------
        TypeError, ValueError
            Audio that is no recording, or is shorter than 25 ms; a rate that onnx-asr does not resample; several
            channels without `channel`.
        FormatError
            A file that is no audio; or ``subsampling_factor`` in config.json that does not fit the model.
        MissingDependencyError
            The package soundfile is missing, and a file is no WAV.
        OSError
            A file cannot be read.
        """
        check_count("batch_size", batch_size, or_none="")
        check_count("sample_rate", sample_rate, or_none="")
        is_one = not isinstance(audio, (list, tuple))
        named = [("audio", audio)] if is_one else [(f"audio[{i}]", one) for i, one in enumerate(audio)]
        how = sample_rate, channel, self.sample_rate, self.onnx_asr.resampler
        read = [read_audio(one, name, *how) for name, one in named]
        encoded: list[Any] = []
        for begin in range(0, len(read), batch_size):
            encoded += self._encoded(read[begin : begin + batch_size])
        return encoded[0] if is_one else encoded

    def _encoded(self, batch: list[Samples]) -> list[Any]:
        """The output for recordings that the acoustic model takes together."""
        from onnx_asr.utils import pad_list

        asr = self.onnx_asr.asr
        features, counts = asr._preprocessor(*pad_list(batch))
        check_features(asr, features)
        output, lengths = asr._encode(features, counts)
        longest, made = int(np.max(lengths)), output.shape[1]
        taken = features.shape[frames_axis(asr)]  # with padding, of which the model makes frames, too
        whole = -(-taken // asr._subsampling_factor)
        if longest > made or made > whole + max(MORE_FRAMES, whole // 4):
            raise FormatError(
                f"{self._name}: config.json: subsampling_factor: {asr._subsampling_factor} gives {longest} frames for "
                f"a recording of which the model makes {made}; is it {max(1, round(taken / max(1, made)))}?"
            )
        return [np.ascontiguousarray(rows[:length]) for rows, length in zip(output, lengths, strict=True)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._name}, {self.decoder!r}>"


class OnnxCtcModel(OnnxModel[CtcDecoder]):
    """A CTC model in ONNX files, made by `from_onnx`.

    Attributes
    ----------
    decoder : CtcDecoder
        What decodes :meth:`encode`'s log-probs, with everything that it offers: streams, batches, lattices.
    onnx_asr : onnx_asr.adapters.TextResultsAsrAdapter
        The model as ``onnx_asr.load_model`` returns it.
    """

    @lists_options(CtcDecoder.decode, without=("cuda_stream", "logits"))
    def transcribe(
        self,
        audio: Any,
        *,
        sample_rate: int = 16_000,
        channel: int | str | None = None,
        batch_size: int = 1,
        **options: Unpack[OutputKeywords],
    ) -> Hypothesis | Hypotheses:
        """Audio to words.

        Parameters
        ----------
        audio, sample_rate, channel, batch_size
            As of :meth:`encode`.
        **options
            Those of `CtcDecoder.decode`.

        Returns
        -------
        Hypothesis or Hypotheses
            One for one recording, a list of them for a list.

        Raises
        ------
        TypeError, ValueError, FormatError, MissingDependencyError, OSError
            As of :meth:`encode` and `CtcDecoder.decode`.
        """
        encoded = self.encode(audio, sample_rate=sample_rate, channel=channel, batch_size=batch_size)
        return self.decoder.decode(encoded, **options)


class OnnxTransducerModel(OnnxModel[TransducerDecoder]):
    """A transducer in ONNX files, made by `from_onnx`.

    Attributes
    ----------
    decoder : TransducerDecoder
        What decodes :meth:`encode`'s output, with the weights that the files have.
    onnx_asr : onnx_asr.adapters.TextResultsAsrAdapter
        The model as ``onnx_asr.load_model`` returns it.
    """

    @lists_options()
    def transcribe(
        self,
        audio: Any,
        *,
        sample_rate: int = 16_000,
        channel: int | str | None = None,
        batch_size: int = 1,
        boost: Trees = None,
        errors: str = "raise",
    ) -> TransducerHypothesis | list[TransducerHypothesis]:
        """Audio to words.

        Parameters
        ----------
        audio, sample_rate, channel, batch_size
            As of :meth:`encode`.
        boost, errors
            As `TransducerDecoder.decode` takes them.

        Returns
        -------
        TransducerHypothesis, or a list of them
            One for one recording, a list for a list.

        Raises
        ------
        TypeError, ValueError, FormatError, MissingDependencyError, OSError
            As of :meth:`encode` and `TransducerDecoder.decode`.
        """
        encoded = self.encode(audio, sample_rate=sample_rate, channel=channel, batch_size=batch_size)
        return self.decoder.decode(encoded, boost=boost, errors=errors)
