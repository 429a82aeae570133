"""The command `report` on what the other commands write."""

import pytest

from tests.report.test_page import data_of


@pytest.fixture
def decoded(run, tmp_path):
    """A folder with the results and the lattices of `decode`."""
    outputs = ("--nbest", 3, "--confidence", "--lattice", tmp_path / "l.ark", "-o", tmp_path / "h.jsonl")
    assert run("decode", "graph.arc", "in.npz", "-f", "json", "--frame-shift", 0.02, *outputs).exit_code == 0
    return tmp_path


def test_a_page_of_decode_has_the_score_of_decode(run, decoded):
    (decoded / "wrong.tsv").write_text("one\tah sea\ntwo\tsea\nthree\tbee\n")
    scored = run("decode", "graph.arc", "in.npz", "-o", decoded / "x.txt", "-r", decoded / "wrong.tsv").stdout
    page = decoded / "r.html"
    result = run(
        "report", decoded / "h.jsonl", "-r", decoded / "wrong.tsv", "-o", page, "--lattices", decoded / "l.ark",
        "--words", "graph.arc",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert result.stdout == scored and f"wrote {page}: {page.stat().st_size:,} bytes" in result.stderr
    data = data_of(page)
    assert data["title"] == "h.jsonl" and data["calibration"]["words"] == 4
    assert [len(one["nbest"]) for one in data["utterances"]] == [3, 3, 3]
    one = data["utterances"][0]
    assert (
        one["times"][1] == [0.1, 0.14] and one["frame_shift"] == pytest.approx(0.02) and one["lattice"]["unit"] == "s"
    )
    assert one["text"] == " ".join(box[3] for box in one["lattice"]["boxes"] if box[5]).strip()


def test_a_page_of_align_and_of_greedy_decoding(run, tmp_path):
    (tmp_path / "letters.tsv").write_text("one\ta b\ntwo\tc c\nthree\t\n")
    aligned = "align", "graph.arc", "in.npz", tmp_path / "letters.tsv"
    greedy = "greedy", "in.npz", "--tokens", "tokens.txt", "--separator", "none"
    for command in (aligned, greedy):
        assert run(*command, "-f", "json", "-o", tmp_path / "h.jsonl").exit_code == 0
        result = run("report", tmp_path / "h.jsonl", "-o", tmp_path / "r.html")
        assert result.exit_code == 0 and result.stdout == "", result.stderr
        data = data_of(tmp_path / "r.html")
        assert [one["id"] for one in data["utterances"]] == ["one", "two", "three"] and "score" not in data


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("-o", "r.csv"), 2, "writes HTML, got r.csv; type --output r.html"),
        (("-o", "no/r.html"), 1, "no/r.html: the folder does not exist"),
        (("-o", "r.html", "--embed-audio"), 2, "needs --audio"),
        (("-o", "r.html", "--words", "words.txt"), 2, "needs --lattices"),
        (("-o", "r.html", "-r", "none.tsv"), 1, "none.tsv: No such file or directory"),
    ],
)
def test_wrong_options(run, decoded, options, code, message):
    result = run("report", decoded / "h.jsonl", *options)
    assert result.exit_code == code and message in " ".join(result.stderr.replace("│", " ").split())
