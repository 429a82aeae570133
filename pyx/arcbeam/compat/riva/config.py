"""The groups of options of riva-asrlib-decoder 0.4.4, with its names and defaults."""
# NeMo copies the attributes of an instance that do not begin with two underscores, so there may be no others.

from __future__ import annotations

import math
from dataclasses import dataclass, field

from arcbeam.compat.options import TypedOptions

NOT_SET = 3.4028234663852886e38  # the default of `frame_shift_seconds`


@dataclass
class OnlineEndpointRule(TypedOptions):
    """When a sentence ends; without effect, because no call reports endpoints.

    Attributes
    ----------
    must_contain_nonsilence : bool
        Whether a word is needed.
    min_trailing_silence, min_utterance_length : float
        Seconds.
    max_relative_cost : float
        Cost of the best end above that of the best token.
    """

    must_contain_nonsilence: bool = True
    min_trailing_silence: float = 1.0
    max_relative_cost: float = math.inf
    min_utterance_length: float = 0.0


@dataclass
class OnlineEndpointConfig(TypedOptions):
    """Rules of endpoints; without effect, because no call reports endpoints.

    Attributes
    ----------
    silence_phones : str
        Numbers of phones, with colons between them.
    rule1, rule2, rule3, rule4, rule5 : OnlineEndpointRule
        A sentence ends where one of them holds.
    """

    silence_phones: str = ""
    rule1: OnlineEndpointRule = field(default_factory=lambda: OnlineEndpointRule(False, 5.0))
    rule2: OnlineEndpointRule = field(default_factory=lambda: OnlineEndpointRule(True, 0.5, 2.0))
    rule3: OnlineEndpointRule = field(default_factory=lambda: OnlineEndpointRule(True, 1.0, 8.0))
    rule4: OnlineEndpointRule = field(default_factory=lambda: OnlineEndpointRule(True, 2.0))
    rule5: OnlineEndpointRule = field(default_factory=lambda: OnlineEndpointRule(False, 0.0, math.inf, 20.0))


@dataclass
class CudaDecoderConfig(TypedOptions):
    """Options of the search.

    Attributes
    ----------
    default_beam : float
        Cost above the best token of a frame up to which others are kept.
    lattice_beam : float
        Cost above the best path up to which lattices have other paths.
    max_active : int
        The most tokens that are expanded in a frame.
    blank_penalty : float
        Cost added to the blank in every frame; it needs `blank_ilabel`.
    blank_ilabel : int
        The column of the blank, despite its name; -1 if it is not known.
    length_penalty : float
        Cost added to every arc that reads a frame and leads to another state. It needs lattices whose parts are scaled
        alike.
    ntokens_pre_allocated, main_q_capacity, aux_q_capacity, endpointing_config
        Without effect.
    """

    default_beam: float = 15.0
    lattice_beam: float = 10.0
    ntokens_pre_allocated: int = 1_000_000
    main_q_capacity: int = -1
    aux_q_capacity: int = -1
    max_active: int = 10_000
    endpointing_config: OnlineEndpointConfig = field(default_factory=OnlineEndpointConfig)
    blank_penalty: float = 0.0
    blank_ilabel: int = -1
    length_penalty: float = 0.0


@dataclass
class DeterminizeLatticePhonePrunedOptions(TypedOptions):
    """Options of determinising.

    Attributes
    ----------
    word_determinize : bool
        It has to be True.
    delta, max_mem, phone_determinize, minimize
        Without effect.
    """

    delta: float = 0.0009765625
    max_mem: int = 50_000_000
    phone_determinize: bool = True
    word_determinize: bool = True
    minimize: bool = False


@dataclass
class MinimumBayesRiskOptions(TypedOptions):
    """Options of `decode_mbr`.

    Attributes
    ----------
    decode_mbr : bool
        Whether the words are those of minimum Bayes risk; False for those of the best path, with their confidences.
    print_silence : bool
        It has to be False.
    """

    decode_mbr: bool = True
    print_silence: bool = False


@dataclass
class WordBoundaryInfoNewOpts(TypedOptions):
    """Options of a file of word boundaries, which is refused.

    Attributes
    ----------
    silence_label, partial_word_label, reorder
        Without effect.
    """

    silence_label: int = 0
    partial_word_label: int = 0
    reorder: bool = True


@dataclass
class LatticePostprocessorConfig(TypedOptions):
    """What is done with lattices before words are read from them.

    Attributes
    ----------
    acoustic_scale, lm_scale : float
        Factors on the costs of the log-probs and of the graph.
    acoustic2lm_scale, lm2acoustic_scale : float
        What of the one is added to the other.
    word_ins_penalty : float
        Cost added to every word, if it is above 0.
    nbest : int
        The most entries of each list of `decode_nbest`.
    mbr_opts : MinimumBayesRiskOptions
    word_boundary_rxfilename : str
        It has to be empty.
    wip_opts, max_expand
        Without effect, because they need `word_boundary_rxfilename`.
    """

    word_boundary_rxfilename: str = ""
    mbr_opts: MinimumBayesRiskOptions = field(default_factory=MinimumBayesRiskOptions)
    wip_opts: WordBoundaryInfoNewOpts = field(default_factory=WordBoundaryInfoNewOpts)
    max_expand: float = 0.0
    acoustic_scale: float = 1.0
    lm_scale: float = 1.0
    acoustic2lm_scale: float = 0.0
    lm2acoustic_scale: float = 0.0
    word_ins_penalty: float = 0.0
    nbest: int = 1


@dataclass
class BatchedMappedOnlineDecoderCudaConfig(TypedOptions):
    """Options of :class:`BatchedMappedOnlineDecoderCuda`.

    Attributes
    ----------
    max_batch_size : int
        With `num_channels` it limits the streams at a time.
    num_channels : int
        The most streams at a time, but at least twice `max_batch_size`.
    num_post_processing_worker_threads : int
        CPU threads; below 1 for as many as help.
    determinize_lattice : bool
        Whether lattices that are written have one path for each word sequence.
    num_decoder_copy_threads : int
        Without effect.
    frame_shift_seconds : float
        Seconds from one frame to the next, by which times are multiplied.
    use_lattice_postprocessor : bool
        False: no scales are applied to lattices that are written, and there are no other outputs.
    use_final_probs : bool
        False: a path may end anywhere, without a cost.
    decoder_opts, det_opts, lattice_postprocessor_opts
        Groups of options.
    """

    max_batch_size: int = 400
    num_channels: int = 800
    num_post_processing_worker_threads: int = -1
    determinize_lattice: bool = True
    num_decoder_copy_threads: int = 2
    frame_shift_seconds: float = NOT_SET
    use_lattice_postprocessor: bool = True
    use_final_probs: bool = True
    decoder_opts: CudaDecoderConfig = field(default_factory=CudaDecoderConfig)
    det_opts: DeterminizeLatticePhonePrunedOptions = field(default_factory=DeterminizeLatticePhonePrunedOptions)
    lattice_postprocessor_opts: LatticePostprocessorConfig = field(default_factory=LatticePostprocessorConfig)


@dataclass
class BatchedMappedDecoderCudaConfig(TypedOptions):
    """Options of :class:`BatchedMappedDecoderCuda`.

    Attributes
    ----------
    n_input_per_chunk : int
        Without effect.
    online_opts : BatchedMappedOnlineDecoderCudaConfig
    """

    n_input_per_chunk: int = 50
    online_opts: BatchedMappedOnlineDecoderCudaConfig = field(default_factory=BatchedMappedOnlineDecoderCudaConfig)
