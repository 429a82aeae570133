"""``arcbeam greedy``, and the word error rate of greedy decoding with that of a search."""

import json
import re

import numpy as np
import pytest

import arcbeam


@pytest.fixture
def demo(run, demo_data):
    """Runs ``arcbeam greedy`` on the demo's recordings."""

    def invoke(*options):
        return run("greedy", demo_data / "log_probs.npz", "--tokens", demo_data / "tokens.txt", *options)

    return invoke


def test_transcripts_and_word_error_rate(demo, demo_data, tmp_path):
    result = demo("--reference", demo_data / "reference.tsv", "--output", tmp_path / "out.txt")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("WER 4.72 % [ 5 / 106: 4 substitutions, 0 insertions, 1 deletions ]")
    assert len(result.stdout.splitlines()) == 1  # it is not compared with itself
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 13
    assert "decoded 13 utterances" in result.stderr


def test_times_and_confidences(demo):
    words = demo("--format", "ctm", "--frame-shift", 0.02).stdout.splitlines()
    said = [json.loads(line) for line in demo("--format", "json", "--frame-confidence", "entropy").stdout.splitlines()]
    assert len(words) == sum(len(fields["words"]) for fields in said) > 100
    assert all(re.fullmatch(r"\S+ 1 \d+\.\d{3} \d\.\d{3} \S+", line) for line in words)
    assert all(0.0 <= word["frame_confidence"] <= 1.0 for fields in said for word in fields["words"])


def test_options_that_greedy_decoding_lacks(demo):
    assert "No such option: --beam" in demo("--beam", 3).output
    assert "--frame-confidence" in demo("--confidence-aggregation", "mean").output


def test_tokens_without_a_blank(run, demo_data, tmp_path):
    tokens = [line for line in (demo_data / "tokens.txt").read_text().splitlines() if "blank" not in line]
    (tmp_path / "tokens.txt").write_text("\n".join(tokens) + "\n")
    result = run("greedy", demo_data / "log_probs.npz", "--tokens", tmp_path / "tokens.txt")
    assert result.exit_code == 1
    assert "greedy decoding needs the column of the blank, but none of the 28 tokens" in " ".join(result.stderr.split())


def test_another_blank_than_the_one_by_that_name(demo, demo_data):
    assert "note: --blank: expected '<blank>', which is column 28, got '<space>'" in demo("--blank", 0).stderr
    assert "note: blank" not in demo("--blank", 28).stderr
    with pytest.warns(UserWarning, match="blank: expected '<blank>', which is column 28"):
        arcbeam.ctc_decoder(demo_data / "tokens.txt", blank=0)


@pytest.fixture(scope="module")
def wrong_words(tmp_path_factory, demo_data):
    """The file of a graph that can write one word alone, so that its search is worse than greedy decoding."""
    path = tmp_path_factory.mktemp("wrong") / "graph.arcbeam"
    lm = path.with_name("lm.arpa")
    lm.write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 ship\n\n\\end\\\n")
    lexicon = path.with_name("lexicon.txt")
    lexicon.write_text("ship s h i p\n")
    arcbeam.Graph.build(demo_data / "tokens.txt", lexicon, lm, separator="<space>", progress=False).save(path)
    return path


def test_a_search_that_is_worse(run, demo_data, wrong_words, tmp_path):
    options = ("--reference", demo_data / "reference.tsv")
    result = run("decode", wrong_words, demo_data / "log_probs.npz", *options, "-o", tmp_path / "out.txt")
    searched, greedy = result.stdout.splitlines()
    assert searched.startswith("WER 100.00 %") and greedy.startswith("greedy decoding: WER 4.72 % [ 5 / 106: ")
    assert "greedy decoding has fewer errors than the search" in " ".join(result.stderr.split())


def test_a_search_that_is_better_has_no_note(run, demo_data, wrong_words, tmp_path):
    tokens = arcbeam.TokenTable.read(demo_data / "tokens.txt").tokens
    log_probs = np.log(np.full((6, 29), 0.01, np.float32))
    log_probs[range(6), [tokens.index(token) for token in ("s", "h", "i", "b", "p", "<blank>")]] = np.log(0.72)
    np.savez(tmp_path / "in.npz", one=log_probs)
    (tmp_path / "reference.tsv").write_text("one\tship\n")
    result = run("decode", wrong_words, tmp_path / "in.npz", "--reference", tmp_path / "reference.tsv")
    assert "WER 0.00 %" in result.stderr and "greedy decoding: WER 100.00 %" in result.stderr
    assert "fewer errors" not in result.stderr


def test_a_graph_without_separator_is_not_compared(run):
    assert "greedy" not in run("decode", "graph.arc", "in.npz", "-r", "reference.tsv").stderr
