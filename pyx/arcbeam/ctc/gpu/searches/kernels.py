"""The search kernels: one for each file ``cuda/*/kernels/NAME.cu``, by what it searches with."""

from __future__ import annotations

from typing import NamedTuple

#: Where the large model is, and who looks words up: None without one.
RESIDENT, BUCKETED, WORDS_REQUESTED, ARCS_REQUESTED = "resident", "bucketed", "words requested", "arcs requested"
#: The boosts of a batch: None, or with words that the graph lacks.
KNOWN, NEW = "known words", "new words"
REQUESTED = (WORDS_REQUESTED, ARCS_REQUESTED)
WIDE, ON_BLOCKS, ALL = ("wide",), ("wide", "dense"), ("wide", "dense", "cluster")


class SearchKernel(NamedTuple):
    """A kernel: the models and boosts that it is for, and its entries, of which blocks or clusters run one."""

    name: str
    models: tuple[str | None, ...]
    boosts: tuple[str | None, ...]
    entries: tuple[str, ...]

    @property
    def has_model(self) -> bool:
        """Whether it looks words up in a large model."""
        return self.models != (None,)

    @property
    def rescores(self) -> bool:
        """Whether its tokens have histories, of a model or of boosts."""
        return self.has_model or self.boosts != (None,)

    def with_lattices(self, streams: bool) -> SearchKernel:
        """The one that also gives lattices; the plain search has one for utterances and one for chunks of streams."""
        if self.rescores:
            return self._replace(name=f"{self.name}_lattice", entries=WIDE)
        return self._replace(name=f"{self.name}_stream_lattice" if streams else f"{self.name}_lattice")


KERNELS = (
    SearchKernel("search", (None,), (None,), ALL),
    SearchKernel("rescore", (RESIDENT,), (None,), ALL),
    SearchKernel("bucketed", (BUCKETED,), (None,), ALL),
    SearchKernel("host_lookup", (WORDS_REQUESTED,), (None,), ON_BLOCKS),
    SearchKernel("host_arcs", (ARCS_REQUESTED,), (None,), ON_BLOCKS),
    SearchKernel("boosted", (None,), (KNOWN,), ALL),
    SearchKernel("boosted_rescore", (BUCKETED, RESIDENT), (KNOWN,), WIDE),
    SearchKernel("boosted_host", REQUESTED, (KNOWN, NEW), WIDE),
    SearchKernel("new_words", (None,), (NEW,), ALL),
    SearchKernel("new_words_rescore", (BUCKETED, RESIDENT), (NEW,), WIDE),
)


def kernel_for(model: str | None, boosts: str | None) -> SearchKernel:
    """The kernel of a batch."""
    [found] = (kernel for kernel in KERNELS if model in kernel.models and boosts in kernel.boosts)
    return found


def all_kernels() -> tuple[SearchKernel, ...]:
    """These, and those that also give lattices."""
    lattices = (kernel.with_lattices(streams) for kernel in KERNELS for streams in (False, True))
    return tuple({kernel.name: kernel for kernel in (*KERNELS, *lattices)}.values())
