"""The site has a place for everything: every public name has its entry in the reference, every page one in the menu."""

import importlib.util
import itertools
import logging
import pkgutil
import re
import sys
import xml.etree.ElementTree as ElementTree
from importlib import import_module
from pathlib import Path

import pytest

import arcbeam
from arcbeam import compat

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
ENTRY = re.compile(r"^::: (\S+)$", re.MULTILINE)
# The modules whose __all__ is public: a name that is added there needs a line "::: NAME" on a page of docs/reference.
MODULES = (
    "arcbeam",
    "arcbeam.baseline",
    "arcbeam.transducer",
    "arcbeam.adapters",
    *(f"arcbeam.compat.{module.name}" for module in pkgutil.iter_modules(compat.__path__) if module.ispkg),
)
ALONE = ("arcbeam.recipe.lexicon.Lexicon",)


def load(name):
    """A module of docs/site, which is no package."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages():
    return load("pages")


@pytest.fixture(scope="module")
def flowchart():
    return load("flowchart")


def value_of(name):
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def public_names():
    listed = [f"{module}.{name}" for module in MODULES for name in import_module(module).__all__]
    return {*listed, *(f"{module}.{name}" for name, module in arcbeam._ELSEWHERE.items()), *ALONE}


def reference():
    return {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md")}


def without_an_entry(names, pages):
    """The public names that no page has; of two names for one thing, a page may only mention the second."""
    entries = {entry for text in pages.values() for entry in ENTRY.findall(text)}
    things = {id(value_of(entry)) for entry in entries}
    text = "\n".join(pages.values())
    return {name for name in names - entries if not (f"`{name}`" in text and id(value_of(name)) in things)}


def test_every_public_name_has_an_entry():
    assert {"arcbeam.CtcDecoder", "arcbeam.words.Word", "arcbeam.compat.torchaudio.ctc_decoder"} <= public_names()
    missing = without_an_entry(public_names(), reference())
    assert not missing, f"{', '.join(sorted(missing))}: expected a line '::: NAME' on a page of docs/reference"


def test_a_name_without_an_entry_is_found():
    pages = reference()
    pages["errors.md"] = pages["errors.md"].replace("::: arcbeam.GraphError\n", "")
    assert without_an_entry(public_names(), pages) == {"arcbeam.GraphError"}
    pages["transducers.md"] = pages["transducers.md"].replace("`arcbeam.transducer.ConfidenceMethod`", "")
    assert "arcbeam.transducer.ConfidenceMethod" in without_an_entry(public_names(), pages)


def test_entries_are_public_and_each_is_there_once():
    entries = [entry for text in reference().values() for entry in ENTRY.findall(text)]
    assert sorted(entries) == sorted(set(entries))
    assert set(entries) <= public_names()


def test_the_overview_links_to_every_page_of_the_reference():
    texts = reference()
    assert set(re.findall(r"\((\w[\w-]*\.md)\)", texts["index.md"])) == set(texts) - {"index.md"}


def listed(nav):
    for entry in nav:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from listed(value) if isinstance(value, list) else [value]


def test_the_menu_has_every_page_once(pages):
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed: .[test]")
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    menu = list(listed(pages.expanded(nav)))
    assert len(menu) > 100
    assert sorted(menu) == pages.matching(*pages.PAGES)


def test_a_strict_build_counts_warnings():
    """With --quiet mkdocs drops warnings before it counts them."""
    assert "strict: true\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.search(r"/mkdocs build$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_what_pages_link_to_is_in_the_site(pages):
    assert "docs/plots/peers.svg" in pages.linked("docs/index.md")
    assert "data/demo/ATTRIBUTION.md" in pages.linked("README.md")


def test_stubs_have_the_docstrings_of_their_modules():
    """The site reads those of the stubs."""
    from arcbeam.ctc.streams import _rounds

    text = (ROOT / "pyx/arcbeam/ctc/streams/_rounds.pyi").read_text(encoding="utf-8")
    said = dict(re.findall(r'def (\w+)\(self\)[^\n]*:\n        """(.*?)"""', text))
    assert set(said) == {"num_settled", "num_frames"}
    for name, docstring in said.items():
        assert getattr(_rounds.SentenceStream, name).__doc__ == docstring


CHART = """flowchart TD
    a{"A question, long enough for two lines?"} -->|yes| b["B"] --> d["D &lt; E"]
    a -->|no| c["C"]
    a --> d
"""


def test_a_flowchart_is_placed_row_by_row(flowchart):
    nodes, arrows = flowchart.parse(CHART)
    ways = flowchart.placed(nodes, arrows)
    assert arrows == [("a", "b", "yes"), ("b", "d", ""), ("a", "c", "no"), ("a", "d", "")]
    assert [nodes[name].row for name in "abcd"] == [0, 1, 1, 2]
    assert len(nodes["a"].lines) == 2 and nodes["a"].question
    assert [len(way) for way in ways] == [2, 2, 2, 3]  # the last passes a row
    for one, two in itertools.combinations(nodes.values(), 2):
        if one.row == two.row:
            assert abs(one.x - two.x) >= (one.width + two.width) / 2


def test_a_flowchart_is_a_picture(flowchart):
    picture = ElementTree.fromstring(flowchart.svg(CHART))
    texts = ["".join(text.itertext()) for text in picture.iter("text")]
    assert {"B", "C", "yes", "no"} <= set(texts)
    boxes = [{side: float(rect.get(side)) for side in ("x", "y", "width", "height")} for rect in picture.iter("rect")]
    assert len(boxes) == 6  # of nodes and of labels
    _, _, width, height = map(float, picture.find("svg").get("viewBox").split())
    assert all(box["width"] > 0 and box["height"] > 0 for box in boxes)
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    assert all(box["y"] >= 0 and box["y"] + box["height"] <= height for box in boxes)


@pytest.mark.parametrize(
    ("chart", "said"),
    [
        ("graph LR\n a --> b", "expected flowchart TD, got 'graph LR'"),
        ("flowchart TD\n a[text] --> b", "or an arrow -->, got '\\[text"),
        ('flowchart TD\n a["A"] --> b', "expected a text for b"),
        ('flowchart TD\n a["A"] --> b["B"] --> a', "without a circle"),
    ],
)
def test_what_no_flowchart_of_ours_has_is_an_error(flowchart, chart, said):
    with pytest.raises(ValueError, match=said):
        flowchart.svg(chart)


def test_diagrams_of_the_pages_are_drawn(pages, flowchart):
    found = [
        chart
        for page in pages.matching(*pages.PAGES)
        for chart in re.findall(r"^```mermaid\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    ]
    assert len(found) >= 2
    for chart in found:
        ElementTree.fromstring(flowchart.svg(chart))


SOURCE = '''"""A package."""
from arcbeam.core.calls import lists_options


class Options:
    """Options.

    Parameters
    ----------
    beam : float
        Of `decode`.
    """

    beam: float = 1.0


@lists_options(Options)
def decode(graph, **options):
    """Decodes.

    Parameters
    ----------
    graph : str
    **options
        Those of `Options`.
    """


class Model:
    """A model."""

    def search(self, graph, *, depth=2, width=3):
        """Searches.

        Parameters
        ----------
        graph : str
        depth : int
            How far.
        width : int
            How wide.
        """


@lists_options(Model.search, without=("width",))
def run(speech, **options):
    """Runs.

    Parameters
    ----------
    speech : str
    **options
        Those of `Model.search`.
    """


class Bare:
    """Has a method, a property and a field without a docstring: run, state, size.

    Attributes
    ----------
    length, width : int
    """

    length: int
    size: int

    def run(self):
        pass

    @property
    def state(self):
        return 1


def bare():
    pass
'''


def test_docstrings_are_prepared_and_missing_ones_told(tmp_path, monkeypatch, caplog):
    griffe = pytest.importorskip("griffe", reason="griffe is not installed: make docs")
    docstrings = load("docstrings")
    (tmp_path / "arcbeam").mkdir()
    (tmp_path / "arcbeam" / "__init__.py").write_text(SOURCE)
    (tmp_path / "page.md").write_text("".join(f"::: arcbeam.{n}\n" for n in ("Options", "decode", "Bare", "bare")))
    monkeypatch.setattr(docstrings, "REFERENCE", tmp_path)
    with caplog.at_level(logging.WARNING):
        package = griffe.load("arcbeam", search_paths=[tmp_path], extensions=griffe.Extensions(docstrings.Docstrings()))
    assert [record.message for record in caplog.records if "expected a docstring" in record.message] == [
        "arcbeam.Bare.size: expected a docstring",
        "arcbeam.Bare.run: expected a docstring",
        "arcbeam.Bare.state: expected a docstring",
        "arcbeam.bare: expected a docstring",
    ]
    decode = package["decode"]
    assert [parameter.name for parameter in decode.parameters] == ["graph", "beam"]
    assert "beam : float\n    Of [`decode`][arcbeam.decode]." in package["Options"].docstring.value
    run = package["run"]
    assert [parameter.name for parameter in run.parameters] == ["speech", "depth"]
    assert "depth : int\n    How far." in run.docstring.value and "width" not in run.docstring.value
    assert "**options" not in decode.docstring.value and "beam : float" in decode.docstring.value
