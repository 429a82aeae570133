"""Shards: a job's utterances in n parts of the same number, give or take one, each in the order of the inputs."""

import re
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Shard:
    """Part `number` of `count`, from 1 on: the outputs of all parts, one after the other, are that of the whole."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard that ``"3/8"`` names; ValueError for anything else."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"expected I/N with I from 1 to N, such as 1/8, got {text!r}")
        return cls(int(found[1]), int(found[2]))

    def of(self, total: int) -> range:
        """The places of its utterances among all of them."""
        return range(total * (self.number - 1) // self.count, total * self.number // self.count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"
