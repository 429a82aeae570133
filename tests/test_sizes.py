"""Sizes in bytes as people write them."""

import numpy as np
import pytest

from arcbeam.core.sizes import as_bytes


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (0, 0), (np.int64(5), 5), ("0", 0), ("4096", 4096), ("7B", 7), ("1kB", 1000), ("1 KiB", 1024),
        ("2GiB", 2 << 30), ("2gb", 2 * 10**9), (" 1.5 MiB ", 3 << 19), ("0.1kB", 100), ("1.0001kB", 1000),
        ("3TiB", 3 << 40), ("4TB", 4 * 10**12), ("9007199254740993", 2**53 + 1),
    ],
)  # fmt: skip
def test_what_is_meant(text, wanted):
    assert as_bytes("size", text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "2G", "-1", "1e9", "2 GiB free", "1,5MB", "nan", "\uff12GiB", "10%", "5EiB", "5000000TB", "9" * 9999],
)
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="size: expected a number of bytes, at least 0, or a size such as '2GiB'"):
        as_bytes("size", text)


def test_other_types_and_ranges():
    for value in 1.0, None, True, b"1":
        with pytest.raises(TypeError, match=f"size: expected a number of bytes, .*, got {type(value).__name__}"):
            as_bytes("size", value)
    with pytest.raises(ValueError, match="got an integer of 1,329 bits"):
        as_bytes("size", 10**400)
    with pytest.raises(ValueError, match=r"size: expected a number of bytes, at least 1, .* got '0\.5B'"):
        as_bytes("size", "0.5B", at_least=1)
