"""The checksum of files."""

import numpy as np
import pytest

from arcbeam.files._file_map import checksum

SIZES = [0, 1, 7, 8, 9, 63, 64, 65, 200, (1 << 20) - 1, 1 << 20, (1 << 20) + 5, 5 << 20]


@pytest.mark.parametrize("size", SIZES)
def test_every_part_of_the_bytes_counts(size):
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    sum_ = checksum(data)
    assert sum_ == checksum(bytes(data)) and 0 <= sum_ < 1 << 64
    assert sum_ != checksum(np.append(data, np.uint8(0)))
    for at in {0, size // 2, size // 2 + 8, size - 64, size - 1} & set(range(size)):
        for bit in range(8):
            data[at] ^= 1 << bit
            assert checksum(data) != sum_
            data[at] ^= 1 << bit
    for a, b in [(0, 64), (0, 8), (0, 1 << 20)]:
        if size >= b + 8:  # exchanged words, lanes, blocks
            other = data.copy()
            other[a : a + 8], other[b : b + 8] = data[b : b + 8], data[a : a + 8]
            assert checksum(other) != sum_


def test_zeros_of_every_length_differ():
    zeros = bytes(3000)
    assert len({checksum(zeros[:size]) for size in range(3000)}) == 3000


def test_the_value_is_part_of_the_file_format():
    data = bytes(i * 7 % 256 for i in range(100_003)) * 21  # more than two blocks, and an odd end
    assert f"{checksum(data):016x}" == "3fec1ebbe666e843"
