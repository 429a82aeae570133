"""The counters of a decode, and the memory of a decoder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DecodeStats:
    """The work of one call of :meth:`arcbeam.CtcDecoder.decode`, summed over its utterances.

    None means that this is not counted on this device, or does not happen there. All other numbers are the same on both
    devices, except ``lookup_misses``. An utterance with NaN that is returned with its error does not count, except for
    its look-ups on a GPU.

    Attributes
    ----------
    frames, tokens : int
        Frames, and the tokens that survived in them.
    expanded_tokens : int or None
        Tokens that were within the cut-off and were expanded (CPU).
    leaving_arcs : int
        Emitting arcs of the expanded tokens.
    read_arcs : int or None
        Those of them that were scored; the others were proven inadmissible unread (CPU).
    candidates : int or None
        Those that passed the bound known at the time (CPU).
    admitted : int
        Those that passed the exact bound, and the start of each utterance.
    lookups : int
        Words that were rescored.
    distinct_lookups : int or None
        The distinct ones of these in each step of a frame, each looked up once for all hypotheses that share it (if
        they are few, for each one); with ``placement="host"`` the arcs and back-off weights that they need, at least
        one and at most the model's order for each (GPU).
    lookup_misses : int
        Look-ups that the cache did not answer: of ``lookups`` on a CPU, of ``distinct_lookups`` on a GPU. If the host
        looks up or fetches, the requests to it, without ends of sentences.
    model_bytes_read : int or None
        Bytes of the large model that were read, in sectors of 32, over the bus if it is in host memory. If the host
        looks up or fetches, the bytes of questions and answers (GPU).
    lookup_rounds, lookup_copies : int or None
        Rounds of requests to the host (``placement="host"`` and ``"cpu"``), and copies that brought arcs (``"host"``;
        Fukunaga et al. 2019).
    lookup_waiting : float or None
        The share of their time that lanes waited for the host.
    """

    frames: int
    tokens: int
    expanded_tokens: int | None
    leaving_arcs: int
    read_arcs: int | None
    candidates: int | None
    admitted: int
    lookups: int = 0
    lookup_misses: int = 0
    distinct_lookups: int | None = None
    model_bytes_read: int | None = None
    lookup_rounds: int | None = None
    lookup_copies: int | None = None
    lookup_waiting: float | None = None

    @property
    def lookup_hits(self) -> float | None:
        """The share of the look-ups (on a GPU, the distinct ones) that the cache answered; None if there were none."""
        lookups = self.lookups if self.distinct_lookups is None else self.distinct_lookups
        return 1 - self.lookup_misses / lookups if lookups else None


NOTHING = DecodeStats(0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class DecoderMemory:
    """Bytes that a decoder holds on its device, by purpose; on the CPU only those of models and graph, in host memory.

    Attributes
    ----------
    graph : int
        Shared by the decoders of one graph on one device, but for what endpoints read of it.
    lanes, token_log : int
        Room for frames, and the back-pointers.
    paths, log_probs, batch : int
        Results, log-probs that came from host memory, the description of a batch, and up to 32 MiB of streams that
        have ended, for those that begin.
    pinned : int
        Host memory that copies pass through or where kernels read a language model, and with ``placement="host"`` the
        arcs of a model, pinned where they are. Managed memory counts; pageable memory, which is used if the host
        refuses to pin, does not.
    language_models : int
        The models that rescore, which are also shared, with the arc cache and the host's answers; a KenLM model counts
        with the size of its file.
    boosts : int
        Boost lists that are in use.
    streams : int
        The states of streams, two for each; 0 on a CPU, where they are not counted.
    bucketed : int
        The part of ``pinned`` for a model in buckets, whose index has no room on the device
        (``placement="host-direct"``).
    """

    graph: int
    lanes: int = 0
    token_log: int = 0
    paths: int = 0
    log_probs: int = 0
    batch: int = 0
    pinned: int = 0
    language_models: int = 0
    bucketed: int = 0
    boosts: int = 0
    streams: int = 0

    @property
    def device_bytes(self) -> int:
        """All but the pinned memory."""
        kept = self.graph, self.language_models, self.boosts, self.streams
        return sum(kept) + self.lanes + self.token_log + self.paths + self.log_probs + self.batch
