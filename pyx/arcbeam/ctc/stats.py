"""What a decode counts, and what a decoder holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DecodeStats:
    """What one call of :meth:`arcbeam.CtcDecoder.decode` did, summed over its utterances.

    None: not counted on this device, or nobody does it. All others are the same on both devices, but for
    ``lookup_misses``. An utterance with NaN, returned with its error, counts nothing, but on a GPU what it looked up.

    Attributes
    ----------
    frames, tokens : int
        Frames, and the tokens that survived in them.
    expanded_tokens : int or None
        Tokens that left (CPU).
    leaving_arcs : int
        Emitting arcs of the tokens that left.
    read_arcs : int or None
        Those of them that were scored; the others were proven inadmissible unread (CPU).
    candidates : int or None
        Those that passed the bound known at the time (CPU).
    admitted : int
        Those that passed the exact bound, and the start of each utterance.
    lookups : int
        Words that were rescored.
    distinct_lookups : int or None
        Of these the distinct ones of each step of a frame, which are asked once for all hypotheses that share them
        (where they are few, for one); with ``placement="host"`` the arcs and back-off weights that they need, one to as
        many as the model's order each (GPU).
    lookup_misses : int
        What the cache did not answer: of ``lookups`` on a CPU, of ``distinct_lookups`` on a GPU. Where the host looks
        up or fetches, what it was asked, ends of sentences left out.
    model_bytes_read : int or None
        Bytes of the large model, in sectors of 32, over the bus where it is in host memory; where the host looks up or
        fetches, of questions and answers (GPU).
    lookup_rounds, lookup_copies : int or None
        Rounds in which the host was asked, and copies in which arcs travelled (``placement="host"`` and ``"cpu"``, and
        ``"host"``; Fukunaga et al. 2019).
    lookup_waiting : float or None
        Share of its time that a lane waited for the host.
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
        """The share of the look-ups, on a GPU of the distinct ones, that the cache answered; None without any."""
        asked = self.lookups if self.distinct_lookups is None else self.distinct_lookups
        return 1 - self.lookup_misses / asked if asked else None


NOTHING = DecodeStats(0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class DecoderMemory:
    """Bytes that a decoder holds on its device, by purpose; on the CPU models and graph alone, in host memory.

    Attributes
    ----------
    graph : int
        Shared by the decoders of one graph on one device.
    lanes, token_log : int
        Room for frames, and the back-pointers.
    paths, log_probs, batch : int
        Results, log-probs that came from host memory, and what describes a batch.
    pinned : int
        Memory of the host that copies go through, or where kernels read a language model, and with ``placement="host"``
        the arcs of one, pinned where they are. Managed memory counts; pageable memory, where the host refuses to pin,
        does not.
    language_models : int
        The models that rescore, shared, too, with the arc cache and answers of the host; a KenLM model has the size of
        its file.
    bucketed : int
        Of ``pinned``, a model in buckets, whose index has no room on the device (``placement="host-direct"``).
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

    @property
    def device_bytes(self) -> int:
        """All but the pinned memory."""
        parts = self.graph, self.lanes, self.token_log, self.paths, self.log_probs, self.batch, self.language_models
        return sum(parts)
