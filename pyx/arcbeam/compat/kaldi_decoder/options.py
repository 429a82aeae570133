"""Options of the decoders, by position, by name or attribute by attribute as in kaldi-decoder."""

from __future__ import annotations

from dataclasses import dataclass

from arcbeam.compat.options import TypedOptions
from arcbeam.core.checks import check_count, check_real

NO_LIMIT = 2**31 - 1
MIN_ACTIVE = 20  # the original's default, which only counts where a beam leaves fewer tokens than that


@dataclass
class FasterDecoderOptions(TypedOptions):
    """Options of :class:`FasterDecoder`.

    Attributes
    ----------
    beam : float
        Cost above the best token of a frame up to which others are kept.
    max_active : int
        The most tokens that are expanded in a frame; 2147483647 for no limit.
    min_active : int
        At most 20: this search keeps no least number of tokens.
    beam_delta, hash_ratio : float
        Without effect.
    """

    beam: float = 16.0
    max_active: int = NO_LIMIT
    min_active: int = MIN_ACTIVE
    beam_delta: float = 0.5
    hash_ratio: float = 2.0

    def __str__(self) -> str:
        return (
            f"FasterDecoderOptions(beam={self.beam:g}, max_active={self.max_active}, min_active={self.min_active}, "
            f"beam_delta={self.beam_delta:g}, hash_ratio={self.hash_ratio:g})"
        )


@dataclass
class LatticeSimpleDecoderConfig(TypedOptions):
    """Options of :class:`LatticeSimpleDecoder`.

    Attributes
    ----------
    beam : float
        Cost above the best token of a frame up to which others are kept.
    lattice_beam : float
        Cost above the best path up to which a lattice has other paths.
    prune_interval : int
        Without effect, as the next four.
    determinize_lattice, prune_lattice : bool
    beam_ratio, prune_scale : float
    """

    beam: float = 16.0
    lattice_beam: float = 10.0
    prune_interval: int = 25
    determinize_lattice: bool = True
    prune_lattice: bool = True
    beam_ratio: float = 0.9
    prune_scale: float = 0.1

    def __str__(self) -> str:
        return (
            f"LatticeSimpleDecoderConfig(beam={self.beam:g}, lattice_beam={self.lattice_beam:g}, "
            f"prune_interval={self.prune_interval}, determinize_lattice={self.determinize_lattice}, "
            f"prune_lattice={int(self.prune_lattice)}, beam_ratio={self.beam_ratio:g}, "
            f"prune_scale={self.prune_scale:g})"
        )


def check_faster(config: FasterDecoderOptions) -> None:
    """Raises TypeError or ValueError for what is no options, or some out of their range."""
    _check_type(config, FasterDecoderOptions)
    check_real("beam", config.beam, "of at least 0", above=0.0, inclusive=True, infinite=True)
    check_count("max_active", config.max_active, or_none="")
    if config.max_active < 2:
        raise ValueError(f"max_active: expected at least 2, got {config.max_active}")
    if not 0 <= config.min_active < config.max_active:
        raise ValueError(f"min_active: expected a number from 0 to less than max_active, got {config.min_active}")
    if config.min_active > MIN_ACTIVE:
        raise ValueError(
            f"min_active: expected at most {MIN_ACTIVE}, because this search keeps no least number of tokens, got "
            f"{config.min_active}; set a wider beam"
        )
    check_real("hash_ratio", config.hash_ratio, "of at least 1", above=1.0, inclusive=True)


def check_lattice_simple(config: LatticeSimpleDecoderConfig) -> None:
    """The same for :class:`LatticeSimpleDecoder`."""
    _check_type(config, LatticeSimpleDecoderConfig)
    check_real("beam", config.beam, "above 0", above=0.0, infinite=True)
    check_real("lattice_beam", config.lattice_beam, "above 0", above=0.0, infinite=True)
    check_count("prune_interval", config.prune_interval, or_none="")


def _check_type(config: object, kind: type) -> None:
    if not isinstance(config, kind):
        raise TypeError(f"config: expected a {kind.__name__} of arcbeam.compat.kaldi_decoder, got {type(config)}")
