"""Hook of mkdocs: a page has the same place in the site and in a checkout, so that links hold in both.

mkdocs reads one folder; instead of what it finds there, the site gets the files that match ``PAGES``, and whatever else
these link to (pictures, sources), from the root of the repository. ``docs/index.md`` is the home page. An entry of
``nav`` with a ``*`` stands for all files that match it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

sys.path.insert(0, str(Path(__file__).parent))
from flowchart import svg

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "docs/**/*.md", "data/demo/*.md", "benchmarks/results/tables/*.md")
STYLE = ("docs/site/*.css", "docs/site/*.js")
HOME = "docs/index.md"
PLACES = {HOME: "index.html", "README.md": "README.html"}  # those that mkdocs would choose otherwise
_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s:]+)[^)\s]*\)")


def matching(*patterns: str) -> list[str]:
    """The files of the repository that match, by path."""
    return sorted({path.relative_to(ROOT).as_posix() for pattern in patterns for path in ROOT.glob(pattern)})


def linked(page: str) -> set[str]:
    """The files that a page links to, by path."""
    text = _BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8"))
    targets = ((ROOT / page).parent / link for link in _LINK.findall(text))
    return {target.resolve().relative_to(ROOT).as_posix() for target in targets if target.is_file()}


def expanded(nav: list[Any]) -> list[Any]:
    """The navigation, with lists of files in place of their patterns."""
    found = []
    for entry in nav:
        for title, what in entry.items() if isinstance(entry, dict) else [(None, entry)]:
            if isinstance(what, list):
                found.append({title: expanded(what)})
            elif "*" in what:
                found.append({title: matching(what)})
            else:
                found.append(entry)
    return found


def anchor(title: str, separator: str) -> str:
    """The anchor of a heading, which is the same where the repository is read."""
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expands the navigation; anchors and diagrams are made by functions of ours."""
    fence = {"name": "mermaid", "class": "flowchart", "format": lambda source, *_, **__: svg(source)}
    config.nav = expanded(config.nav or [])
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of the theme, the pages and what they link to."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    pages = matching(*PAGES)
    for path in sorted({*pages, *matching(*STYLE), *(link for page in pages for link in linked(page))}):
        file = File.generated(config, path, abs_src_path=str(ROOT / path))
        file.dest_uri = PLACES.get(path, file.dest_uri)
        files.append(file)
    return files
