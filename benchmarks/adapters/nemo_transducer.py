"""NeMo's label-looping on the weights of a transducer that is named arrays, and frame-looping in PyTorch beside it.

NeMo's loop is its own, untouched; it calls a prediction network and a joint network made here of torch's layers, as
its own are. Unless told otherwise, it is the best that NeMo has: a graph with loops in it, which decodes a batch
in one launch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.adapters import nemo_sources

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
        zeros = self.embedding.weight.new_zeros(2, self.layers, len(y), self.units)
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


class JointOfEveryStep(Joint):
    """The same without projections made in advance: each step projects its frames and predictions."""

    def project_encoder(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def project_prednet(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def joint_after_projection(self, encoded: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
        return super().joint_after_projection(self.encoder(encoded), self.prediction(predicted))


GRAPHS = {"full": "full_graph", "partial": "no_while_loops", "none": None}


class NemoTransducer:
    """Decodes padded batches of encoder output [batch, frames, features] on the GPU.

    graphs : "full" with loops in the graph; "partial", loops in Python around graphs; "none"
    precomputed : whether frames and predictions are projected once
    compiled : whether the networks go through torch.compile; without graphs only
    trees : NeMo's boosting trees, one for each utterance of every batch; :meth:`weigh` says how much they count
    """

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[np.float32]],
        blank: int,
        durations: Sequence[int] | None,
        *,
        graphs: str = "full",
        precomputed: bool = True,
        compiled: bool = False,
        trees: Sequence[Any] | None = None,
    ) -> None:
        looping = nemo_sources.load(MODULE)
        self.where = "cuda" if torch.cuda.is_available() else "cpu"
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        options: dict[str, Any] = {
            "decoder": Decoder(arrays).to(self.where).eval(),
            "joint": (Joint if precomputed else JointOfEveryStep)(arrays).to(self.where).eval(),
            "blank_index": blank,
            "max_symbols_per_step": 10,
            "preserve_alignments": False,
            "allow_cuda_graphs": self.where == "cuda" and GRAPHS[graphs] is not None,
            "enable_per_stream_biasing": trees is not None,
        }
        if compiled:
            for module, name in (("decoder", "predict"), ("joint", "joint_after_projection")):
                setattr(options[module], name, torch.compile(getattr(options[module], name), dynamic=True))
        if durations is None:
            self.computer = looping.GreedyBatchedRNNTLabelLoopingComputer(**options)
        else:
            self.computer = looping.GreedyBatchedTDTLabelLoopingComputer(**options, durations=list(durations))
        if options["allow_cuda_graphs"]:
            self.computer.force_cuda_graphs_mode(GRAPHS[graphs])
        self.rows: torch.Tensor | None = None
        if trees is not None:
            added = [self.computer.biasing_multi_model.add_model(tree) for tree in trees]
            self.rows = torch.tensor(added, device=self.where)

    def weigh(self, alpha: float) -> None:
        """Sets `boosting_tree_alpha` of all trees."""
        self.computer.biasing_multi_model.model2alpha.fill_(alpha)

    def prepare(self, frames: Any, lengths: Sequence[int] | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        batch = torch.as_tensor(frames).to(self.where)
        counts = [batch.shape[1]] * len(batch) if lengths is None else list(lengths)
        return batch, torch.tensor(counts, device=self.where)

    def decode(self, prepared: tuple[torch.Tensor, torch.Tensor]) -> Any:
        """NeMo's hypotheses, which lie on the GPU."""
        with torch.inference_mode():
            hyps = self.computer(*prepared, None, self.rows)[0]
        if self.where == "cuda":
            torch.cuda.synchronize()
        return hyps

    @staticmethod
    def tokens(hyps: Any) -> list[list[int]]:
        lengths = hyps.current_lengths.tolist()
        return [row[:n] for row, n in zip(hyps.transcript.tolist(), lengths, strict=True)]


class FrameLooping:
    """Batched greedy decoding frame by frame (Bataev et al. 2024, Algorithm 2), in PyTorch.

    A TDT's utterance takes no part in the frames that its durations pass over, and all pass over those that none wants.
    """

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[np.float32]],
        blank: int,
        durations: Sequence[int] | None = None,
        max_symbols: int = 10,
    ) -> None:
        self.where = "cuda" if torch.cuda.is_available() else "cpu"
        self.decoder, self.joint = Decoder(arrays).to(self.where).eval(), Joint(arrays).to(self.where).eval()
        self.blank, self.max_symbols = blank, max_symbols
        self.steps = None if durations is None else torch.tensor(list(durations), device=self.where)

    prepare = NemoTransducer.prepare

    @torch.inference_mode()
    def decode(self, prepared: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens [batch, most], and how many of them are each utterance's."""
        frames, lengths = prepared
        batch, longest, _ = frames.shape
        encoded = self.joint.project_encoder(frames)
        tokens = torch.zeros(batch, longest * self.max_symbols + 1, dtype=torch.long, device=self.where)
        counts = torch.zeros(batch, dtype=torch.long, device=self.where)
        due = torch.zeros(batch, dtype=torch.long, device=self.where)  # the frame that a TDT's utterance wants next
        start = torch.full((batch, 1), self.blank, device=self.where)
        predicted, state = self.decoder.predict(start, self.decoder.initialize_state(start))
        predicted = self.joint.project_prednet(predicted)
        for t in range(longest):
            here = (t < lengths) & (due <= t)
            if self.steps is not None and not here.any():
                continue
            for _ in range(self.max_symbols):
                logits = self.joint.joint_after_projection(encoded[:, t : t + 1], predicted)[:, 0, 0]
                labels = logits if self.steps is None else logits[:, : -len(self.steps)]
                labels = labels.argmax(1)
                spoken = here & (labels != self.blank)
                stays = spoken
                if self.steps is not None:
                    step = self.steps[logits[:, -len(self.steps) :].argmax(1)]
                    due = torch.where(here, t + step, due)
                    stays = spoken & (step == 0)
                if not spoken.any():
                    break
                tokens.scatter_(1, counts[:, None], torch.where(spoken, labels, 0)[:, None])
                counts += spoken
                after, moved = self.decoder.predict(torch.where(spoken, labels, 0)[:, None], state)
                predicted = torch.where(spoken[:, None, None], self.joint.project_prednet(after), predicted)
                self.decoder.batch_replace_states_mask(moved, state, spoken)
                here = stays
                if self.steps is not None and not here.any():
                    break
        if self.where == "cuda":
            torch.cuda.synchronize()
        return tokens, counts

    @staticmethod
    def tokens(found: tuple[torch.Tensor, torch.Tensor]) -> list[list[int]]:
        rows, counts = found
        return [row[:n] for row, n in zip(rows.tolist(), counts.tolist(), strict=True)]
