"""The rules of the tree that no compiler checks: stages are complete, files are small, imports go one way."""

import ast
import re
import sys
from collections.abc import Iterator
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
    assert set(found) == {"project", "joint", "fusion", "predict", "result"}
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


# What users copy. Nothing imports it but its test, and a page tells how to use it.
EXAMPLES = {
    "captions": ("tests/examples/test_captions.py", "docs/guide/captions.md"),
    "triton": ("tests/examples/test_triton.py", "docs/guide/triton.md"),
}


def test_every_example_has_its_test_and_its_page():
    assert {path.name for path in (ROOT / "examples").iterdir() if path.name not in NOT_OURS} == set(EXAMPLES)
    for example, (test, page) in EXAMPLES.items():
        assert f'"{example}"' in (ROOT / test).read_text(), f"{test} tests examples/{example}"
        assert f"examples/{example}/" in (ROOT / page).read_text(), f"{page} tells how to use examples/{example}"


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


# The rooms of the package. Each may import its own modules and those of the root; when it is loaded also the first of
# these sets, and later, within a function or for the checks of types, the second, too.
ROOT_ROOM = "."
FACES = {
    "adapters",
    "baseline",
    "batching",
    "ctc",
    "files",
    "front",
    "graph",
    "lattices",
    "lm",
    "report",
    "streams",
    "transcribe",
    "transducer",
}
OF_TRANSDUCERS = {"transducer", "transducer/streams"}
CTC = {f"ctc/{room}" for room in ("align", "boost", "confidence", "lattice", "streams")}
ROOMS: dict[str, tuple[set[str], set[str]]] = {
    ROOT_ROOM: (set(), {"core"} | FACES | CTC | OF_TRANSDUCERS),
    "core": (set(), set()),
    "streams": ({"arrays", "core", "files"}, set()),
    "files": ({"core"}, set()),
    "graph": ({"core", "files"}, {"lm", "recipe"}),
    "lm": ({"core", "files"}, {"recipe"}),
    "lattices": ({"core", "files", "graph"}, {"ctc", "ctc/lattice", "lm"}),
    "gpu": ({"core"}, set()),
    "gpu/tuned": ({"core"}, set()),
    "arrays": ({"core", "gpu"}, set()),
    "ctc": ({"arrays", "core", "ctc/cpu", "gpu", "graph", "lm"} | CTC, {"ctc/gpu/engine", "gpu/tuned"}),
    "ctc/cpu": ({"arrays", "core", "ctc/boost", "ctc/lattice", "ctc/streams", "graph", "lm"}, set()),
    "ctc/align": ({"arrays", "core", "ctc", "ctc/boost", "ctc/confidence", "graph"}, set()),
    "ctc/boost": ({"core", "ctc", "files", "graph"}, set()),
    "ctc/confidence": ({"arrays", "core", "ctc"}, set()),
    "ctc/lattice": ({"arrays", "core", "ctc", "ctc/boost", "ctc/cpu", "ctc/streams", "graph", "lattices", "lm"}, set()),
    "ctc/streams": (
        {"arrays", "core", "ctc", "ctc/boost", "ctc/confidence", "ctc/cpu", "ctc/lattice", "files", "graph", "lm"}
        | {"streams"},
        set(),
    ),
    "ctc/gpu": (
        {"arrays", "core", "ctc/boost", "ctc/gpu/models", "ctc/gpu/searches", "ctc/lattice", "ctc/streams", "gpu"}
        | {"gpu/tuned", "graph", "lm"},
        set(),
    ),
    "ctc/gpu/engine": (
        {"arrays", "core", "ctc/boost", "ctc/gpu", "ctc/gpu/models", "ctc/gpu/searches", "ctc/lattice", "gpu"}
        | {"gpu/tuned"},
        set(),
    ),
    "ctc/gpu/models": ({"core", "ctc/boost", "ctc/gpu/searches", "gpu", "gpu/tuned", "graph", "lm"}, set()),
    "ctc/gpu/searches": (
        {"core", "ctc/boost", "ctc/gpu/models", "ctc/lattice", "ctc/streams", "gpu", "gpu/tuned", "graph", "lm"},
        set(),
    ),
    "transducer": (
        {
            "arrays",
            "core",
            "files",
            "gpu",
            "lm",
            "streams",
            "transducer/beam",
            "transducer/phrases",
            "transducer/streams",
        },
        {"ctc/lattice", "transducer/checkpoints", "transducer/gpu"},
    ),
    "transducer/streams": ({"arrays", "core", "files", "streams", "transducer", "transducer/beam"}, set()),
    "transducer/beam": ({"arrays", "core", "transducer"}, {"ctc/lattice", "transducer/lattice"}),
    "transducer/lattice": ({"core", "ctc/lattice", "graph", "transducer"}, set()),
    "transducer/phrases": ({"core", "files", "transducer"}, set()),
    "transducer/checkpoints": ({"core", "files", "transducer"}, set()),
    "transducer/gpu": ({"core", "gpu", "gpu/tuned", "transducer", "transducer/beam"}, set()),
    "batching": ({"arrays", "core", "streams"}, {"ctc", "ctc/streams"} | OF_TRANSDUCERS),
    "baseline": ({"arrays", "core", "graph", "lm"}, {"recipe"}),
    "compat": ({"core"}, set()),
    "compat/torchaudio": ({"arrays", "baseline", "compat", "core", "files", "graph", "lm"}, {"recipe"}),
    "compat/flashlight": ({"baseline", "core", "files", "lm"}, set()),
    "compat/pyctcdecode": ({"baseline", "core", "lm"}, {"recipe"}),
    "compat/kaldi_decoder": ({"compat", "core", "ctc", "graph"}, {"ctc/lattice", "ctc/streams"}),
    "compat/riva": ({"compat", "core", "ctc", "ctc/lattice", "graph", "lattices"}, {"ctc/streams"}),
    "recipe": ({"core", "files", "lm"}, {"graph"}),
    "tokens": ({"core", "files", "graph"}, set()),
    "front": ({"core", "ctc", "files", "graph", "lm", "recipe", "tokens"}, set()),
    "adapters": ({"core", "ctc", "files", "front", "graph", "jobs", "tokens", "transducer"}, {"ctc/boost"}),
    "report": ({"core", "files"}, {"ctc/confidence", "ctc/lattice", "graph", "lattices"}),
    "transcribe": (
        {"adapters", "batching", "core", "ctc", "files", "front", "streams", "transducer"},
        {"ctc/boost"},
    ),
    "cli/transcribe": ({"cli", "files"}, {"jobs", "transcribe"}),
    "jobs": ({"core", "files"}, set()),
    "cli": (
        {"cli/transcribe", "core", "ctc", "files", "jobs", "report"},
        {"ctc/align", "ctc/boost", "ctc/streams", "gpu", "graph", "lattices", "lm", "recipe", "transducer/checkpoints"}
        | OF_TRANSDUCERS,
    ),
}
OTHERS = {"cli": {"typer", "click", "rich"}, "cli/transcribe": {"typer"}}  # packages besides NumPy that a room may load
MODULES = (".py", ".pyx", ".pxd")


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*") if path.suffix in MODULES)


def room_of(place: Path) -> str:
    return place.parent.relative_to(PACKAGE).as_posix()


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules that a module imports, Python's and Cython's, and whether it does so when it is loaded."""
    pattern = r"^( *)(?:from ([\w.]+) (?:c?import) (\([^)]*\)|[^\n(]*)|c?import ([\w.]+))"
    for indent, package, names, module in re.findall(pattern, without_strings(path.read_text()), re.MULTILINE):
        if module:
            yield module, not indent
        for name in re.findall(r"(\w+)(?: as \w+)?", names):
            yield f"{package}.{name}", not indent


def without_strings(text: str) -> str:
    """The text without what is between three quotation marks: docstrings, and C++ in Cython."""
    return re.sub(r'""".*?"""', "", text, flags=re.DOTALL)


def room_imported(module: str) -> str | None:
    """The room of arcbeam that holds what is imported; None for what is no module of arcbeam."""
    parts = module.split(".")
    if parts[0] != "arcbeam":
        return None
    for count in range(len(parts), 1, -1):
        place = PACKAGE.joinpath(*parts[1:count])
        if any(place.with_suffix(suffix).exists() for suffix in MODULES):
            return room_of(place)
        if place.is_dir():
            return place.relative_to(PACKAGE).as_posix()
    return ROOT_ROOM


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    room = room_of(path)
    at_once, later = ROOMS[room]
    for module, is_at_once in imported(path):
        other = room_imported(module)
        if other is None:
            continue
        allowed = {room, ROOT_ROOM} | at_once | (set() if is_at_once else later)
        if path == PACKAGE / "__main__.py":
            allowed = {"cli"}
        when = "when it is loaded" if is_at_once else "later"
        assert other in allowed, f"{path.relative_to(PACKAGE)} imports {module}, {when}: {room} may not import {other}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_optional_packages_are_imported_where_they_are_used(path):
    allowed = set(sys.stdlib_module_names) | {"arcbeam", "numpy"} | OTHERS.get(room_of(path), set())
    for module in imports_at_load(path):
        assert module.split(".")[0] in allowed, f"{module}: import it where it is used, it is optional"


def test_no_room_is_unknown():
    folders = {room_of(path) for path in modules()}
    assert folders == set(ROOMS)
    for room in folders - {ROOT_ROOM}:
        text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
        assert text and "May import:" in text, f"{room}/__init__.py says what lives there and what it may import"


def test_what_a_room_says_that_it_may_import():
    for room in set(ROOMS) - {ROOT_ROOM}:
        text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
        assert set(re.findall(r"[\w/]+", text.split("May import:")[1])) & set(ROOMS) == ROOMS[room][0], room


MAX_FILES = 25
SOURCES = {".py", ".pyx", ".pxd", ".pyi", ".hpp", ".cpp", ".cu", ".cuh"}


def folders_of_the_product() -> list[Path]:
    return [folder for top in ("pyx", "cuda", "cpu_reference") for folder in (ROOT / top).rglob("*") if folder.is_dir()]


def test_no_folder_of_the_product_is_long():
    counts = {
        str(folder.relative_to(ROOT)): sum(path.suffix in SOURCES for path in folder.iterdir())
        for folder in folders_of_the_product()
    }
    assert {folder: count for folder, count in counts.items() if count > MAX_FILES} == {}


def module_imports() -> dict[str, set[str]]:
    """The modules of arcbeam that each of them imports: at once, later, and for types alone."""

    def name_of(path: Path) -> str:
        return ".".join(("arcbeam", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")

    graph: dict[str, set[str]] = {name_of(path): set() for path in modules()}
    for path in modules():
        for module, _ in imported(path):
            while module and module not in graph:
                module = module.rpartition(".")[0]
            if module and module != name_of(path):
                graph[name_of(path)].add(module)
    return graph


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle; none is the empty list."""
    left = {name: set(others) for name, others in graph.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    circle: list[str] = []
    name = min(left, default="")
    while name and name not in circle:
        circle.append(name)
        name = min(left[name] & left.keys())
    return circle[circle.index(name) :] if name else []


def test_no_module_imports_itself_by_way_of_others():
    graph = module_imports()
    for root in ("arcbeam", "arcbeam.baseline", "arcbeam.transducer"):
        graph[root].clear()  # they name what is in other modules, and import it when it is used
    assert circle_in(graph) == []


def test_a_circle_is_found():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) in (["b", "c"], ["c", "b"])
    assert circle_in({"a": {"b"}, "b": set(), "c": {"a", "b"}}) == []


# What each folder of C++ may include of ours. The shared headers stand alone, for nvcc compiles them, too.
PYX = "pyx/arcbeam/"
MAY_INCLUDE = {
    "cuda/shared": {"shared", "emulator.hpp"},
    "cuda/decode": {"decode", "shared"},
    "cuda/decode/launch": {"decode", "shared"},
    "cuda/decode/small": {"decode"},
    "cuda/decode/kernels": {"decode"},
    "cuda/rescore": {"rescore", "decode", "shared"},
    "cuda/rescore/requests": {"rescore", "shared"},
    "cuda/rescore/kernels": {"rescore"},
    "cuda/transducer": {"transducer", "shared"},
    "cuda/transducer/beam": {"transducer", "shared"},
    "cuda/arrays": {"arrays", "shared", "transducer"},
    "cpu_reference/common": {"common"},
    "cpu_reference/pool": {"pool", "common"},
    "cpu_reference/graph": {"graph", "common", "shared"},
    "cpu_reference/kenlm": {"kenlm"},
    "cpu_reference/lattice": {"lattice", "decode", "graph", "pool", "shared"},
    "cpu_reference/boost": {"boost", "shared"},
    "cpu_reference/decode": {"common", "decode", "graph", "kenlm", "lattice", "pool", "shared"},
    "cpu_reference/decode/streams": {"decode", "graph", "lattice", "shared"},
    "cpu_reference/baseline": {"baseline", "decode", "kenlm", "pool"},
    "cpu_reference/prefix": {"prefix", "baseline", "kenlm", "pool"},
    "cpu_reference/transducer": {"transducer", "pool", "shared"},
    "cpu_reference/transducer/beam": {"transducer", "shared"},
    "cpu_reference/frame_confidence": {"frame_confidence", "common", "decode", "pool", "shared", "transducer"},
    PYX + "files/_file_map": {PYX + "files/_file_map", "common"},
    PYX + "arrays/_input_checks": {PYX + "arrays/_input_checks", "shared"},
    PYX + "arrays/_log_softmax": {PYX + "arrays/_log_softmax", "common", "decode", "shared", "transducer"},
    PYX + "graph/_graph": {PYX + "graph/_graph", "graph", "common"},
    PYX + "graph/_new_words": {PYX + "graph/_new_words", "shared"},
    PYX + "graph/_words": {PYX + "graph/_words", "graph"},
    PYX + "lm/_arpa": {PYX + "lm/_arpa", "shared"},
    PYX + "lm/_language_model": {PYX + "lm/_language_model", "common", "shared"},
    PYX + "lm/_lm_buckets": {PYX + "lm/_lm_buckets", "common", "shared"},
    PYX + "transducer/_boosting_tree": {PYX + "transducer/_boosting_tree", "shared"},
    PYX + "transducer/gpu/_lattices": {PYX + "transducer/gpu/_lattices", "pool", "shared", "transducer"},
    PYX + "transducer/_token_ngrams": {PYX + "transducer/_token_ngrams", "kenlm", "shared"},
    PYX + "ctc/align/_frame_costs": {PYX + "ctc/align/_frame_costs", "decode"},
    PYX + "ctc/gpu/_staging": {PYX + "ctc/gpu/_staging", "pool", "decode"},
    PYX + "ctc/boost/_boost": {PYX + "ctc/boost/_boost", "boost", "pool"},
    PYX + "ctc/gpu/_lattice_memory": {PYX + f"ctc/gpu/{name}" for name in ("_lattice_memory", "models/_requests")}
    | {"decode", "graph", "lattice", "shared"},
    PYX + "ctc/gpu/models/_requests": {PYX + "ctc/gpu/models/_requests", "common", "kenlm", "shared"},
    PYX + "ctc/gpu/_streams": {PYX + f"ctc/gpu/{name}" for name in ("_streams", "models/_requests")}
    | {"decode", "graph", "rescore", "shared"},
    PYX + "transducer/gpu/_beam_states": {PYX + "transducer/gpu/_beam_states", "pool", "shared", "transducer"},
    PYX + "gpu": {PYX + "gpu"},
    PYX + "ctc/gpu": {PYX + "ctc/gpu", PYX + "ctc/gpu/models/_requests", PYX + "gpu"},
}
CPP = {".cpp", ".hpp", ".cuh", ".cu"}


def folders_of_cpp() -> set[str]:
    found = {
        path.parent.relative_to(ROOT).as_posix()
        for top in ("cuda", "cpu_reference", "pyx")
        for path in (ROOT / top).rglob("*")
        if path.suffix in CPP
    }
    return {"cuda/shared" if folder.startswith("cuda/shared/") else folder for folder in found}


def test_no_folder_of_cpp_is_unknown():
    assert folders_of_cpp() == set(MAY_INCLUDE)


@pytest.mark.parametrize("folder", MAY_INCLUDE)
def test_includes_go_one_way(folder):
    found = (ROOT / folder).rglob("*") if folder == "cuda/shared" else (ROOT / folder).iterdir()
    for path in sorted(path for path in found if path.suffix in CPP):
        for included in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
            above, _, _ = included.rpartition("/")
            target = f"pyx/{above}" if above.startswith("arcbeam/") else included.split("/")[0]
            assert target in MAY_INCLUDE[folder], f"{path.relative_to(ROOT)} includes {included}"
