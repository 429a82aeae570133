"""What pages say of the tree holds: links, paths, commands, laws; and a page is short and opens with what to type."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ROOT / "docs" / "benchmarks.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WRITTEN = [page for page in PAGES if page != GENERATED]
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
DESIGN = sorted((ROOT / "docs" / "design").glob("*.md"))
RULES = ROOT / "docs" / "design" / "rules.md"
MOST_LINES = {"design": 150, "guide": 200}
MOST_WORDS = 90  # of a paragraph, or of an item of a list
OPENING = 12  # lines of a guide page within which the first block begins
CODE = ("pyx", "cuda", "cpu_reference", "tests")
SUFFIXES = {".py", ".pyx", ".pxd", ".pyi", ".hpp", ".cpp", ".cuh", ".cu", ".toml"}
PLACES = ("pyx", "cuda", "cpu_reference", "tests", "benchmarks", "data", "docs", "examples", "build_backend", ".ci")
# Of pyx/arcbeam.
ROOMS = (
    "arrays", "baseline", "batching", "cli", "ctc", "files", "front", "gpu", "graph", "lm", "recipe", "report",
    "tokens", "transducer",
)  # fmt: skip
LAW = re.compile(r"\blaws? (\d+(?:\.\d+)?(?:(?:, | and | to )\d+)*)(?![\w-])", re.IGNORECASE)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def sources(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob("*")))
    return [path for path in found if path.suffix in SUFFIXES and path != Path(__file__).resolve()]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def paragraphs(text: str) -> list[str]:
    """Paragraphs and items of lists, each on one line; headings, tables, pictures and blocks are none."""
    found, goes_on = [], False
    for line in without_blocks(text).splitlines():
        if not line.strip() or re.match(r"[#|!<]", line):
            goes_on = False
        elif goes_on and not re.match(r" *([*-]|\d+\.) ", line):
            found[-1] += f" {line.strip()}"
        else:
            found.append(line.strip())
            goes_on = True
    return found


def words_of(paragraph: str) -> int:
    """As a reader counts them: the target of a link is none."""
    return len(re.sub(r"\]\([^)]*\)", "]", paragraph).split())


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", without_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def dead_links(page: Path, text: str) -> list[str]:
    dead = []
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", without_blocks(text)):
        if re.match(r"\w+:", link):
            continue
        target = (page.parent / link).resolve() if link else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            dead.append(f"{link}#{anchor}" if anchor else link)
    return dead


def missing_paths(text: str) -> list[str]:
    """Paths in backticks that the tree does not have; NAME and DEVICE stand for any name, * for anything."""
    missing = []
    for path in re.findall(r"`((?:[\w.*-]+/)+[\w.*-]*)`", without_blocks(text)):
        first = path.split("/")[0]
        if first not in (*PLACES, *ROOMS):
            continue
        pattern = re.sub(r"NAME|DEVICE", "*", path).rstrip("/")
        places = [ROOT] * (first in PLACES) + [ROOT / "pyx" / "arcbeam"] * (first in ROOMS)
        if not any(next(iter(place.glob(pattern)), None) for place in places):
            missing.append(path)
    return missing


def commands(text: str) -> list[list[str]]:
    """What blocks and text tell to type: the words after `arcbeam`, comments left out."""
    lines = "\n".join(blocks(text, "console")).replace("\\\n", " ").splitlines()
    lines += re.findall(r"`(arcbeam [^`]+)`", without_blocks(text))
    found = [shlex.split(line, comments=True) for line in lines if re.match(r"\s*arcbeam ", line)]
    return [words[1:] for words in found]


def laws_cited(text: str) -> set[str]:
    return {number for found in LAW.findall(text) for number in re.findall(r"[\d.]+", found)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    assert dead_links(page, page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_paths_exist(page):
    assert missing_paths(page.read_text(encoding="utf-8")) == []


def test_a_dead_link_and_a_missing_path_are_found(tmp_path):
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# One title\n")
    text = "[a](other.md) [b](other.md#one-title) [c](none.md) [d](other.md#two) [e](https://example.org) [f](#none)"
    page.write_text(text)
    assert dead_links(page, text) == ["none.md", "other.md#two", "#none"]
    paths = "`tests/` `tests/test_pages.py` `tests/none.py` `cli/none.py` `tests/test_NAME.py` `of/no/interest`"
    assert missing_paths(paths) == ["tests/none.py", "cli/none.py"]


def test_code_names_pages_that_exist():
    wrong = []
    for path in [*sources(*CODE, "benchmarks", "data", "build_backend"), ROOT / "setup.py", ROOT / "Makefile"]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            named = re.findall(r"\bdocs/[\w/-]+\.md", line)
            wrong += [f"{name(path)}:{number}: {page}" for page in named if not (ROOT / page).exists()]
    assert wrong == []


@pytest.mark.parametrize("page", [*DESIGN, *GUIDE], ids=name)
def test_pages_are_short(page):
    assert len(page.read_text(encoding="utf-8").splitlines()) <= MOST_LINES[page.parent.name]


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDE], ids=name)
def test_paragraphs_are_short(page):
    long = {text[:60]: words_of(text) for text in paragraphs(page.read_text(encoding="utf-8"))}
    assert {text: words for text, words in long.items() if words >= MOST_WORDS} == {}


def test_paragraphs_are_read():
    text = "# A title\n\nOne [of\ntwo](a/page.md) lines.\n```console\narcbeam info\n```\nAfter it:\n\n"
    text += "* an item\n  of two lines\n* another\n\n"
    text += "| a | table |\n|---|---|\n1. first\n2. second\n\n![A picture](p.svg)\n"
    found = paragraphs(text)
    items = ["* an item of two lines", "* another", "1. first", "2. second"]
    assert found == ["One [of two](a/page.md) lines.", "After it:", *items]
    assert [words_of(paragraph) for paragraph in found[:2]] == [4, 2]


@pytest.mark.parametrize("page", GUIDE, ids=name)
def test_guide_pages_open_with_what_to_type(page):
    opening = page.read_text(encoding="utf-8").splitlines()[:OPENING]
    assert any(re.match(r"```(console|python)$", line) for line in opening)


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_python_compiles(page):
    text = page.read_text(encoding="utf-8")
    for code in blocks(text, "python"):
        compile(code, name(page), "exec")
    assert not re.search(r"^    (>>> |import |from \w+ import )", without_blocks(text), re.MULTILINE), "not in a block"


def parse(words: list[str]) -> None:
    """Reads a command as the program does, without running it; SystemExit or click's error for one that is wrong."""
    import typer

    from arcbeam.cli.app import app

    group = typer.main.get_command(app)
    if words[0].startswith("-"):
        assert words[0] in {option for parameter in group.params for option in parameter.opts} | {"--help", "-h"}, words
        return
    assert words[0] in group.commands, f"arcbeam {words[0]}: expected one of {', '.join(group.commands)}"
    command = group.commands[words[0]]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
    unknown = [word for word in words[1:] if re.match(r"--?[a-z]", word) and word not in known]
    assert not unknown, f"arcbeam {words[0]}: {', '.join(unknown)}: expected one of {', '.join(sorted(known))}"
    if len(words) > 2 and "--help" not in words:
        command.make_context(words[0], [re.sub(r"^\$\w+$", "1", word) for word in words[1:]])


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_commands_exist(page):
    for package in ("typer", "rich"):
        pytest.importorskip(package, reason=f"{package} is not installed: .[cli]")
    for words in commands(page.read_text(encoding="utf-8")):
        parse(words)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("arcbeam guess a.npz", "arcbeam guess: expected one of"),
        ("arcbeam decode g.arcbeam a.npz --beams 3", "--beams: expected one of"),
        ("arcbeam decode g.arcbeam a.npz --format html", "expected one of text, trn, ctm, stm or json, got 'html'"),
        ("arcbeam build-graph --tokens t --lm a", "Missing option"),
    ],
)
def test_a_wrong_command_is_found(command, said):
    click = pytest.importorskip("typer", reason="typer is not installed: .[cli]")
    assert click
    (words,) = commands(f"```console\n{command}  # a remark\n```\n")
    with pytest.raises(Exception) as caught:
        parse(words)
    assert said in str(getattr(caught.value, "format_message", lambda: caught.value)())


def test_laws_that_code_cites_exist():
    stated = set(re.findall(r"^## Law (\d+):", RULES.read_text(encoding="utf-8"), re.MULTILINE))
    assert stated == {str(number) for number in range(1, 13)}
    cited = {name(path): laws_cited(path.read_text(encoding="utf-8")) for path in sources(*CODE)}
    cited |= {name(page): laws_cited(page.read_text(encoding="utf-8")) for page in WRITTEN}
    assert {path: laws - stated for path, laws in cited.items() if laws - stated} == {}


def test_citations_of_laws_are_read():
    assert laws_cited("Law 3 and laws 8, 9 and 10; a lawful 4; law 2.1") == {"3", "8", "9", "10", "2.1"}


def test_the_glossary_gives_each_word_once():
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    words = [word for row in rows if row not in ("word", "---") for word in row.split(", ")]
    assert len(words) == len(set(words))
    assert {"token", "label", "column", "lane", "room", "request", "answer", "twin", "oracle", "closure"} <= set(words)
