"""NeMo's label-looping with CUDA graphs, on the weights of a transducer that is named arrays.

NeMo's loop is its own, untouched; it calls a prediction network and a joint network made here of torch's layers, as
its own are. The best it has is asked for: a graph with loops in it, which decodes a batch in one launch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks import nemo_sources

MODULE = "nemo.collections.asr.parts.submodules.transducer_decoding"


class Decoder(torch.nn.Module):
    """An embedding and an LSTM, as NeMo's loop calls its prediction network."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[np.float32]]) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding.from_pretrained(torch.from_numpy(arrays["embedding"]))
        self.layers = sum(name.startswith("weight_hh") for name in arrays)
        self.units = arrays["weight_hh_l0"].shape[1]
        self.lstm = torch.nn.LSTM(arrays["embedding"].shape[1], self.units, self.layers)
        self.lstm.load_state_dict({name: torch.from_numpy(arrays[name]) for name in self.lstm.state_dict()})

    def initialize_state(self, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        zeros = torch.zeros(2, self.layers, len(y), self.units, device=y.device)
        return zeros[0].clone(), zeros[1].clone()

    def predict(self, y: Any, state: Any, add_sos: bool = False, batch_size: int | None = None) -> Any:
        out, state = self.lstm(self.embedding(y).transpose(0, 1), state)
        return out.transpose(0, 1), state

    def batch_replace_states_mask(
        self, src_states: Any, dst_states: Any, mask: torch.Tensor, other_src_states: Any = None
    ) -> None:
        others = dst_states if other_src_states is None else other_src_states
        for source, other, target in zip(src_states, others, dst_states, strict=True):
            torch.where(mask[None, :, None], source, other, out=target)

    def batch_replace_states_all(self, src_states: Any, dst_states: Any, batch_size: int | None = None) -> None:
        for source, target in zip(src_states, dst_states, strict=True):
            target[:, :batch_size].copy_(source[:, :batch_size])

    def clone_state(self, state: Any) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, cell = state
        return hidden.clone(), cell.clone()


class Joint(torch.nn.Module):
    """Two projections, ReLU and an output layer, as NeMo's loop calls its joint network."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[np.float32]]) -> None:
        super().__init__()
        self.num_classes_with_blank = len(arrays["output_weight"])
        for name in ("encoder", "prediction", "output"):
            outputs, inputs = arrays[f"{name}_weight"].shape
            layer = torch.nn.Linear(inputs, outputs)
            layer.weight.data = torch.from_numpy(arrays[f"{name}_weight"])
            layer.bias.data = torch.from_numpy(arrays[f"{name}_bias"])
            setattr(self, name, layer)

    def project_encoder(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x)  # type: ignore[no-any-return]

    def project_prednet(self, x: torch.Tensor) -> torch.Tensor:
        return self.prediction(x)  # type: ignore[no-any-return]

    def joint_after_projection(self, encoded: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(encoded[:, :, None] + predicted[:, None])
        return self.output(hidden)  # type: ignore[no-any-return]


class NemoTransducer:
    """Decodes padded batches of encoder output [batch, frames, features] on the GPU."""

    def __init__(
        self, arrays: Mapping[str, npt.NDArray[np.float32]], blank: int, durations: Sequence[int] | None
    ) -> None:
        looping = nemo_sources.load(MODULE)
        self.where = "cuda" if torch.cuda.is_available() else "cpu"
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        options: dict[str, Any] = {
            "decoder": Decoder(arrays).to(self.where).eval(),
            "joint": Joint(arrays).to(self.where).eval(),
            "blank_index": blank,
            "max_symbols_per_step": 10,
            "preserve_alignments": False,
            "allow_cuda_graphs": self.where == "cuda",
        }
        if durations is None:
            self.computer = looping.GreedyBatchedRNNTLabelLoopingComputer(**options)
        else:
            self.computer = looping.GreedyBatchedTDTLabelLoopingComputer(**options, durations=list(durations))
        if self.where == "cuda":
            self.computer.force_cuda_graphs_mode("full_graph")

    def prepare(self, frames: npt.NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
        batch = torch.from_numpy(frames).to(self.where)
        return batch, torch.full((len(frames),), frames.shape[1], device=self.where)

    def decode(self, prepared: tuple[torch.Tensor, torch.Tensor]) -> Any:
        """NeMo's hypotheses, which lie on the GPU."""
        with torch.inference_mode():
            hyps = self.computer(*prepared)[0]
        if self.where == "cuda":
            torch.cuda.synchronize()
        return hyps

    @staticmethod
    def tokens(hyps: Any) -> list[list[int]]:
        lengths = hyps.current_lengths.tolist()
        return [row[:n] for row, n in zip(hyps.transcript.tolist(), lengths, strict=True)]
