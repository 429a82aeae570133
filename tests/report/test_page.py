"""The page as a file: its data, where its recordings and lattices are, and what a wrong call is answered with."""

import json
import math
import re
import warnings
from urllib.parse import unquote

import numpy as np
import pytest

import arcbeam
from arcbeam.core.errors import FormatError
from arcbeam.ctc.lattice.compact import words_over_time
from tests.cli.conftest import arcs_of_a_word_loop, log_probs_of

RESULTS = [{"id": "a", "text": "ah bee"}, {"id": "b b", "text": "sea"}]
SAID = {"a": "ah  bee", "b b": "bee"}


def data_of(page):
    """The data of a page; nothing else in it is the user's."""
    [block] = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(block)


def test_the_score_and_the_data(tmp_path):
    score = arcbeam.write_report(tmp_path / "r.html", RESULTS, SAID)
    assert str(score) == (
        "WER 33.33 % [ 1 / 3: 1 substitutions, 0 insertions, 0 deletions ], 1 of 2 utterances with errors"
    )
    data = data_of(tmp_path / "r.html")
    assert [one["signs"] for one in data["utterances"]] == ["==", "S"] and data["score"]["errors"] == 1
    assert [one["reference"] for one in data["utterances"]] == ["ah bee", "bee"]
    assert arcbeam.write_report(tmp_path / "r.html", RESULTS) is None
    assert "score" not in data_of(tmp_path / "r.html")


@pytest.mark.parametrize(("said", "found", "options", "expected"), [
    ("AH BEE", "ah bee", {}, "the reference is in capitals and the transcripts are not; --ignore-case ignores that"),
    ("ah bee", "Ah bee", {}, "the transcripts have capitals and the reference has none; --ignore-case ignores that"),
    ("ah, bee", "ah bee", {}, "the reference has punctuation and the transcripts have none: each word with a mark"),
    ("5 17", "ah bee", {}, r"has no letters .*: are its words numbers, as in Kaldi's text.int\?"),
    ("AH BEE", "ah bee", {"ignore_case": True}, None),
    ("5 17", "5 18", {}, None),
    ("", "ah bee", {}, None),
    ("Ah, bee", "Ah, sea", {}, None),
])  # fmt: skip
def test_references_that_are_written_in_another_way(said, found, options, expected, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        arcbeam.write_report(tmp_path / "r.html", [{"id": "a", "text": found}], {"a": said}, **options)
    assert len(caught) == (expected is not None)
    assert expected is None or re.search(expected, str(caught[0].message))


def test_transcripts_without_their_ids(tmp_path):
    with pytest.raises(ValueError, match=r"expected files, or {utterance: words}, got 'ah bee', .* dict\(zip\(ids"):
        arcbeam.write_report(tmp_path / "r.html", RESULTS, ["ah bee", "sea"])


def test_no_text_ends_the_block_that_it_is_in(tmp_path):
    text = "</script><script>alert(1)</script> <!-- [[js]] \u2028 \ud800"
    arcbeam.write_report(tmp_path / "r.html", [{"id": text, "text": "x"}])
    assert data_of(tmp_path / "r.html")["utterances"][0]["id"] == text
    assert (tmp_path / "r.html").read_text().count("<script") == 2


def test_recordings_are_linked_or_embedded(tmp_path):
    for name in ("speech/one/a.wav", "speech/b b.flac", "speech/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"sound")
    (tmp_path / "out").mkdir()
    page = tmp_path / "out" / "r.html"
    arcbeam.write_report(page, RESULTS, audio=tmp_path / "speech")
    links = [one["audio"] for one in data_of(page)["utterances"]]
    assert links == ["../speech/one/a.wav", "../speech/b%20b.flac"]
    assert all((page.parent / unquote(link)).read_bytes() == b"sound" for link in links)
    arcbeam.write_report(page, RESULTS, audio=tmp_path / "speech", embed_audio=True)
    assert [one["audio"] for one in data_of(page)["utterances"]] == [
        "data:audio/wav;base64,c291bmQ=", "data:audio/flac;base64,c291bmQ=",
    ]  # fmt: skip
    with pytest.warns(UserWarning, match="no recording in .*: 1 of 3 utterances, such as 'c'"):
        arcbeam.write_report(page, [*RESULTS, {"id": "c", "text": ""}], audio=tmp_path / "speech")
    arcbeam.write_report(page, [{"id": "one/a", "text": ""}], audio=tmp_path / "speech")
    assert data_of(page)["utterances"][0]["audio"] == "../speech/one/a.wav"
    (tmp_path / "speech" / "a.mp3").touch()
    with pytest.raises(FormatError, match=r"expected one recording of the utterance 'a', got '.*a.mp3', '.*a.wav'"):
        arcbeam.write_report(page, RESULTS, audio=tmp_path / "speech")
    with pytest.raises(FormatError, match=r"expected a folder of recordings named as the utterances are, .*a.mp3"):
        arcbeam.write_report(page, [{"id": "z", "text": ""}], audio=tmp_path / "speech")


@pytest.fixture(scope="module")
def lattices(tmp_path_factory):
    """A folder with graph.arc, words.txt and lattices.ark, whose best path is "ah bee" and whose second "ah sea"."""
    folder = tmp_path_factory.mktemp("lattices")
    symbols = arcbeam.SymbolTable.from_list(["<eps>", "ah", "bee", "sea"])
    graph = arcbeam.Graph.from_arcs(
        list(arcs_of_a_word_loop()), finals=dict.fromkeys(range(4), 0.0), word_symbols=symbols,
        tokens=arcbeam.TokenTable.from_list(["<blank>", "a", "b", "c"]),
    )  # fmt: skip
    graph.save(folder / "graph.arc")
    symbols.write(folder / "words.txt")
    log_probs = log_probs_of([1, 0, 0, 2, 2])
    log_probs[3:] = np.log([0.01, 0.01, 0.55, 0.43])
    [found] = arcbeam.CtcDecoder(graph, lattice_beam=8.0).decode([log_probs], lattice=True)
    arcbeam.write_lattices(folder / "lattices.ark", {"a": found.lattice})
    return folder, found.lattice


def test_a_lattice_is_drawn(lattices, tmp_path):
    folder, _ = lattices
    drawings = []
    for words in (folder / "words.txt", folder / "graph.arc", None):
        with pytest.warns(UserWarning, match="no lattice in .*lattices.ark: 1 of 2 utterances, such as 'b b'"):
            arcbeam.write_report(tmp_path / "r.html", RESULTS, lattices=folder / "lattices.ark", words=words)
        drawings.append(data_of(tmp_path / "r.html")["utterances"][0]["lattice"])
    assert drawings[0] == drawings[1]
    assert [box[3] for box in drawings[0]["boxes"]] == [
        {"1": "ah", "2": "bee", "3": "sea"}.get(box[3], "") for box in drawings[2]["boxes"]
    ]
    boxes = drawings[0]["boxes"]
    best = [word for _, _, _, word, _, is_best, _ in boxes if is_best]
    assert best == ["", "ah", "bee", ""] and "sea" in [box[3] for box in boxes]
    assert boxes[0][6] == 0 and boxes[-1][6] == 5 and drawings[0]["unit"] == "frames"
    for one in boxes:
        others = [other for other in boxes if other is not one and other[1] == one[1]]
        assert all(abs(one[0] - other[0]) >= (one[2] + other[2]) / 2 - 1 for other in others)


def test_the_words_of_another_graph(lattices, tmp_path):
    folder, _ = lattices
    arcbeam.SymbolTable.from_list(["<eps>", "one", "two", "three"]).write(tmp_path / "words.txt")
    given = {"lattices": folder / "lattices.ark", "words": tmp_path / "words.txt"}
    with pytest.warns(UserWarning, match=r"other words than the results, such as 'one two' in place of 'ah', 'bee': a"):
        arcbeam.write_report(tmp_path / "r.html", RESULTS[:1], **given)
    with warnings.catch_warnings(action="error"):
        for words in (folder / "words.txt", folder / "graph.arc", None):
            arcbeam.write_report(tmp_path / "r.html", RESULTS[:1], **given | {"words": words})
        other_path = [{"id": "a", "text": "ah sea"}]  # as by minimum Bayes risk
        arcbeam.write_report(tmp_path / "r.html", other_path, **given | {"words": folder / "words.txt"})


def test_posteriors_of_a_drawing_are_sums_over_paths(lattices):
    kaldi = lattices[1].to_kaldi()
    found = words_over_time(kaldi, 1.0, 0.0)
    paths = kaldi.nbest(1000)
    assert 2 < len(paths) < 1000
    shares = [math.exp(-arcbeam.DecoderOptions().scale * (path.graph_cost + path.acoustic_cost)) for path in paths]
    for word in (1, 2, 3):
        share = sum(share for share, path in zip(shares, paths, strict=True) for one in path.words if one == word)
        assert sum(node.posterior for node in found.nodes if node.word == word) == pytest.approx(share / sum(shares))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"references": {"c": "x"}}, "references: expected those of the hypotheses, such as 'a', got 'c'"),
        (
            {"references": {"a": "x"}},
            r"references: expected one for each utterance, got none for 1, 'b b'; allow_missing",
        ),
        ({"references": SAID | {"c": ""}}, "hypotheses: expected one for each utterance, got none for 1, 'c'; allow_"),
        ({"references": {"a": 3}}, "references: expected a sequence of str, got int for utterance 0"),
        ({"references": 3}, "references: expected files, or {utterance: words}, got int"),
        ({"embed_audio": True}, "embed_audio: expected audio, too, without which it does nothing; give audio"),
        ({"words": ["a"]}, "words: expected lattices, too"),
        ({"acoustic_scale": 2.0}, "acoustic_scale: expected lattices, too"),
        ({"audio": 3}, "audio: expected a path, got int"),
        ({"ignore_case": 1}, "ignore_case: expected a bool, got int"),
        ({"acoustic_scale": 0}, "acoustic_scale: expected a number above 0, got 0"),
        ({"audio": "no/folder"}, r"no/folder: expected a folder of recordings .*, got no recordings"),
    ],
)
def test_a_wrong_call(options, message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=message):
        arcbeam.write_report(tmp_path / "r.html", RESULTS, **options)
    assert not (tmp_path / "r.html").exists()


def test_utterances_that_only_one_side_has(tmp_path):
    with pytest.warns(UserWarning, match="not scored: 1 without a reference, 1 without a transcript"):
        score = arcbeam.write_report(tmp_path / "r.html", RESULTS, {"a": "ah", "c": ""}, allow_missing=True)
    assert score.utterances == 1 and "errors" not in data_of(tmp_path / "r.html")["utterances"][1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arcbeam.write_report(tmp_path / "r.html", RESULTS, SAID, allow_missing=True)
