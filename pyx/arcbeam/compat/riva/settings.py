"""What the options mean for this search: each is validated here, and one that it cannot follow is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass

from arcbeam.compat.riva.config import (
    NOT_SET,
    BatchedMappedOnlineDecoderCudaConfig,
    CudaDecoderConfig,
    LatticePostprocessorConfig,
)
from arcbeam.compat.riva.scales import Scales
from arcbeam.core.checks import check_count, check_real

UNLIKE = "the parts of lattices are not scaled alike"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of a decoder."""

    beam: float
    lattice_beam: float
    max_active: int
    threads: int | None
    blank: int | None  # its column
    blank_penalty: float
    length_penalty: float
    ends_anywhere: bool
    frame_shift: float
    determinize: bool
    scales: Scales
    has_words: bool  # whether there are outputs besides lattices
    nbest: int
    minimizes_risk: bool  # whether the words of `decode_mbr` are those of the fewest expected errors
    num_channels: int

    @classmethod
    def of(cls, config: BatchedMappedOnlineDecoderCudaConfig) -> Settings:
        """What a group of options says; TypeError or ValueError for one out of its range."""
        if not isinstance(config, BatchedMappedOnlineDecoderCudaConfig):
            raise TypeError(
                "config: expected a BatchedMappedOnlineDecoderCudaConfig of arcbeam.compat.riva, got "
                f"{type(config).__name__}"
            )
        check_count("max_batch_size", config.max_batch_size, or_none="")
        shift = config.frame_shift_seconds
        check_real("frame_shift_seconds", shift, "of seconds above 0", above=0.0, infinite=True)
        if shift > 1.0 and shift != NOT_SET:
            raise ValueError(
                f"frame_shift_seconds: expected at most 1 second, got {shift:g}; write 20 milliseconds as 0.02"
            )
        if not config.det_opts.word_determinize:
            raise ValueError(
                "det_opts.word_determinize: expected True, because a determinised lattice has one path for each word "
                "sequence, got False; determinize_lattice = False writes all paths"
            )
        search, post = config.decoder_opts, config.lattice_postprocessor_opts
        _check_search(search)
        _check_postprocessor(post)
        scales = Scales()
        if config.use_lattice_postprocessor:
            scales = Scales(
                post.lm_scale,
                post.acoustic_scale,
                post.acoustic2lm_scale,
                post.lm2acoustic_scale,
                max(post.word_ins_penalty, 0.0),
            )
        if scales.factor is None and search.length_penalty:
            raise ValueError(
                f"length_penalty: expected 0, because {UNLIKE}, got {search.length_penalty}; set acoustic_scale and "
                "lm_scale to the same number, and the other scales and word_ins_penalty to 0"
            )
        if scales.factor is None and not post.mbr_opts.decode_mbr:
            raise ValueError(f"mbr_opts.decode_mbr: expected True, because {UNLIKE}, got False")
        threads = config.num_post_processing_worker_threads
        return cls(
            beam=search.default_beam,
            lattice_beam=search.lattice_beam,
            max_active=search.max_active,
            threads=threads if threads > 0 else None,
            blank=search.blank_ilabel if search.blank_ilabel >= 0 else None,
            blank_penalty=search.blank_penalty,
            length_penalty=search.length_penalty,
            ends_anywhere=not config.use_final_probs,
            frame_shift=shift,
            determinize=config.determinize_lattice,
            scales=scales,
            has_words=config.use_lattice_postprocessor,
            nbest=post.nbest,
            minimizes_risk=post.mbr_opts.decode_mbr,
            num_channels=max(config.num_channels, 2 * config.max_batch_size),
        )


def _check_search(search: CudaDecoderConfig) -> None:
    for name in ("default_beam", "lattice_beam"):
        check_real(name, getattr(search, name), "of at least 0", above=0.0, inclusive=True, infinite=True)
    check_count("max_active", search.max_active, or_none="")
    for name in ("blank_penalty", "length_penalty"):
        check_real(name, getattr(search, name), "that is finite", above=-math.inf)
    if search.blank_penalty and search.blank_ilabel < 0:
        raise ValueError(
            "blank_ilabel: expected the blank's column, which blank_penalty needs, got "
            f"{search.blank_ilabel}; it counts columns from 0, despite its name"
        )


def _check_postprocessor(post: LatticePostprocessorConfig) -> None:
    if post.word_boundary_rxfilename:
        raise ValueError(
            "word_boundary_rxfilename: expected '', because the labels of CTC have no word boundaries, got "
            f"{post.word_boundary_rxfilename!r}"
        )
    if post.mbr_opts.print_silence:
        raise ValueError("mbr_opts.print_silence: expected False, because there is no word of silence, got True")
    for name in ("acoustic_scale", "lm_scale", "acoustic2lm_scale", "lm2acoustic_scale"):
        check_real(name, getattr(post, name), "of at least 0", above=0.0, inclusive=True)
    check_real("word_ins_penalty", post.word_ins_penalty, "that is finite", above=-math.inf)
    check_count("nbest", post.nbest, or_none="")
