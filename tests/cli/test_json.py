"""What commands print as JSON, compared with its page: each key is documented with its type, and each one occurs."""

import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "json.md"
CTC, TRANSDUCER, STREAM = (
    "utterances of decode and greedy", "utterances of transduce", "results of stream and transduce --chunk-frames",
)  # fmt: skip
OF_STREAMS = (
    "confidence",
    "confidence_truncated",
    "nbest",
    "nbest_is_all",
    "nbest_truncated",
    "mbr",
    "sausage",
    "labels",
)
KINDS = {"string": (str,), "integer": (int,), "number": (float, int), "boolean": (bool,), "null": (type(None),)}
EVERYTHING = ["--nbest", "3", "--confidence", "--mbr", "--frame-confidence", "entropy", "--posterior-scale", "0.1"]


def sections():
    """By the heading in lower case: the type of each key, and when it is present."""
    found, rows = {}, {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            rows = found[line[3:].lower()] = {}
        elif match := re.fullmatch(r"\| `(\w+)` \| (.+?) \| (.+) \|", line):
            rows[match[1]] = (match[2], match[3])
    found[STREAM] |= {key: found[CTC][key] for key in OF_STREAMS}
    return found


SCHEMA = sections()


class Checker:
    """Compares objects with the page, and records which keys have occurred."""

    def __init__(self):
        self.seen = defaultdict(set)

    def check(self, section, found):
        rows = SCHEMA[section]
        assert found.keys() <= rows.keys(), f"{section}: undocumented"
        needed = {key for key, (_, present) in rows.items() if re.match("always(:|$)", present)}
        assert found.keys() >= needed, f"{section}: missing"
        self.seen[section] |= found.keys()
        for key, value in found.items():
            self.check_type(rows[key][0], value, f"{section}, {key}")

    def check_type(self, kind, value, where):
        if kind == "list of lists of pairs":
            assert all(len(pair) == 2 for place in value for pair in place), where
            assert all(isinstance(word, str) and isinstance(p, float | int) for place in value for word, p in place), (
                where
            )
        elif kind.startswith("list of "):
            assert isinstance(value, list), where
            for one in value:
                self.check(kind.removeprefix("list of ").lower(), one)
        elif kind.startswith("object of "):
            self.check(kind.removeprefix("object of ").lower(), value)
        else:
            assert type(value) in [one for name in kind.split(" or ") for one in KINDS[name]], where


@pytest.fixture
def printed(run):
    def objects(*arguments):
        result = run(*arguments)
        assert result.exit_code == 0, result.output + result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    return objects


def keys_of(section):
    return SCHEMA[section].keys()


def test_the_page_has_all_that_ctc_prints(printed, tmp_path):
    (tmp_path / "phrases").write_text("bee\t2.5\n")
    checker, boost = Checker(), ("--boost", tmp_path / "phrases", "--boost-score", "1")
    given = ("graph.arc", "in.npz", "-f", "json")
    for options in ([], EVERYTHING, ["--frame-shift", "0.02", *boost], ["--frame-shift", "0.02", *EVERYTHING]):
        for found in printed("decode", *given, *options):
            checker.check(CTC, found)
    for options in ([], ["--frame-confidence", "max_prob", "--frame-shift", "0.02"]):
        for found in printed(
            "greedy", "in.npz", "--tokens", "tokens.txt", "--separator", "none", "-f", "json", *options
        ):
            checker.check(CTC, found)
            assert not found.keys() & set(OF_STREAMS[:-1])
    for section in (CTC, "labels", "alternatives", "minimum bayes risk", "boosts"):
        assert checker.seen[section] == keys_of(section)
    assert checker.seen["words"] == keys_of("words") - {"posterior"}


def test_the_page_has_all_that_streams_print(printed):
    checker, given = Checker(), ("graph.arc", "in.npz", "-f", "json", "--chunk-frames", "2", "--frame-shift", "0.02")
    for options in (
        [], EVERYTHING, [*EVERYTHING, "--interim-answers", "--endpoint", "kaldi"], ["--posteriors"],
        ["--frame-confidence", "entropy"],
    ):  # fmt: skip
        for found in printed("stream", *given, *options):
            assert {"stable_words", "unstable_words"} <= found.keys()
            if not found["is_final"] and "--interim-answers" not in options:
                assert not found.keys() & set(OF_STREAMS[:-1])
            checker.check(STREAM, found)
    assert checker.seen[STREAM] == keys_of(STREAM)
    assert checker.seen["words"] == keys_of("words")


def test_the_page_has_all_that_transducers_print(printed, demo_data, tmp_path):
    checker = Checker()
    with np.load(demo_data / "encoder_output.npz") as file:
        np.savez(tmp_path / "in.npz", **dict(list(file.items())[:2]))
    given = ("transduce", demo_data / "transducer.npz", tmp_path / "in.npz", "-f", "json")
    for options in ([], ["--confidence"]):
        for found in printed(*given, *options):
            checker.check(TRANSDUCER, found)
        for found in printed(*given, *options, "--chunk-frames", "20", "--endpoint", "sherpa"):
            checker.check(STREAM, found)
    for found in printed(*given, "--beam", "4", "--nbest", "3"):
        checker.check(TRANSDUCER, found)
    assert checker.seen[TRANSDUCER] == keys_of(TRANSDUCER)
    assert checker.seen["hypotheses of transduce"] == keys_of("hypotheses of transduce")
    assert checker.seen["tokens"] == keys_of("tokens")
    assert checker.seen[STREAM] == keys_of(STREAM) - set(OF_STREAMS)
    assert checker.seen["words"] == keys_of("words") - {"frame_confidence", "posterior"}


@pytest.mark.parametrize("found", [{"word": "a"}, {"word": "a", "colour": 1}, {"word": 1}])
def test_the_checker_sees_what_is_wrong(found):
    with pytest.raises(AssertionError, match=r"words: (missing|undocumented)"):
        Checker().check("words", found)
    with pytest.raises(AssertionError, match="words, start_frame"):
        Checker().check("words", {"word": "a", "start_frame": 0.5, "end_frame": 1, "start": None, "end": None})
