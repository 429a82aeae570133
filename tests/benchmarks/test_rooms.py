"""Every module of the benchmarks lives in a room that says what lives there, and rooms import one way."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from benchmarks.harness import record, registry

FOLDER = record.ROOT / "benchmarks"
# Each room may import its own modules and those of these rooms. Two pairs know each other: the registry finds the
# experiments, without loading them, and a stage's module has the frame that `engine` makes for it.
ROOMS = {
    "harness": {"experiments"},
    "data": {"harness"},
    "adapters": {"harness", "data"},
    "stages": {"harness", "data", "engine"},
    "engine": {"harness", "data", "adapters", "stages"},
    "papers": set(),
    "tasks": {"harness", "data", "adapters", "engine"},
    "pack": {"harness", "data"},
    "experiments": {"harness", "data", "adapters", "stages", "engine", "papers", "tasks", "pack"},
    "report": {"harness", "papers"},
}
COMMANDS = {"build_graphs", "check", "one_decode"}  # beside the rooms
ROOMS_THAT_ARE_COMMANDS = {"pack", "report"}
NO_CODE = {"results"}


def modules() -> list[Path]:
    return sorted(path for path in FOLDER.rglob("*.py") if not NO_CODE & set(path.relative_to(FOLDER).parts))


def room_of(path: Path) -> str:
    return path.relative_to(FOLDER).parts[0] if path.parent != FOLDER else ""


def rooms_imported(path: Path) -> set[str]:
    """Rooms of the benchmarks that a module imports, wherever in it; "." for what lies beside the rooms."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        parts = [name.split(".") for name in names]
        found |= {name[1] if name[1] in ROOMS else "." for name in parts if name[0] == "benchmarks" and len(name) > 1}
    return found


def test_no_module_is_without_a_room():
    assert {room_of(path) for path in modules()} - {""} == set(ROOMS)
    assert {path.stem for path in FOLDER.glob("*.py")} == COMMANDS | {"__init__", "__main__"}
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} - {"__pycache__"} == {*ROOMS, *NO_CODE}
    for path in modules():
        assert len(path.relative_to(FOLDER).parts) <= 2, f"{path}: a room of a room"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_lives_there(room):
    text = ast.get_docstring(ast.parse((FOLDER / room / "__init__.py").read_text()))
    assert text and len(text.split()) > 10
    assert f"``{room}/``" in (FOLDER / "__init__.py").read_text()


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_rooms_import_one_way(path):
    room = room_of(path)
    allowed = {*ROOMS[room], room} if room else {*ROOMS, "."}
    assert rooms_imported(path) <= allowed


def test_no_other_rooms_know_each_other():
    below = {room: set(rooms) for room, rooms in ROOMS.items()}
    below["harness"] -= {"experiments"}
    below["stages"] -= {"engine"}
    list(TopologicalSorter(below).static_order())  # raises CycleError


def test_the_registry_loads_no_experiment():
    code = "import sys; from benchmarks.harness import registry; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=record.ROOT, capture_output=True, text=True, check=True)
    assert not [name for name in loaded.stdout.split() if name.startswith("benchmarks.experiments.")]
    assert registry.names()


@pytest.mark.parametrize("command", sorted(COMMANDS | ROOMS_THAT_ARE_COMMANDS))
def test_a_command_says_how_it_is_called(command):
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{command}", "--help"], cwd=record.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert f"usage: python -m benchmarks.{command} " in done.stdout


def there(module: str, name: str) -> bool:
    """Whether a name can be imported from a module of the benchmarks, as the files tell, without importing it."""
    place = record.ROOT.joinpath(*module.split("."))
    if (place / f"{name}.py").exists() or (place / name).is_dir():
        return True
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return source.exists() and name in names_of(ast.parse(source.read_text()))


def names_of(tree: ast.Module) -> set[str]:
    """What a module defines, imports or assigns at its top."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        else:
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


@pytest.mark.parametrize("folder", ["benchmarks", "tests"])
def test_what_is_imported_from_a_room_is_there(folder):
    """Also where it is imported only with a package that is not installed here, or by a process of a test."""
    wanted = re.compile(r"from (benchmarks[\w.]*) import (\(.*?\)|[\w, ]+)", re.DOTALL)
    files = sorted((record.ROOT / folder).rglob("*.py"))
    found = [
        (path.name, module, name)
        for path in files
        for module, names in wanted.findall(path.read_text())
        for name in re.findall(r"(?:^|[,(])\s*(\w+)", names)
    ]
    assert found
    assert [place for place in found if not there(*place[1:])] == []


def test_every_module_that_is_run_by_its_name_is_there():
    """In commands of the pages and the Makefile, of texts in the code, and of processes that it starts."""
    places = ("Makefile", "release.mk", "gpu.mk", "README.md", "CONTRIBUTING.md", "docs", "benchmarks")
    files = [record.ROOT / name for name in places]
    found = {
        (path.name, name)
        for file in files
        for path in (file.rglob("*") if file.is_dir() else [file])
        if path.suffix in {".py", ".md", ".mk", ""} and path.is_file()
        for name in re.findall(r"-m(?: |\", \")(benchmarks[\w.]*\w)", path.read_text(encoding="utf-8"))
    }
    assert {("gpu.mk", "benchmarks.pack"), ("memory.py", "benchmarks.tasks.memory")} <= found
    places = {(file, name): record.ROOT.joinpath(*name.split(".")) for file, name in found}
    assert [
        named for named, place in places.items()
        if not place.with_suffix(".py").exists() and not (place / "__main__.py").exists()
    ] == []  # fmt: skip
