"""Lattices of beam search, and merging by context (law 12): the twin against the law, and against all paths."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import TransducerDecoder
from tests.hypothesis_examples import examples
from tests.transducer import beam_oracle, test_beam_fusion, test_beam_law
from tests.transducer.beam_oracle import replace
from tests.transducer.beam_searches import DURATIONS, INF, PREDICTIONS, entries_of, model_of, wanted
from tests.transducer.networks import random_arrays, random_frames

pytestmark = test_beam_fusion.pytestmark
CONTEXTS = [None, 1, 2, 3]


def decode(arrays, batch, blank=0, *, boost=None, **options):
    options = {"device": "cpu", "threads": 1, **options}
    decoder = TransducerDecoder.from_arrays(arrays, blank, **options)
    return decoder.decode(batch, nbest=decoder.options.max_hypotheses, boost=boost, lattice=True)


def kept_of(hypothesis):
    """What the twin has kept, as lists."""
    frames, depths, arcs = hypothesis._make_lattice.args[1].__self__.lattice(hypothesis._place)
    return list(zip(frames.tolist(), depths.tolist(), strict=True)), arcs.tobytes()


def kept_in(lattice):
    """The same of the oracle."""
    dtype = [(name, np.uint32) for name in ("source", "target", "label", "duration")]
    dtype += [(name, np.float32) for name in ("log_prob", "score")]
    rows = [(a.source, a.target, a.label, a.duration, a.log_prob, a.score) for a in lattice.arcs]
    return lattice.tokens, np.array(rows, dtype).tobytes()


def paths_of(lattice):
    """[(tokens, score)] of all paths of a lattice."""
    links, ends = lattice.links, np.isfinite(lattice.final_scores)
    leaving = [[] for _ in range(lattice.num_tokens)]
    for link in range(lattice.num_links):
        leaving[links["source"][link]].append(link)
    paths, waiting = [], [(0, (), 0.0)]
    while waiting:
        token, labels, score = waiting.pop()
        if ends[token]:
            paths.append((labels, score + lattice.final_scores[token]))
        for link in leaving[token]:
            word = int(lattice.words[link])
            after = (*labels, word - 1) if word else labels
            waiting.append((links["target"][link], after, score + lattice.scores[link]))
    return paths


def by_text(paths):
    texts = {}
    for tokens, score in paths:
        texts.setdefault(tokens, []).append(score)
    return texts


@settings(max_examples=examples(60), deadline=None)
@given(case=test_beam_law.searches(), merge_context=st.sampled_from(CONTEXTS))
def test_the_twin_obeys_the_law(case, merge_context):
    """To the byte, pruned or not."""
    arrays, frames, blank, options, network = case
    if merge_context is not None:
        options |= {"settle_frames": None}
    durations, max_symbols, *rest = options.values()
    model = model_of(arrays, frames, blank, durations, max_symbols, **network)
    found, lattice = beam_oracle.search_with_lattice(model, *rest, merge_context)
    [twin] = decode(arrays, [frames], blank, merge_context=merge_context, **options, **network)
    assert kept_of(twin) == kept_in(lattice)
    assert entries_of(twin) == wanted(found, durations)


@settings(max_examples=examples(40), deadline=None)
@given(case=test_beam_fusion.searches(), merge_context=st.sampled_from([1, 2]))
def test_the_twin_obeys_the_law_with_models(tmp_path_factory, case, merge_context):
    """Histories merge only if the states of all automata are equal."""
    arrays, frames, blank, (seed, which), options, network = case
    durations, max_symbols, *rest = options.values()
    tokens = len(arrays["output_weight"]) - len(durations or ())
    folder = tmp_path_factory.mktemp("lm")
    given, tree, models = test_beam_fusion.drawn_models(folder, seed, tokens, blank, which)
    model = model_of(arrays, frames, blank, durations, max_symbols, models, **network)
    found, lattice = beam_oracle.search_with_lattice(model, *rest, merge_context=merge_context)
    [twin] = decode(arrays, [frames], blank, boost=tree, merge_context=merge_context, **options, **network, **given)
    assert kept_of(twin) == kept_in(lattice)
    assert entries_of(twin) == wanted(found, durations)


@pytest.mark.parametrize("durations", DURATIONS, ids=str)
@pytest.mark.parametrize("shape", PREDICTIONS, ids=lambda shape: "-".join(map(str, shape.values())))
def test_a_lattice_has_all_paths_where_nothing_is_pruned(durations, shape):
    """Each text's paths add up to its probability, and its best is its strongest path; merged or not."""
    for seed, max_symbols, frames in [(1, 1, 4), (2, 2, 3)]:
        arrays = random_arrays(seed, tokens=3, durations=len(durations or ()), **shape)
        x = random_frames(seed, frames)
        model = model_of(arrays, x, 0, durations, max_symbols)
        options = {"durations": durations, "max_symbols": max_symbols, "beam": INF, "max_hypotheses": 4096}
        sums, largest = (beam_oracle.every_history(model, merge) for merge in ("sum", "max"))
        [found] = decode(arrays, [x], **options)
        texts = by_text(paths_of(found.lattice))
        assert texts.keys() == sums.keys()
        for text, scores in texts.items():
            assert beam_oracle.log_sum(scores) == pytest.approx(sums[text], abs=2e-5)
            assert max(scores) == pytest.approx(largest[text], abs=2e-5)
        assert {tuple(one.tokens.tolist()) for one in found.nbest} == texts.keys()
        for merge_context in (1, 2):
            [merged] = decode(arrays, [x], merge_context=merge_context, **options)
            assert by_text(paths_of(merged.lattice)).keys() == sums.keys()
            assert len(merged.nbest) < len(found.nbest)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("merge", ["sum", "max"])
def test_the_list_and_the_lattice(seed, merge):
    """Every entry of the list is in the lattice; unmerged, its score is that of its paths there."""
    draw = random.Random(seed)
    durations = draw.choice(DURATIONS)
    arrays = random_arrays(seed, tokens=5, durations=len(durations or ()), **draw.choice(PREDICTIONS))
    options = {"durations": durations, "max_symbols": draw.choice([1, 2]), "beam": 3.0, "max_hypotheses": 4}
    for merge_context in CONTEXTS:
        [found] = decode(arrays, [random_frames(seed, 6)], merge=merge, merge_context=merge_context, **options)
        texts = by_text(paths_of(found.lattice))
        for entry in found.nbest:
            scores = texts[tuple(entry.tokens.tolist())]
            score = beam_oracle.log_sum(scores) if merge == "sum" else max(scores)
            if merge_context is None:
                assert entry.score == pytest.approx(score, abs=1e-4)
            else:
                assert entry.score <= score + 1e-4
        if merge_context is None:
            assert len(texts) == len(found.nbest)
            total = beam_oracle.log_sum([score for scores in texts.values() for score in scores])
            for entry in found.lattice.nbest(8):
                text = tuple((entry.word_ids.astype(int) - 1).tolist())
                assert entry.score == pytest.approx(max(texts[text]), abs=1e-4)
                assert entry.posterior == pytest.approx(math.exp(beam_oracle.log_sum(texts[text]) - total), abs=1e-4)
                if merge == "sum":
                    [one] = [one for one in found.nbest if tuple(one.tokens.tolist()) == text]
                    assert entry.posterior == pytest.approx(one.posterior, abs=1e-4)
        if merge == "max" and merge_context is None:
            assert found.lattice.total_cost == pytest.approx(-found.score, abs=1e-4)


@pytest.mark.parametrize(("durations", "length"), [(None, 320), ([0, 1, 2, 3, 4], 160)], ids=str)
def test_a_long_utterance(durations, length):
    """What leads nowhere is dropped on the way, and the lattice is the same."""
    arrays = random_arrays(3, tokens=6, durations=len(durations or ()), layers=1)
    frames = random_frames(3, length)
    options = {"durations": durations, "max_symbols": 2, "beam": 6.0, "max_hypotheses": 8}
    [found] = decode(arrays, [frames], merge_context=2, **options)
    model = model_of(arrays, frames, 0, durations, 2)
    lattice = beam_oracle.search_with_lattice(model, 6.0, 8, merge_context=2)[1]
    assert kept_of(found) == kept_in(lattice)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam_oracle.Lattice, "that_ends", lambda self, first: self)
        grown = beam_oracle.search_with_lattice(model, 6.0, 8, merge_context=2)[1]
    assert len(grown.arcs) > 4096  # from which on the log is shortened


def test_neither_threads_nor_the_batch_nor_the_lattice_matter():
    arrays = random_arrays(8, tokens=9, layers=1)
    batch = [random_frames(seed, frames) for seed, frames in enumerate([30, 0, 7, 64, 1, 33, 12])]
    options = {"beam": 4.0, "max_hypotheses": 6, "max_symbols": 2, "merge_context": 2}
    alone = [decode(arrays, [frames], **options)[0] for frames in batch]
    together = decode(arrays, batch, threads=3, **options)
    backwards = decode(arrays, batch[::-1], threads=2, **options)[::-1]
    for found in (together, backwards):
        assert [kept_of(one) for one in found] == [kept_of(one) for one in alone]
        assert [one.lattice._arrays["links"].tobytes() for one in found] == [
            one.lattice._arrays["links"].tobytes() for one in alone
        ]
    decoder = TransducerDecoder.from_arrays(arrays, 0, device="cpu", **options)
    without = decoder.decode(batch, nbest=6)
    assert [entries_of(one) for one in without] == [entries_of(one) for one in alone]
    assert all(one.lattice is None for one in without)


def test_a_context_longer_than_the_text_merges_nothing():
    arrays = random_arrays(9, tokens=5, layers=2)
    frames = random_frames(9, 12)
    options = {"beam": 5.0, "max_hypotheses": 8, "max_symbols": 2}
    [plain], [merged] = decode(arrays, [frames], **options), decode(arrays, [frames], merge_context=24, **options)
    assert entries_of(plain) == entries_of(merged)
    assert kept_of(plain) == kept_of(merged)


# --- rules that are wrong, which a comparison must show ------------------------------------------------------------


def first_arrival_stays(_):
    def cut_off(self, bound, most, context):
        first = {}
        for one in self.found.values():
            first.setdefault(context(one.history), one)
        live = [one for one in first.values() if one.score >= bound]
        return sorted(live, key=lambda one: -one.score)[:most]

    return cut_off


def merged_after_the_cut_off(cut_off):
    def wrong(self, bound, most, context):
        live = cut_off(self, bound, most, lambda history: history)
        contexts = {}
        for one in live:
            contexts.setdefault(context(one.history), one)
        return list(contexts.values())

    return wrong


def only_equal_histories_stay_linked(_):
    def add(self, place, live, bucket, context):
        numbers = {one.history: number for number, one in enumerate(live, len(self.tokens))}
        self.tokens += [place] * len(live)
        arcs = [(numbers[history], arc) for history, arc in bucket.arrivals if history in numbers]
        self.arcs += [replace(arc, target=target) for target, arc in arcs]
        return len(self.tokens) - len(live)

    return add


def in_the_order_of_sources(meeting):
    def wrong(buckets, sums):
        end = meeting(buckets, sums)
        end.arrivals.sort(key=lambda arrival: arrival[1].source)
        return end

    return wrong


def without_arrivals(settled):
    return lambda *given: {frame: replace(bucket, arrivals=[]) for frame, bucket in settled(*given).items()}


WRONG = {
    "the first arrival stays": ("Bucket.cut_off", first_arrival_stays),
    "contexts are merged after the cut-off": ("Bucket.cut_off", merged_after_the_cut_off),
    "histories overtake, not contexts": ("overtaken", lambda overtaken: lambda buckets, most, context: overtaken(
        buckets, most, lambda history: history)),
    "only equal histories stay linked": ("Lattice.add", only_equal_histories_stay_linked),
    "one label more has to be equal": ("Model.context", lambda context: lambda self, history, labels: context(
        self, history, labels + 1)),
    "what leads nowhere stays": ("Lattice.that_ends", lambda _: lambda self, first: self),
    "arcs that pass the end arrive in the order of their sources": ("meeting", in_the_order_of_sources),
    "no arc leads to a frame whose histories have been dropped": ("settled", without_arrivals),
    "arcs have the score of all that came before": ("arc_of", lambda arc_of: lambda model, source, *rest: replace(
        arc_of(model, source, *rest), score=source.score + arc_of(model, source, *rest).score)),
}  # fmt: skip


@pytest.fixture(scope="module")
def compared():
    """(model, options of the search, what the twin finds) of searches in which every rule counts."""
    found = []
    for seed in range(20):
        draw = random.Random(seed)
        durations, most, beam = draw.choice(DURATIONS), draw.choice([2, 4, 6]), draw.choice([3.0, INF])
        arrays = random_arrays(seed, tokens=4, durations=len(durations or ()), **draw.choice(PREDICTIONS))
        frames, max_symbols, labels = random_frames(seed, 8), draw.choice([1, 3]), draw.choice([1, 2])
        rules = {"merge_context": labels} if seed % 4 < 3 else {"settle_frames": labels}
        [twin] = decode(
            arrays, [frames], durations=durations, max_symbols=max_symbols, beam=beam, max_hypotheses=most, **rules
        )  # fmt: skip
        model = model_of(arrays, frames, 0, durations, max_symbols)
        found.append((model, (beam, most), rules, (kept_of(twin), entries_of(twin))))
    return found


def differing(compared):
    for model, limits, rules, twin in compared:
        found, lattice = beam_oracle.search_with_lattice(model, *limits, **rules)
        if (kept_in(lattice), wanted(found, model.durations)) != twin:
            return True
    return False


def test_no_rule_is_wrong(compared):
    assert not differing(compared)


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_seen(compared, monkeypatch, rule):
    beam_oracle.put_wrong(monkeypatch, *WRONG[rule])
    assert differing(compared)
