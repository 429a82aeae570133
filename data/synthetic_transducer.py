"""A transducer of published size whose answers are known, made without training, and input for it.

    python -m data.synthetic_transducer out.npz [--tdt]      # weights by the names of TransducerDecoder.from_arrays

Every frame of the encoder's output holds the code of the label that is due there (or none) and how far the next label
is, with noise over both. The joint network subtracts the code of the last label, which the LSTM passes on: where the
two cancel, the blank's bias wins. So an RNN-T writes each label once, and goes on. A TDT also reads the distance. All
matrices are dense, so that time goes where it goes in a trained model.
"""

import argparse
from dataclasses import dataclass

import numpy as np

DURATIONS = (0, 1, 2, 3, 4)
DISTANCE_UNITS = 40  # of the joint network: those that carry the distance
DISTANCE_FEATURES = 32
NOISE = 0.02


@dataclass(frozen=True)
class Sizes:
    """As published for Parakeet: 1 024 tokens and the blank, 640 units in LSTM and joint network."""

    tokens: int = 1025
    units: int = 640
    joint: int = 640
    features: int = 512

    @property
    def blank(self) -> int:
        return self.tokens - 1


def _codes(sizes: Sizes, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Features of each label [tokens, features], of each distance [5, features]; they do not overlap."""
    rotation = np.linalg.qr(rng.standard_normal((sizes.features, sizes.features)))[0]
    split = sizes.features - DISTANCE_FEATURES
    labels = rng.choice([-1.0, 1.0], (sizes.tokens, split)) @ rotation[:split]
    labels[sizes.blank] = 0
    distances = rng.choice([-1.0, 1.0], (len(DURATIONS), DISTANCE_FEATURES)) @ rotation[split:]
    return labels, distances


def weights(sizes: Sizes | None = None, *, tdt: bool, seed: int = 0, sharpness: float = 1.0) -> dict[str, np.ndarray]:
    """The network, for a joint network with ReLU, the blank last. All logits are multiplied by `sharpness`."""
    sizes = sizes or Sizes()
    rng = np.random.default_rng([seed, 0])
    labels, distances = _codes(sizes, np.random.default_rng([seed, 1]))
    carries = sizes.joint - DISTANCE_UNITS  # units for labels

    # Encoder: random, but no label reaches the units of the distance, and no distance those of the labels.
    encoder = rng.standard_normal((sizes.joint, sizes.features)) / np.sqrt(sizes.features)
    span = np.linalg.qr(distances.T)[0]
    encoder[:carries] -= encoder[:carries] @ span @ span.T
    encoder[carries:] = rng.standard_normal((DISTANCE_UNITS, len(DURATIONS))) @ np.linalg.pinv(distances).T
    codes = labels @ encoder[:carries].T

    # LSTM: the candidate gate passes a rotated code on, small enough for tanh to be nearly linear; of the past a
    # twentieth stays.
    turn = np.linalg.qr(rng.standard_normal((sizes.units, sizes.units)))[0][:, : min(carries, sizes.units)]
    embedding = rng.standard_normal((sizes.tokens, sizes.units)) * 1e-3
    embedding[:, : turn.shape[1]] += codes[:, : turn.shape[1]]
    small = 0.1
    noise = rng.standard_normal((2, 4 * sizes.units, sizes.units)) * 0.001
    weight_ih, weight_hh = noise
    candidate = slice(2 * sizes.units, 3 * sizes.units)
    weight_ih[candidate, : turn.shape[1]] += small * turn
    bias = np.zeros(4 * sizes.units)
    bias[: sizes.units], bias[sizes.units : 2 * sizes.units], bias[3 * sizes.units :] = 4, -3, 4
    prediction = rng.standard_normal((sizes.joint, sizes.units)) * 1e-3
    prediction[: turn.shape[1]] -= turn.T / (small * 0.96)  # the gates take 4 %

    # Output: a label's row is its code, the blank's is its bias, a duration's is its code.
    output = np.zeros((sizes.tokens + (len(DURATIONS) if tdt else 0), sizes.joint))
    norms = (codes**2).sum(1, keepdims=True)
    output[: sizes.blank, :carries] = codes[: sizes.blank] / norms[: sizes.blank]
    output_bias = np.zeros(len(output))
    output_bias[sizes.blank] = 0.3
    if tdt:
        seen = np.maximum(distances @ encoder[carries:].T, 0)
        output[sizes.tokens :, carries:] = np.linalg.pinv(seen).T
    arrays = {
        "embedding": embedding,
        "weight_ih_l0": weight_ih,
        "weight_hh_l0": weight_hh,
        "bias_ih_l0": bias / 2,
        "bias_hh_l0": bias / 2,
        "encoder_weight": encoder,
        "encoder_bias": np.zeros(sizes.joint),
        "prediction_weight": prediction,
        "prediction_bias": np.zeros(sizes.joint),
        "output_weight": output * 20 * sharpness,
        "output_bias": output_bias * 20 * sharpness,
    }
    return {name: value.astype(np.float32) for name, value in arrays.items()}


def utterances(
    count: int,
    frames: int,
    sizes: Sizes | None = None,
    *,
    rate: float = 0.27,
    seed: int = 0,
    ambiguity: float = 0.0,
) -> tuple[np.ndarray, list[list[int]], list[list[int]]]:
    """(frames [count, frames, features], labels of each, frame of each label): `rate` labels a frame on average.

    No label follows itself. Of the labels a share of `ambiguity` is mixed with another label, in about equal parts.
    """
    sizes = sizes or Sizes()
    labels, distances = _codes(sizes, np.random.default_rng([seed, 1]))
    rng, mixed = np.random.default_rng([seed, 2]), np.random.default_rng([seed, 3])
    rows = rng.standard_normal((count, frames, sizes.features)) * NOISE
    texts, places = [], []
    for row in rows:
        gaps = 1 + rng.poisson(1 / rate - 1, frames)
        at = np.cumsum(gaps)
        at = at[at < frames]
        steps = rng.integers(1, sizes.blank, len(at))
        text = np.cumsum(steps) % sizes.blank
        due = np.full(frames, sizes.blank)
        due[at] = text
        ahead = np.concatenate([at, [frames + DURATIONS[-1]]])
        distance = ahead[np.searchsorted(ahead, np.arange(frames), side="right")] - np.arange(frames)
        row += labels[due] + distances[np.minimum(distance, DURATIONS[-1])]
        for frame in at[mixed.random(len(at)) < ambiguity]:
            part, other = mixed.uniform(0.35, 0.65), int(mixed.integers(sizes.blank))
            row[frame] += part * (labels[other] - labels[due[frame]])
        texts.append(text.tolist())
        places.append(at.tolist())
    return rows.astype(np.float32), texts, places


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--tdt", action="store_true", help="a TDT with durations 0 to 4 instead of an RNN-T")
    arguments = parser.parse_args()
    np.savez(arguments.file, **weights(tdt=arguments.tdt))


if __name__ == "__main__":
    main()
