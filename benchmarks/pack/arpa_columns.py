"""An ARPA file as columns, which pack a third smaller than its text: words by number, logarithms by their float32 bits.

For files as ``lmplz`` writes them: every number is the shortest text of a float32. :func:`pack` checks that the text
comes back, and raises ValueError where it would not.
"""

import io
import lzma
import re

import numpy as np
import numpy.typing as npt


def _planes(values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """The first bytes of all values, then the second ones, and so on."""
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)
    return np.ascontiguousarray(raw.T)


def _values(planes: npt.NDArray[np.uint8], dtype: str) -> npt.NDArray[np.generic]:
    return np.ascontiguousarray(planes.T).reshape(-1).view(dtype)


def _text(values: npt.NDArray[np.generic]) -> list[str]:
    """Shortest texts of float32 values, whole numbers without a point, none with an exponent."""
    return [
        np.format_float_positional(np.float32(text), trim="-") if "e" in text else text.removesuffix(".0")
        for text in values.astype("U").tolist()
    ]


def pack(text: bytes, preset: int = 9) -> bytes:
    """The columns of an ARPA file, compressed. Raises ValueError for one that they cannot hold."""
    parts = re.split(r"\n\\(\d+)-grams:\n", text.decode())
    columns: dict[str, npt.NDArray[np.generic]] = {"head": np.frombuffer(parts[0].encode(), np.uint8)}
    number: dict[str, int] = {}
    for order, body in enumerate(parts[2::2], 1):
        lines = [*body.split("\n"), ""]
        end = lines.index("")
        rows, tail = [line.split("\t") for line in lines[:end]], "\n".join(lines[end:-1])
        try:
            ngrams = [row[1].split(" ") for row in rows]
            if order == 1:
                number = {ngram[0]: i for i, ngram in enumerate(ngrams)}
                columns["words"] = np.frombuffer("\n".join(number).encode(), np.uint8)
            ids = np.array([[number[word] for word in ngram] for ngram in ngrams], "<u4")
            logs = [np.array([float(row[i]) for row in rows if len(row) > i], "<f4") for i in (0, 2)]
        except (KeyError, ValueError, IndexError) as error:
            raise ValueError(f"{order}-grams: {error}") from None
        for i in range(order if order > 1 else 0):
            columns[f"{order} word {i}"] = _planes(ids[:, i])
        columns[f"{order} log"], columns[f"{order} back-off"] = (_planes(values) for values in logs)
        columns[f"{order} tail"] = np.frombuffer(tail.encode(), np.uint8)
    into = io.BytesIO()
    np.savez(into, **columns)  # type: ignore[arg-type]
    packed = lzma.compress(into.getvalue(), preset=preset)
    if unpack(packed) != text:
        raise ValueError("the text does not come back from its columns")
    return packed


def unpack(packed: bytes) -> bytes:
    """The text that was packed."""
    with np.load(io.BytesIO(lzma.decompress(packed))) as file:
        columns = {name: file[name] for name in file.files}
    words = columns["words"].tobytes().decode().split("\n")
    out = [columns["head"].tobytes().decode()]
    order = 1
    while f"{order} log" in columns:
        logs = _text(_values(columns[f"{order} log"], "<f4"))
        back = columns[f"{order} back-off"]
        backs = _text(_values(back, "<f4")) if back.size else []
        if order == 1:
            ngrams = words
        else:
            ids = [_values(columns[f"{order} word {i}"], "<u4").tolist() for i in range(order)]
            ngrams = [" ".join([words[i] for i in row]) for row in zip(*ids, strict=True)]
        if backs:
            lines = [f"{log}\t{ngram}\t{b}" for log, ngram, b in zip(logs, ngrams, backs, strict=True)]
        else:
            lines = [f"{log}\t{ngram}" for log, ngram in zip(logs, ngrams, strict=True)]
        out.append(f"\n\\{order}-grams:\n" + "\n".join(lines) + "\n" + columns[f"{order} tail"].tobytes().decode())
        order += 1
    return "".join(out).encode()
