"""Hosts for the search kernels with boosts under the emulator: without language models, and with them."""

import numpy as np

from arcbeam import CtcDecoder
from arcbeam.ctc.gpu.models import new_words_layout
from arcbeam.ctc.gpu.searches import graph_layout
from tests.decode.lattices import lattices, numbered, packed
from tests.decode.search_host import SearchHost
from tests.decode.search_layout import DECODED, NONE
from tests.rescore.rescore_host import ARCS, MODEL, REQUESTS, RescoreHost, bits_view
from tests.simt.build import kernel_params

VIEW = np.dtype([("states", "u8"), ("arcs", "u8"), ("mask", "u4"), ("unused", "u4")])


def views_of(lists):
    """Of compiled lists, and the arrays that they point into by their names."""
    views, arrays = np.zeros(len(lists), VIEW), {}
    for row, made in zip(views, lists, strict=True):
        states, arcs = made.states, made.arcs
        row["states"], row["arcs"], row["mask"] = states.ctypes.data, arcs.ctypes.data, len(arcs) - 1
        arrays |= {f"states of {id(made)}": states, f"arcs of {id(made)}": arcs}
    return views, arrays


class BoostHost(RescoreHost):
    source, entry = "cuda/rescore/kernels/boosted.cu", "arcbeam_boosted_{}"

    def __init__(self, graph, lists, **options):
        super().__init__(graph, None, **options)
        self.has_clusters = self.has_clusters and options.get("lattice_beam") is None
        self.boosts, self.keep = views_of(lists)

    def params(self, search):
        lm = {f"column{i}": np.uint64(0) for i in range(10)} | {f"size{i}": np.uint32(0) for i in range(7)}
        nothing = np.uint64(0)
        params = kernel_params(
            search=search, lms=kernel_params(
                large=kernel_params(**lm), small=kernel_params(**lm), large_labels=nothing, small_labels=nothing,
                large_scale=np.float32(0), small_scale=np.float32(0),
            ),
            words=self.graph.words, counters=self.counters, cache=kernel_params(entries=nothing, size=np.uint32(0)),
            views=np.zeros(1, REQUESTS), history_words=nothing, per_state=np.uint32(0),
            epsilon_words=np.uint32(self.epsilon_words), index_is_near=np.uint32(0), words_a_history=np.uint32(0),
            buckets=self.buckets_view(), boosts=self.boosts, bits=bits_view(self.bits),
        )  # fmt: skip
        params.arrays |= self.keep
        return params


ON_DEVICE = np.dtype([(name, "u8") for name in ("states", "targets", "labels", "finals", "words", "columns")] + [
    ("has_words", "u4"), ("unused", "u4")
])  # fmt: skip


class SlotHost(SearchHost):
    """Mixed into a host with boosts: its lists may have new words."""

    def have_new_words(self, graph, lists):
        self.own = np.zeros(len(lists), ON_DEVICE)
        self.first_word, self.entrances = NONE, np.zeros(1, new_words_layout.ENTRANCE)
        labels = graph_layout.labels(graph.states, graph.targets, graph.columns, graph.num_columns)
        last = new_words_layout.last_labels(labels, graph.num_arcs)
        for number, (row, made) in enumerate(zip(self.own, lists, strict=True)):
            if made.new_words is None:
                continue
            self.first_word = made.new_words.first_word
            self.entrances = new_words_layout.entrances(graph.states, graph.open_slot)
            row["has_words"] = 1
            for name, (column, before) in zip(
                ON_DEVICE.names, new_words_layout.columns(graph, made.new_words, last), strict=False
            ):
                column = aligned(column)
                self.keep[f"{name} of {number}"] = column
                row[name] = (column.ctypes.data - before) % 2**64

    def params(self, search):
        slot = kernel_params(
            of_utterances=self.own, entrances=self.entrances, num_states=np.uint32(self.graph.num_states),
            num_arcs=np.uint32(self.graph.num_arcs), first_word=np.uint32(self.first_word),
        )  # fmt: skip
        return kernel_params(rescoring=super().params(search), slot=slot)


class NewWordsHost(SlotHost, BoostHost):
    source, entry = "cuda/rescore/kernels/new_words.cu", "arcbeam_new_words_{}"

    def __init__(self, graph, lists, **options):
        super().__init__(graph, lists, **options)
        self.have_new_words(graph, lists)


def aligned(column, to=32):
    """A copy at an address that is a multiple of so many bytes."""
    memory = np.zeros(len(column) + to, np.uint8)
    first = -memory.ctypes.data % to
    memory[first : first + len(column)] = column
    return memory[first : first + len(column)]


class WholeGraph:
    """A graph with a request, as `tests.decode.lattices.numbered` reads it."""

    def __init__(self, graph, new_words):
        self.start = graph.start
        self.states, self.targets = graph.states, graph.targets
        if new_words is not None:
            self.states = np.concatenate([graph.states[:-1], new_words.states])
            self.targets = np.concatenate([graph.targets, new_words.targets])


class BoostRescoreHost(RescoreHost):
    """`bits` : of a history, for the state of the small model and for that of the boost."""

    source, entry = "cuda/rescore/kernels/boosted_rescore.cu", "arcbeam_boosted_rescore_{}"
    of_buckets = source, entry
    has_clusters = False

    def __init__(self, graph, rescoring, lists, bits, **options):
        super().__init__(graph, rescoring, **options)
        self.boosts, self.keep = views_of(lists)
        self.bits = bits

    def params(self, search):
        params = super().params(search)
        params.arrays |= self.keep
        return params


class NewWordsRescoreHost(SlotHost, BoostRescoreHost):
    """With lists that have new words, or with a model that lanes ask the host for (`asks`)."""

    source, entry = "cuda/rescore/kernels/new_words_rescore.cu", "arcbeam_new_words_rescore_{}"
    of_buckets = source, entry
    of_those_that_ask = dict.fromkeys((ARCS, MODEL), "boosted_asking")

    def __init__(self, graph, rescoring, lists, bits, **options):
        super().__init__(graph, rescoring, lists, bits, **options)
        self.have_new_words(graph, lists)


def check(graph, boosts, batch, *, shape=None, schedule=None, lattice_beam=None, **options):
    """Decodes with the kernel and with the twin: the same paths, or the same lattices, in every byte."""
    of_both = {name: options[name] for name in ("beam", "max_active", "acoustic_scale") if name in options}
    more = {} if lattice_beam is None else {"lattice_beam": lattice_beam}
    decoder = CtcDecoder(graph, device="cpu", threads=1, **of_both, **more)
    host = BoostHost(graph, [boost.compiled(graph) for boost in boosts], **options, **more)
    return _check_same(host, decoder, graph, boosts, batch, lattice_beam, shape, schedule)


def check_new_words(graph, boosts, batch, *, lattice_beam, shape=None, schedule=None, **options):
    """The same for lists with new words; with a beam of None, paths."""
    of_both = {name: options[name] for name in ("beam", "max_active") if name in options}
    more = {} if lattice_beam is None else {"lattice_beam": lattice_beam}
    decoder = CtcDecoder(graph, device="cpu", threads=1, **of_both, **more)
    lists = [boost.compiled(graph) for boost in boosts]
    host = NewWordsHost(graph, lists, **options, **more)
    return _check_same(host, decoder, graph, boosts, batch, lattice_beam, shape, schedule)


def check_rescored(
    graph, models, boosts, batch, *, bits, shape=None, schedule=None, lattice_beam=None, lm_scale=1.0,
    unknown_words="error", **options,
):  # fmt: skip
    """The same with a large language model; `asks`, with others, of :class:`RescoreHost`."""
    of_both = {name: options[name] for name in ("beam", "max_active", "hypotheses_per_state") if name in options}
    more = {} if lattice_beam is None else {"lattice_beam": lattice_beam}
    decoder = CtcDecoder(
        graph, language_model=models[0], graph_language_model=models[1], lm_scale=lm_scale, device="cpu", threads=1,
        unknown_words=unknown_words, **of_both, **more,
    )  # fmt: skip
    lists = [boost.compiled(graph) for boost in boosts]
    opens = "asks" in options or any(one.new_words is not None for one in lists)
    kind = NewWordsRescoreHost if opens else BoostRescoreHost
    host = kind(graph, decoder._rescoring, lists, bits, **options, **more)
    _check_same(host, decoder, graph, boosts, batch, lattice_beam, shape, schedule)
    if lattice_beam is None:
        assert host.counters[0] == decoder.stats.lookups
    return host


def _check_same(host, decoder, graph, boosts, batch, lattice_beam, shape, schedule):
    found = host.decode(batch, shape, **(schedule or {}))
    _same_paths(found, decoder, boosts, batch)
    if lattice_beam is not None:
        wanted = lattices(decoder, batch, boost=boosts)
        for one, logp, boost, lattice in zip(found, batch, boosts, wanted, strict=True):
            whole = WholeGraph(graph, boost.compiled(graph).new_words)
            assert packed(numbered(whole, one, len(logp))) == packed(lattice)
    return host


def _same_paths(found, decoder, boosts, batch):
    for got, want in zip(found, decoder.decode(batch, boost=boosts), strict=True):
        assert got.outcome == DECODED
        assert got.arcs.tolist() == want.arcs.tolist()
        assert np.float64(got.total_cost).tobytes() == np.float64(0.0 - want.partial_score).tobytes()
        assert got.reached_final == want.reached_final
