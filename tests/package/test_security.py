"""SECURITY.md says what the loaders do, and is found from where they are described."""

import inspect
import re
from pathlib import Path

import pytest

import arcbeam
from arcbeam.files import lines as text_files
from arcbeam.files import nemo_archive, packed_files, pickled_data, tar_file, torch_file
from arcbeam.files import reading as files
from arcbeam.recipe import files as lines
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.transducer.checkpoints import nemo as transducer_nemo

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/design/files.md",
        "docs/guide/baseline.md",
        "docs/guide/install.md",
        "docs/guide/large-language-models.md",
        "docs/guide/transducer-weights.md",
        "docs/guide/transducers.md",
    ],
)
def test_pages_that_describe_loaders_lead_to_it(page):
    folder = (ROOT / page).parent
    found = re.findall(r"\]\(([^)#]*SECURITY\.md)\)", (ROOT / page).read_text(encoding="utf-8"))
    assert found and all((folder / link).resolve() == ROOT / "SECURITY.md" for link in found)


def test_its_own_links_lead_somewhere():
    for link, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", PAGE):
        titles = re.findall(r"^#+ (.*)$", (ROOT / (link or "SECURITY.md")).read_text("utf-8"), re.MULTILINE)
        assert not anchor or anchor in [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]


def test_the_sdist_carries_it():
    assert "SECURITY.md" in re.search(r"^include (.*)$", (ROOT / "MANIFEST.in").read_text(), re.MULTILINE)[1].split()


@pytest.mark.parametrize(
    "said",
    [
        f"{files.EXPANSION} times the size of the file, and {files.SMALL_BYTES >> 20} MiB at least",
        f"memory to decompress `.xz` | {packed_files.XZ_BYTES >> 20} MiB",
        f"no aliases | {nemo_archive.CONFIG_BYTES >> 20} MiB",
        f"{nemo_archive.LONGEST_VALUE:,} characters",
        f"{tar_file.MOST_MEMBERS:,} of them",
        f"| {lines.LONGEST_LINE >> 20} MiB |",
        f"| {text_files.LONGEST_LINE >> 10} KiB |",
        f"in place of a list, a table or references | {text_files.MOST_OF_A_PIPE >> 20} MiB |",
        f"{pickled_data.LONGEST_NUMBER} bytes, and {torch_file.MOST_AXES}",
        f"{transducer_nemo.MOST_PLACES} tokens",
        f"{1 << 28:,}, and 32",
    ],
)
def test_the_limits_are_those_of_the_code(said):
    assert said in TEXT


TAKE_A_LIMIT = {
    "LanguageModel.build": arcbeam.LanguageModel.build,
    "Graph.build": arcbeam.Graph.build,
    "Lexicon.from_file": Lexicon.from_file,
    "Lexicon.spell": Lexicon.spell,
    "Lexicon.sentencepiece": Lexicon.sentencepiece,
    "KenLM": arcbeam.KenLM,
    "TransducerDecoder.from_nemo": arcbeam.TransducerDecoder.from_nemo,
    "TransducerDecoder.from_icefall": arcbeam.TransducerDecoder.from_icefall,
    "TransducerDecoder.from_arrays": arcbeam.TransducerDecoder.from_arrays,
}


@pytest.mark.parametrize("name", TAKE_A_LIMIT)
def test_what_takes_a_limit(name):
    assert f"`{name}`" in TEXT and "max_bytes" in inspect.signature(TAKE_A_LIMIT[name]).parameters
    pages = inspect.getdoc(TAKE_A_LIMIT[name])
    assert "max_bytes" in pages
