"""Takes files of our own format apart and puts them together with checksums that fit: what a forger would do."""

import struct

import numpy as np

from arcbeam.files import section_file
from arcbeam.files._file_map import checksum
from arcbeam.graph.graph_file import KIND


def sections(data):
    """Offset and size of every section by name, as the table says; nothing beyond the end of the data."""
    count = min(struct.unpack_from("<I", data, 12)[0], (len(data) - 64) // 64)
    found = {}
    for i in range(count):
        name, offset, size, _ = section_file.SECTION.unpack_from(data, 64 + 64 * i)
        found[name.rstrip(b"\0").decode("latin-1")] = (offset, size)
    return found


def array(data, name):
    offset, size = sections(data)[name]
    return np.frombuffer(data, np.uint8, size, offset).view(KIND.sections[name])


def poke(data, at, value):
    return data[:at] + value + data[at + len(value) :]


def reseal(data):
    """The same bytes with checksums and size that fit, wherever there is room for them."""
    data = bytearray(data)
    if len(data) < 64:
        return bytes(data)
    count = struct.unpack_from("<I", data, 12)[0]
    for i in range(min(count, (len(data) - 64) // 64)):
        _, offset, size, _ = section_file.SECTION.unpack_from(data, 64 + 64 * i)
        if offset <= len(data) and size <= len(data) - offset:
            struct.pack_into("<Q", data, 64 + 64 * i + 48, checksum(bytes(data[offset : offset + size])))
    struct.pack_into("<Q", data, 16, len(data))
    struct.pack_into("<Q", data, 24, checksum(bytes(data[64 : 64 + 64 * min(count, 1 << 20)])))
    struct.pack_into("<Q", data, 32, checksum(bytes(data[:32])))
    return bytes(data)


def pack(arrays):
    """A file of these arrays."""
    at = -(-(64 + 64 * len(arrays)) // 64) * 64
    table, body = b"", b""
    for name, values in arrays.items():
        raw = values.tobytes()
        table += section_file.SECTION.pack(name.encode(), at + len(body), len(raw), 0)
        body += raw + bytes(-len(raw) % 64)
    return reseal(section_file.HEADER.pack(KIND.magic, KIND.version, len(arrays), 0, 0, 0) + table + body)


def replace(data, name, values):
    """The file with another array as one of its sections."""
    return pack({other: array(data, other) for other in sections(data)} | {name: values})
