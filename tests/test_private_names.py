"""No module of the package reads private names of another, whose owner has a function or a method for others."""

import ast
import re
from pathlib import Path

from tests.test_layout import PACKAGE, modules, without_strings

# Private names that a module may read of an object that is not its own, with the reason.
BORROWED = {
    "": {"_asdict", "_fields", "_replace", "_getframe"},  # public in Python: of named tuples, and of sys
    # onnx-asr names everything privately but what recognises speech; a folder that it can open must decode here.
    "adapters/onnx.py": {"_blank_idx", "_max_tokens_per_step", "_model", "_subsampling_factor", "_vocab"}
    | {"_vocab_size"},
    "adapters/onnx_acoustic.py": {"_AsrWithCtcDecoding", "_AsrWithDecoding", "_create_asr_adapter"}
    | {"_create_preprocessor", "_get_excluded_providers", "_preprocessor"},
    "adapters/onnx_check.py": {"_create_state", "_decode"},
    "adapters/onnx_folder.py": {"_AsrWithCtcDecoding", "_AsrWithTransducerDecoding", "_get_model_files"},
    "adapters/onnx_model.py": {"_encode", "_get_sample_rate", "_preprocessor", "_subsampling_factor"},
    # transformers has no public function for how many frames come of so many samples.
    "adapters/hugging_face.py": {"_get_feat_extract_output_lengths", "_get_subsampling_output_length"},
}
OWN = {"self", "cls", "super()"}


def private_reads(path: Path) -> set[str]:
    """Private names that a module reads of something else than itself: of Python by syntax, of Cython by text."""
    if path.suffix != ".py":
        text = re.sub(r"#.*|^.*import.*", "", without_strings(path.read_text()), flags=re.MULTILINE)
        return {name for owner, name in re.findall(r"(\w+|\))\.(_(?!_)\w+)", text) if owner not in OWN}
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in OWN:
            found.add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"getattr", "hasattr", "setattr", "delattr"}:
            found |= {name.value for name in node.args[1:2] if isinstance(name, ast.Constant)}
    return {name for name in found if re.match("_(?!_)", name)}


def private_names(path: Path) -> tuple[set[str], set[str]]:
    """The private names of the classes of a module, and the classes that these derive from."""
    if path.suffix != ".py":
        text = path.read_text()
        bases = re.findall(r"^cdef class \w+\((\w+)\)", text, re.MULTILINE)
        return set(re.findall(r"^ +(?:cdef|cpdef|def) [^\n(=]*?\b(_(?!_)\w+)", text, re.MULTILINE)), set(bases)
    names, bases = set(), set()
    for one in ast.walk(ast.parse(path.read_text())):
        if not isinstance(one, ast.ClassDef):
            continue
        bases |= {re.sub(r"\[.*|.*\.", "", ast.unparse(base)) for base in one.bases}
        for node in ast.walk(one):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) in OWN:
                names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names, bases


def classes_of(path: Path) -> set[str]:
    return set(re.findall(r"^(?:cdef )?class (\w+)", path.read_text(), re.MULTILINE))


def own_names(path: Path, places: dict[str, set[Path]]) -> set[str]:
    """The private names of a module's classes and of those that they derive from; a .pxd belongs to its .pyx."""
    names: set[str] = set()
    pending, seen = [path], set()
    while pending:
        if (one := pending.pop()) in seen:
            continue
        seen.add(one)
        found, bases = private_names(one)
        names |= found
        pending += [place for base in bases for place in places.get(base, ())]
        if one.suffix != ".py":
            pending += [twin for twin in (one.with_suffix(".pyx"), one.with_suffix(".pxd")) if twin.exists()]
    return names


def test_no_module_reads_private_names_of_others():
    """Each has one owner: other modules have a function or a method of it."""
    places: dict[str, set[Path]] = {}
    for path in modules():
        for name in classes_of(path):
            places.setdefault(name, set()).add(path)
    read, borrowed = {}, {}
    for path in modules():
        place = path.relative_to(PACKAGE).as_posix()
        foreign = private_reads(path) - own_names(path, places) - BORROWED[""]
        borrowed[place] = foreign & BORROWED.get(place, set())
        read[place] = foreign - borrowed[place]
    assert {place: names for place, names in read.items() if names} == {}
    assert {place: names for place, names in borrowed.items() if names} | {"": BORROWED[""]} == BORROWED


def test_a_private_name_of_another_is_found(tmp_path):
    python, base, cython = tmp_path / "a.py", tmp_path / "b.py", tmp_path / "c.pyx"
    python.write_text(
        "class One(Base[int]):\n    _mine: int\n    def f(self, other):\n        self._mine, self.x._theirs\n"
        "        return other._mine + other._based + getattr(other, '_named') + other.__dict__ + super()._far\n"
    )
    base.write_text("class Base:\n    def _based(self): pass\n")
    cython.write_text(
        "cdef class Two:\n    cdef public int _own\n    def f(self, Two a):\n        a._own, self._b, a._c\n"
    )
    places = {"One": {python}, "Base": {base}, "Two": {cython}}
    assert private_reads(python) - own_names(python, places) == {"_theirs", "_named"}
    assert private_reads(cython) - own_names(cython, places) == {"_c"}
