"""The same sequences through nvidia-pytriton, Triton within a process of Python, which has no sequence batcher.

So a request says itself which sequence it is of, and whether it is the first or the last. A client has to wait for the
result of a chunk before it sends the next one of its sequence, because batches keep no order.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import arcbeam

sys.path.insert(0, str(Path(__file__).resolve().parent / "arcbeam_ctc" / "1"))
from sequences import Chunk, Sequences

MODEL = "arcbeam_ctc"


def answers(sequences: Sequences) -> Callable[[Sequence[Any]], list[dict[str, np.ndarray]]]:
    """The function that pytriton calls with the requests of a batch.

    An exception of it would be that of all requests, so the error of one is an output.
    """

    def infer(requests: Sequence[Any]) -> list[dict[str, np.ndarray]]:
        chunks = [
            Chunk(
                int(request["SEQUENCE"].item()), bool(request["START"].item()), bool(request["END"].item()),
                request["LOG_PROBS"][0],
            )
            for request in requests
        ]  # fmt: skip
        return [answer(found) for found in sequences.decode(chunks)]

    return infer


def answer(found: Any) -> dict[str, np.ndarray]:
    """The outputs for a batch of one."""
    bad = isinstance(found, Exception)
    texts = ("", "", str(found)) if bad else (found.text, found.stable_text, "")
    made = {
        name: np.array([[text.encode()]], np.object_)
        for name, text in zip(("TEXT", "STABLE_TEXT", "ERROR"), texts, strict=True)
    }
    made["NUM_FRAMES"] = np.array([[0 if bad else found.num_frames]], np.int64)
    made["IS_FINAL"] = np.array([[not bad and found.is_final]], np.bool_)
    return made


def bind(triton: Any, decoder: arcbeam.CtcDecoder, max_batch: int = 256, max_wait_ms: float = 2.0) -> Sequences:
    """Adds the model to a `pytriton.triton.Triton`; the streams that it keeps."""
    from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor

    sequences = Sequences(decoder, 60.0)
    triton.bind(
        model_name=MODEL,
        infer_func=answers(sequences),
        inputs=[
            Tensor(name="SEQUENCE", dtype=np.uint64, shape=(1,)),
            Tensor(name="START", dtype=np.bool_, shape=(1,)),
            Tensor(name="END", dtype=np.bool_, shape=(1,)),
            Tensor(name="LOG_PROBS", dtype=np.float32, shape=(-1, -1)),
        ],
        outputs=[
            Tensor(name="TEXT", dtype=np.bytes_, shape=(1,)),
            Tensor(name="STABLE_TEXT", dtype=np.bytes_, shape=(1,)),
            Tensor(name="ERROR", dtype=np.bytes_, shape=(1,)),
            Tensor(name="NUM_FRAMES", dtype=np.int64, shape=(1,)),
            Tensor(name="IS_FINAL", dtype=np.bool_, shape=(1,)),
        ],
        config=ModelConfig(
            max_batch_size=max_batch, batcher=DynamicBatcher(max_queue_delay_microseconds=round(1e3 * max_wait_ms))
        ),
    )
    return sequences


def main() -> None:
    """Serves a graph until it is stopped."""
    from pytriton.triton import Triton

    parser = argparse.ArgumentParser(description="Serves a graph with nvidia-pytriton.")
    parser.add_argument("graph", help="graph.arcbeam")
    parser.add_argument("--device", default="auto", help="as CtcDecoder takes it (auto)")
    parser.add_argument("--beam", type=float, default=17.0)
    given = parser.parse_args()
    decoder = arcbeam.CtcDecoder(arcbeam.Graph.load(given.graph), beam=given.beam, device=given.device)
    with Triton() as triton:
        bind(triton, decoder)
        triton.serve()


if __name__ == "__main__":
    main()
