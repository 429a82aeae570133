"""`arcbeam.from_nemo`: decoders for the CTC models, transducers and hybrids of NeMo."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from arcbeam.adapters.options import default_device, refuse_transducer, transducer_options
from arcbeam.core.calls import lists_options
from arcbeam.core.errors import UnsupportedError
from arcbeam.core.packages import require
from arcbeam.files.nemo_archive import config_of, get, is_model
from arcbeam.files.reading import check_is_file
from arcbeam.front.ctc_decoder import CtcDecoderKeywords, ctc_decoder
from arcbeam.tokens.nemo import VOCABULARIES
from arcbeam.transducer.decoder import TransducerDecoder

if TYPE_CHECKING:
    from arcbeam.ctc.decoder import CtcDecoder

PACKAGE = "nemo_toolkit[asr]"  # in pip's words
CTC, RNNT = "ctc", "rnnt"  # NeMo's names of the decoders of a hybrid


@lists_options(ctc_decoder, without=("blank",))
def from_nemo(
    model: Any,
    lm: Any = None,
    *,
    decoder_type: str | None = None,
    transducer: Mapping[str, Any] | None = None,
    **options: Unpack[CtcDecoderKeywords],
) -> CtcDecoder | TransducerDecoder:
    """Makes a decoder for a model of NeMo.

    Of the options of :class:`arcbeam.DecoderOptions`, ``device``, ``threads`` and ``frame_shift`` are for transducers,
    too; ``device`` and ``frame_shift`` are by default those of the model. The other options are for CTC alone.

    Parameters
    ----------
    model : path, model object of NeMo, or str
        A ``.nemo`` archive, for which NeMo need not be installed; a model such as ``EncDecCTCModelBPE``,
        ``EncDecRNNTBPEModel`` or ``EncDecHybridRNNTCTCBPEModel``; or the name that ``ASRModel.from_pretrained`` takes.
    lm : path, LanguageModel, KenLM, optional
        For CTC: an ARPA over words, as of `ctc_decoder`.
    decoder_type : "ctc", "rnnt" or None
        Which decoder of a hybrid model, by NeMo's names; a TDT is ``"rnnt"``, too. None: the one that the model object
        uses (its ``cur_decoder``), in an archive ``"rnnt"``, with which NeMo begins.
    transducer : mapping of str, optional
        For a transducer: options of `TransducerDecoder.from_nemo` by name, such as ``{"confidence": "entropy"}``.
    **options
        Those of `ctc_decoder`.

    Returns
    -------
    CtcDecoder
        For CTC. It decodes log-probs [frames, labels + 1] as NeMo has them, the blank last: ``y_sequence`` of what
        ``model.transcribe(files, return_hypotheses=True)`` returns, or what ``model.forward`` returns.
    TransducerDecoder
        For an RNN-T or TDT, with the model's weights. It decodes ``encoded.transpose(1, 2)``, because NeMo's encoders
        return [batch, features, frames].

    Raises
    ------
    UnsupportedError
        A model without the decoder that `decoder_type` names, or of another kind, such as Canary.
    FormatError, ValueError
        A damaged archive; a vocabulary that does not fit the model; or what `ctc_decoder` raises.
    MissingDependencyError
        NeMo is missing where a name is given; pyyaml where an archive is read, or a package that builds graphs.
    OSError
        The file cannot be read.

    See Also
    --------
    arcbeam.adapters.attach : Lets the model itself decode with this decoder.

    Examples
    --------
    >>> decoder = arcbeam.from_nemo("stt_en_conformer_ctc_large.nemo", lm="3gram.arpa.gz")
    >>> hypotheses = decoder.decode([one.y_sequence for one in model.transcribe(files, return_hypotheses=True)])
    """
    if not is_model(model):
        model = _archive_or_model(model)
    kind = _kind(model, decoder_type)
    default_device(model, options)
    if kind == RNNT:
        hint = "; decoder_type='ctc' is for the CTC decoder of a hybrid"
        return TransducerDecoder.from_nemo(model, **transducer_options({"lm": lm, **options}, transducer, hint))
    refuse_transducer(transducer)
    return ctc_decoder(model, lm, **options)


def _archive_or_model(source: Any) -> Any:
    """The path of an archive that is there, or the model with this name, which NeMo loads."""
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            f"model: expected the path of a .nemo archive, a model object of NeMo or its name, got "
            f"{type(source).__name__}"
        )
    if not isinstance(source, str) or os.path.exists(source) or source.endswith(".nemo"):
        if isinstance(source, str) and "://" in source:
            raise ValueError(f"model: expected the path of a file, got the URL {source!r}; download it first")
        check_is_file(source)
        return source
    models = require("nemo.collections.asr.models", f"loading {source!r}, which is no file, by its name", PACKAGE)
    return models.ASRModel.from_pretrained(source)


def _kind(model: Any, decoder_type: str | None) -> str:
    """Which decoder of the model: "ctc" or "rnnt"."""
    if decoder_type not in (None, CTC, RNNT):
        raise ValueError(f"decoder_type: expected 'ctc', 'rnnt' or None, got {decoder_type!r}")
    config, name = config_of(model), type(model).__name__ if is_model(model) else os.fsdecode(model)
    there = []
    if get(config, "joint") is not None:
        there.append(RNNT)
    if get(config, "aux_ctc") is not None or (not there and any(get(config, place) for place in VOCABULARIES)):
        there.append(CTC)
    if not there or get(config, "transf_decoder") is not None:
        raise UnsupportedError(
            f"{name}: expected a model with a CTC decoder, an RNN-T or a TDT, got "
            f"{get(config, 'target', 'one of another kind')}"
        )
    if decoder_type is None:
        decoder_type = getattr(model, "cur_decoder", there[0])
    if decoder_type not in there:
        raise UnsupportedError(f"{name}: decoder_type: expected {there[0]!r}, all that it has, got {decoder_type!r}")
    return decoder_type
