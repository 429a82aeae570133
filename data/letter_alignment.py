"""Which frames of CTC log-probs say which letter: forced alignment of transcripts, in torch, on a CPU or a GPU."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

NEVER = -1e30


@torch.inference_mode()
def first_frames(
    log_probs: Sequence[npt.NDArray[np.floating]], letters: Sequence[npt.NDArray[np.integer]], device: str = "cpu"
) -> list[npt.NDArray[np.int64]]:
    """The frame on which the best path through each utterance says each letter for the first time.

    log_probs : [frames, columns] of each utterance, natural logs; the blank is the last column
    letters : columns of each transcript; one that takes more frames than there are is a ValueError
    """
    found: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)] * len(letters)
    order = sorted(range(len(letters)), key=lambda i: len(log_probs[i]))
    for first in range(0, len(order), 64):
        batch = order[first : first + 64]
        for i, frames in zip(
            batch, _best_paths([log_probs[i] for i in batch], [letters[i] for i in batch], device), strict=True
        ):
            if frames is None:
                raise ValueError(
                    f"utterance {i}: its {len(letters[i])} letters do not fit into {len(log_probs[i])} frames"
                )
            found[i] = frames
    return found


def _best_paths(
    log_probs: Sequence[npt.NDArray[np.floating]], letters: Sequence[npt.NDArray[np.integer]], device: str
) -> list[npt.NDArray[np.int64] | None]:
    """State 2 i + 1 is letter i, those between are blanks; a letter may follow another one unless they are equal."""
    count, longest = len(letters), max(map(len, letters))
    frames = max(map(len, log_probs))
    blank = log_probs[0].shape[1] - 1
    states = 2 * longest + 1
    columns = np.full((count, states), blank)
    skips = np.zeros((count, states), bool)
    scores = np.zeros((count, frames, blank + 1), np.float32)
    for k, (values, text) in enumerate(zip(log_probs, letters, strict=True)):
        columns[k, 1 : 2 * len(text) : 2] = text
        skips[k, 3 : 2 * len(text) : 2] = text[1:] != text[:-1]
        scores[k, : len(values)] = values
    emitted = torch.from_numpy(scores).to(device)
    column, may_skip = torch.from_numpy(columns).to(device), torch.from_numpy(skips).to(device)
    best = torch.full((count, states), NEVER, device=device)
    best[:, :2] = emitted[:, 0].gather(1, column[:, :2])
    came = torch.zeros(frames, count, states, dtype=torch.uint8, device=device)
    ends = torch.tensor([len(values) for values in log_probs], device=device)
    for t in range(1, frames):
        one = torch.nn.functional.pad(best[:, :-1], (1, 0), value=NEVER)
        two = torch.nn.functional.pad(best[:, :-2], (2, 0), value=NEVER).masked_fill(~may_skip, NEVER)
        highest, came[t] = torch.stack([best, one, two]).max(0)
        best = torch.where((t < ends)[:, None], highest + emitted[:, t].gather(1, column), best)
    steps, finals = came.cpu().numpy(), best.cpu().numpy()
    found: list[npt.NDArray[np.int64] | None] = []
    for k, text in enumerate(letters):
        state = max(2 * len(text), 2 * len(text) - 1, key=lambda s, k=k: finals[k, s])
        if finals[k, state] <= NEVER / 2:
            found.append(None)
            continue
        begins = np.zeros(len(text), np.int64)
        for t in range(len(log_probs[k]) - 1, -1, -1):
            if state % 2:
                begins[state // 2] = t
            state -= int(steps[t, k, state]) if t else 0
        found.append(begins)
    return found
