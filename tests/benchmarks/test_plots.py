"""Curves become PNG files, the same bytes for the same points."""

import struct

import pytest

from benchmarks.harness.plots import line_plot

pytest.importorskip("matplotlib", reason="plots need arcbeam[bench]")
SERIES = {"beam 17": [(1, 10.0), (2, 19.0), (4, 30.0)], "beam 12": [(1, 30.0), (2, 50.0), (4, 90.0)]}


@pytest.mark.parametrize("log", ["", "x", "y", "xy"])
def test_a_png_of_each_kind_of_axis(tmp_path, log):
    made = line_plot(tmp_path / "plots" / "curve.png", SERIES, "utterances", "RTFx", log=log, title="Batches")
    head = made.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert min(struct.unpack(">II", head[16:])) > 300
    again = line_plot(tmp_path / "again.png", SERIES, "utterances", "RTFx", log=log, title="Batches")
    assert again.read_bytes() == made.read_bytes()


def test_one_curve_needs_no_legend_and_points_need_no_powers_of_two(tmp_path):
    assert line_plot(tmp_path / "one.png", {"all": [(3, 1.0), (10, 2.0)]}, "x", "y", log="x").stat().st_size > 1000


def test_an_axis_that_there_is_not(tmp_path):
    with pytest.raises(ValueError, match="\"xy\", got 'z'"):
        line_plot(tmp_path / "no.png", SERIES, "x", "y", log="z")
