"""What papers report themselves, to stand beside our tables: one JSON file a paper, each figure with where it was seen.

A figure is here only if a source says it, and ``seen`` names the source. A table without one says so on the page.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
NONE = "No figure of this table could be verified from a source at hand, so none is given."


@dataclass(frozen=True)
class Paper:
    """key : short name, as in ``PAPER`` of an experiment; tables : by experiment, its figures and differences."""

    key: str
    title: str
    reference: str
    sources: dict[str, str]
    tables: dict[str, dict[str, Any]]

    def beside(self, experiment: str) -> Iterator[str]:
        """Markdown: the paper's own figures and every difference in setting."""
        table = self.tables[experiment]
        yield f"The paper's own figures ({self.reference}):"
        yield ""
        if table["figures"]:
            yield "| what | value | seen in |"
            yield "|---|---|---|"
            for figure in table["figures"]:
                yield f"| {figure['what']} | {figure['value']} | {self.sources[figure['seen']]} |"
        else:
            yield NONE
        yield ""
        yield "Differences in setting:"
        yield ""
        for difference in table["differences"]:
            yield f"* {difference}"


def load(key: str) -> Paper:
    path = FOLDER / f"{key.lower()}.json"
    if not path.exists():
        known = ", ".join(sorted(p.stem.upper() for p in FOLDER.glob("*.json")))
        raise KeyError(f"no paper {key!r}; there are: {known}")
    return Paper(**json.loads(path.read_text(encoding="utf-8")))
