"""Greedy transducer decoding of one utterance, as plainly as it can be said (Bataev et al. 2024, Algorithm 1).

The arithmetic is that of ``cuda/shared/transducer_math.hpp``, in numpy: float32 throughout, each fmaf exact, each sum
in its written order.
"""

from dataclasses import dataclass, field

import numpy as np

F = np.float32
PARTIALS = 32


def fma(a, b, c):
    """float32 a * b + c, rounded once: the float64 sum is rounded to odd first, so the second rounding is harmless."""
    product = np.multiply(a, b, dtype=np.float64)  # exact: 48 bits
    c = np.asarray(c, dtype=np.float64)
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    even = (total.view(np.int64) & 1) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    return np.where((error != 0) & even, np.nextafter(total, toward), total).astype(F)


def tree(partials):
    """The sum of 32 partial sums, on the last axis."""
    while partials.shape[-1] > 1:
        half = partials.shape[-1] // 2
        partials = partials[..., :half] + partials[..., half:]
    return partials[..., 0]


def padded(x):
    """The last axis, filled up with zeros to a multiple of 32, as [..., steps, 32]."""
    steps = -(-x.shape[-1] // PARTIALS)
    full = np.zeros((*x.shape[:-1], steps * PARTIALS), F)
    full[..., : x.shape[-1]] = x
    return full.reshape(*x.shape[:-1], steps, PARTIALS)


def linear(weight, bias, x):
    """weight [outputs, inputs] times x [inputs], plus the bias."""
    weight, x = padded(weight), padded(x)
    partials = np.zeros((weight.shape[0], PARTIALS), F)
    for step in range(weight.shape[1]):
        partials = fma(weight[:, step], x[step], partials)
    return tree(partials) if bias is None else tree(partials) + bias


def exp(x):
    x = np.asarray(x, F)
    within = np.minimum(np.maximum(x, F(-87.33)), F(88.37))
    shifted = fma(within, F(1.44269502), F(12582912.0))
    n = shifted - F(12582912.0)
    r = fma(n, F(-1.42860677e-6), fma(n, F(-0.693145752), within))
    p = F(0.00019569534924812615)
    for c in (0.0013935425085946918, 0.008333896286785603, 0.041666459292173386, 0.166666641831398, 0.5):
        p = fma(p, r, F(c))
    grown = fma(p, r * r, r) + F(1)
    power = np.ldexp(np.ones_like(n), n.astype(int))
    return np.where(x < F(-87.33), F(0), grown * power)


def log(x):
    mantissa, exponent = np.frexp(F(x))
    if mantissa >= np.uint32(0x3F2AAAAB).view(F):
        n, f = F(exponent), mantissa - F(1)
    else:
        n, f = F(exponent - 1), F(2) * mantissa - F(1)
    p = F(-0.1288565695285797)
    for c in (
        0.13986897468566895,
        -0.12185713648796082,
        0.14005306363105774,
        -0.1668037623167038,
        0.2001044601202011,
        -0.24999800324440002,
        0.3333321511745453,
    ):
        p = fma(p, f, F(c))
    rest = fma(p * f, f * f, fma(F(-0.5), f * f, n * F(1.42860677e-6)))
    return fma(n, F(0.693145752), f + rest)


def sigmoid(x):
    x = np.asarray(x, F)
    e = exp(-np.abs(x))
    return np.where(x < 0, e, F(1)) / (F(1) + e)


def tanh(x):
    x = np.asarray(x, F)
    p = F(-0.005700086709111929)
    with np.errstate(over="ignore", invalid="ignore"):  # of large ones, which take the other way
        square = x * x
        for c in (0.020634116604924202, -0.05373793840408325, 0.13331416249275208, -0.3333328068256378):
            p = fma(p, square, F(c))
        near = fma(p * square, x, x)
    far = F(1) - F(2) / (exp(F(2) * np.minimum(np.abs(x), F(10))) + F(1))
    return np.where(np.abs(x) < F(0.625), near, np.where(x < 0, -far, far))


def bfloat16(x):
    """Rounded to 8 bits, or below the normal numbers to a whole number of 2^-133; ties to even."""
    x = np.asarray(x, F).astype(np.float64)
    _, exponent = np.frexp(x)
    step = np.ldexp(1.0, np.maximum(exponent, -125) - 8)
    with np.errstate(over="ignore"):
        return (np.rint(x / step) * step).astype(F)


def same(x):
    return x


ROUNDINGS = {"float32": same, "bfloat16": bfloat16}


def rounded_weights(arrays):
    """The weights in bfloat16, the biases as they are."""
    return {name: value if "bias" in name else bfloat16(value) for name, value in arrays.items()}


ACTIVATIONS = {"tanh": tanh, "relu": lambda x: np.where(x > 0, x, F(0)), "sigmoid": sigmoid}


class Lstm:
    """The prediction network of an embedding and LSTM layers, by the names of ``TransducerDecoder.from_arrays``."""

    def __init__(self, arrays, rounding=same):
        self.w, self.rounding = arrays, rounding
        self.layers = sum(name.startswith("weight_hh") for name in arrays)
        units = arrays["weight_hh_l0"].shape[1]
        self.hidden = [np.zeros(units, F) for _ in range(self.layers)]
        self.cell = [np.zeros(units, F) for _ in range(self.layers)]

    def step(self, token):
        x = self.w["embedding"][token]
        for layer in range(self.layers):
            bias_ih, bias_hh = (self.w.get(f"bias_{kind}_l{layer}", F(0)) for kind in ("ih", "hh"))
            bias = np.zeros(len(self.w[f"weight_hh_l{layer}"]), F) + bias_ih + bias_hh
            gates = linear(self.w[f"weight_ih_l{layer}"], bias, x)
            gates = gates + linear(self.w[f"weight_hh_l{layer}"], None, self.hidden[layer])
            i, f, g, o = np.split(gates, 4)
            self.cell[layer] = fma(sigmoid(f), self.cell[layer], sigmoid(i) * tanh(g))
            self.hidden[layer] = x = self.rounding(sigmoid(o) * tanh(self.cell[layer]))
        return x


class Stateless:
    """The prediction network of an embedding and a convolution over the last tokens."""

    def __init__(self, arrays, relu, rounding=same):
        self.w, self.relu, self.rounding = arrays, relu, rounding
        convolution = arrays.get("convolution")
        self.context = [-1] * (convolution.shape[2] if convolution is not None else len(self.tables()))

    def tables(self):
        embedding = self.w["embedding"]
        return embedding if embedding.ndim == 3 else embedding[None]

    def step(self, token):
        self.context = [*self.context[1:], token]
        convolution = self.w.get("convolution")
        total = np.zeros(self.tables().shape[2] if convolution is None else len(convolution), F)
        for place, before in enumerate(self.context):
            if before >= 0:
                total = total + (self.tables()[place][before] if convolution is None else self.tap(place, before))
        if "convolution_bias" in self.w:
            total = total + self.w["convolution_bias"]
        return self.rounding(ACTIVATIONS["relu"](total) if self.relu else total)

    def tap(self, place, token):
        convolution, embedding = self.w["convolution"], self.w["embedding"][token]
        groups = len(embedding) // convolution.shape[1]
        parts = zip(np.split(convolution[:, :, place], groups), np.split(embedding, groups), strict=True)
        return np.concatenate([linear(weight, None, x) for weight, x in parts])


@dataclass
class Written:
    """What a decode writes; ``logits`` are those of each token's frame."""

    tokens: list = field(default_factory=list)
    frames: list = field(default_factory=list)
    durations: list = field(default_factory=list)
    log_probs: list = field(default_factory=list)
    logits: list = field(default_factory=list)


def log_prob_of(token, logits):
    largest = logits.max()
    terms = padded_terms(exp(logits - largest))
    return (logits[token] - largest) - log(tree(terms))


def fused_label(logits, row, blank):
    """The label, none of them the blank, with the largest sum of its logit and its addend."""
    labels = [token for token in range(len(logits)) if token != blank]
    return max(labels, key=lambda token: (logits[token] + row[token], -token))


def padded_terms(terms):
    """32 partial sums of terms, added in their order."""
    partials = np.zeros(PARTIALS, F)
    for row in padded(terms):
        partials = partials + row
    return partials


def decode(
    arrays,
    frames,
    blank,
    durations=None,
    max_symbols=10,
    activation="tanh",
    relu=False,
    precision="float32",
    *,
    fusion=None,
):
    """Algorithm 1 over frames [n, features]; with durations its TDT form (section 3.3).

    A `fusion` says what is added to the logits of labels: the blank is decided without it.
    """
    rounding = ROUNDINGS[precision]
    arrays = rounded_weights(arrays) if precision == "bfloat16" else arrays
    network = Lstm(arrays, rounding) if "weight_hh_l0" in arrays else Stateless(arrays, relu, rounding)
    tokens = len(arrays["output_weight"]) - len(durations or ())
    written = Written()

    def predict(token):
        return linear(arrays["prediction_weight"], arrays.get("prediction_bias"), network.step(token))

    prediction = predict(blank)
    t, symbols = 0, 0
    while t < len(frames):
        encoded = linear(arrays["encoder_weight"], arrays.get("encoder_bias"), rounding(frames[t]))
        hidden = rounding(ACTIVATIONS[activation](encoded + prediction))
        logits = linear(arrays["output_weight"], arrays.get("output_bias"), hidden)
        token = int(np.argmax(logits[:tokens]))
        duration = durations[int(np.argmax(logits[tokens:]))] if durations else 0
        if token == blank:
            t, symbols = t + max(duration, 1), 0
            continue
        if fusion is not None:
            token = fused_label(logits[:tokens], fusion.row(), blank)
            fusion.follow(token)
        written.tokens.append(token)
        written.frames.append(t)
        written.durations.append(duration)
        written.log_probs.append(log_prob_of(token, logits[:tokens]))
        written.logits.append(logits[:tokens])
        prediction = predict(token)
        symbols += 1
        if duration > 0:
            t, symbols = t + duration, 0
        elif symbols == max_symbols:
            t, symbols = t + 1, 0
    return written
