"""``arcbeam align``: known texts in, words with their times out."""

import json
import re

import numpy as np
import pytest

import arcbeam


@pytest.fixture
def demo(run, demo_data, tmp_path):
    """Runs ``arcbeam align`` on the demo's recordings, with texts of one's own by choice."""
    graph = tmp_path / "tokens.arcbeam"
    arcbeam.Graph.greedy(demo_data / "tokens.txt").save(graph)

    def invoke(*options, texts=None):
        return run("align", graph, demo_data / "log_probs.npz", texts or demo_data / "reference.tsv", *options)

    return invoke


def test_a_ctm(demo, demo_data):
    result = demo("--frame-shift", 0.02)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert all(re.fullmatch(r"\S+ 1 \d+\.\d{3} \d\.\d{3} \S+ [01]\.\d{3}", line) for line in lines)
    said = (line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    assert [(line.split()[0], line.split()[4]) for line in lines] == [
        (name, word) for name, text in said for word in text.split()
    ]
    assert "aligned 13 utterances, 2,215 frames, 44.3 s of audio" in result.stderr
    assert "confidence below" not in result.stderr


def test_json_has_what_python_has(demo, demo_data):
    found = [json.loads(line) for line in demo("--format", "json", "--frame-shift", 0.02).stdout.splitlines()]
    assert len(found) == 13
    assert set(found[0]) == {
        "id", "frames", "text", "words", "labels", "score", "confidence", "doubtful", "exact", "complete",
    }  # fmt: skip
    assert all(one["exact"] and one["complete"] and not one["doubtful"] for one in found)
    assert found[0]["words"][0] == {
        "word": "and", "start_frame": 21, "end_frame": 24, "start": 0.42, "end": 0.48, "confidence": 0.998989,
    }  # fmt: skip


def test_a_missing_file(run, demo_data):
    result = run("align", "graph.arcbeam", demo_data / "log_probs.npz")
    assert result.exit_code == 2
    assert "Missing argument 'INPUT' or 'TEXTS'." in result.stderr
    assert "Missing argument 'INPUT'." in run("decode", "graph.arcbeam").stderr


def test_seconds_need_a_frame_shift(demo):
    result = demo()
    assert result.exit_code == 2
    assert "CTM gives times in seconds: set --frame-shift" in " ".join(result.stderr.split())


def test_a_file_of_another_format(demo, tmp_path):
    for name in "words.json", "words.stm":
        result = demo("--frame-shift", 0.02, "--output", tmp_path / name)
        assert result.exit_code == 2
        assert "the format is ctm, and" in " ".join(result.stderr.replace("│", " ").split())
        assert not (tmp_path / name).exists()
    assert demo("--frame-shift", 0.02, "--output", tmp_path / "words.ctm").exit_code == 0


def test_texts_that_lack_utterances_or_have_more(demo, demo_data, tmp_path):
    some = tmp_path / "some.tsv"
    some.write_text("\n".join((demo_data / "reference.tsv").read_text().splitlines()[3:]) + "\nother\tten\n")
    result = demo("-f", "json", texts=some)
    assert result.exit_code == 1
    assert "lacks 3 utterances: 0870, 0880, 0890; --allow-missing aligns the others" in " ".join(result.stderr.split())
    result = demo("-f", "json", "--allow-missing", texts=some)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 10)
    more = tmp_path / "more.tsv"
    more.write_text((demo_data / "reference.tsv").read_text() + "other\tten\n")
    result = demo("-f", "json", texts=more)
    assert result.exit_code == 1
    assert "(1 utterance: other); --allow-missing aligns the others" in " ".join(result.stderr.split())


def test_texts_of_none_of_the_utterances(demo, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("and mister john dashwood\n")
    for options in ((), ("--allow-missing",)):
        result = demo("-f", "json", *options, texts=texts)
        assert result.exit_code == 1
        said = " ".join(result.stderr.split())
        assert "and 8 more, all of them; its first is 'and': are these the texts of these inputs" in said


def test_a_text_that_was_not_said(demo, demo_data, tmp_path):
    lines = [line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines()]
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("".join(f"{name}\t{text if name != '0880' else lines[2][1][:30]}\n" for name, text in lines))
    result = demo("-f", "json", texts=wrong)
    assert result.exit_code == 0
    assert "note: 1 utterance: 0880 with a confidence below 0.1: is this what was said?" in result.stderr


def test_a_word_that_cannot_be_spelled(demo, demo_data, tmp_path):
    text = (demo_data / "reference.tsv").read_text()
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text(text.replace("five five", "five 5"))
    result = demo("-f", "json", texts=wrong)
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "utterance 'cards-004': texts: expected words that the tokens of the model can spell, got '5'" in said
    lexicon = tmp_path / "lexicon.txt"
    lexicon.write_text("5 f i v e\n")
    result = demo("-f", "json", "--pronunciations", lexicon, texts=wrong)
    assert result.exit_code == 0, result.output
    assert '"text": "five 5"' in result.stdout
    result = demo("-f", "json", "--skip-errors", texts=wrong)
    assert (result.exit_code, len(result.stdout.splitlines())) == (3, 12)
    said = " ".join(result.stderr.split())
    assert "utterance 'cards-004' is left out: texts: expected words that" in said
    assert "note: left out 1 utterance: 'cards-004'" in said
    assert "aligned 12 utterances, " in said


def test_a_star(demo, demo_data, tmp_path):
    text = (demo_data / "reference.tsv").read_text()
    starred = tmp_path / "starred.tsv"
    starred.write_text(text.replace("was not an ill disposed", "was <star> disposed"))
    assert demo("-f", "json", texts=starred).exit_code == 1
    result = demo("-f", "ctm", "--frame-shift", 0.02, "--star", 1, texts=starred)
    assert result.exit_code == 0, result.output
    words = [line.split()[4:] for line in result.stdout.splitlines() if line.startswith("0880")]
    assert [word[0] for word in words] == ["he", "was", "<star>", "disposed", "young", "man"]
    assert [len(word) for word in words] == [2, 2, 1, 2, 2, 2]  # a star has no confidence


def test_options_that_no_text_uses(demo, tmp_path):
    lexicon = tmp_path / "lexicon.txt"
    for spelled, is_used in ("TEN t e n\n", False), ("", False), ("ten t e n\nMAN m a n\n", True):
        lexicon.write_text(spelled)
        result = demo("-f", "json", "--pronunciations", lexicon)
        assert result.exit_code == 0, result.output
        noted = "note: --pronunciations: no text has a word of " in " ".join(result.stderr.split())
        assert noted is not is_used
    assert "note: --star: no text has the word <star>" in demo("-f", "json", "--star", 1).stderr


def test_a_text_without_words(demo, tmp_path):
    texts = tmp_path / "texts.tsv"
    texts.write_text("0880\t\ncards-001\tten of clubs\n")
    result = demo("--frame-shift", 0.02, "--allow-missing", texts=texts)
    assert result.exit_code == 0, result.output
    assert {line.split()[0] for line in result.stdout.splitlines()} == {"cards-001"}
    assert "note: 1 utterance: 0880 without a word in " in " ".join(result.stderr.split())


def test_the_help_says_what_a_small_beam_is(run):
    said = " ".join(run("align", "--help").stdout.replace("│", " ").split())
    assert "less than 17 counts as 17" in said


def test_logits(run, demo, demo_data, tmp_path):
    with np.load(demo_data / "log_probs.npz") as file:
        log_probs = np.split(file["log_probs"].astype(np.float32), np.cumsum(file["lengths"])[:-1])
        names = file["ids"].tolist()
    graph = tmp_path / "tokens.arcbeam"
    np.savez(tmp_path / "logits.npz", **{name: 2 * one + 5 for name, one in zip(names, log_probs, strict=True)})
    result = run("align", graph, tmp_path / "logits.npz", demo_data / "reference.tsv", "-f", "json", "--logits")
    assert result.exit_code == 0, result.output
    assert "logits" not in result.stderr
    decoder = arcbeam.CtcDecoder(arcbeam.Graph.load(graph), device="cpu")
    wanted = decoder.align(2 * log_probs[1] + 5, "he was not an ill disposed young man", logits=True)
    assert json.loads(result.stdout.splitlines()[1])["confidence"] == pytest.approx(wanted.confidence, abs=1e-6)


def test_the_standard_input_has_no_names(run, demo_data):
    result = run("align", "graph.arcbeam", "-", demo_data / "reference.tsv", "-f", "json")
    assert result.exit_code == 2
    said = " ".join(result.stderr.replace("│", " ").split())
    assert "expected files, whose utterances have names to find their texts by" in said


def test_textgrids(demo, demo_data, tmp_path):
    """By another reader: the words and labels of JSON with their times, and no gaps."""
    textgrid = pytest.importorskip("praatio.textgrid", reason="praatio is not installed: .[test]")
    result = demo("-f", "json", "--frame-shift", 0.02, "--textgrids", tmp_path / "grids")
    assert result.exit_code == 0, result.output
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(path.stem for path in (tmp_path / "grids").iterdir()) == sorted(one["id"] for one in objects)
    for one in objects:
        read = textgrid.openTextgrid(str(tmp_path / "grids" / f"{one['id']}.TextGrid"), includeEmptyIntervals=False)
        assert read.maxTimestamp == round(one["frames"] * 0.02, 6)
        for tier, name in (("words", "word"), ("labels", "label")):
            entries = [(entry.label, entry.start, entry.end) for entry in read.getTier(tier).entries]
            assert entries == [(each[name], each["start"], each["end"]) for each in one[tier]]
    result = demo("-f", "json", "--textgrids", tmp_path / "grids")
    assert result.exit_code == 2 and "gives times in seconds: set --frame-shift" in " ".join(result.stderr.split())
