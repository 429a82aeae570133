"""`make check` tests what differs, and everything where a file's place does not tell what it concerns."""

import pytest

from tests import changed


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        ([], []),
        (["cuda/rescore/requests/request_words.cuh"], ["tests/rescore"]),
        (["tests/rescore/test_requests_emulated.py", "cuda/decode/search.cuh"], ["tests/decode", "tests/rescore"]),
        (
            ["benchmarks/results/cpu/wer.jsonl", "benchmarks/results/tables/wer.md", "docs/benchmarks.md"],
            [f"tests/benchmarks/test_{name}.py" for name in ("guide_figures", "peers_picture", "report")],
        ),
        (["benchmarks/results/cpu/wer.jsonl", "benchmarks/report/page.py"], ["tests/benchmarks"]),
        (
            ["README.md", "docs/guide/gpu.md"],
            ["tests/benchmarks/test_guide_figures.py", "tests/package", "tests/test_pages.py"],
        ),
        (["gpu.mk", "release.mk"], ["tests/benchmarks/test_proof.py", "tests/package/test_makefile.py"]),
        (["tests/test_layout.py"], ["tests/test_layout.py"]),
        (["tests/gone/test_deleted.py"], []),
        (["cuda/shared/cost.hpp"], ["tests"]),
        (["README.md", "pyx/arcbeam/decoder.py"], ["tests"]),
        (["tests/conftest.py"], ["tests"]),
    ],
)
def test_what_a_place_concerns(paths, wanted):
    assert changed.concerned(paths) == wanted


def test_every_place_exists():
    named = {place for _, places in changed.CONCERNS for place in places if "\\" not in place}
    assert [place for place in named if "*" not in place and not (changed.ROOT / place).exists()] == []


@pytest.mark.parametrize("room", changed.CTC_ROOMS)
def test_every_room_of_the_decoder_has_tests(room):
    assert (changed.ROOT / "pyx/arcbeam/ctc" / room).is_dir()
    assert set(changed.concerned([f"pyx/arcbeam/ctc/{room}/some.py"])) > set(changed.DECODER)


def test_what_differs_from_where_the_branch_left(git, tmp_path, monkeypatch):
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    assert changed.changed() is None  # no history
    git("init", "-b", "main")
    (tmp_path / "old").write_text("1")
    git("add", "."), git("commit", "-m", "1"), git("checkout", "-b", "topic")
    (tmp_path / "committed").write_text("1")
    git("add", "."), git("commit", "-m", "2")
    (tmp_path / "old").write_text("2")
    (tmp_path / "new").write_text("1")
    assert sorted(changed.changed()) == ["committed", "new", "old"]
    git("checkout", "-f", "main"), git("commit", "--allow-empty", "-m", "3"), git("checkout", "topic")
    assert "committed" in changed.changed()
