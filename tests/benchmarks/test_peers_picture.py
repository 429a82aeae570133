"""arcbeam beside its peers, as the page and the picture show it, from results in which both were measured."""

import re
import sys
from dataclasses import replace

import pytest

from benchmarks.harness import record
from benchmarks.report import __main__ as report
from benchmarks.report import comparison, picture, readme
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


def result(tmp_path, name, rows, device="h200", gpu="NVIDIA H200", **head):
    head = ON_GPU | {"gpu": {"name": gpu, "driver": "580"}} | head if device != "cpu" else ON_GPU
    return Result(tmp_path / device / f"{name}.jsonl", head, rows)


def compared(measured):
    return list(comparison.rows(measured, lambda name: f"{name}.md"))


def test_a_row_is_of_the_task_and_of_its_latest_run(tmp_path):
    where = {"graph": "spm512-3gram", "search": "17 / 10,000"}
    riva = [RIVA[1] | where | {"search": "12 / 5,000"}, RIVA[0] | where]
    decoders = [
        {"labels": "letters", "decoder": "pyctcdecode", "width": 20, "rtfx": 900.0, "wer": 3.5},
        {"labels": "letters", "decoder": "pyctcdecode", "width": 100, "rtfx": 779.3, "wer": 3.46},
        {"labels": "letters", "decoder": "CtcDecoder", "beam": 12.0, "rtfx": 1718.3, "wer": 3.56, "same": "54 of 60"},
        {"labels": "letters", "decoder": "CtcDecoder", "beam": 17.0, "rtfx": 718.3, "wer": 3.46},
    ]
    measured = [
        result(tmp_path, "gpu_riva", riva),
        result(tmp_path, "gpu_riva", [riva[1] | {"rtfx": 1.0}], "h100", time="2026-11-20 05:00 UTC"),
        result(tmp_path, "compat_pyctcdecode", decoders, "cpu"),
    ]
    riva, pyctcdecode, at_17 = compared(measured)
    assert riva == {
        "task": "words",
        "data": "512 pieces, a 3-gram, beam 17, batches of 264",
        "device": "H200",
        "rtfx": 52111.9,
        "peer": "riva-asrlib-decoder",
        "peer_rtfx": "riva-asrlib-decoder 7,112",
        "ratio": 7.3,
        "equal": None,
        "accuracy": "yes: WER 3.56 %, the peer's 3.57 %",
        "measured": "[2026-11-21, commit c7d62ca](gpu_riva.md)",
        "readme": True,
    }
    assert (pyctcdecode["device"], pyctcdecode["ratio"], pyctcdecode["equal"]) == ("one core", 1718.3 / 779.3, 90.0)
    assert (at_17["ratio"], at_17["equal"]) == (718.3 / 779.3, None)
    assert pyctcdecode["accuracy"] == "0.10 points worse: WER 3.56 %, the peer's 3.46 %"
    assert compared([result(tmp_path, "gpu_riva", RIVA)]) == []


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


@pytest.fixture
def shown(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need .[bench]")
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
    pytest.importorskip("matplotlib", reason="plots need .[bench]")
    for name in ("gpu_riva", "gpu_nemo", "gpu_tests"):
        kept = next(record.RESULTS.glob(f"*/{name}.jsonl"))
        path = tmp_path / "h200" / kept.name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(kept.read_bytes())
    place, tables, front = tmp_path / "docs" / "b.md", tmp_path / "tables", tmp_path / "README.md"
    front.write_text(f"# A project\n\n{readme.BEGIN}{readme.END}\nInstall it.\n")

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["report", "--results", str(tmp_path), "--page", str(place), *options])
        return report.main(), capsys.readouterr().err.splitlines()

    missing = [
        place,
        tables / "README.md",
        front,
        tables / "gpu_riva.md",
        tables / "gpu_nemo.md",
        tables / "gpu_tests.md",
    ]
    wrong = "is not what the results give: "
    assert run("--check")[0] == 1
    assert run() == (0, [])
    assert run("--check") == (0, [])
    assert [result.name for result in found(tmp_path)] == ["gpu_riva", "gpu_nemo", "gpu_tests"]
    head, table, rest = re.split(f"{readme.BEGIN}|{readme.END}", front.read_text())
    assert (head, rest) == ("# A project\n\n", "\nInstall it.\n") and "| riva-asrlib-decoder |" in table
    for path in missing:
        path.write_text(path.read_text().replace("|\n", "| typed by hand\n") + ("" if path == front else "by hand\n"))
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


def test_a_readme_without_the_lines_of_the_table_stays_as_it_is():
    assert readme.text("# A project\n", []) == "# A project\n"
    assert readme.text(f"{readme.BEGIN}no end\n", []) == f"{readme.BEGIN}no end\n"
