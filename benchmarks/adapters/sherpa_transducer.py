"""sherpa-onnx's searches of NeMo's transducers, on the weights of a transducer that is named arrays and its encoder
output.

sherpa-onnx takes an encoder that reads features of audio. Here it is a table of encoder outputs, in which the number of
frames of the features is looked up: an utterance is silence of a length of its own. The decoder and the joiner have the
inputs and outputs of NeMo's export, and the projections are in the joiner, as there.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import sherpa_onnx
from onnx import TensorProto, helper, numpy_helper

FIRST_LENGTH = 50  # frames of features of the first utterance
FEATURES, HOP, RATE = 80, 160, 16_000
OPSET = 17


def _save(
    path: Path, nodes: Sequence[Any], inputs: Sequence[tuple[str, int, list[Any]]], outputs: Sequence[str],
    weights: Mapping[str, npt.NDArray[Any]], said: Mapping[str, str],
) -> None:  # fmt: skip
    """Writes a model; outputs are named after their kind: those that end with "length" are int64."""
    made = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name.endswith("length") else TensorProto.FLOAT, None)
        for name in outputs
    ]
    graph = helper.make_graph(
        list(nodes), path.stem, [helper.make_tensor_value_info(*each) for each in inputs], made,
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    for key, value in said.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, str(path))


def _node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(" "), outputs.split(" "), **attributes)


def write_encoder(
    path: Path, encoded: Sequence[npt.NDArray[np.float32]], said: Mapping[str, str]
) -> None:  # fmt: skip
    """The table: [1, features, frames] to the utterance whose number is the number of frames less FIRST_LENGTH."""
    nodes = [
        _node("Sub", "length first", "number"),
        _node("Add", "number one", "following"),
        _node("Gather", "offsets number", "begin"),
        _node("Gather", "offsets following", "end"),
        _node("Slice", "table begin end", "found"),
        _node("Transpose", "found", "turned", perm=[1, 0]),
        _node("Unsqueeze", "turned zero", "outputs"),
        _node("Sub", "end begin", "encoded_length"),
    ]
    weights = {
        "first": np.array([FIRST_LENGTH], np.int64), "one": np.array([1], np.int64), "zero": np.array([0], np.int64),
        "offsets": np.cumsum([0, *map(len, encoded)]).astype(np.int64), "table": np.concatenate(encoded),
    }  # fmt: skip
    inputs = [("audio_signal", TensorProto.FLOAT, ["b", FEATURES, "t"]), ("length", TensorProto.INT64, ["b"])]
    _save(path, nodes, inputs, ["outputs", "encoded_length"], weights, said)


def write_decoder(path: Path, arrays: Mapping[str, npt.NDArray[np.float32]]) -> None:
    """The prediction network: [1, 1] of tokens, and states [1, 1, units]."""
    units = arrays["weight_hh_l0"].shape[1]

    def ordered(value: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The gates in the order of ONNX (input, output, forget, cell), of torch's (input, forget, cell, output)."""
        i, f, g, o = np.split(value, 4)
        return np.concatenate([i, o, f, g])

    nodes = [
        _node("Gather", "embedding targets", "seen"),
        _node("LSTM", "seen w r b  hidden cell", "all states_hidden states_cell", hidden_size=units),
        _node("Transpose", "states_hidden", "outputs", perm=[1, 2, 0]),
        _node("Cast", "target_length", "prednet_length", to=TensorProto.INT64),
    ]
    weights = {
        "embedding": arrays["embedding"], "w": ordered(arrays["weight_ih_l0"])[None],
        "r": ordered(arrays["weight_hh_l0"])[None],
        "b": np.concatenate([ordered(arrays["bias_ih_l0"]), ordered(arrays["bias_hh_l0"])])[None],
    }  # fmt: skip
    inputs = [
        ("targets", TensorProto.INT32, [1, 1]), ("target_length", TensorProto.INT32, [1]),
        ("hidden", TensorProto.FLOAT, [1, 1, units]), ("cell", TensorProto.FLOAT, [1, 1, units]),
    ]  # fmt: skip
    _save(path, nodes, inputs, ["outputs", "prednet_length", "states_hidden", "states_cell"], weights, {})


def write_joiner(path: Path, arrays: Mapping[str, npt.NDArray[np.float32]]) -> None:
    """The joint network: [1, features, 1] and [1, units, 1] to [1, 1, 1, outputs]."""
    nodes = [
        _node("Transpose", "encoder_outputs", "frame", perm=[0, 2, 1]),
        _node("Transpose", "decoder_outputs", "history", perm=[0, 2, 1]),
        _node("MatMul", "frame encoder_weight", "of_frame"),
        _node("MatMul", "history prediction_weight", "of_history"),
        _node("Add", "of_frame of_history", "summed"),
        _node("Add", "summed bias", "before"),
        _node("Relu", "before", "after"),
        _node("MatMul", "after output_weight", "product"),
        _node("Add", "product output_bias", "biased"),
        _node("Unsqueeze", "biased zero", "outputs"),
    ]
    weights = {f"{name}_weight": arrays[f"{name}_weight"].T for name in ("encoder", "prediction", "output")}
    weights |= {
        "bias": arrays["encoder_bias"] + arrays["prediction_bias"], "output_bias": arrays["output_bias"],
        "zero": np.array([1], np.int64),
    }  # fmt: skip
    inputs = [
        ("encoder_outputs", TensorProto.FLOAT, [1, None, 1]),
        ("decoder_outputs", TensorProto.FLOAT, [1, None, 1]),
    ]
    _save(path, nodes, inputs, ["outputs"], weights, {})


class SherpaTransducer:
    """Decodes the utterances of a table one by one, on one thread; the durations of a TDT are 0, 1, 2, ...

    folder : where the models are written
    blank : the last token
    paths : `max_active_paths` of `modified_beam_search`; None for `greedy_search`
    """

    def __init__(
        self,
        folder: Path,
        arrays: Mapping[str, npt.NDArray[np.float32]],
        encoded: Sequence[npt.NDArray[np.float32]],
        blank: int,
        paths: int | None,
    ) -> None:
        kind = "tdt" if len(arrays["output_weight"]) > blank + 1 else "rnnt"
        said = {
            "vocab_size": str(blank), "subsampling_factor": "8", "normalize_type": "", "pred_rnn_layers": "1",
            "pred_hidden": str(arrays["weight_hh_l0"].shape[1]), "feat_dim": str(FEATURES), "url": kind,
        }  # fmt: skip
        write_encoder(folder / "encoder.onnx", encoded, said)
        write_decoder(folder / "decoder.onnx", arrays)
        write_joiner(folder / "joiner.onnx", arrays)
        # Tokens go by their numbers: sherpa-onnx takes one that is called <unk> for a blank.
        names = [*(f"{number}" for number in range(blank)), "<blk>"]
        (folder / "tokens.txt").write_text("".join(f"{name} {at}\n" for at, name in enumerate(names)), encoding="utf-8")
        method = {"decoding_method": "greedy_search"} if paths is None else {
            "decoding_method": "modified_beam_search", "max_active_paths": paths,
        }  # fmt: skip
        self.recognizer = sherpa_onnx.OfflineRecognizer.from_transducer(
            *(str(folder / name) for name in ("encoder.onnx", "decoder.onnx", "joiner.onnx", "tokens.txt")),
            num_threads=1, model_type="nemo_transducer", feature_dim=FEATURES, **method,
        )  # fmt: skip
        self.count = len(encoded)

    def streams(self) -> list[Any]:
        """One of each utterance, with its features; a stream is decoded once."""
        found = []
        for number in range(self.count):
            stream = self.recognizer.create_stream()
            stream.accept_waveform(RATE, np.zeros((FIRST_LENGTH + number) * HOP, np.float32))
            found.append(stream)
        return found

    def decode(self, streams: Sequence[Any]) -> None:
        for stream in streams:
            self.recognizer.decode_stream(stream)

    @staticmethod
    def tokens(streams: Sequence[Any]) -> list[list[int]]:
        return [[int(name) for name in stream.result.tokens] for stream in streams]
