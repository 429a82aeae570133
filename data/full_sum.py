"""The loss of a transducer as a sum over all paths: the forward algorithm on anti-diagonals, in torch.

Graves 2012, *Sequence Transduction with Recurrent Neural Networks*, equation 16, and Xu et al. 2023, *Efficient
Sequence Transduction by Jointly Predicting Tokens and Durations*, equation 11. An RNN-T is a TDT with the one duration
0, whose log-prob is 0. As in law 12, a blank leads at least one frame further, and all frames from the last on are one
place. The number of labels on a frame has no limit here.

A node is a frame t and the labels u written so far. What leads to it comes from nodes of a smaller t + u, so all nodes
of an anti-diagonal t + u = n are summed at once, of all utterances.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

NEVER = -1e30  # a log-prob whose gradient is 0, unlike that of minus infinity, which is not a number


def full_sum(
    blank: torch.Tensor, label: torch.Tensor, ahead: torch.Tensor | None, durations: Sequence[int],
    lengths: torch.Tensor, counts: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """The log-prob of each utterance's labels, [batch]; NEVER, with no gradient, where they have no path.

    blank : [batch, frames, most labels + 1], log-probs of the blank by frame and labels written
    label : the same of the next label; that of the last column is never read
    ahead : [batch, frames, most labels + 1, durations], log-probs of the durations; None for an RNN-T
    durations : frames by duration; (0,) for an RNN-T
    lengths, counts : [batch], frames and labels of each utterance
    """
    batch, frames, nodes = blank.shape
    written = torch.arange(nodes, device=blank.device)
    frame = torch.arange(frames, device=blank.device)[:, None]
    inside = written <= counts[:, None, None]  # [batch, 1, nodes]
    more = written < counts[:, None, None]
    blanks, labels, ends = [], [], []
    for place, duration in enumerate(durations):
        after = ahead[..., place] if ahead is not None else 0.0
        steps = max(duration, 1)
        past = frame >= lengths[:, None, None] - steps
        leads = torch.where(inside, blank + after, NEVER)
        blanks.append((steps, _skewed(leads)))
        ends.append(torch.where(past & (written == counts[:, None, None]), leads, NEVER))
        leads = torch.where(more, label + after, NEVER)
        labels.append((duration + 1, _skewed(functional.pad(leads[..., :-1], (1, 0), value=NEVER))))
        past = frame >= lengths[:, None, None] - duration
        ends.append(torch.where(past & (written == counts[:, None, None] - 1), leads, NEVER))

    first = torch.full((batch, nodes), NEVER, device=blank.device, dtype=blank.dtype)
    first[:, 0] = 0.0
    forward = [first]
    for n in range(1, frames + nodes - 1):
        found = [forward[n - back] + step[n - back] for back, step in blanks if back <= n]
        # A label's step is stored where it leads in u, so that its row is the anti-diagonal n - duration.
        found += [
            functional.pad(forward[n - back][:, :-1], (1, 0), value=NEVER) + step[n - back + 1]
            for back, step in labels
            if back <= n
        ]
        forward.append(torch.stack(found).logsumexp(0) if found else torch.full_like(first, NEVER))
    reached = _straight(torch.stack(forward, 1), frames)
    of_lengths = torch.where(frame < lengths[:, None, None], reached, NEVER)
    found = torch.stack([of_lengths + end for end in ends]).logsumexp((0, 2, 3))
    return torch.where(found > NEVER / 2, found, NEVER)


def _skewed(values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """[batch, frames, nodes] as anti-diagonals [batch, nodes], t + u = 0, 1, ...; NEVER outside."""
    batch, frames, nodes = values.shape
    padded = functional.pad(values.transpose(1, 2), (0, nodes), value=NEVER).flatten(1)
    return padded[:, :-nodes].reshape(batch, nodes, frames + nodes - 1).unbind(2)


def _straight(values: torch.Tensor, frames: int) -> torch.Tensor:
    """Anti-diagonals [batch, frames + nodes - 1, nodes] as [batch, frames, nodes]."""
    batch, diagonals, nodes = values.shape
    flat = functional.pad(values.transpose(1, 2).flatten(1), (0, nodes))
    return flat.view(batch, nodes, diagonals + 1)[..., :frames].transpose(1, 2)
