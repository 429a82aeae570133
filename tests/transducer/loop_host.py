"""A host for the transducer kernels under the emulator: a group of utterances, launches until all is decoded."""

from dataclasses import dataclass

import numpy as np

from arcbeam.transducer.precision import rounded
from arcbeam.transducer.weights import device_weights
from tests.simt import build
from tests.transducer.oracle import bfloat16

NOTHING_BAD = np.uint64(2**64 - 1)
LAYERS = 8
FRAMES_OF_A_GROUP = 8
LANE = np.dtype(
    [(name, "u4") for name in ("frame", "frames", "symbols", "window", "count", "steps", "outcome", "bad_frame",
                               "bad_feature", "first_row", "fresh")]
    + [("bad_value", "f4")]
)  # fmt: skip
VIEW = np.dtype(
    [("data", "u8"), ("row_stride", "i8"), ("frames", "u4"), ("is_half", "u4"), ("first_row", "u4"), ("padding", "u4")]
)
RECORD = np.dtype(
    [("token", "u4"), ("frame", "u4"), ("duration", "u4"), ("log_prob", "f4"), ("confidence", "f4")]
)  # fmt: skip
VIEW_OF_AUTOMATON = np.dtype(
    [(name, "u8") for name in ("first_arcs", "arc_tokens", "arcs", "backoffs")]
    + [("num_states", "u4"), ("num_tokens", "u4")]
)
STATISTICS = ("none", "largest", "weighted", "power", "log power")
DONE, ROOM, CANCELLED = 0, 1, 2
BAD_INPUT, NOT_FINITE = 1, 2


class StuckError(Exception):
    """A barrier of the grid has given up."""


@dataclass(frozen=True)
class Shape:
    """The kernel and its launch."""

    kernel: str = "kept"
    blocks: int = 3
    threads: int = 64
    most_tests: int = 16
    first_window: int = 4
    widest_window: int = 16
    room: int = 2
    patience: int = 10**7
    teams: int = 1
    joins_alone: bool = False


@dataclass
class Found:
    records: np.ndarray
    hidden: np.ndarray
    cell: np.ndarray
    context: np.ndarray
    frame: int
    outcome: int
    bad: tuple[int, int, float]
    fusion: tuple[int, ...]


def padded(count, to):
    return -(-count // to) * to


class LoopHost:
    """Decodes with the network of a decoder that was made on the CPU."""

    def __init__(self, prediction, joint, options, measure=None):
        self.precision = options.get("precision", "float32")
        if self.precision == "bfloat16":
            prediction, joint = rounded(prediction, joint)
        self.prediction, self.joint, self.options, self.measure = prediction, joint, options, measure
        self.weights = device_weights(prediction, joint, self.precision)
        self.value = np.float32 if self.precision == "float32" else np.uint16
        self.kernels = build.load("cuda/transducer/transducer.cu")
        self.fused_kernels = build.load("cuda/transducer/transducer_fused.cu")
        self.layers = len(getattr(prediction, "layers", ()))
        self.context = 0 if self.layers else prediction.context
        self.launches = 0
        self.project_threads, self.project_staged = 64, False

    def decode(self, batch, states=None, shape=None, *, cancel=0, fusions=None, alphas=(0.2, 1.0), **schedule):
        """Gives a Found for each array [frames, features]; with `cancel` the launch is asked to end at once.

        `fusions`: for each utterance, for kernels that fuse logits; `alphas` are those of n-gram model and tree.
        """
        shape = shape or Shape()
        n, units = len(batch), self.prediction.units
        tests = max(shape.most_tests, n)
        lanes, views, groups, row = np.zeros(n, LANE), np.zeros(n, VIEW), [], 0
        unit_stride, joint_stride = padded(units, 32), padded(len(self.joint.encoder_weight), 32)
        hidden = np.zeros((2, n, max(1, self.layers), unit_stride), self.value)
        cell = np.zeros((n, max(1, self.layers), unit_stride), np.float32)
        contexts = np.full((n, max(1, self.context)), -1, np.int32)[:, : self.context].copy()
        for i, frames in enumerate(batch):
            state = states[i] if states else None
            lanes[i]["frames"], lanes[i]["window"], lanes[i]["first_row"] = len(frames), shape.first_window, row
            lanes[i]["fresh"] = state is None
            if state is not None:
                lanes[i]["frame"] = min(state.skip, 2**31)
                hidden[0, i, : self.layers, :units] = self._as_values(state.hidden)
                cell[i, : self.layers, :units] = state.cell
                contexts[i] = state.context
            elif self.context:
                contexts[i, -1] = self.options["blank_id"]
            views[i] = self._view(frames, row)
            groups += [(i, first) for first in range(0, len(frames), FRAMES_OF_A_GROUP)]
            row += len(frames)
        network = self._network()
        arrays = {f"frames[{i}]": frames for i, frames in enumerate(batch) if frames.size}
        projected, bad = self._project(network, views, groups, row, arrays, **schedule)
        outputs, room = len(self.joint.output_weight), shape.room
        records = np.zeros((n, room), RECORD)
        predictions, joined = np.zeros((n, joint_stride), np.float32), np.zeros((tests, joint_stride), self.value)
        logits, resumed = np.zeros((tests, outputs), np.float32), 0
        lengths = np.array(self.options.get("durations") or [0], np.uint32)
        status = np.zeros(1, np.uint32)
        fused = None if fusions is None else self._fused(fusions, arrays)
        kernels, suffix = (self.kernels, "") if fused is None else (self.fused_kernels, "_fused")
        while True:
            ending = np.full(1, 99, np.uint32)
            params = build.kernel_params(
                network=network, **self._confidence(), lanes=lanes, views=views, bad=bad, projected=projected,
                hidden=hidden, cell=cell, contexts=contexts, predictions=predictions, joined=joined, logits=logits,
                keys=np.zeros((3, 2, tests), np.uint64),
                records=records, lengths=lengths,
                arrived=np.zeros(1, np.uint32), status=status, ending=ending, cancelled=np.zeros(2, np.uint32),
                cancel=np.full(1, cancel, np.uint32), patience=np.uint64(shape.patience), num_lanes=np.uint32(n),
                room=np.uint32(room), most_tests=np.uint32(tests), first_window=np.uint32(shape.first_window),
                widest_window=np.uint32(shape.widest_window), blank=np.uint32(self.options["blank_id"]),
                max_symbols=np.uint32(self.options.get("max_symbols", 10)), resumed=np.uint32(resumed),
                frame_looping=np.uint32(self.options.get("algorithm") == "frame-looping"), teams=np.uint32(shape.teams),
                joins_alone=np.uint32(shape.joins_alone), padding=np.uint32(0),
            )  # fmt: skip
            shared_bytes = self._shared_bytes(shape, n, tests, unit_stride, joint_stride)
            if fused is not None:
                shared_bytes += padded(8 * n, 16) + padded(8 * tests, 16)
                params = build.kernel_params(
                    loop=params,
                    **fused,
                    label_keys=np.zeros((3, tests), np.uint64),
                    ngram_lm_alpha=np.float32(alphas[0]),
                    boosting_tree_alpha=np.float32(alphas[1]),
                    has_ngram_lm=np.uint32(any(fusion[0] is not None for fusion in fusions)),
                    has_boosting_tree=np.uint32(any(fusion[1] is not None for fusion in fusions)),
                )
            kernels.launch(
                f"arcbeam_transducer_{shape.kernel}{suffix}_{self.precision}", params, grid=shape.blocks,
                block=shape.threads, arrays=arrays, shared_bytes=shared_bytes, **schedule,
            )  # fmt: skip
            self.launches += 1
            if status[0]:
                raise StuckError
            if ending[0] != ROOM:
                break
            larger = np.zeros((n, 2 * room), RECORD)
            larger[:, :room] = records
            records, room, resumed = larger, 2 * room, 1
        self.ending = int(ending[0])
        return [
            Found(records[i, : lane["count"]], self._as_floats(hidden[lane["steps"] % 2, i, : self.layers, :units]),
                  cell[i, : self.layers, :units].copy(), contexts[i].copy(), int(lane["frame"]), int(lane["outcome"]),
                  (int(lane["bad_frame"]), int(lane["bad_feature"]), float(lane["bad_value"])),
                  (0, 0) if fused is None else tuple(fused["states"][i].tolist()))
            for i, lane in enumerate(lanes)
        ]  # fmt: skip

    def _fused(self, fusions, known):
        """The automata, whose arrays become known; the states that lanes begin with; room for rows and next states."""
        views, tokens = np.zeros((len(fusions), 2), VIEW_OF_AUTOMATON), self.prediction.tokens
        for i, fusion in enumerate(fusions):
            for model, one in enumerate(fusion[:2]):
                if one is not None:
                    arrays = (one.first_arcs, one.arc_tokens, one.arcs, one.backoffs)
                    known |= {f"automaton at {a.ctypes.data:x}": a for a in arrays if a.size}
                    views[i, model] = (*(a.ctypes.data for a in arrays), one.num_states, one.num_tokens)
        return {
            "automata": views,
            "states": np.array([fusion.states for fusion in fusions], np.uint32),
            "biases": np.zeros((len(fusions), tokens), np.float32),
            "next_states": np.zeros((2, len(fusions), 2, tokens), np.uint32),
        }

    def _as_values(self, floats):
        return floats if self.value == np.float32 else (bfloat16(floats).view(np.uint32) >> 16).astype(np.uint16)

    def _as_floats(self, values):
        return values.copy() if self.value == np.float32 else (values.astype(np.uint32) << 16).view(np.float32)

    def project(self, batch, **schedule):
        """(projected frames of all utterances, frame and feature of the first bad value of each or None)."""
        views, groups, row = np.zeros(len(batch), VIEW), [], 0
        for i, frames in enumerate(batch):
            views[i] = self._view(frames, row)
            groups += [(i, first) for first in range(0, len(frames), FRAMES_OF_A_GROUP)]
            row += len(frames)
        wholes = [frames if frames.base is None else frames.base for frames in batch]  # rows may lie apart
        arrays = {f"frames[{i}]": whole for i, whole in enumerate(wholes) if whole.size}
        projected, bad = self._project(self._network(), views, groups, row, arrays, **schedule)
        places = [None if at == NOTHING_BAD else (int(at) >> 32, int(at) & 0xFFFFFFFF) for at in bad]
        return projected[:, : len(self.joint.encoder_weight)], places

    def _project(self, network, views, groups, rows, arrays, **schedule):
        bad = np.full(len(views), NOTHING_BAD)
        projected = np.zeros((max(1, rows), padded(len(self.joint.encoder_weight), 32)), np.float32)
        if groups:
            params = build.kernel_params(
                network=network, utterances=views, groups=np.array(groups, np.uint32), projected=projected, bad=bad,
                num_groups=np.uint32(len(groups)), staged=np.uint32(self.project_staged),
            )  # fmt: skip
            self.kernels.launch(
                f"arcbeam_transducer_project_{self.precision}",
                params,
                grid=2,
                block=self.project_threads,
                arrays=arrays,
                shared_bytes=max(32768, 128 * (self.weights["encoder"].shape[1] + 32)),
                **schedule,
            )
        return projected, bad

    @staticmethod
    def _view(frames, first_row):
        stride = frames.strides[0] // frames.itemsize if len(frames) else 0
        return (frames.ctypes.data, stride, len(frames), frames.dtype == np.float16, first_row, 0)

    def _matrix(self, name, rows=None):
        values, bias = self.weights[name], self.weights.get(f"{name}_bias")
        rows = len(getattr(self.joint, f"{name}_weight")) if rows is None else rows
        return build.kernel_params(
            values=values, bias=np.uint64(0) if bias is None else bias, rows=np.uint32(rows),
            stride=np.uint32(values.shape[1]),
        )  # fmt: skip

    def _network(self):
        nothing = build.kernel_params(values=np.uint64(0), bias=np.uint64(0), rows=np.uint32(0), stride=np.uint32(0))
        gates = 4 * self.prediction.units
        layers = {}
        for i in range(LAYERS):
            there = i < self.layers
            layers[f"recurrent{i}"] = self._matrix(f"recurrent_l{i}", gates) if there else nothing
            layers[f"input{i}"] = self._matrix(f"input_l{i}", gates) if there and i else nothing
        bias = self.weights.get("convolution_bias")
        return build.kernel_params(
            encoder=self._matrix("encoder"), prediction=self._matrix("prediction"), output=self._matrix("output"),
            **layers, tables=self.weights["tables"], convolution_bias=np.uint64(0) if bias is None else bias,
            tokens=np.uint32(self.prediction.tokens),
            durations=np.uint32(len(self.joint.output_weight) - self.prediction.tokens),
            units=np.uint32(self.prediction.units), features=np.uint32(self.joint.encoder_weight.shape[1]),
            num_layers=np.uint32(self.layers), context=np.uint32(self.context),
            relu=np.uint32(getattr(self.prediction, "relu", False)),
            activation=np.uint32(("tanh", "relu", "sigmoid").index(self.joint.activation)),
        )  # fmt: skip

    def _confidence(self):
        m = self.measure
        numbers = [0.0] * 5 if m is None else [m.alpha, m.factor, m.offset, m.scale, m.shift]
        return {
            "statistic": np.uint32(0 if m is None else STATISTICS.index(m.statistic)),
            "exponential": np.uint32(0 if m is None else m.exponential),
            **{f"confidence{i}": np.float32(number) for i, number in enumerate(numbers)},
            "confidence_padding": np.uint32(0),
        }

    def _shared_bytes(self, shape, lanes, tests, unit_stride, joint_stride):
        warps, exact = shape.threads // 32, self.precision == "float32"
        common = (
            32
            + 16 * padded(4 * lanes, 16)
            + padded(4 * -(-lanes // 32), 16)
            + padded(4 * lanes * self.context, 16)
            + 2 * padded(4 * tests, 16)
        )
        common += 2 * padded(8 * tests, 16)
        common += padded(4 * 2 * (128 if exact else 384) * warps, 16)
        if shape.kernel == "many":
            return common + 32768

        def held(items):
            return padded(items, 4 if exact else 8)

        def share(items):
            return -(-items // (shape.blocks // shape.teams))

        width = 4 if exact else 2
        units, joint = (stride if exact else (stride // 32 | 1) * 32 for stride in (unit_stride, joint_stride))
        matrices = 2 * self.layers - 1 if self.layers else 0
        common += padded(width * matrices * held(4 * share(self.prediction.units)) * units, 16)
        for rows, inputs in ((self.joint.encoder_weight, units), (self.joint.output_weight, joint)):
            common += padded(width * held(share(len(rows))) * inputs, 16) + padded(4 * held(share(len(rows))), 16)
        if shape.joins_alone:
            common += padded(width * tests * joint, 16)
        return common
