"""Building for CUDA: what is found, what is needed, what is said to be missing, and what is compiled again."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Stands in for nvcc: writes its arguments as the fatbin, and a line to a log.
NVCC = """#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit ;;
--help) echo "--compress-mode [default,size,speed,balance,none]"; exit ;;
--list-gpu-code) printf 'sm_100\\nsm_80\\nsm_90\\nsm_90a\\n'; exit ;;
--dryrun) echo '#$ INCLUDES="-I{include}"' >&2; exit ;;
esac
for last; do :; done
echo "$@" >> {log}
{fail}
echo "$@" > "$last"
"""


@pytest.fixture
def build(tmp_path, monkeypatch):
    """``cuda_build`` on a tree of its own with one kernel, on a machine without CUDA."""
    pytest.importorskip("setuptools")
    spec = importlib.util.spec_from_file_location("cuda_build", ROOT / "build_backend" / "cuda_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "cuda" / "decode").mkdir(parents=True)
    (tmp_path / "cuda" / "decode" / "decode.cu").write_text("int kernel;\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(module, "TOOLKITS", (tmp_path / "toolkit",))
    monkeypatch.setattr(module, "DRIVER", tmp_path / "driver")
    monkeypatch.setattr(module, "package_roots", list)
    monkeypatch.setattr(module, "gpus_here", list)
    named = ("NVCC", "NVCC_CCBIN", "CUDA_HOME", "CUDA_PATH", "CXX", "ARCBEAM_CUDA", "ARCBEAM_CUDA_ARCHS")
    for name in (*named, "SOURCE_DATE_EPOCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}:/usr/bin:/bin")
    if module.find_nvcc():
        pytest.skip("nvcc is in /usr/bin")
    return module


@pytest.fixture
def with_nvcc(build, tmp_path, monkeypatch):
    def install(folder="bin", fail=""):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        include = tmp_path / "include"
        include.mkdir(exist_ok=True)
        (include / "cuda.h").write_text("")
        nvcc = tmp_path / folder / "nvcc"
        nvcc.write_text(NVCC.format(include=include, log=tmp_path / "log", fail=fail))
        nvcc.chmod(0o755)
        return nvcc

    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return install


@pytest.fixture
def forced(with_nvcc, monkeypatch):
    """There is an nvcc, which compiles for all that it knows."""
    with_nvcc()
    monkeypatch.setenv("ARCBEAM_CUDA", "1")


def record_of(build, tmp_path):
    build.build_kernels(tmp_path / "kernels")
    return json.loads((tmp_path / "kernels" / "build.json").read_text())


def compiled(tmp_path):
    log = tmp_path / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_without_a_gpu_nothing_is_needed_or_compiled_and_the_record_says_why(build, with_nvcc, tmp_path, capfd):
    with_nvcc()
    assert build.requirements() == []
    record = record_of(build, tmp_path)
    assert compiled(tmp_path) == []
    assert record["no_kernels"] == "there was no NVIDIA GPU"
    assert capfd.readouterr().out == record["summary"] + "\n"
    assert record["summary"] == (
        "arcbeam is built for the CPU alone, because there was no NVIDIA GPU; "
        "ARCBEAM_CUDA_ARCHS=all builds for all, ARCBEAM_CUDA_ARCHS='80 90' for those"
    )
    assert record["no_driver_calls"] == build.why_no_driver_calls()
    assert list((tmp_path / "kernels").iterdir()) == [tmp_path / "kernels" / "build.json"]


def test_without_nvcc_the_record_says_so(build, tmp_path, monkeypatch):
    monkeypatch.setenv("ARCBEAM_CUDA", "1")
    record = record_of(build, tmp_path)
    assert record["no_kernels"] == "nvcc was missing (it comes with NVIDIA's CUDA toolkit, and with nvidia-cuda-nvcc)"


def test_with_nvcc_only_small_packages_are_needed(build, with_nvcc, tmp_path, monkeypatch):
    with_nvcc()
    monkeypatch.setenv("ARCBEAM_CUDA_ARCHS", "90")
    assert build.requirements() == ["cuda-bindings>=12.9,<13.5"]
    (tmp_path / "include" / "cuda.h").unlink()
    assert build.requirements() == ["cuda-bindings>=12.9,<13.5", "nvidia-cuda-runtime>=13,<13.1"]


def test_with_a_driver_alone_nvcc_is_needed(build, tmp_path, monkeypatch):
    (tmp_path / "driver").write_text("")
    assert "nvidia-cuda-nvcc>=13,<13.1" in build.requirements()
    monkeypatch.setenv("ARCBEAM_CUDA", "0")
    assert build.requirements() == []
    assert build.why_no_driver_calls() == "ARCBEAM_CUDA was 0"
    (tmp_path / "driver").unlink()
    monkeypatch.setenv("ARCBEAM_CUDA", "1")
    assert "nvidia-cuda-nvcc>=13,<13.1" in build.requirements()


def test_where_nvcc_is_looked_for(build, with_nvcc, tmp_path, monkeypatch):
    toolkit = with_nvcc("toolkit/bin")
    assert build.find_nvcc() == str(toolkit)
    package = with_nvcc("package/bin")
    toolkit.unlink()
    monkeypatch.setattr(build, "package_roots", lambda: [tmp_path / "package"])
    assert build.find_nvcc() == str(package)
    home = with_nvcc("home/bin")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert build.find_nvcc() == str(home)
    on_path = with_nvcc()
    assert build.find_nvcc() == str(on_path)
    monkeypatch.setenv("NVCC", str(home))
    assert build.find_nvcc() == str(home)


@pytest.mark.parametrize(("name", "value"), [("ARCBEAM_CUDA", "1"), ("ARCBEAM_CUDA_ARCHS", "all")])
def test_all_are_those_that_nvcc_knows(build, with_nvcc, tmp_path, monkeypatch, name, value):
    with_nvcc()
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(build, "gpus_here", lambda: ["90"])
    record = record_of(build, tmp_path)
    (line,) = compiled(tmp_path)
    assert "-fmad=false" in line
    assert "--compress-mode=size" in line
    assert "fast" not in line
    assert line.count("-gencode") == 4
    for target in ("80,code=sm_80", "90,code=sm_90", "100,code=sm_100", "100,code=compute_100"):
        assert f"-gencode=arch=compute_{target} " in line
    assert record["architectures"] == ["8.0", "9.0", "10.0"]
    assert record["ptx"] == "10.0"
    assert record["nvcc"] == "13.0.88"
    assert list(record["kernels"]) == ["decode"]
    assert (tmp_path / "kernels" / "decode.fatbin").exists()


def test_line_tables_name_the_folder_and_are_left_out_of_what_must_not_differ(build, forced, tmp_path, monkeypatch):
    record_of(build, tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    record_of(build, tmp_path)
    assert [line.split().count("-lineinfo") for line in compiled(tmp_path)] == [1, 0]


def test_nvcc_has_the_compiler_of_the_extensions_or_one_of_its_own(build, forced, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "any-c++")
    record_of(build, tmp_path)
    monkeypatch.setenv("NVCC_CCBIN", "g++")  # which nvcc itself reads
    record_of(build, tmp_path)
    assert ["-ccbin any-c++" in line for line in compiled(tmp_path)] == [True, False]


def test_kernels_are_for_the_gpus_that_are_there(build, with_nvcc, tmp_path, monkeypatch):
    with_nvcc()
    monkeypatch.setattr(build, "gpus_here", lambda: ["100", "90", "90", "75"])
    assert build.requirements() == ["cuda-bindings>=12.9,<13.5"]
    record = record_of(build, tmp_path)
    (line,) = compiled(tmp_path)
    assert re.findall(r"compute_(\w+),code=(\w+)", line) == [("90", "sm_90"), ("100", "sm_100"), ("100", "compute_100")]
    assert (record["architectures"], record["ptx"]) == (["9.0", "10.0"], "10.0")
    assert record["summary"].startswith(
        "arcbeam is built for GPUs with machine code of 9.0, 10.0 and PTX of 10.0 (of the GPU here)"
    )
    monkeypatch.setattr(build, "gpus_here", lambda: ["103"])  # which this nvcc does not know
    assert record_of(build, tmp_path)["architectures"] == ["10.0"]
    monkeypatch.setattr(build, "gpus_here", lambda: ["75"])
    assert record_of(build, tmp_path)["no_kernels"] == "the GPU here is older than compute capability 8.0"


def test_a_driver_that_does_not_tell_its_gpus_gets_ptx(build, with_nvcc, tmp_path):
    with_nvcc()
    (tmp_path / "driver").write_text("")
    record = record_of(build, tmp_path)
    (line,) = compiled(tmp_path)
    assert re.findall(r"compute_(\w+),code=(\w+)", line) == [("80", "compute_80")]
    assert (record["architectures"], record["ptx"]) == ([], "8.0")
    assert "PTX of 8.0 alone (there is an NVIDIA driver that does not tell its GPUs)" in record["summary"]
    assert "ARCBEAM_CUDA_ARCHS=all" in record["summary"]


def test_the_driver_is_read_in_a_process_of_its_own(build, tmp_path, monkeypatch):
    # Stands in for libcuda.so.1: two devices, of 9.0 and 10.0, unless the environment hides them.
    source = tmp_path / "libcuda.c"
    source.write_text(
        "#include <stdlib.h>\nint cuInit(unsigned flags) { return 0; }\n"
        'int cuDeviceGetCount(int* n) { *n = getenv("CUDA_VISIBLE_DEVICES") ? 0 : 2; return 0; }\n'
        "int cuDeviceGetAttribute(int* v, int a, int d) { *v = a == 75 ? 9 + d : 0; return 0; }\n"
    )
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(tmp_path / "libcuda.so.1")], check=True)
    monkeypatch.undo()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert build.gpus_here() == ["90", "100"]


def test_only_what_changed_is_compiled_again(build, forced, tmp_path, monkeypatch):
    first = record_of(build, tmp_path)
    assert record_of(build, tmp_path) == first
    assert len(compiled(tmp_path)) == 1
    stage = tmp_path / "cuda" / "decode" / "stage.cuh"
    stage.write_text("int not_included;\n")
    assert record_of(build, tmp_path) == first
    with (tmp_path / "cuda" / "decode" / "decode.cu").open("a") as unit:
        unit.write('#include "decode/stage.cuh"\n')
    second = record_of(build, tmp_path)
    assert second["sources"] != first["sources"]
    assert len(compiled(tmp_path)) == 2
    stage.write_text("int included;\n")
    third = record_of(build, tmp_path)
    assert third["sources"] not in (first["sources"], second["sources"])
    assert len(compiled(tmp_path)) == 3
    monkeypatch.setenv("ARCBEAM_CUDA_ARCHS", "90")
    assert record_of(build, tmp_path)["architectures"] == ["9.0"]
    assert len(compiled(tmp_path)) == 4


def test_lines_that_have_moved_are_compiled_again_and_are_the_same_kernel(build, forced, tmp_path):
    unit = tmp_path / "cuda" / "decode" / "decode.cu"
    first = record_of(build, tmp_path)
    unit.write_text("// A remark moves what follows.\n" + unit.read_text())
    assert record_of(build, tmp_path)["sources"] == first["sources"]
    assert len(compiled(tmp_path)) == 2
    (tmp_path / "cuda" / "inner").mkdir()
    unit.rename(tmp_path / "cuda" / "inner" / "decode.cu")
    assert record_of(build, tmp_path)["sources"] == first["sources"]
    assert len(compiled(tmp_path)) == 3


def test_a_kernel_that_is_gone_leaves_no_fatbin(build, forced, tmp_path):
    (tmp_path / "cuda" / "old.cu").write_text("")
    assert set(record_of(build, tmp_path)["kernels"]) == {"decode", "old"}
    (tmp_path / "cuda" / "old.cu").unlink()
    record_of(build, tmp_path)
    assert [path.name for path in (tmp_path / "kernels").glob("*.fatbin")] == ["decode.fatbin"]


def test_architectures_of_the_environment(build, with_nvcc, tmp_path, monkeypatch):
    with_nvcc()
    monkeypatch.setenv("ARCBEAM_CUDA_ARCHS", "none")
    assert "ARCBEAM_CUDA_ARCHS said so" in record_of(build, tmp_path)["no_kernels"]
    monkeypatch.setenv("ARCBEAM_CUDA_ARCHS", "80,77")
    with pytest.raises(SystemExit, match=r"ARCBEAM_CUDA_ARCHS: .* does not know 77; it knows 80, 90, 90a, 100"):
        record_of(build, tmp_path)
    monkeypatch.setenv("ARCBEAM_CUDA_ARCHS", "sm_90")
    with pytest.raises(SystemExit, match=r'expected "all", "none", or architectures as in "80 90", got sm_90'):
        record_of(build, tmp_path)
    monkeypatch.setenv("ARCBEAM_CUDA_ARCHS", "100 90a,80 90 90")
    record = record_of(build, tmp_path)
    assert (record["architectures"], record["ptx"]) == (["8.0", "9.0", "9.0a", "10.0"], "10.0")


def test_an_error_of_nvcc_is_quoted(build, with_nvcc, tmp_path, monkeypatch):
    monkeypatch.setenv("ARCBEAM_CUDA", "1")
    with_nvcc(fail="echo 'decode.cu(3): error: expected a ;' >&2; exit 1")
    with pytest.raises(SystemExit, match=r"nvcc failed on cuda/decode/decode.cu:\n.*expected a ;"):
        record_of(build, tmp_path)


def test_two_kernels_of_one_name(build, forced, tmp_path):
    (tmp_path / "cuda" / "decode.cu").write_text("")
    with pytest.raises(SystemExit, match="got twice: decode"):
        record_of(build, tmp_path)


def test_the_backend_has_all_hooks():
    pytest.importorskip("setuptools")
    hooks = "build_wheel build_sdist build_editable get_requires_for_build_wheel get_requires_for_build_editable"
    code = f"import hooks; print([h for h in '{hooks}'.split() if not callable(getattr(hooks, h, None))])"
    got = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "build_backend", capture_output=True, text=True, check=True
    )
    assert got.stdout.strip() == "[]"


def test_the_backend_finds_its_neighbour_when_it_is_loaded_by_its_path():
    code = (
        "import importlib.util as u, sys; s = u.spec_from_file_location('cuda_build', sys.argv[1]); "
        "m = u.module_from_spec(s); s.loader.exec_module(m); print(*sorted(m.sources_digests()))"
    )
    backend = str(ROOT / "build_backend" / "cuda_build.py")
    got = subprocess.run([sys.executable, "-c", code, backend], cwd="/", capture_output=True, text=True, check=True)
    assert got.stdout.split() == sorted(path.stem for path in (ROOT / "cuda").rglob("*.cu"))
