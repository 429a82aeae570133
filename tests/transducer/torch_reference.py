"""Greedy decoding with torch's own modules, and the script that wrote ``torch_reference.npz``.

python -m tests.transducer.torch_reference
"""

from pathlib import Path

import numpy as np

from tests.transducer.networks import random_arrays, random_frames

FILE = Path(__file__).with_suffix(".npz")
CASES = {
    "lstm": ({"layers": 2, "blank_bias": 3.0}, None),
    "tdt": ({"layers": 1, "durations": 4, "blank_bias": 2.0}, [0, 1, 2, 3]),
    "stateless": ({"layers": 0, "context": 2, "groups": 4, "blank_bias": 2.0}, None),
}
FRAMES = 25


def make(case, seed):
    shape, durations = CASES[case]
    return random_arrays(seed, **shape), random_frames(seed, FRAMES), durations


def decode(arrays, frames, blank, durations=None, max_symbols=10):
    """(tokens, frames, log-probs, hidden [layers, units], cell) by torch; the joint's activation is tanh."""
    import torch

    tensors = {name: torch.from_numpy(np.asarray(value)) for name, value in arrays.items()}
    is_lstm = "weight_hh_l0" in arrays
    if is_lstm:
        layers = sum(name.startswith("weight_hh") for name in arrays)
        lstm = torch.nn.LSTM(arrays["embedding"].shape[1], arrays["weight_hh_l0"].shape[1], layers)
        lstm.load_state_dict({name: tensors[name] for name in lstm.state_dict()})
        state = None
    else:
        units, size, context = arrays["convolution"].shape
        groups = arrays["embedding"].shape[1] // size
        convolution = torch.nn.Conv1d(size * groups, units, context, groups=groups)
        convolution.load_state_dict({"weight": tensors["convolution"], "bias": tensors["convolution_bias"]})
        state = torch.full((context,), -1)

    def linear(name, x):
        return torch.nn.functional.linear(x, tensors[f"{name}_weight"], tensors[f"{name}_bias"])

    def predict(token, state):
        if is_lstm:
            out, state = lstm(tensors["embedding"][token].view(1, 1, -1), state)
            return linear("prediction", out[0, 0]), state
        state = torch.cat([state[1:], torch.tensor([token])])
        embedded = tensors["embedding"][state.clamp(min=0)] * (state >= 0)[:, None]
        return linear("prediction", torch.relu(convolution(embedded.T)[:, 0])), state

    tokens, times, log_probs = [], [], []
    with torch.inference_mode():
        encoded = linear("encoder", torch.from_numpy(frames))
        prediction, state = predict(blank, state)
        t = symbols = 0
        while t < len(frames):
            logits = linear("output", torch.tanh(encoded[t] + prediction))
            vocabulary = len(logits) - len(durations or ())
            token = int(logits[:vocabulary].argmax())
            duration = durations[int(logits[vocabulary:].argmax())] if durations else 0
            if token == blank:
                t, symbols = t + max(duration, 1), 0
                continue
            tokens.append(token)
            times.append(t)
            log_probs.append(float(logits[:vocabulary].log_softmax(0)[token]))
            prediction, state = predict(token, state)
            symbols = symbols + 1 if duration == 0 else 0
            t += duration
            if symbols == max_symbols:
                t, symbols = t + 1, 0
    hidden, cell = (part[:, 0].numpy() for part in state) if is_lstm else (np.zeros(0), np.zeros(0))
    return np.array(tokens), np.array(times), np.array(log_probs, np.float32), hidden, cell


def main():
    content = {}
    for case in CASES:
        arrays, frames, durations = make(case, seed=8)
        found = decode(arrays, frames, 0, durations)
        names = ("tokens", "times", "log_probs", "hidden", "cell")
        content |= {f"{case}/{name}": value for name, value in zip(names, found, strict=True)}
        content |= {f"{case}/arrays/{name}": value for name, value in arrays.items()} | {f"{case}/frames": frames}
    np.savez_compressed(FILE, **content)


if __name__ == "__main__":
    main()
