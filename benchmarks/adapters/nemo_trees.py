"""NeMo's boosting trees, made of tokens, and many of them where a decoder of NeMo takes one."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from benchmarks.adapters import nemo_sources

PART = "nemo.collections.asr.parts.context_biasing"
CONTEXTS = nemo_sources.load(f"{PART}.context_graph_universal").ContextGraph
TREE = nemo_sources.load(f"{PART}.boosting_graph_batched").GPUBoostingTreeModel
MANY_TREES = nemo_sources.load(f"{PART}.biasing_multi_model").GPUBiasingMultiModel
CONTEXT_SCORE, DEPTH_SCALING, UNK_SCORE = 1.0, 2.0, 0.0  # NeMo's defaults

Phrases = Sequence[Sequence[int]]


def tree(
    phrases: Phrases,
    tokens: int,
    *,
    context_score: float = CONTEXT_SCORE,
    depth_scaling: float = DEPTH_SCALING,
    unk_score: float = UNK_SCORE,
) -> Any:
    """NeMo's tree of phrases; `tokens` counts the tokens but the blank."""
    contexts = CONTEXTS(context_score=context_score, depth_scaling=depth_scaling)
    contexts.build(token_ids=[list(phrase) for phrase in phrases], uniform_weights=False)
    return TREE.from_context_graph(contexts, tokens, unk_score, 0.0, use_triton=False, uniform_weights=False)


class Trees:
    """The trees of a batch, in the form of the one tree that NeMo's CTC decoders take: row i reads tree i."""

    def __init__(self, trees: Sequence[Any], tokens: int) -> None:
        self.many = MANY_TREES(tokens, use_triton=False)
        self.rows = torch.tensor([self.many.add_model(each) for each in trees])

    def to(self, where: Any) -> "Trees":
        return self

    def get_init_states(self, batch_size: int, bos: bool = True) -> torch.Tensor:
        return self.many.get_init_states(batch_size, bos)  # type: ignore[no-any-return]

    def advance(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores and next states [rows x beams, tokens]."""
        requested = self.rows.repeat_interleave(len(states) // len(self.rows))
        return self.many.advance(states, requested)  # type: ignore[no-any-return]

    def get_final(self, states: torch.Tensor) -> torch.Tensor:
        """A tree has no scores of the end."""
        return torch.zeros(len(states))


@lru_cache(maxsize=16)
def trees(lists: tuple[tuple[tuple[int, ...], ...], ...], tokens: int, shape: tuple[float, float, float]) -> Trees:
    """Those of the lists of a batch, with (context_score, depth_scaling, unk_score); a second for 4,000 words or so."""
    context_score, depth_scaling, unk_score = shape
    options = {"context_score": context_score, "depth_scaling": depth_scaling, "unk_score": unk_score}
    return Trees([tree(phrases, tokens, **options) for phrases in lists], tokens)
