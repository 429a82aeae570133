"""Text files without an end, such as devices: an error, and not all the memory there is. Pipes with an end are read."""

import os
import threading
from pathlib import Path

import pytest

from arcbeam import Boost, SymbolTable, TokenTable
from arcbeam.cli.boosts import word_boosts
from arcbeam.cli.graphs import read_label_table
from arcbeam.core.errors import FormatError
from arcbeam.files import lines
from arcbeam.files.log_probs import find_inputs, read_all
from arcbeam.report.references import read_references
from arcbeam.report.results import read_results

READERS = {
    "phrases": (Boost.read, b"new york\t2\n", lambda found: dict(found.phrases) == {"new york": 2.0}),
    "lists of utterances": (lambda path: word_boosts(None, path, 1.0, None), b"\n", lambda found: True),
    "references": (lambda path: read_references([path]), b"one a b\r\n\n", lambda found: found["one"] == "a b"),
    "results": (read_results, b'{"id": "a", "text": "b"}\n', lambda found: found[0]["text"] == "b"),
    "symbols": (SymbolTable.read, b"a 0\nb 1\n", lambda found: list(found) == ["a", "b"]),
    "tokens": (TokenTable.read, b"<blank>\na\n", lambda found: found.tokens == ("<blank>", "a")),
    "label table": (read_label_table, b"0 0\n1 1\n", lambda found: found.tolist() == [0, 1]),
}


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="a device without an end")
@pytest.mark.parametrize("case", READERS)
def test_a_device_without_an_end(monkeypatch, case):
    monkeypatch.setattr(lines, "MOST_OF_A_PIPE", 1 << 20)
    with pytest.raises(FormatError, match=r"^/dev/zero: expected a regular file, or at most 1,048,576 bytes of a pipe"):
        READERS[case][0](Path("/dev/zero"))


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="a device without an end")
def test_an_index_without_an_end():
    with pytest.raises(FormatError, match=r"^/dev/zero:1: expected lines of less than 65536 characters, got more"):
        list(read_all(find_inputs(["scp:/dev/zero"])))


@pytest.mark.parametrize("case", READERS)
def test_a_pipe_with_an_end(tmp_path, case):
    read, data, is_right = READERS[case]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert is_right(read(pipe))
    writer.join()
