"""``arcbeam stream``: log-probs in chunks, and what is known of the words after each chunk."""

import json
import re

import numpy as np
import pytest

from arcbeam import Graph
from arcbeam.ctc.streams.stream import Stream
from tests.cli.conftest import SAID


def test_json(run):
    result = run("stream", "graph.arc", "in.npz", "-f", "json", "--chunk-frames", "2", "--frame-shift", "0.02")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    for name, said in SAID.items():
        ours = [row for row in rows if row["id"] == name]
        assert [row["is_final"] for row in ours] == [False] * (len(ours) - 1) + [True]
        assert ours[-1]["text"] == ours[-1]["stable_text"] == said
        for row in ours:
            assert [word["word"] for word in row["stable_words"]] == said.split()[: len(row["stable_words"])]
    whole = run("decode", "graph.arc", "in.npz", "-f", "json", "--frame-shift", "0.02").stdout.splitlines()
    finals = {row["id"]: row["stable_words"] for row in rows if row["is_final"]}
    assert finals == {one["id"]: one["words"] for one in map(json.loads, whole)}


@pytest.mark.parametrize(
    ("requested", "wanted"),
    [
        (
            ["--nbest", "3", "--confidence", "--mbr", "--lattice-beam", "6", "--posterior-scale", "0.5"],
            {"nbest", "nbest_is_all", "confidence", "mbr", "sausage"},
        ),
        (["--frame-confidence", "entropy", "--confidence-aggregation", "mean"], {"labels"}),
    ],
)
def test_more_answers(run, requested, wanted):
    """The final results have the keys and values of ``arcbeam decode``."""
    arguments = ["graph.arc", "in.npz", "-f", "json", "--frame-shift", "0.02"]
    wholes = list(map(json.loads, run("decode", *arguments, *requested).stdout.splitlines()))
    plain = list(map(json.loads, run("decode", *arguments).stdout.splitlines()))
    rows = list(map(json.loads, run("stream", *arguments, *requested, "--chunk-frames", "3").stdout.splitlines()))
    finals = {row["id"]: row for row in rows if row["is_final"]}
    more = wholes[0].keys() - plain[0].keys()
    assert wanted <= more
    for whole in wholes:
        final = finals[whole["id"]]
        assert final["stable_words"] == whole["words"]
        assert {key: final[key] for key in more} == {key: whole[key] for key in more}
    assert "labels" in wanted or all(not more & row.keys() for row in rows if not row["is_final"])
    unrequested = list(map(json.loads, run("stream", *arguments).stdout.splitlines()))
    assert not any(more & row.keys() for row in unrequested)
    assert "labels" in wanted or max(len(whole["nbest"]) for whole in wholes) > 1


def test_posteriors(run):
    """Of the words that are not stable yet."""
    arguments = ["graph.arc", "in.npz", "-f", "json", "--frame-shift", "0.02", "--chunk-frames", "2"]
    rows = list(
        map(json.loads, run("stream", *arguments, "--posteriors", "--posterior-scale", "0.1").stdout.splitlines())
    )
    shown = 0
    for row in rows:
        words = [*row["stable_words"], *row["unstable_words"]]
        assert [word["word"] for word in words] == row["text"].split()
        found = [word["posterior"] for word in row["unstable_words"]]
        assert found == sorted(found, reverse=True) and all(0.0 < one <= 1.0 for one in found)
        assert not (row["is_final"] and found) and all("posterior" not in word for word in row["stable_words"])
        shown += any(one < 1.0 for one in found)
    assert shown
    plain = list(map(json.loads, run("stream", *arguments).stdout.splitlines()))
    for row in rows:
        for word in row["unstable_words"]:
            del word["posterior"]
    assert plain == rows


def test_interim_answers(run):
    arguments = ["graph.arc", "in.npz", "-f", "json", "--frame-shift", "0.02", "--chunk-frames", "2"]
    requested = [*arguments, "--nbest", "3", "--confidence"]
    rows = list(map(json.loads, run("stream", *requested, "--interim-answers").stdout.splitlines()))
    for row in rows:
        assert row["nbest"][0]["text"] == row["text"] and 0.0 <= row["confidence"] <= 1.0
        words = [*row["stable_words"], *row["unstable_words"]]
        assert [word["word"] for word in words] == row["text"].split()
        assert all(0.0 <= word["confidence"] <= 1.0 for word in words)
    assert any(len(row["nbest"]) > 1 for row in rows if not row["is_final"])
    at_the_end = list(map(json.loads, run("stream", *requested).stdout.splitlines()))
    assert [row for row in at_the_end if row["is_final"]] == [row for row in rows if row["is_final"]]
    before = [row for row in at_the_end if not row["is_final"]]
    assert not any("nbest" in row or "confidence" in word for row in before for word in row["unstable_words"])


def test_frame_confidences(run):
    """Of labels and words, also after chunks that are not the last."""
    requested = ["--frame-confidence", "entropy", "--confidence-aggregation", "mean"]
    shown = run("stream", "graph.arc", "in.npz", "-f", "json", *requested, "--chunk-frames", "2")
    unfinished = [row for row in map(json.loads, shown.stdout.splitlines()) if not row["is_final"]]
    for row in unfinished:
        words = row["stable_words"] + row["unstable_words"]
        assert all(0.0 <= word["frame_confidence"] <= 1.0 and "confidence" not in word for word in words)
        assert "frame_confidence" not in row and all(0.0 <= label["confidence"] <= 1.0 for label in row["labels"])
    assert any(row["labels"] for row in unfinished)


@pytest.fixture
def long(run):
    """The arguments for a recording of three sentences, and their words."""
    name, rows = next((name, rows) for name, rows in np.load("in.npz").items() if SAID[name])
    pause = np.full((120, rows.shape[1]), -20.0, np.float32)
    pause[:, Graph.load("graph.arc").blank] = 0.0
    np.savez("long.npz", talk=np.concatenate([pause, rows, pause, pause, rows, pause, rows]).astype(np.float32))
    return ["graph.arc", "long.npz", "--frame-shift", "0.02"], SAID[name]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(("frames", "at"), [*(("30", at) for at in range(1, 9)), *(("1000", at) for at in (1, 2, 3))])
def test_ctrl_c_behind_an_endpoint_shows_each_sentence_once(run, long, monkeypatch, frames, before, at):
    """Ctrl-C comes before or after a call that begins the next sentence, or decodes a chunk."""
    arguments, said = long
    calls = []

    def interrupted(method):
        def call(stream, *given, **more):
            calls.append(method)
            if len(calls) == at and before:
                raise KeyboardInterrupt
            found = method(stream, *given, **more)
            if len(calls) == at:
                raise KeyboardInterrupt
            return found

        return call

    for name in ("decode_chunk", "reset"):
        monkeypatch.setattr(Stream, name, interrupted(getattr(Stream, name)))
    result = run("stream", *arguments, "--endpoint", "kaldi", "--chunk-frames", frames)
    assert result.exit_code == 130
    shown = result.stdout.splitlines()
    assert shown == [f"talk-{number} {said}" for number in range(1, len(shown) + 1)]
    if frames == "1000" and (at > 1 or not before):  # all of it has come, and what waits is decoded
        assert len(shown) == 3


def test_the_newest_words_of_a_long_caption_are_shown(run):
    """On a terminal with fewer lines than the caption has."""
    np.savez("long.npz", talk=np.tile(np.load("in.npz")["one"], (40, 1)))
    terminal = {"FORCE_COLOR": "1", "COLUMNS": "17", "LINES": "4", "TERM": "xterm"}
    shown = run("stream", "graph.arc", "long.npz", "--chunk-frames", "7", env=terminal).stderr
    captions = re.split(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*", shown)
    for caption in captions[10:38]:
        *before, last = re.sub(r"\x1b\[[0-9;]*m", "", caption).split("\n")
        assert [line.rstrip() in ("ah bee ah bee ah", "bee ah bee ah bee") for line in before] == [True, True]
        assert last in "ah bee ah bee ah bee"


def test_ids_with_spaces_and_utterances_without_frames(run):
    rows = np.load("in.npz")["one"]
    np.savez("empty.npz", **{"a b": rows[:0]})
    shown = run("stream", "graph.arc", "empty.npz", "-f", "json")
    assert shown.exit_code == 0 and "decoded 0 chunks of 20 frames" in shown.stderr
    assert [(row["id"], row["text"], row["is_final"]) for row in map(json.loads, shown.stdout.splitlines())] == [
        ("a b", "", True)
    ]


@pytest.mark.parametrize("rules", ["kaldi", "sherpa"])
def test_endpoints(run, long, rules):
    """A long recording comes out as its sentences."""
    arguments, said = long
    arguments = [*arguments, "--endpoint", rules]
    for frames in ("7", "1000"):
        result = run("stream", *arguments, "--chunk-frames", frames)
        assert result.stdout.splitlines() == [f"talk-{number} {said}" for number in (1, 2, 3)], result.output
    shown = run("stream", *arguments, "-f", "json").stdout.splitlines()
    finals = [row for row in map(json.loads, shown) if row["is_final"]]
    assert [row["first_frame"] for row in finals] == [0, *(row["frames"] for row in finals[:-1])]
    assert [row["endpoint"] is None for row in finals] == [False] * (len(finals) - 1) + [True]
    assert [row["text"] for row in finals if row["text"]] == [said] * 3
    starts = [row["stable_words"][0]["start"] for row in finals if row["text"]]
    assert starts == sorted(starts) and starts[0] > 2.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["in.npz", "--endpoint", "kaldi"], "--frame-shift"),
        (["in.npz", "--endpoint", "silence", "--frame-shift", "0.02"], "expected one of kaldi or sherpa"),
        (["in.npz", "--real-time"], "--frame-shift"),
        (["in.npz", "--nbest", "2"], "--format json"),
        (["in.npz", "--confidence"], "--format json"),
        (["in.npz", "--mbr"], "--format json"),
        (["in.npz", "--posteriors"], "--format json"),
        (["in.npz", "--frame-confidence", "entropy"], "--format json"),
        (["in.npz", "--frame-confidence", "high", "-f", "json"], "--frame-confidence"),
        (["in.npz", "--nbest", "2", "-f", "json", "--lattice-beam", "-1"], "--lattice-beam"),
        (["nothing.npz"], "the input contains no utterances"),
        (["in.npz", "--threads", "0"], "--threads"),
        (["in.npz", "--device", "gpu"], "--device"),
        (["in.npz", "--memory-limit", "2G"], "--memory-limit"),
    ],
)
def test_bad_arguments(run, arguments, said):
    np.savez("nothing.npz", log_probs=np.zeros((0, 4), np.float32), lengths=np.zeros(0, np.int64))
    result = run("stream", "graph.arc", *arguments)
    assert result.exit_code in (1, 2) and result.stdout == ""
    assert said in result.output + result.stderr


def test_times_of_sentences_are_those_of_the_recording(run, long):
    arguments, said = long
    arguments = [*arguments, "--endpoint", "kaldi"]
    rows = [json.loads(line) for line in run("stream", *arguments, "-f", "json").stdout.splitlines()]
    words = [row["stable_words"] for row in rows if row["is_final"] and row["text"]]
    assert len(words) == 3
    ctm = [f"talk 1 {w['start']:.3f} {w['end'] - w['start']:.3f} {w['word']}" for one in words for w in one]
    assert run("stream", *arguments, "-f", "ctm").stdout.splitlines() == ctm
    stm = [f"talk 1 talk {one[0]['start']:.3f} {one[-1]['end']:.3f} {said}" for one in words]
    assert run("stream", *arguments, "-f", "stm").stdout.splitlines() == stm
    assert run("stream", *arguments, "-f", "trn").stdout.splitlines() == [f"{said} (talk-{n})" for n in (1, 2, 3)]


def test_values_of_rules(run, long):
    """They take the place of the values of the rules that are named."""
    arguments, said = long
    arguments = [*arguments, "--chunk-frames", "5", "--endpoint", "sherpa"]
    assert len(run("stream", *arguments).stdout.splitlines()) == 3
    patient = [f"--endpoint-rule={rule}.min_trailing_silence=9" for rule in ("rule1", "rule2")]
    [line] = run("stream", *arguments, *patient).stdout.splitlines()
    assert line == f"talk-1 {said} {said} {said}"
    ended = [*arguments, "-f", "json", *patient, "--endpoint-rule", "rule3.min-utterance-length=1"]
    rows = [json.loads(line) for line in run("stream", *ended).stdout.splitlines()]
    assert {row["endpoint"] for row in rows if row["is_final"]} == {"rule3", None}
    silent = [*arguments, "-f", "json", *patient, "--endpoint-rule", "rule1.min_trailing_silence=1"]
    for truth, expected in (("no", {"rule1", None}), ("yes", {"rule1", None})):
        rows = run("stream", *silent, "--endpoint-rule", f"rule1.must_contain_nonsilence={truth}").stdout.splitlines()
        ends = [row for row in map(json.loads, rows) if row["is_final"]]
        assert {row["endpoint"] for row in ends} == expected
        assert (ends[0]["text"] == "") == (truth == "no")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("rule9.min_trailing_silence=1", "(rule1, rule2, rule3)"), ("rule1.silence=1", "RULE.FIELD=VALUE"),
        ("rule1.min_trailing_silence", "RULE.FIELD=VALUE"),
        ("rule1.min_trailing_silence=long", "=long' (expected a number after the =)"),
        ("rule1.min_trailing_silence=-1", "of seconds, at least 0"), ("rule1=1", "got 'rule1=1'"),
        ("rule1.must_contain_nonsilence=maybe", "=maybe' (expected yes or no after the =)"),
    ],
)  # fmt: skip
def test_values_that_no_rule_has(run, value, why):
    result = run(
        "stream", "graph.arc", "in.npz", "--frame-shift", "0.02", "--endpoint", "sherpa", "--endpoint-rule", value
    )
    said = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == 2 and "'--endpoint-rule'" in said and why in said, said


def test_a_warning_of_values_is_a_note(run, tmp_path):
    probabilities = np.exp(np.load("in.npz")["one"])
    np.save(tmp_path / "odd.npy", probabilities)
    shown = run("stream", "graph.arc", tmp_path / "odd.npy").stderr
    assert "note: log_probs: expected natural logs of probabilities" in shown and "InputWarning" not in shown


def rates(result):
    """The lines of the word error rate, of greedy decoding, and of notes on scoring."""
    assert result.exit_code == 0, result.output + result.stderr
    told = (result.stdout + result.stderr).splitlines()
    return [line for line in told if line.startswith(("WER", "greedy decoding", "note: not scored", "note: greedy"))]


@pytest.mark.parametrize("options", [[], ["--allow-missing"], ["--endpoint", "kaldi", "--frame-shift", "0.02"]])
@pytest.mark.parametrize("output", [[], ["-o", "out.txt"], ["-f", "json"]])
def test_word_errors_are_those_of_decode(run, tmp_path, options, output):
    said = {"one": "ah bee", "two": "sea bee", "three": "ah"}
    if "--allow-missing" in options:
        said |= {"four": "bee"}
        del said["two"]
    (tmp_path / "wrong.tsv").write_text("".join(f"{name}\t{words}\n" for name, words in said.items()))
    output = [tmp_path / name if name == "out.txt" else name for name in output]
    given = ["graph.arc", "in.npz", "-r", tmp_path / "wrong.tsv", *output]
    whole = run("decode", *given, *[option for option in options if option == "--allow-missing"])
    found = run("stream", *given, "--chunk-frames", "2", *options)
    assert rates(found) == rates(whole) and any("substitutions" in line for line in rates(found))
    assert ("WER" in found.stdout) == ("WER" in whole.stdout) == ("-o" in output)


def test_greedy_decoding_is_scored_as_by_decode(run, tmp_path, demo_data):
    graph = Graph.greedy(demo_data / "tokens.txt")
    graph.save(tmp_path / "greedy.arc")
    given = [tmp_path / "greedy.arc", demo_data / "log_probs.npz", "-r", demo_data / "reference.tsv", "--beam", "0.5"]
    whole, found = rates(run("decode", *given)), rates(run("stream", *given))
    assert found == whole and len(found) == 2 and found[1] == f"greedy decoding: {found[0]}"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["in.npz", "-r", "one.tsv"],
            1,
            "error: the reference lacks 1 utterance: two; --allow-missing scores the others",
        ),
        (["-", "-r", "one.tsv"], 2, "'--reference': expected files, whose utterances have names"),
        (["in.npz", "--ignore-case"], 2, "'--ignore-case': needs --reference"),
    ],
)
def test_references_that_do_not_fit(run, tmp_path, arguments, code, said):
    (tmp_path / "one.tsv").write_text("one\tah bee\n")
    arguments = [tmp_path / name if name == "one.tsv" else name for name in arguments]
    result = run("stream", "graph.arc", *arguments, input=b"", env={"COLUMNS": "160"})
    assert result.exit_code == code and said in result.stderr
