"""`arcbeam.adapters.attach`: a model of NeMo decodes with a decoder of arcbeam, also after its strategy has changed."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from arcbeam.adapters.nemo_results import CtcInfer, Outputs, TransducerInfer, hypothesis_classes
from arcbeam.core.calls import lists_options
from arcbeam.core.confidence import ConfidenceMethod, resolve
from arcbeam.core.errors import UnsupportedError
from arcbeam.core.warn import warn
from arcbeam.ctc.decoder import CtcDecoder
from arcbeam.files.nemo_archive import is_model
from arcbeam.tokens.nemo import ctc_head
from arcbeam.transducer.decoder import TransducerDecoder
from arcbeam.transducer.options import check_nbest

if TYPE_CHECKING:
    from arcbeam.ctc.boost.boosts import Boosts
    from arcbeam.transducer.boosting_tree import BoostingTree

PASSED_ON = "wfst"  # NeMo's strategy whose hypotheses it returns as they are
GREEDY = ("greedy", "greedy_batch")


@lists_options()
def attach(
    model: Any,
    decoder: CtcDecoder | TransducerDecoder,
    *,
    boost: Boosts | BoostingTree = None,
    nbest: int | None = None,
    confidence: bool = False,
    frame_confidence: str | ConfidenceMethod | None = None,
) -> Attachment:
    """Lets a model of NeMo decode with a decoder of arcbeam: in `transcribe`, in validation, wherever NeMo decodes.

    It takes the place of ``model.decoding.decoding`` (of the CTC decoder of a hybrid: ``model.ctc_decoding.decoding``)
    and is put back there whenever ``change_decoding_strategy`` has made another, as ``transcribe(timestamps=True)``
    does. Results are NeMo's own ``Hypothesis``: text, score, ``timestamp`` with words, labels and segments if the
    strategy computes timestamps, and confidences. A hybrid then uses the decoder that was attached. If another decoder
    was attached in this place, it is detached first.

    Parameters
    ----------
    model : model object of NeMo
    decoder : CtcDecoder or TransducerDecoder
        One for the labels of the model, such as that of `from_nemo`.
    boost : optional
        As of the decoder's ``decode``: one boost, for all utterances.
    nbest : int, optional
        How many hypotheses of an utterance to return, as ``NBestHypotheses``; of a transducer with a beam at most its
        ``max_hypotheses``. None: what the model's strategy requests, ``beam_size`` where its
        ``return_best_hypothesis`` is False.
    confidence : bool
        For CTC: whether ``word_confidence`` is the probability that a word is right, by the posteriors of a lattice.
    frame_confidence : str, ConfidenceMethod or None
        For CTC: the measure of ``frame_confidence`` and ``token_confidence``, and of ``word_confidence`` without
        `confidence`. None: the one in the strategy's ``confidence_cfg``, if that asks for confidences. Confidences of a
        transducer are an option of its decoder.

    Returns
    -------
    Attachment
        Its `detach` gives the model its own decoder back; so does leaving a ``with`` block of it.

    Raises
    ------
    TypeError
        No model of NeMo, or no decoder.
    UnsupportedError
        The model has no decoder of this kind.
    ValueError
        The decoder is for other labels, or cannot give what the model's strategy asks for; the message says what to
        change. ``change_decoding_strategy`` raises this, too, and the model then has its own decoder.
    MissingDependencyError
        NeMo is missing.

    Warns
    -----
    UserWarning
        ``change_vocabulary`` of the model is called, which detaches the decoder.

    Examples
    --------
    >>> decoder = arcbeam.from_nemo(model, lm="3gram.arpa.gz")
    >>> with arcbeam.adapters.attach(model, decoder, confidence=True):
    ...     hypotheses = model.transcribe(files, timestamps=True)
    """
    if not is_model(model):
        raise TypeError(f"model: expected a model object of NeMo, got {type(model).__name__}")
    hypothesis_classes()
    outputs = Outputs(boost, nbest, confidence, resolve(frame_confidence, "frame_confidence"))
    if isinstance(decoder, CtcDecoder):
        place = "ctc_decoding" if hasattr(model, "ctc_decoding") else "decoding"
        _check_ctc(model, decoder)
    elif isinstance(decoder, TransducerDecoder):
        place = "decoding"
        _check_transducer(model, decoder, outputs)
    else:
        raise TypeError(f"decoder: expected a CtcDecoder or TransducerDecoder, got {type(decoder).__name__}")
    return Attachment(model, place, decoder, outputs)


def _check_ctc(model: Any, decoder: CtcDecoder) -> None:
    """Raises unless the model has a CTC decoder with the columns of this one."""
    columns, graph = len(ctc_head(model).vocabulary) + 1, decoder.graph
    fits = graph.num_columns == columns if graph.width_is_exact else graph.num_columns <= columns
    if not fits or graph.blank not in (None, columns - 1):
        raise ValueError(
            f"decoder: expected one for the {columns} columns of the model, the blank last, got one for "
            f"{graph.num_columns} columns with the blank {graph.blank}: it is that of another model"
        )


def _check_transducer(model: Any, decoder: TransducerDecoder, outputs: Outputs) -> None:
    """Raises unless the model is a transducer with the tokens of this one, and no output is for CTC alone."""
    if getattr(model, "joint", None) is None:
        raise UnsupportedError(f"model: expected an RNN-T or a TDT for a TransducerDecoder, got {type(model).__name__}")
    blank = model.decoding.blank_id
    if blank != decoder.options.blank_id:
        raise ValueError(
            f"decoder: expected one with the blank {blank}, as the model has it, got one with "
            f"{decoder.options.blank_id}: it is that of another model"
        )
    check_nbest(decoder.options, outputs.nbest)
    if asked := outputs.for_ctc():
        raise ValueError(f"{', '.join(asked)}: for a CtcDecoder; a TransducerDecoder has its option confidence")


class Attachment:
    """A decoder in the place of a model's own; made by `attach`.

    Attributes
    ----------
    model : model object of NeMo
    decoder : CtcDecoder or TransducerDecoder
    """

    def __init__(self, model: Any, place: str, decoder: CtcDecoder | TransducerDecoder, outputs: Outputs) -> None:
        self.model, self.decoder = model, decoder
        self._place, self._outputs = place, outputs
        self._own: tuple[Any, Any, Any] | None = None
        if (earlier := _attached(model).get(place)) is not None:
            earlier.detach()
        self._was_used = getattr(model, "cur_decoder", None)
        self.put()
        if self._was_used is not None:
            model.cur_decoder = "ctc" if place == "ctc_decoding" else "rnnt"
        (_keeper_of(model) or _Keeper(model)).attached[place] = self

    def put(self) -> None:
        """Puts the decoder where the model's own is; ValueError if it cannot give what the strategy asks for."""
        decoding = getattr(self.model, self._place)
        if self._own is not None and self._own[0] is decoding:
            return
        if isinstance(self.decoder, CtcDecoder):
            own = decoding, decoding.decoding, decoding.cfg
            infer: Any = CtcInfer(self.decoder, decoding, _as_asked(self._outputs, decoding))
            decoding.cfg = copy.deepcopy(decoding.cfg)  # that of the model is what it saves
            decoding.cfg["strategy"] = PASSED_ON
        else:
            own = decoding, decoding.decoding, decoding.cfg
            infer = TransducerInfer(self.decoder, decoding, _as_checked(self._outputs, self.decoder, decoding))
        decoding.decoding, self._own = infer, own

    def detach(self) -> None:
        """Gives the model its own decoder back; nothing happens if it has it already."""
        keeper = _keeper_of(self.model)
        if keeper is None or keeper.attached.get(self._place) is not self:
            return
        keeper.remove(self._place)
        if self._own is not None and self._own[0] is getattr(self.model, self._place):
            decoding, decoding.decoding, decoding.cfg = self._own[0], *self._own[1:]
        if self._was_used is not None:
            self.model.cur_decoder = self._was_used

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        detached = "" if _attached(self.model).get(self._place) is self else ", detached"
        return f"<Attachment of {self.decoder!r} to {type(self.model).__name__}{detached}>"


class _Keeper:
    """Stands for two methods of a model: after a change of the strategy attached decoders are put back."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.attached: dict[str, Attachment] = {}
        model.change_decoding_strategy, model.change_vocabulary = self.change_strategy, self.change_vocabulary

    def remove(self, place: str) -> None:
        """Forgets an attachment; after the last of them the model has its methods back."""
        del self.attached[place]
        if not self.attached:
            del self.model.change_decoding_strategy, self.model.change_vocabulary

    def change_strategy(self, *arguments: Any, **options: Any) -> Any:
        """The model's own, and then what keeps decoders attached."""
        found = type(self.model).change_decoding_strategy(self.model, *arguments, **options)
        for attachment in self.attached.values():
            attachment.put()
        return found

    def change_vocabulary(self, *arguments: Any, **options: Any) -> Any:
        """The model's own, after the decoders of the old vocabulary are detached."""
        warn("change_vocabulary: the attached decoder is detached, because it has the old labels; attach a new one")
        for attachment in [*self.attached.values()]:
            attachment.detach()
        return type(self.model).change_vocabulary(self.model, *arguments, **options)


def _keeper_of(model: Any) -> _Keeper | None:
    """The keeper of the model; None while nothing is attached."""
    keeper = getattr(vars(model).get("change_decoding_strategy"), "__self__", None)
    return keeper if isinstance(keeper, _Keeper) else None


def _attached(model: Any) -> dict[str, Attachment]:
    """What is attached to the model, by its place."""
    keeper = _keeper_of(model)
    return {} if keeper is None else keeper.attached


def _as_asked(outputs: Outputs, decoding: Any) -> Outputs:
    """The outputs with those that a strategy of CTC asks for, where none were given."""
    nbest, method = outputs.nbest or _listed(decoding), outputs.frame_confidence
    if method is None and getattr(decoding, "preserve_frame_confidence", False):
        fields = ("name", "entropy_type", "alpha", "entropy_norm")
        method = ConfidenceMethod(**{field: decoding.confidence_method_cfg[field] for field in fields})
    return Outputs(outputs.boost, nbest, outputs.confidence, method)


def _listed(decoding: Any) -> int | None:
    """How many hypotheses of an utterance the strategy requests; None for the best one alone."""
    strategy = decoding.cfg["strategy"]
    section = {} if strategy in GREEDY else decoding.cfg.get("wfst" if strategy == PASSED_ON else "beam") or {}
    return None if section.get("return_best_hypothesis", True) else section.get("beam_size", 1)


def _as_checked(outputs: Outputs, decoder: TransducerDecoder, decoding: Any) -> Outputs:
    """The outputs with the list that a strategy of a transducer requests; ValueError if the decoder lacks something."""
    listed, most = _listed(decoding), decoder.options.max_hypotheses
    if listed is not None and decoder.options.beam is None:
        raise ValueError(
            f"strategy {decoding.cfg['strategy']}: expected return_best_hypothesis=True, because a greedy "
            "TransducerDecoder writes one hypothesis; change it, detach the decoder, or make it with "
            "from_nemo(model, transducer={'beam': 4})"
        )
    found = replace(outputs, nbest=outputs.nbest or listed)
    if found.nbest is not None and found.nbest > most:
        raise ValueError(
            f"strategy {decoding.cfg['strategy']}: expected a beam_size of at most max_hypotheses, {most}, got "
            f"{listed}; give attach(..., nbest={most}), or make the decoder with "
            f"from_nemo(model, transducer={{'beam': 4, 'max_hypotheses': {listed}}})"
        )
    if not getattr(decoding, "preserve_frame_confidence", False):
        return found
    if decoder.options.confidence is None:
        raise ValueError(
            "confidence_cfg: the strategy asks for confidences, and the decoder has none; make it with "
            "from_nemo(model, transducer={'confidence': 'entropy'})"
        )
    if not decoding.exclude_blank_from_confidence or getattr(decoding, "tdt_include_duration_confidence", False):
        raise ValueError(
            "confidence_cfg: expected exclude_blank=True and tdt_include_duration=False, because the decoder has "
            "confidences of tokens alone; change them, or detach the decoder"
        )
    return found
