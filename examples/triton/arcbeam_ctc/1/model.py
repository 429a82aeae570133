"""A model of Triton's Python backend: each sequence is a stream of arcbeam; log-probs come in, text goes out."""

import json
import os
import re
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from sequences import Chunk, Sequences  # beside this file, whose folder Triton puts on the path

import arcbeam

PLACE = re.compile(r" in utterance \d+, ")  # of a batch, of which a client knows nothing
KINDS = {"beam": float, "max_active": int, "acoustic_scale": float, "frame_shift": float, "threads": int}


class TritonPythonModel:
    """What Triton calls: `initialize` once, `execute` with the requests of a batch, `finalize` when it unloads."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the graph; `args` holds config.pbtxt as JSON, the model's folder, and the instance's device."""
        config = json.loads(args["model_config"])
        given = {name: value["string_value"] for name, value in config.get("parameters", {}).items()}
        if "graph" not in given:
            raise ValueError("config.pbtxt: expected the parameter graph, a file in the model's folder, got none")
        unknown = set(given) - {"graph", "words", *KINDS}
        if unknown:
            raise ValueError(f"config.pbtxt: expected the parameters graph, words, {', '.join(KINDS)}, got {unknown}")
        folder = args["model_repository"]
        words = os.path.join(folder, given["words"]) if "words" in given else None
        graph = arcbeam.Graph.load(os.path.join(folder, given["graph"]), words=words)
        on_gpu = args["model_instance_kind"] == "GPU"
        options = {name: KINDS[name](value) for name, value in given.items() if name in KINDS}
        self.decoder = arcbeam.CtcDecoder(
            graph, device=f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu", **options
        )
        idle = float(config["sequence_batching"]["max_sequence_idle_microseconds"])
        self.sequences = Sequences(self.decoder, idle * 1e-6)

    def execute(self, requests: list[Any]) -> list[Any]:
        """A response for each request, in their order."""
        responses: list[Any] = [None] * len(requests)
        chunks: dict[int, Chunk] = {}
        for at, request in enumerate(requests):
            try:
                if not control(request, "READY"):  # a slot of the batch that is empty
                    responses[at] = pb_utils.InferenceResponse(output_tensors=outputs("", "", 0, False))
                else:
                    chunks[at] = Chunk(
                        control(request, "CORRID"),
                        bool(control(request, "START")),
                        bool(control(request, "END")),
                        tensor(request, "LOG_PROBS")[0],  # of a batch of one
                    )
            except Exception as error:
                responses[at] = failed(error)
        for at, found in zip(chunks, self.sequences.decode(list(chunks.values())), strict=True):
            responses[at] = failed(found) if isinstance(found, Exception) else answered(found)
        return responses

    def finalize(self) -> None:
        """Forgets all sequences, and gives back memory."""
        self.sequences.clear()
        self.decoder.release()


def tensor(request: Any, name: str) -> np.ndarray:
    """The input with this name."""
    found = pb_utils.get_input_tensor_by_name(request, name)
    if found is None:
        raise ValueError(f"expected the input {name}, got none")
    values: np.ndarray = found.as_numpy()
    return values


def control(request: Any, name: str) -> int:
    """What the sequence batcher says of the request."""
    return int(tensor(request, name).reshape(-1)[0])


def outputs(text: str, stable: str, frames: int, is_final: bool) -> list[Any]:
    """The outputs of config.pbtxt, for a batch of one."""
    values = {
        "TEXT": np.array([[text.encode()]], np.object_),
        "STABLE_TEXT": np.array([[stable.encode()]], np.object_),
        "NUM_FRAMES": np.array([[frames]], np.int64),
        "IS_FINAL": np.array([[is_final]], np.bool_),
    }
    return [pb_utils.Tensor(name, value) for name, value in values.items()]


def answered(partial: Any) -> Any:
    """The response with what is known of a stream."""
    made = outputs(partial.text, partial.stable_text, partial.num_frames, partial.is_final)
    return pb_utils.InferenceResponse(output_tensors=made)


def failed(error: Exception) -> Any:
    """The error of one request, which leaves the others of its batch as they are."""
    said = PLACE.sub(" in ", str(error))
    return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(said))
