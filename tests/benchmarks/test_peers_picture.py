"""arcbeam beside its peers, as the page and the picture show it, from results in which both were measured."""

import re
import sys
from dataclasses import replace

import pytest

from benchmarks.harness import record
from benchmarks.report import __main__ as report
from benchmarks.report import page, peers, picture
from benchmarks.report.results import Result, found
from benchmarks.report.tables import MADE

ON_GPU = {
    "time": "2026-11-21 04:33 UTC",
    "commit": "c7d62caa35c0",
    "dirty": False,
}
ALONE = {"set": "workload-512", "graph": "g", "minutes": 30.8, "wer": 3.56}
RIVA = [
    ALONE | {"rtfx": 52111.9, "peer_rtfx": 7112.5, "ratio": 7.3, "peer_wer": 3.57},
    ALONE | {"rtfx": 165848.6, "peer_rtfx": 9842.0, "ratio": 16.3, "peer_wer": 3.46},
    ALONE | {"status": "failed: the process ended with -9"},
]
DECODERS = [
    ALONE | {"decoder": "arcbeam cuda", "rtfx": 33543.8},
    ALONE | {"decoder": "arcbeam cpu, 1 core", "rtfx": 718.3},
    ALONE | {"decoder": "pyctcdecode, 1 core", "rtfx": 779.3, "wer": 3.46, "minutes": 0.99},
    ALONE | {"decoder": "riva-asrlib-decoder", "status": "missing: riva"},
]


def result(tmp_path, name, rows, device="h200", stale=False, gpu="NVIDIA H200", **head):
    head = ON_GPU | {"gpu": {"name": gpu, "driver": "580"}} | head if device != "cpu" else {}
    return Result(tmp_path / device / f"{name}.jsonl", head, rows, stale)


def test_lines_have_all_conditions_of_a_run(tmp_path):
    measured = [result(tmp_path, "gpu_riva", RIVA, stale=True), result(tmp_path, "gk23_table3", DECODERS)]
    riva, pyctcdecode = peers.compared(measured, lambda name: f"{name}.md")
    assert riva == {
        "peer": "riva-asrlib-decoder, GPU",
        "task": "words, graphs of 3-grams",
        "ours": "GPU",
        "conditions": 2,
        "rtfx": "52,112 to 165,849",
        "peer_rtfx": "7,112 to 9,842",
        "ratio": "7.3 to 16.3",
        "wer": "3.6",
        "peer_wer": "3.5 to 3.6",
        "measured": "[h200](gpu_riva.md) **STALE**",
    }
    assert (pyctcdecode["peer"], pyctcdecode["ratio"], pyctcdecode["conditions"]) == ("pyctcdecode, 1 core", "0.9", 1)


def test_every_peer_is_on_the_page():
    text = report.PAGE.read_text(encoding="utf-8").split("## Compared with other decoders")[1].split("\n## ")[0]
    for peer in ("riva", "NeMo", "kaldi-decoder", "flashlight-text", "pyctcdecode"):
        assert re.search(rf"^\| {peer}", text, re.MULTILINE), peer


def test_a_panel_is_of_the_latest_run(tmp_path):
    later = [row | {"rtfx": 60000.0} for row in RIVA]
    measured = [
        result(tmp_path, "gpu_riva", RIVA),
        result(tmp_path, "gk23_table3", DECODERS),
        result(tmp_path, "gpu_riva", later, "h100", time="2026-11-22 05:00 UTC", gpu="NVIDIA H100"),
        result(tmp_path, "gk23_table3", DECODERS, "cpu"),
    ]
    panels = picture.panels(measured)
    assert [(panel.experiment, panel.gpu) for panel in panels] == [
        ("gk23_table3", "NVIDIA H200"),
        ("gpu_riva", "NVIDIA H100"),
    ]
    assert picture.panels(measured[::-1]) == panels
    assert [bar.name for bar in panels[0].bars] == ["arcbeam, GPU", "arcbeam, 1 core", "pyctcdecode, 1 core"]
    assert [bar.rtfx for bar in panels[1].bars] == [60000.0, 7112.5]
    text = picture.caption(panels)
    assert "pyctcdecode, 1 core 779 (WER 3.5 %, 1 min of speech)" in text
    assert "(gpu_riva, NVIDIA H100, 2026-11-22, commit c7d62ca)" in text
    assert picture.panels([result(tmp_path, "gk23_table3", DECODERS, "cpu")]) == []


def test_nemo_has_the_beam_with_which_it_is_fastest(tmp_path):
    rows = [ALONE | {"rtfx": 9.0, "peer_rtfx": float(beam), "peer_wer": 4.0} for beam in (2, 5, 3)]
    (panel,) = picture.panels([result(tmp_path, "gpu_nemo", rows)])
    assert panel.bars[1].rtfx == 5.0


def luminance(color):
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("ground", ["#ffffff", "#0d1117"])
def test_the_picture_is_read_on_light_and_on_dark(ground):
    for color, least in ((picture.TEXT, 4.0), (picture.OURS, 3.0), (picture.PEER, 3.0)):
        one, other = sorted((luminance(color), luminance(ground)))
        assert (other + 0.05) / (one + 0.05) >= least, color


@pytest.fixture
def shown(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need arcbeam[bench]")
    return picture.panels([result(tmp_path, "gpu_riva", RIVA)])


def test_the_same_panels_give_the_same_bytes(shown):
    text = picture.svg(shown)
    assert text == picture.svg(shown)
    assert "<dc:date>" not in text and "riva-asrlib-decoder, GPU 7,112 (WER 3.6 %, 31 min of speech)" in text
    assert "fill: #ffffff" not in text and picture.TEXT in text  # no ground of its own


def test_a_picture_that_is_not_that_of_the_results(shown, tmp_path, monkeypatch):
    elsewhere = [replace(panel, gpu="NVIDIA H100") for panel in shown]
    path = tmp_path / "peers.svg"
    assert not picture.is_current(path, shown)
    text = picture.svg(shown)
    path.write_text(text)
    assert picture.is_current(path, shown)
    assert not picture.is_current(path, elsewhere)
    path.write_text(text.replace(picture.OURS, picture.PEER))
    assert not picture.is_current(path, shown)
    # Drawn by another matplotlib, or compared where there is none: by what is drawn.
    path.write_text(re.sub(r"Matplotlib v[\d.]+", "Matplotlib v1.0", text).replace(picture.OURS, picture.PEER))
    assert picture.is_current(path, shown)
    assert not picture.is_current(path, elsewhere)
    path.write_text(text)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert picture.is_current(path, shown)
    assert not picture.is_current(path, elsewhere)


def test_check_names_every_file_that_is_not_of_the_results(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="plots need arcbeam[bench]")
    for name in ("gpu_riva", "gpu_nemo", "gpu_tests"):
        kept = next(record.RESULTS.glob(f"*/{name}.jsonl"))
        path = tmp_path / "h200" / kept.name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(kept.read_bytes())
    place, tables = tmp_path / "docs" / "b.md", tmp_path / "tables"

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["report", "--results", str(tmp_path), "--page", str(place), *options])
        return report.main(), capsys.readouterr().err.splitlines()

    missing = [place, tables / "gpu_riva.md", tables / "gpu_nemo.md", tables / "gpu_tests.md"]
    wrong = "is not what the results give: "
    assert run("--check")[0] == 1
    assert run() == (0, [])
    assert run("--check") == (0, [])
    assert [result.name for result in found(tmp_path)] == ["gpu_riva", "gpu_nemo", "gpu_tests"]
    for path in missing:
        path.write_text(path.read_text() + "typed by hand\n")
    (tables / "gone.md").write_text(f"# Gone\n{MADE}\n")
    (tables / "own.md").write_text("# Somebody's own\n")
    (place.parent / picture.NAME).write_text("<svg/>")
    code, said = run("--check")
    assert code == 1
    assert [line.split(wrong)[0].strip() for line in said if wrong in line] == [
        *map(str, missing), str(place.parent / picture.NAME),
    ]  # fmt: skip
    assert f"{tables / 'gone.md'} is of no result: run python -m benchmarks.report" in said
    assert run() == (0, []) and run("--check") == (0, [])
    assert not (tables / "gone.md").exists() and (tables / "own.md").exists()


def test_the_page_quotes_the_tests_on_a_gpu():
    results = [record.read(path) for path in record.RESULTS.glob("*/gpu_tests.jsonl")]
    head, rows = max(results, key=lambda result: result[0]["time"])
    text = report.PAGE.read_text(encoding="utf-8").split("## Tests on a GPU\n")[1].split("\n## ")[0]
    assert f"{head['gpu']['name']}, commit {head['commit']}, {head['time']}" in text
    for row in rows:
        cells = [str(row.get(key, "")) for key in ("part", "passed", "failed", "skipped")]
        assert f"| {' | '.join(cells)} |" in text


def test_the_sanitizers_are_one_sentence(tmp_path):
    rows = [{"tool": tool, "findings": 0} for tool in "abc"]
    rows += [{"tool": "a", "begins": "grow", "status": "missing: not run"}]
    made = result(tmp_path, "gpu_sanitizers", rows, stale=True)
    text = " ".join(page.tests([made], lambda name: f"{name}.md"))
    told = "3 of 4 runs of compute-sanitizer found nothing; not run: 1 of 1 of a with lanes that grow: NVIDIA H200"
    assert f"{told}, commit c7d62caa35c0" in text
    assert "04:33 UTC **STALE**; " in text and "[more](gpu_sanitizers.md)" in text
