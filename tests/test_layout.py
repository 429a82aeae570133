"""The rules of the tree that no compiler checks: stages are complete, files are small, imports go one way."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "pyx" / "arcbeam"
NOT_OURS = {"build", "dist", "__pycache__"}
MAX_BYTES = 2 * 1024 * 1024


def files_of_the_tree() -> list[Path]:
    """All files but what builds, tools and virtual environments leave behind."""
    found = []
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        made = parts[0] in NOT_OURS or any(p in NOT_OURS - {"build"} or p.endswith(".egg-info") for p in parts)
        hidden = parts[0].startswith(".") and parts[0] not in {".ci", ".clang-format", ".gitignore"}
        if path.is_file() and not made and not hidden and path.suffix not in {".so", ".fatbin"}:
            found.append(path)
    return found


def stages(root: Path) -> dict[str, set[str]]:
    """The stage names that each place knows; a twin says so in its first line."""
    twins = set()
    for header in (root / "cpu_reference" / "decode").glob("*.hpp"):
        title = re.match(r"// Stage (\w+):", header.read_text())
        if title:
            assert title[1] == header.stem, f"{header.name} opens as stage {title[1]}"
            twins.add(header.stem)
    benchmarks = {p.stem for p in (root / "benchmarks" / "stages").glob("[!_]*.py")}
    tests = {p.stem.removeprefix("test_") for p in (root / "tests" / "decode").glob("test_*.py")}
    kernels = {p.stem for folder in ("decode", "rescore") for p in (root / "cuda" / folder).glob("*.cuh")}
    return {"twin": twins, "kernel": kernels, "test": tests, "benchmark": benchmarks}


def missing_pieces(root: Path) -> list[str]:
    known = stages(root)
    places = {
        "twin": "cpu_reference/decode/{}.hpp, opening with '// Stage {}:'",
        "kernel": "cuda/decode/{}.cuh",
        "test": "tests/decode/test_{}.py",
        "benchmark": "benchmarks/stages/{}.py",
    }
    # tests/decode also tests what is no stage, and cuda/decode has helpers: neither alone makes one.
    names = known["twin"] | known["benchmark"]
    return [
        f"stage {name} lacks its {piece}: {place.format(name, name)}"
        for name in sorted(names)
        for piece, place in places.items()
        if name not in known[piece]
    ]


def test_every_stage_has_its_twin_its_test_and_its_benchmark():
    assert {"cutoff", "expand", "recombine", "closure", "prune", "backtrack"} <= stages(ROOT)["twin"]
    assert missing_pieces(ROOT) == []


def test_transducer_stages_are_named_after_their_files():
    """Their twins are methods of cpu_reference/transducer, tested together; each file says which stage it is."""
    found = {}
    for path in (ROOT / "cuda" / "transducer").glob("*.cuh"):
        title = re.match(r"// Stage (\w+):", path.read_text())
        if title:
            found[path.stem] = title[1]
    assert set(found) == {"project", "joint", "predict", "result"}
    assert all(stem == title for stem, title in found.items())


def test_a_missing_piece_is_named(tmp_path):
    for place, name, text in [
        ("cpu_reference/decode", "whole.hpp", "// Stage whole: a\n"),
        ("cuda/decode", "whole.cuh", ""),
        ("tests/decode", "test_whole.py", ""),
        ("benchmarks/stages", "whole.py", ""),
        ("cpu_reference/decode", "bare.hpp", "// Stage bare: a\n"),
        ("cpu_reference/decode", "helper.hpp", "// Not a stage.\n"),
        ("benchmarks/stages", "stray.py", ""),
        ("benchmarks/stages", "__init__.py", ""),
    ]:
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / name).write_text(text)
    assert [line.split(":")[0] for line in missing_pieces(tmp_path)] == [
        "stage bare lacks its kernel",
        "stage bare lacks its test",
        "stage bare lacks its benchmark",
        "stage stray lacks its twin",
        "stage stray lacks its kernel",
        "stage stray lacks its test",
    ]


def test_no_file_is_large():
    large = {str(p.relative_to(ROOT)): p.stat().st_size for p in files_of_the_tree() if p.stat().st_size > MAX_BYTES}
    assert large == {}


def test_no_file_names_a_folder_of_one_machine():
    machine = re.compile(rb"/(?:root|home|Users)/\w")
    text = [p for p in files_of_the_tree() if p.suffix not in {".flac", ".npz", ".xz", ".gz"}]
    assert [str(p.relative_to(ROOT)) for p in text if machine.search(p.read_bytes())] == []


def imports_at_load(path: Path) -> set[str]:
    """Modules that importing this one imports: not those inside functions or under TYPE_CHECKING."""
    found: set[str] = set()
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(str(node.module))
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        else:
            pending += ast.iter_child_nodes(node)
    return found


def may_import(path: Path) -> set[str]:
    """The top-level packages, and arcbeam's own subpackages, that a module may load when it is imported."""
    part = path.relative_to(PACKAGE).parts[0]
    common = set(sys.stdlib_module_names) | {"arcbeam", "__future__"}
    if part in {"__init__.py", "errors.py"}:
        return common - {"arcbeam"}
    if part in {"cli", "__main__.py"}:
        return common | {"numpy", "typer", "click", "rich", "arcbeam.cli"}
    if part == "build":
        return common | {"numpy", "arcbeam.build"}
    return common | {"numpy"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    allowed = may_import(path)
    for module in imports_at_load(path):
        assert module.split(".")[0] in allowed, f"{module}: import it where it is used, it is optional"
        for subpackage in ("arcbeam.cli", "arcbeam.build"):
            if module == subpackage or module.startswith(subpackage + "."):
                assert subpackage in allowed, f"{module}: import it where it is used"


# What each folder of C++ may include of ours. The shared headers stand alone, for nvcc compiles them, too.
MAY_INCLUDE = {
    "cuda/shared": {"shared"},
    "cpu_reference/pool": {"pool"},
    "cpu_reference/arpa": {"arpa", "shared"},
    "cpu_reference/file_map": {"file_map"},
    "cpu_reference/graph": {"graph", "shared"},
    "cpu_reference/language_model": {"language_model", "graph", "shared"},
    "cpu_reference/kenlm": {"kenlm"},
    "cpu_reference/looks": {"looks", "shared"},
    "cpu_reference/decode": {"decode", "kenlm", "pool", "shared"},
    "cpu_reference/baseline": {"baseline", "decode", "kenlm", "pool", "shared"},
    "cpu_reference/transducer": {"transducer", "pool", "shared"},
    "cuda/transducer": {"transducer", "shared"},
    "cuda/rescore": {"rescore", "decode", "shared"},
    "cpu_reference/staging": {"staging", "pool", "decode"},
}


@pytest.mark.parametrize("folder", MAY_INCLUDE)
def test_includes_go_one_way(folder):
    suffixes = {".cpp", ".hpp"} | ({".cuh", ".cu"} if folder in ("cuda/transducer", "cuda/rescore") else set())
    for path in sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in suffixes):
        for included in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
            assert included.split("/")[0] in MAY_INCLUDE[folder], f"{path.relative_to(ROOT)} includes {included}"
