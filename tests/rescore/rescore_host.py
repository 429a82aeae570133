"""A host for the search kernel with a large language model under the emulator."""

from typing import Any, ClassVar

import numpy as np

from arcbeam import CtcDecoder
from arcbeam.ctc.gpu.models._requests import HostLookups
from arcbeam.lm._lm_buckets import Buckets
from tests.decode.lattices import lattices, of_kernel, packed
from tests.decode.search_host import SearchHost
from tests.decode.search_layout import DECODED, NEED_REQUEST_ROOM, padded, tokens_bytes
from tests.rescore import answering
from tests.simt.build import kernel_params

COLUMNS = (
    "labels.low", "labels.high", "first.offsets", "first.bases", "first.wide", "backoff.steps", "backoff.bases",
    "backoff.wide", "arcs", "backoff.weights",
)  # fmt: skip


REQUESTS = np.dtype([("memory", "u8"), ("mapped", "u8"), ("answer_buffer", "u8"), ("size", "u4"), ("slot", "u4")])
NOBODY, ARCS, MODEL = 0, 1, 2


def lm_view(model, without=()):
    """Of columns that are not there the view has no address."""
    columns = [np.uint64(0) if name in without else np.ascontiguousarray(model.columns[name]) for name in COLUMNS]
    sizes = {
        "num_states": len(model.columns["backoff.weights"]), "num_arcs": len(model.columns["arcs"]),
        "num_wide_firsts": len(model.columns["first.wide"]), "num_wide_backoffs": len(model.columns["backoff.wide"]),
        "high_bits": model.about["high_bits"], "start": model.about["start"], "num_labels": model.about["num_labels"],
    }  # fmt: skip
    fields: dict[str, Any] = {f"column{i}": column for i, column in enumerate(columns)}
    return kernel_params(**fields, **{name: np.uint32(size) for name, size in sizes.items()})


def bits_view(bits):
    return kernel_params(small=np.uint32(bits[0]), boost=np.uint32(bits[1]))


class RescoreHost(SearchHost):
    source, entry = "cuda/rescore/kernels/rescore.cu", "arcbeam_rescore_{}"
    of_buckets = "cuda/rescore/kernels/bucketed.cu", "arcbeam_bucketed_{}"
    of_those_that_ask: ClassVar[dict[int, str]] = {ARCS: "asking_arcs", MODEL: "asking"}
    control_bytes = 208 + 160
    streams_apart = False

    def __init__(
        self,
        graph,
        rescoring,
        *,
        beam,
        hypotheses_per_state=None,
        cache=0,
        asks=NOBODY,
        requests=8,
        answers_every=0,
        wait_cycles=200,
        histories=20,
        looks=0,
        in_buckets=0.0,
        **options,
    ):
        self.buckets = None
        self.boosts, self.bits = np.uint64(0), (0, 0)
        if in_buckets:
            self.source, self.entry = self.of_buckets
            self.buckets = Buckets(rescoring.large.columns, rescoring.large.about, in_buckets)
        if asks != NOBODY:
            name = self.of_those_that_ask[asks]
            self.source, self.entry = f"cuda/rescore/{name}.cu", f"arcbeam_{name}_{{}}"
            self.sources_of_the_host = answering.SOURCES
        super().__init__(graph, beam=beam, **options)
        self.rescoring = rescoring
        self.per_state = hypotheses_per_state or 0
        self.counters = np.zeros(7, np.uint64)
        self.cache_size = cache
        self.cache = np.zeros((2 if asks == ARCS else 4) * cache, np.uint64)
        self.asks, self.request_size, self.answers_every, self.wait_cycles = asks, requests, answers_every, wait_cycles
        if asks != NOBODY:
            self.answerer = HostLookups(rescoring)
            self.lookups = answering.Answering(self.kernels, self.answerer, copies=asks == ARCS, looks=looks)
        self.views, self.request_memory = np.zeros(1, REQUESTS), {}
        self.history_words = np.zeros(0, np.uint32)
        if asks == MODEL:
            self.history_words = np.zeros(histories * self.answerer.words_a_history, np.uint32)
            self.answerer.write_words_to(self.history_words)
            self.lookups.write_rows_to(self.history_words, self.answerer.words_a_history)
        of_states = graph.states
        epsilon = np.zeros(len(graph.words), bool)
        for first, end in zip(of_states["first_arc"][:-1], of_states["first_emitting"][:-1], strict=True):
            epsilon[first:end] = True
        self.epsilon_words = bool((graph.words[epsilon] != 0).any())

    def params(self, search):
        rescoring = self.rescoring
        lms = kernel_params(
            large=self.large_view(), small=lm_view(rescoring.small), large_labels=rescoring.large_labels,
            small_labels=rescoring.small_labels, large_scale=np.float32(rescoring.large_scale),
            small_scale=np.float32(rescoring.small_scale),
        )  # fmt: skip
        words = {"history_words": self.history_words} if self.asks == MODEL else {"history_words": np.uint64(0)}
        params = kernel_params(
            search=search, lms=lms, words=self.graph.words, counters=self.counters,
            cache=kernel_params(entries=self.cache, size=np.uint32(self.cache_size)),
            views=self.views, **words, per_state=np.uint32(self.per_state), epsilon_words=np.uint32(self.epsilon_words),
            index_is_near=np.uint32(0),
            words_a_history=np.uint32(self.answerer.words_a_history if self.asks == MODEL else 0),
            buckets=self.buckets_view(), boosts=self.boosts, bits=bits_view(self.bits),
        )  # fmt: skip
        params.arrays |= self.request_memory
        return params

    def buckets_view(self):
        made = self.buckets
        if made is None:
            return kernel_params(**{f"word{i}": np.uint64(0) for i in range(5)})
        parts, buckets, _ = made.entries.shape
        return kernel_params(
            chains=made.chains, words=made.words, entries=made.entries, links=np.uint32(made.chains.shape[1]),
            parts=np.uint32(parts), buckets=np.uint32(buckets), seed=np.uint32(made.seed),
        )  # fmt: skip

    def large_view(self):
        """The columns of the large model that a kernel may read."""
        if self.buckets is not None:
            return lm_view(self.rescoring.large, COLUMNS)
        if self.asks != MODEL:
            return lm_view(self.rescoring.large, () if self.asks == NOBODY else ("arcs", "backoff.weights"))
        model = self.rescoring.kenlm
        return kernel_params(
            **{f"column{i}": np.uint64(0) for i in range(len(COLUMNS))},
            **{f"size{i}": np.uint32(0) for i in range(6)},
            num_labels=np.uint32(model.end_sentence),
        )

    def begin(self, lanes):
        self.views, self.request_memory = np.zeros(lanes, REQUESTS), {}
        if self.asks != NOBODY:
            self.make_buffers(self.request_size)

    def beside(self):
        return (*self.lookups.beside_a_kernel(), self.answers_every) if self.answers_every else None

    def make_buffers(self, size):
        """New ones; of lanes that ask for arcs with an answer buffer for the even ones and one for the odd ones."""
        slots = (len(self.views) + 1) // 2
        answer_buffers = []
        if self.asks == ARCS:
            answer_buffers, self.buffers = (
                [np.zeros(128 + 16 * slots + 8 * slots * size, np.uint8) for _ in "01"] for _ in "01"
            )
        self.request_memory = {f"answers[{half}]": memory for half, memory in enumerate(answer_buffers)}
        for number in range(len(self.views)):
            memory, mapped = np.full(24 * size, 0xFF, np.uint8), np.zeros(128 + 16 * size, np.uint8)
            self.request_memory |= {f"requests[{number}]": memory, f"mapped requests[{number}]": mapped}
            answer_buffer = answer_buffers[number % 2].ctypes.data if answer_buffers else 0
            self.views[number] = (memory.ctypes.data, mapped.ctypes.data, answer_buffer, size, number // 2)
        self.lookups.have(self.views, self.buffers if answer_buffers else ())

    def answer(self, number, need):
        if need == NEED_REQUEST_ROOM:
            self.make_buffers(2 * int(self.views[number]["size"]))  # what others wait for they will ask again
            return
        while not self.lookups.answer():
            words = np.zeros(2 * len(self.history_words), np.uint32)
            self.answerer.move_words_to(words)
            self.lookups.write_rows_to(words, self.answerer.words_a_history)
            self.history_words = words

    @staticmethod
    def tokens_bytes(capacity):
        return tokens_bytes(capacity) + padded(8 * capacity)

    @staticmethod
    def table_bytes(candidates, table_size):
        return 20 * table_size

    @staticmethod
    def workspace_bytes(capacity, candidates, table_size):
        return 24 * table_size + 56 * capacity + 40 * candidates

    @staticmethod
    def move_histories(larger, old, capacity, before, num_tokens):
        to, source = tokens_bytes(capacity), tokens_bytes(before)
        larger[to : to + 8 * num_tokens] = old[source : source + 8 * num_tokens]


def check(
    graph,
    models,
    batch,
    *,
    room=None,
    shape=None,
    schedule=None,
    from_host=None,
    cache=0,
    asks=NOBODY,
    requests=8,
    lm_scale=1.0,
    answers_every=0,
    wait_cycles=200,
    histories=20,
    looks=0,
    unknown_words="error",
    in_buckets=0.0,
    **options,
):
    """Decodes with the kernel and with the twin: the same in every byte."""
    large, small = models
    decoder = CtcDecoder(
        graph,
        language_model=large,
        graph_language_model=small,
        lm_scale=lm_scale,
        device="cpu",
        threads=1,
        unknown_words=unknown_words,
        **options,
    )
    host = RescoreHost(
        graph,
        decoder._rescoring,
        room=room,
        cache=cache,
        asks=asks,
        requests=requests,
        answers_every=answers_every,
        wait_cycles=wait_cycles,
        histories=histories,
        looks=looks,
        in_buckets=in_buckets,
        **options,
    )
    found = host.decode(batch, shape, from_host=from_host, **(schedule or {}))
    for got, want, logp in zip(found, decoder.decode(batch), batch, strict=True):
        assert got.outcome == DECODED
        assert got.arcs.tolist() == want.arcs.tolist()
        assert np.float64(got.total_cost).tobytes() == np.float64(0.0 - want.partial_score).tobytes()
        assert got.reached_final == want.reached_final
        assert (got.work[0] == len(logp)) == want.complete  # by which the host tells that a search has died
    stats = decoder.stats
    work = np.sum([got.work for got in found], axis=0).tolist() if found else [0] * 4
    assert work == [stats.frames, stats.tokens, stats.leaving_arcs, stats.admitted]
    assert host.counters[0] == stats.lookups
    return host


def check_lattices(graph, models, batch, *, shape=None, schedule=None, lm_scale=1.0, **options):
    """Decodes with the kernel and with the twin: the same lattices in every byte.

    options : of both, and of `RescoreHost`
    """
    large, small = models
    of_both = {name: options[name] for name in ("beam", "max_active", "hypotheses_per_state", "lattice_beam")
               if name in options}  # fmt: skip
    decoder = CtcDecoder(
        graph, language_model=large, graph_language_model=small, lm_scale=lm_scale, device="cpu", threads=1, **of_both
    )
    host = RescoreHost(graph, decoder._rescoring, **options)
    found = host.decode(batch, shape, **(schedule or {}))
    assert of_kernel(graph, batch, found) == [packed(lattice) for lattice in lattices(decoder, batch)]
    return host
