"""All mutants in one binary: kernels compiled with a switch, whose number says which mutant runs."""

import ctypes
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutants import catalogue
from tests.mutants.catalogue import Change, Mutant
from tests.simt import build
from tests.simt.build import CACHE, ROOT

NAME = "arcbeam_mutant"


def with_all(mutants: dict[int, Mutant]) -> dict[Path, str]:
    """The files that mutants change, with every change behind the switch."""
    texts = catalogue.sources()
    squeezed = {path: catalogue.squeezed(text) for path, text in texts.items()}
    changes: dict[Change, list[Mutant]] = {}
    for mutant in mutants.values():
        changes.setdefault(catalogue.find(mutant, squeezed), []).append(mutant)
    made = {change.path: texts[change.path] for change in changes}
    last: dict[Path, int] = {}
    for change in sorted(changes, key=lambda change: change.begin, reverse=True):
        if change.end > last.get(change.path, change.end):
            raise ValueError(f"{change.path.relative_to(ROOT)}: two mutants change texts that overlap")
        last[change.path] = change.begin
        text = made[change.path]
        either = text[change.begin : change.end]
        for mutant in changes[change]:
            either = _either(mutant, either)
        made[change.path] = text[: change.begin] + either + text[change.end :]
    return made


def _either(mutant: Mutant, right: str) -> str:
    is_it = f"{NAME} == {mutant.number}"
    if right.endswith((";", "}")):
        return f"if ({is_it}) {{ {mutant.instead} }} else {{ {right} }}"
    return f"({is_it} ? {mutant.instead} : {right})"


class Switched:
    """Kernels with a switch, in a folder of their own that stays, so that compiled libraries are found again."""

    def __init__(self, mutants: dict[int, Mutant]) -> None:
        texts = with_all(mutants)
        switch = f"#pragma once\n[[gnu::used]] inline int {NAME} = 0;\n"  # used: some kernels have no mutant
        digest = hashlib.sha256("\0".join([*texts.values(), switch]).encode()).hexdigest()[:16]
        self.folder = CACHE / "mutants" / digest
        for path, text in texts.items():
            self._write(path.relative_to(ROOT), text)
        self._write(Path("mutant.hpp"), switch)
        # Headers of the folder come before ours; and each library has a switch of its own.
        folders = [f"-iquote{self.folder / place}" for place in ("cuda", "pyx")]
        self.flags = (*folders, f"-include{self.folder / 'mutant.hpp'}", "-fno-gnu-unique", "-w")

    def _write(self, name: Path, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(text, encoding="utf-8")

    def source(self, path: Path) -> Path:
        """The changed file in the place of one of ours, where a mutant changes it."""
        changed = self.folder / path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        return changed if changed.exists() else path

    @contextmanager
    def running(self, number: int) -> Iterator[None]:
        """Within it all kernels that tests load run with this mutant; 0: with none, and yet compiled with all."""

        def load(sources: tuple[Path, ...], flags: tuple[str, ...]) -> build.Kernels:
            kernels = build.compiled(tuple(map(self.source, sources)), (*flags, *self.flags))
            ctypes.c_int.in_dll(kernels.library, NAME).value = number
            return kernels

        with build.loading_by(load):
            yield
