"""Two versions of arcbeam in one run, on the CPU: the same package twice, and one whose answers differ."""

import ctypes
import os
import sys
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import arcbeam
from benchmarks.adapters import gpu
from benchmarks.adapters.gpu import ChildFailed
from benchmarks.data import graphs
from benchmarks.engine import machine_code, placements, rescoring_models
from benchmarks.harness import registry
from benchmarks.harness.registry import Context
from benchmarks.tasks import version_worker, versions
from tests.benchmarks.tiny import WORDS, dataset_of, give, graph_of_words
from tests.decode.language_models import random_model
from tests.decode.random_graphs import random_log_probs

PACKAGE = Path(arcbeam.__file__).parent
LENGTHS = (4, 7, 1, 5, 6, 3)
# What is put at the end of arcbeam/__init__.py for a version of other answers.
OTHER_SCORE = """
from arcbeam.ctc.decoder import CtcDecoder
_decode = CtcDecoder.decode
def _with_another_score(self, *arguments, **more):
    found = _decode(self, *arguments, **more)
    found[-1].score += 1e-9
    return found
CtcDecoder.decode = _with_another_score
"""
# One that takes no `placement`.
FEWER_OPTIONS = """
from arcbeam.ctc.decoder import CtcDecoder
_make = CtcDecoder.__init__
def _without_placement(self, graph, **options):
    if "placement" in options:
        raise TypeError("got an unexpected option 'placement'")
    _make(self, graph, **options)
CtcDecoder.__init__ = _without_placement
"""


@pytest.fixture
def version(tmp_path):
    """Makes the folder of another version: this package, with something after its `__init__`."""

    def make(more="", name="version"):
        folder = tmp_path / name / "arcbeam"
        folder.mkdir(parents=True)
        for path in PACKAGE.iterdir():
            if path.name not in ("__init__.py", "__pycache__"):
                (folder / path.name).symlink_to(path)
        (folder / "__init__.py").write_text((PACKAGE / "__init__.py").read_text() + more)
        return folder.parent

    return make


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Every graph and every set is a tiny one, with language models; the experiment."""
    models = {key: random_model(np.random.default_rng(seed), WORDS, 1) for seed, key in enumerate("ls")}
    files = {"language_model": tmp_path / "large.lm", "graph_language_model": tmp_path / "small.lm"}
    for path, model in zip(files.values(), models.values(), strict=True):
        model.save(path)
    batch = [random_log_probs(seed, frames, 12) for seed, frames in enumerate(LENGTHS)]
    dataset = dataset_of("set", batch, [f"u{i}" for i in range(len(batch))])
    of_graph = graph_of_words(tmp_path / "tiny.arcbeam", language_model=models["s"])
    give(monkeypatch, of_graph, lambda name, utterances=None: dataset)
    monkeypatch.setattr(rescoring_models, "files", lambda graph: files)
    return registry.load("gpu_versions")


def rows_of(experiment, folder, only, repeats=2):
    options = {"other": str(folder), "name": "another", "only": only}
    return list(experiment.run(Context(repeats, options=options)))


def test_the_same_package_twice(tiny, version, monkeypatch):
    assert [c.options for c in tiny.CONDITIONS] == [gpu.WIDE] * 6 + [gpu.NARROW] * 6
    monkeypatch.setattr(tiny, "CONDITIONS", [*tiny.CONDITIONS[:3], *tiny.CONDITIONS[6:7]])
    rows = rows_of(tiny, version(), "single,batch")
    assert [(row["what"], row["search"], row["utterances"]) for row in rows] == [
        ("one utterance alone", "17 / 10,000", len(LENGTHS)),
        ("a batch", "17 / 10,000", len(LENGTHS)),
        ("a batch", "17 / 10,000", len(LENGTHS)),
        ("one utterance alone", "12 / 5,000", len(LENGTHS)),
    ]
    for row in rows:
        assert "status" not in row and row["answers"] == "equal" and row["name"] == "another"
        assert row["frames"] == sum(LENGTHS) and len(row["this_wall"]) == len(row["other_wall"]) == 2
        low, high = row["ratio_spread"]
        assert low <= row["ratio"] <= high
        ratios = sorted(slow / fast for slow, fast in zip(row["other_wall"], row["this_wall"], strict=True))
        assert [low, high] == ratios
    # One by one in another order or all at a time: the same graph, but utterances sorted by length.
    alone, batch, same = rows[:3]
    assert batch["digest"] == same["digest"] != alone["digest"]
    assert alone["this_us"] == pytest.approx(1e3 * alone["this_ms"] / sum(LENGTHS)) and "this_us" not in batch


def test_rescoring(tiny, version, monkeypatch):
    """On the CPU: the models are found, and their answers are not those of the plain search."""
    condition = tiny.Condition(tiny.RESCORING, tiny.PIECES, gpu.NARROW, "cpu")
    plain = tiny.Condition(tiny.BATCH, tiny.PIECES, gpu.NARROW)
    monkeypatch.setattr(placements, "options", lambda placement, cache=0: {"placement": placement})
    monkeypatch.setattr(tiny, "CONDITIONS", [plain, condition])
    without, row = rows_of(tiny, version(), "batch,rescoring", 1)
    assert (row["what"], row["answers"]) == ("rescoring, cpu", "equal")
    assert row["digest"] != without["digest"]


def test_a_placement_that_is_missing_has_a_row(tiny, version, monkeypatch):
    monkeypatch.setattr(tiny, "CONDITIONS", tiny.CONDITIONS[:6])
    rows = rows_of(tiny, version(), "rescoring")
    assert [row["what"] for row in rows] == [f"rescoring, {place}" for place in tiny.PLACEMENTS]
    assert all(row["status"].startswith("missing: another has no such decoder: ") for row in rows)
    assert all("; this version has no such decoder: " in row["status"] for row in rows)


def test_several_versions_of_which_one_lacks_an_option(tiny, version, monkeypatch):
    monkeypatch.setattr(tiny, "CONDITIONS", [tiny.Condition(tiny.RESCORING, tiny.PIECES, gpu.NARROW, "cpu")])
    monkeypatch.setattr(placements, "options", lambda placement, cache=0: {"placement": placement})
    folders = [version(), version(FEWER_OPTIONS, "fewer"), version(name="third")]
    options = {"other": ",".join(map(str, folders)), "name": "same,fewer,third", "only": "rescoring"}
    rows = list(tiny.run(Context(1, options=options)))
    assert [row["name"] for row in rows] == ["fewer", "same", "third"]
    assert rows[0]["status"] == "missing: fewer has no such decoder: got an unexpected option 'placement'"
    assert all(row["answers"] == "equal" and "status" not in row for row in rows[1:])
    assert rows[1]["this_wall"] == rows[2]["this_wall"] and rows[1]["other_wall"] != rows[2]["other_wall"]


def test_answers_that_differ_are_a_failure(tiny, version, monkeypatch):
    monkeypatch.setattr(tiny, "CONDITIONS", tiny.CONDITIONS[:2])
    alone, batch = rows_of(tiny, version(OTHER_SCORE), "single,batch")
    assert alone["name"] == batch["name"] == "another"
    assert alone["status"].startswith("failed: Wrong: another: utterance 0: got ")
    assert batch["status"].startswith(f"failed: Wrong: another: utterance {len(LENGTHS) - 1}: got ")
    assert "expected the twin's" in batch["status"]
    assert not {"ratio", "answers", "other_ms"} & (alone.keys() | batch.keys()), "nothing was timed"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, KeyError, "say --set other=FOLDER"),
        ({"other": "none"}, FileNotFoundError, "expected a folder that holds a built arcbeam.*/none, which has no"),
        (
            {"other": "a,b", "name": "one"},
            KeyError,
            "as many names as there are folders, 2, .* version', got one",
        ),
        ({"other": "a,b", "name": "one,one"}, KeyError, "2, all different and none 'this version', got one, one"),
        ({"other": "a", "name": "this version"}, KeyError, "1, all different and none 'this version', got this v"),
        ({"other": str(PACKAGE.parent), "only": "speed"}, KeyError, "there is no 'speed'; there are: single, batch"),
    ],
)
def test_wrong_options(options, error, words):
    with pytest.raises(error, match=words):
        next(registry.load("gpu_versions").run(Context(options=options)))


def test_a_package_that_cannot_decode(tiny, tmp_path, version):
    folder = tmp_path / "empty" / "arcbeam"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    row = rows_of(tiny, folder.parent, "single", 1)[0]
    assert row["status"].startswith(
        "failed: ChildFailed: another: AttributeError: module 'arcbeam' has no attribute 'Graph'"
    )


def test_a_process_has_the_version_of_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE.parent))
    (tmp_path / "arcbeam").symlink_to(PACKAGE)
    with versions.started({"a": tmp_path, "b": PACKAGE.parent}) as workers:
        alive = [worker.child.process.pid for worker in workers.values()]
        assert len({os.getpid(), *alive}) == 3
    for worker in workers.values():
        assert worker.child.exitcode == 0
    with pytest.raises(ChildFailed, match=r"^none: ImportError: expected the arcbeam of .*/none, got that of"):
        with versions.started({"none": tmp_path / "none"}):
            pass


class Driver:
    """As much of cuda.bindings.driver as the worker calls; the device's memory is the host's."""

    CUresult = IntEnum("CUresult", {"CUDA_SUCCESS": 0, "CUDA_ERROR_OUT_OF_MEMORY": 2})

    def __init__(self, fails=""):
        self.fails, self.memory = fails, []

    def cuMemAlloc(self, size):
        self.memory.append(ctypes.create_string_buffer(size))
        return self.CUresult(0), ctypes.addressof(self.memory[-1])

    def cuMemcpyHtoD(self, to, source, size):
        ctypes.memmove(to, source, size)
        return (self.CUresult(0),)

    def __getattr__(self, name):
        return lambda *arguments: (self.CUresult(2 if name == self.fails else 0), name)


def with_driver(monkeypatch, driver):
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(bindings=SimpleNamespace(driver=driver)))
    monkeypatch.setitem(sys.modules, "cuda.bindings", sys.modules["cuda"].bindings)
    return driver


def test_log_probs_are_sent_without_arcbeam(monkeypatch):
    driver = with_driver(monkeypatch, Driver())
    batch = [random_log_probs(0, 3, 12), random_log_probs(0, 3, 12)[:0], random_log_probs(1, 70, 12)]
    arrays = version_worker.on_device(batch)
    assert len(driver.memory) == 1
    first = ctypes.addressof(driver.memory[0])
    for array, logp in zip(arrays, batch, strict=True):
        told = array.__cuda_array_interface__
        assert (told["shape"], told["typestr"], told["data"][1]) == (logp.shape, "<f4", False)
        assert (told["data"][0] - first) % 256 == 0 if len(logp) else told["data"][0] == 0
        assert ctypes.string_at(told["data"][0], logp.nbytes) == logp.tobytes()
    with_driver(monkeypatch, Driver("cuDevicePrimaryCtxRetain"))
    with pytest.raises(RuntimeError, match="the driver answered CUDA_ERROR_OUT_OF_MEMORY"):
        version_worker.on_device(batch)


def test_a_decoder_takes_log_probs_that_were_sent(small):
    graph, batch = graphs.get("any").graph, [random_log_probs(seed, frames, 12) for seed, frames in enumerate(LENGTHS)]
    kept = gpu.send(batch)
    arrays = [version_worker.DeviceArray(a.__cuda_array_interface__["data"][0], a.shape) for a in kept]
    gpu.check(gpu.decoder(graph, gpu.NARROW).decode(arrays), graph, gpu.NARROW, batch)


# Machine code

USED = """
Fatbin elf code:
================
arch = sm_90

Resource usage:
 Common:
  GLOBAL:0
 Function a_wide:
  REG:128 STACK:408 SHARED:1024 LOCAL:0 CONSTANT[0]:720 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function a_dense:
  REG:64 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:720 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
SASS = """
\tcode for sm_90
\t\tFunction : a_dense
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;        /* 0x00000a00ff017b82 */
                                                                 /* 0x000e300000000800 */
        /*0010*/                   NOP;                          /* 0x0000000000007918 */
\t\t..........

\t\tFunction : a_wide
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   STL.64 [R1+0x8], R2 ;         /* 0x00000802010079fa */
        /*0010*/              @!P0 LDL.LU R4, [R1+0x8] ;         /* 0x00000802010079fa */
        /*0020*/                   LDL.LU.128 R4, [R1] ;         /* 0x00000802010079fa */
        /*0030*/                   STL.U8 [R1+0x10], R2 ;        /* 0x00000802010079fa */
        /*1ff40*/                  BRA 0x30 ;                    /* 0x00000802010079fa */
\t\t..........
"""


@pytest.fixture
def tools(monkeypatch, tmp_path):
    """cuobjdump and nvdisasm, which say the above; ``tools("")`` takes them away."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "used").write_text(USED)
    (folder / "sass").write_text(SASS)
    script = f"""#!/bin/sh
case "$*" in
  *broken*) echo "cuobjdump fatal   : not a fatbin" >&2;;
  *--list-elf*) echo "ELF file    1: a.sm_80.cubin"; echo "ELF file    2: a.sm_90.cubin";;
  "-arch sm_90 --dump-resource-usage "*) while read -r l; do echo "$l"; done < {folder}/used;;
  "-arch sm_90 -sass "*) while IFS= read -r l; do echo "$l"; done < {folder}/sass;;
esac
"""

    def put(*names):
        for name in names:
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        monkeypatch.setattr(machine_code, "folders", lambda: [str(folder)])

    return put


def test_machine_code_is_read(tools, tmp_path):
    tools("cuobjdump", "nvdisasm")
    fatbin = tmp_path / "a.fatbin"
    assert machine_code.architectures(fatbin) == {"sm_80", "sm_90"}
    assert machine_code.of_fatbin(fatbin, "sm_90") == {
        "a_wide": machine_code.Code(registers=128, stack=408, instructions=5, stored=9, loaded=20),
        "a_dense": machine_code.Code(registers=64, stack=0, instructions=2, stored=0, loaded=0),
    }
    with pytest.raises(machine_code.Unavailable, match="cuobjdump failed: cuobjdump fatal   : not a fatbin"):
        machine_code.architectures(tmp_path / "broken.fatbin")


@pytest.mark.parametrize(("there", "said"), [((), "cuobjdump and nvdisasm"), (("cuobjdump",), "nvdisasm")])
def test_tools_that_are_missing(tools, tmp_path, there, said):
    tools(*there)
    with pytest.raises(machine_code.Unavailable, match=f"^{said}: not found; CUDA's toolkit has them"):
        machine_code.architectures(tmp_path / "a.fatbin")


@pytest.fixture
def with_kernels(monkeypatch, tmp_path):
    """Two packages with a fatbin of each name but the last, which one lacks."""
    experiment = registry.load("gpu_versions")
    folders = [tmp_path / name for name in ("theirs", "ours")]
    for folder in folders:
        (folder / "arcbeam" / "kernels").mkdir(parents=True)
        (folder / "arcbeam" / "__init__.py").touch()
        for name in experiment.KERNELS[: None if folder == folders[0] else -1]:
            (folder / "arcbeam" / "kernels" / f"{name}.fatbin").write_text(f"{folder} {name}")
    monkeypatch.setattr(versions, "OURS", folders[1])
    return experiment, folders[0]


def test_code_of_both_versions(tools, with_kernels):
    tools("cuobjdump", "nvdisasm")
    experiment, folder = with_kernels
    *rows, last = rows_of(experiment, folder, "code")
    assert [row["what"] for row in rows] == ["a_dense, sm_90", "a_wide, sm_90"] * (len(experiment.KERNELS) - 1)
    cells = {column.heading: column.text(rows[1]) for column in experiment.COLUMNS}
    assert cells["instructions"] == "5 / 5" and cells["registers"] == "128 / 128"
    assert cells["loaded from it, bytes"] == "20 / 20" and cells["other version"] == "another"
    assert len({digest for row in rows for digest in row["fatbins"]}) == 2 * (len(experiment.KERNELS) - 1)
    assert last["what"] == "machine code, host_arcs" and last["status"].startswith("missing: ")
    assert last["status"].endswith("/ours/arcbeam/kernels/host_arcs.fatbin")


def test_code_without_the_tools(tools, with_kernels):
    tools()
    experiment, folder = with_kernels
    rows = rows_of(experiment, folder, "code")
    assert [row["what"] for row in rows] == [f"machine code, {name}" for name in experiment.KERNELS]
    assert all(row["status"].startswith("missing: cuobjdump and nvdisasm: not found") for row in rows[:-1])
