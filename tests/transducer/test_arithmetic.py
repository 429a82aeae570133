"""The shared arithmetic: against the oracle's to the byte, against float64 in ulp, on every vector unit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam.transducer._transducer import apply, available_kernels, lstm_step, multiply
from tests.transducer import oracle

LOWEST, HIGHEST = np.float32(-87.33), np.float32(88.37)
EXACT = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
RANGES = {"exp": (LOWEST, HIGHEST), "log": (1.2e-38, 3.4e38), "tanh": (-30.0, 30.0), "sigmoid": (-87.0, 87.0)}
ULP = {"exp": 1.0, "log": 1.0, "tanh": 1.5, "sigmoid": 2.5}


def samples(low, high):
    """float32 numbers of all sizes within a range."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 400_000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([bits, rng.uniform(max(low, -100), min(high, 100), 200_000).astype(np.float32)])
    return values[(values >= low) & (values <= high)]


@pytest.mark.parametrize("function", EXACT)
def test_within_a_few_ulp_of_the_truth(function):
    x = samples(*RANGES[function])
    truth = EXACT[function](x.astype(np.float64))
    ulp = np.spacing(np.abs(truth.astype(np.float32))).astype(np.float64)
    error = np.abs(apply(function, x) - truth) / ulp
    assert error.max() <= ULP[function], f"{error.max()} ulp at {x[error.argmax()]!r}"


@pytest.mark.parametrize("function", ["tanh", "sigmoid", "bfloat16"])
@pytest.mark.parametrize("kernels", available_kernels())
def test_vector_units_agree_to_the_byte(function, kernels):
    x = np.concatenate([samples(-3e38, 3e38), np.array([0.0, 0.625, -0.625, 10.0, 1e30, -1e30], np.float32)])
    assert apply(function, x, kernels).tobytes() == apply(function, x).tobytes()


@pytest.mark.parametrize("function", ["exp", "tanh", "sigmoid", "bfloat16"])
def test_the_oracle_agrees_to_the_byte(function):
    x = samples(-3e38, 3e38)[:100_000]
    assert apply(function, x).tobytes() == getattr(oracle, function)(x).tobytes()


def test_the_oracles_log_agrees_to_the_byte():
    x = samples(1e-37, 3e38)[:3000]
    assert apply("log", x).tobytes() == np.array([oracle.log(value) for value in x]).tobytes()


def test_beyond_the_range():
    assert apply("exp", np.array([-87.34, -1e38], np.float32)).tolist() == [0.0, 0.0]
    assert np.isfinite(apply("exp", np.array([88.38, 3e38], np.float32))).all()
    assert apply("sigmoid", np.array([-3e38, 3e38], np.float32)).tolist() == [0.0, 1.0]
    assert apply("tanh", np.array([-3e38, 3e38], np.float32)).tolist() == [-1.0, 1.0]


def test_rounding_to_bfloat16():
    largest, halfway = np.array([0x7F7F0000, 0x7F7F8000], np.uint32).view(np.float32)
    assert apply("bfloat16", np.array([1.00390625, 1.01171875, largest], np.float32)).tolist() == [1, 1.015625, largest]
    assert apply("bfloat16", np.array([halfway, -halfway], np.float32)).tolist() == [np.inf, -np.inf]
    nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFF800001], np.uint32).view(np.float32)
    assert np.isnan(apply("bfloat16", nans)).all()
    tiny = np.array([1, 0x8000, 0x8001, 0x18000, 0x80008001], np.uint32).view(np.float32)
    assert apply("bfloat16", tiny).view(np.uint32).tolist() == [0, 0, 0x10000, 0x20000, 0x80010000]
    assert apply("bfloat16", tiny).tobytes() == oracle.bfloat16(tiny).tobytes()


def test_the_oracles_fma_rounds_once():
    a, b = np.float32(1 + 2**-12), np.float32(1 - 2**-12)
    assert oracle.fma(a, b, np.float32(-1)) == np.float32(-(2.0**-24))
    assert oracle.fma(a, a, np.float32(2.0**-60)) == np.nextafter(np.float32(a * a), np.float32(2))  # halfway and a bit


@given(outputs=st.integers(1, 70), inputs=st.integers(1, 200), rows=st.integers(0, 70), seed=st.integers(0, 2**32 - 1))
def test_products_have_the_written_order(outputs, inputs, rows, seed):
    rng = np.random.default_rng(seed)
    weight, x = (rng.standard_normal((n, inputs)).astype(np.float32) for n in (outputs, rows))
    bias = rng.standard_normal(outputs).astype(np.float32) if seed % 2 else None
    found = [multiply(weight, bias, x, kernels) for kernels in available_kernels()]
    for row in range(min(rows, 3)):
        assert found[0][row].tobytes() == oracle.linear(weight, bias, x[row]).tobytes()
    assert len({y.tobytes() for y in found}) == 1


@given(units=st.integers(1, 90), seed=st.integers(0, 2**32 - 1))
def test_cells_on_every_unit(units, seed):
    rng = np.random.default_rng(seed)
    ours = [(rng.standard_normal(n) * 4).astype(np.float32) for n in (4 * units, 4 * units, units)]
    i, f, g, o = np.split(ours[0] + ours[1], 4)
    cell = oracle.fma(oracle.sigmoid(f), ours[2], oracle.sigmoid(i) * oracle.tanh(g))
    hidden = oracle.sigmoid(o) * oracle.tanh(cell)
    for kernels in available_kernels():
        found = lstm_step(*ours, kernels)
        assert [y.tobytes() for y in found] == [hidden.tobytes(), cell.tobytes()]
