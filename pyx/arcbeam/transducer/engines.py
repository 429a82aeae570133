"""The engine of a transducer decoder: the CPU's, or a GPU's."""

from __future__ import annotations

from typing import Any, TypeAlias

from arcbeam.arrays.engine import Bad, Engine, Table
from arcbeam.core.confidence import ConfidenceMethod, Measure, measure
from arcbeam.core.threads import usable_cores
from arcbeam.transducer._transducer import CpuEngine, Network
from arcbeam.transducer.network import Joint, LstmPrediction, StatelessPrediction
from arcbeam.transducer.options import TransducerOptions
from arcbeam.transducer.token_automaton import Fusions, TokenAutomaton
from arcbeam.transducer.weights import device_weights, rounded

TransducerEngine: TypeAlias = Engine[[Table, list[Any], bool, Fusions, bool], tuple[list[Any], list[Bad]]]
"""Its states are `State` or None, with a beam `BeamState` or None. The last argument says whether lattices are kept."""


def make_engine(
    prediction: LstmPrediction | StatelessPrediction,
    joint: Joint,
    options: TransducerOptions,
    ordinal: int | None,
    lodr: TokenAutomaton | None = None,
    *,
    frame_looping: bool = False,
) -> TransducerEngine:
    """The engine of the GPU with this number, or of the CPU if it is None, with the weights on that device."""
    method = options.confidence
    sure = measure(method, prediction.tokens) if isinstance(method, ConfidenceMethod) else None
    if options.precision == "bfloat16":
        prediction, joint = rounded(prediction, joint)
    if ordinal is not None:
        return _cuda(prediction, joint, options, sure, ordinal, lodr, frame_looping)
    threads = options.threads or usable_cores()
    return CpuEngine(
        pack(prediction, joint, rounds=options.precision == "bfloat16"),
        blank=options.blank_id,
        max_symbols=options.max_symbols,
        durations=options.durations or (),
        frame_looping=frame_looping,
        confidence=sure,
        threads=threads,
        alphas=(options.ngram_lm_alpha, options.boosting_tree_alpha),
        beam=None if options.beam is None else options,
        lodr=lodr,
    )


def pack(
    prediction: LstmPrediction | StatelessPrediction, joint: Joint, *, rounds: bool = False, kernels: str | None = None
) -> Network:
    """The networks, packed for this machine's vector unit, or for another one."""
    arrays: dict[str, Any] = {"embedding": prediction.embedding, "layers": 0}
    arrays |= {name: value for name, value in vars(joint).items() if name != "activation"}
    if isinstance(prediction, LstmPrediction):
        arrays["layers"] = len(prediction.layers)
        for i, layer in enumerate(prediction.layers):
            arrays |= {f"{name}_l{i}": value for name, value in vars(layer).items()}
        relu, groups, context = False, 1, 0
    else:
        arrays |= {"convolution": prediction.convolution, "convolution_bias": prediction.convolution_bias}
        relu, groups, context = prediction.relu, prediction.groups, prediction.context
    return Network(
        arrays,
        activation=joint.activation,
        relu=relu,
        groups=groups,
        units=prediction.units,
        context=context,
        rounds=rounds,
        kernels=kernels,
    )


def _cuda(
    prediction: LstmPrediction | StatelessPrediction,
    joint: Joint,
    options: TransducerOptions,
    confidence: Measure | None,
    ordinal: int,
    lodr: TokenAutomaton | None,
    frame_looping: bool,
) -> TransducerEngine:
    """The engine on a GPU, with the weights on that GPU."""
    from arcbeam.transducer.gpu._transducer_engine import CudaEngine

    stateless = isinstance(prediction, StatelessPrediction)
    return CudaEngine(
        device_weights(prediction, joint, options.precision),
        ordinal,
        precision=options.precision,
        tokens=prediction.tokens,
        units=prediction.units,
        features=joint.encoder_weight.shape[1],
        joint=len(joint.encoder_weight),
        layers=0 if stateless else len(prediction.layers),  # type: ignore[union-attr]
        context=prediction.context if stateless else 0,  # type: ignore[union-attr]
        relu=stateless and prediction.relu,  # type: ignore[union-attr]
        activation=joint.activation,
        blank=options.blank_id,
        max_symbols=options.max_symbols,
        durations=options.durations or (),
        frame_looping=frame_looping,
        confidence=confidence,
        alphas=(options.ngram_lm_alpha, options.boosting_tree_alpha),
        beam=None if options.beam is None else options,
        lodr=lodr,
    )
