"""The header of a result names what was made at random, and with which seed; and nothing is made without saying so."""

import ast
import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as harness
from benchmarks.adapters import gpu
from benchmarks.harness import record, registry, seeds
from benchmarks.harness.registry import Column

RANDOM = ("default_rng", "Generator", "RandomState", "PCG64", "Random", "manual_seed")


def test_seeds_are_in_the_header(tmp_path, monkeypatch):
    def experiment(context):
        yield {"value": seeds.used("noise", 7)}

    module = SimpleNamespace(__doc__="One.", run=experiment, COLUMNS=[Column("value", "value")])
    monkeypatch.setattr(registry, "load", lambda name: module)
    seeds.used("of another experiment", 1)
    assert harness.run("one", registry.Context(), "command", tmp_path / "one.jsonl") == 0
    head, rows = record.read(tmp_path / "one.jsonl")
    assert head["seeds"] == {"noise": 7}
    assert rows[0]["value"] == 7


def test_several_seeds_and_weights(tmp_path):
    file = tmp_path / "transducer" / "rnnt.npz"
    file.parent.mkdir()
    file.write_bytes(b"weights")
    seeds.taken()
    assert [seeds.used("numberings", seed) for seed in (3, 0, 3)] == [3, 0, 3]
    assert seeds.weights(file) == file
    noted = {"numberings": [0, 3], "transducer/rnnt.npz": f"sha256 {hashlib.sha256(b'weights').hexdigest()}"}
    assert seeds.taken() == noted
    assert seeds.taken() == {}


def test_seeds_of_a_child_are_its_parents(tmp_path):
    file = tmp_path / "rnnt.npz"
    file.write_bytes(b"weights")

    def rows():
        yield {"value": [seeds.used("noise of a child", 3), *(seeds.used("more", n) for n in range(2))]}
        seeds.weights(file)

    seeds.taken()
    assert list(gpu.isolated(rows)) == [{"value": [3, 0, 1]}]
    noted = seeds.taken()
    assert noted.pop(f"{tmp_path.name}/rnnt.npz").startswith("sha256 ")
    assert noted == {"noise of a child": 3, "more": [0, 1]}


def test_what_is_kept_in_memory_names_its_seeds_again():
    calls = []

    @seeds.kept
    def inner(name):
        calls.append(name)
        return seeds.used(name, 5)

    @seeds.kept
    def outer():
        return inner("a") + inner("b")

    seeds.taken()
    seeds.used("before", 1)
    for _ in range(2):
        assert outer() == 10
        assert seeds.taken() == {"a": 5, "b": 5} | ({"before": 1} if len(calls) == 2 and not _ else {})
    assert inner("b") == 5 and calls == ["a", "b"]
    assert seeds.taken() == {"b": 5}


# What is random, by the sources: whatever makes a generator, or refers to what does, names a seed, or leaves that to
# all that refer to it. One of them must have named it before the harness is reached.


class Sources:
    """Functions and classes of `benchmarks` and `data`, by module and name, and to which others they refer."""

    def __init__(self, root):
        self.bodies: dict[tuple[str, str], ast.AST] = {}
        self.names: dict[str, dict[str, tuple[str, str]]] = {}
        files = [path for folder in ("benchmarks", "data") for path in sorted((root / folder).rglob("*.py"))]
        trees = {".".join(path.relative_to(root).with_suffix("").parts): ast.parse(path.read_text()) for path in files}
        for module, tree in trees.items():
            known = self.names.setdefault(module, {})
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("benchmarks", "data"):
                    for alias in node.names:
                        known[alias.asname or alias.name] = (node.module or "", alias.name)
            for node in tree.body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    self.bodies[module, node.name] = node
                    known[node.name] = (module, node.name)
                elif not isinstance(node, ast.Import | ast.ImportFrom):
                    self.bodies[module, f"line {node.lineno}"] = node

    def of(self, module, node):
        """What a name or an attribute means."""
        known = self.names[module]
        if isinstance(node, ast.Name):
            return known.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            return (".".join(known[node.value.id]), node.attr)
        return None

    def parts(self, key):
        """Nodes of a body that are run: no annotations, which name types and make nothing."""
        waiting = [self.bodies[key]]
        while waiting:
            node = waiting.pop()
            yield node
            for field, value in ast.iter_fields(node):
                if field not in ("annotation", "returns"):
                    waiting += [n for n in (value if isinstance(value, list) else [value]) if isinstance(n, ast.AST)]

    def is_random(self, key):
        return any(isinstance(n, ast.Attribute) and n.attr in RANDOM for n in self.parts(key))

    def names_seeds(self, key):
        return any(self.of(key[0], n) == ("benchmarks.harness.seeds", "used") for n in self.parts(key))

    def not_named(self):
        """Those that make something at random and leave it to others to name the seed, and why: who they refer to."""
        refers = {key: {self.of(key[0], node) for node in self.parts(key)} - {None, key} for key in self.bodies}
        found = {key: "" for key in self.bodies if self.is_random(key) and not self.names_seeds(key)}
        while True:
            more = {
                key: ".".join(min(to & found.keys()))
                for key, to in refers.items()
                if key not in found and to & found.keys() and not self.names_seeds(key)
            }
            if not more:
                return found
            found |= more


@pytest.fixture(scope="module")
def not_named():
    return Sources(record.ROOT).not_named()


def test_every_seed_is_named(not_named):
    """What the harness calls: experiments, stages and adapters, which it imports by name."""
    called = tuple(f"benchmarks.{folder}." for folder in ("experiments", "stages", "adapters"))
    missing = {".".join(key): through for key, through in not_named.items() if key[0].startswith(called)}
    assert not missing, "these make something at random, through those, and no seed of it is in the header"


def test_the_search_for_generators_finds_them(not_named, tmp_path):
    assert {("data.workload", "generate"), ("data.closed_lm", "close")} <= set(not_named)
    assert {("data.synthetic_transducer", "weights"), ("data.synthetic_transducer", "utterances")} <= set(not_named)
    (tmp_path / "data").mkdir()
    (tmp_path / "benchmarks").mkdir()
    Path(tmp_path, "data", "make.py").write_text(
        "import numpy as np\ndef noise():\n    return np.random.default_rng(1)\n"
    )
    text = "from benchmarks.harness import seeds\nfrom data import make\ndef run():\n    return make.noise\n"
    text += "def good():\n    seeds.used('noise', 1)\n    return make.noise()\n"
    text += "def typed(rng: 'np.random.Generator') -> None:\n    pass\n"
    Path(tmp_path, "benchmarks", "one.py").write_text(text)
    assert Sources(tmp_path).not_named() == {("data.make", "noise"): "", ("benchmarks.one", "run"): "data.make.noise"}
