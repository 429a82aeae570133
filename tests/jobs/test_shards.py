"""Shards: parts of a job whose outputs, one after the other, are the output of the whole."""

import pytest

from arcbeam.jobs.shards import Shard
from tests.jobs.conftest import run

INPUT = ["--frame-shift", "0.02", "--device", "cpu", "-f", "ctm", "-o", "words"]


@pytest.mark.parametrize("total", [0, 1, 7, 104])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 105])
def test_shards_are_contiguous_and_of_about_one_size(total, count):
    parts = [Shard(number, count).of(total) for number in range(1, count + 1)]
    assert [place for part in parts for place in part] == list(range(total))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    "text", ["0/8", "9/8", "1", "1/", "/2", "-1/2", "1/0", "1 /2", "a/b", "1/2/3", "1/99999999999"]
)
def test_what_is_no_shard(text):
    with pytest.raises(ValueError, match="expected I/N with I from 1 to N, such as 1/8, got "):
        Shard.parse(text)


def test_one_after_the_other_they_are_the_whole(speech, tmp_path):
    graph, inputs = speech / "graph.arcbeam", speech / "log_probs.npz"
    assert run(tmp_path, "decode", graph, inputs, *INPUT)[0] == 0
    whole, parts = (tmp_path / "words").read_bytes(), []
    for number in range(1, 6):
        code, said = run(tmp_path, "decode", graph, inputs, *INPUT, "--shard", f"{number}/5", "--batch-size", 9)
        assert code == 0 and f"wrote words: {20 if number == 1 else 21} utterances" in said, said
        parts.append((tmp_path / "words").read_bytes())
    assert b"".join(parts) == whole and len(set(parts)) > 1


def test_references_and_texts_of_other_shards_are_not_missing(speech, tmp_path):
    graph, inputs, said = speech / "graph.arcbeam", speech / "log_probs.npz", speech / "reference.tsv"
    shard = ["--shard", "2/4"]
    code, told = run(tmp_path, "decode", graph, inputs, *INPUT, *shard, "--reference", said)
    assert code == 0 and "not scored" not in told and "of 26 utterances" in (tmp_path / "out").read_text()
    code, told = run(tmp_path, "align", graph, inputs, said, *INPUT, *shard)
    assert code == 0 and "aligned 26 utterances" in told
    (tmp_path / "more.tsv").write_text(said.read_text() + "other\tten\n")
    code, told = run(tmp_path, "align", graph, inputs, tmp_path / "more.tsv", *INPUT, *shard)
    assert code == 1 and "(1 utterance: other)" in told


def test_more_shards_than_utterances(speech, tmp_path):
    code, said = run(tmp_path, "decode", speech / "graph.arcbeam", speech / "log_probs.npz", *INPUT, "--shard", "1/200")
    assert code == 0 and "wrote words: 0 utterances" in said
    assert (tmp_path / "words").read_bytes() == b""


def test_a_usage_error(speech, tmp_path):
    code, said = run(tmp_path, "decode", speech / "graph.arcbeam", speech / "log_probs.npz", "--shard", "0/4")
    assert code == 2 and "expected I/N with I from 1 to N" in said
