"""Beam search of transducers (law 12) as plainly as it can be said, and what it must find where nothing is pruned.

`search` is the law in float32, with the arithmetic of ``oracle.py``. `every_history` goes through all paths of a tiny
network in float64, and `full_sum` adds up the paths of one sequence of labels. A path is frames, labels and durations.
"""

import copy
import math
import sys
from dataclasses import dataclass, field, replace

import numpy as np

from tests.transducer import oracle
from tests.transducer.oracle import F

INF = math.inf


class Networks:
    """Log-probs after a history on a frame, as the twin's arithmetic has them: each history and frame is run once."""

    def __init__(self, arrays, frames, blank, durations=None, activation="tanh", relu=False, precision="float32"):
        self.rounding = oracle.ROUNDINGS[precision]
        self.arrays = oracle.rounded_weights(arrays) if precision == "bfloat16" else arrays
        start = (
            oracle.Lstm(self.arrays, self.rounding)
            if "weight_hh_l0" in arrays
            else oracle.Stateless(self.arrays, relu, self.rounding)
        )
        self.durations, self.activation = durations, oracle.ACTIVATIONS[activation]
        self.tokens = len(arrays["output_weight"]) - len(durations or ())
        self.encoded = [self._linear("encoder", self.rounding(frame)) for frame in frames]
        self.predicted = {(): self._predict(start, blank)}
        self.rows, self.without_encoder = {}, {}

    def _linear(self, name, x):
        return oracle.linear(self.arrays[f"{name}_weight"], self.arrays.get(f"{name}_bias"), x)

    def _predict(self, network, token):
        network = copy.deepcopy(network)
        return network, self._linear("prediction", network.step(token))

    def prediction(self, history):
        """The prediction network after these labels, and its part of the joint network's hidden layer."""
        if history not in self.predicted:
            network, _ = self.prediction(history[:-1])
            self.predicted[history] = self._predict(network, history[-1])
        return self.predicted[history]

    def log_probs(self, history, frame):
        """float32[tokens] and float32[durations]; for an RNN-T the only duration is 0, with a log-prob of 0."""
        return self.row(history, frame)[1:]

    def row(self, history, frame):
        """The logits of the tokens, and these log-probs."""
        if (history, frame) not in self.rows:
            tokens, durations = self._joint(self.encoded[frame], history)
            of_durations = log_softmax(durations) if self.durations else [F(0)]
            self.rows[history, frame] = tokens, log_softmax(tokens), of_durations
        return self.rows[history, frame]

    def internal(self, history):
        """The logits of the tokens without the encoder's part."""
        if history not in self.without_encoder:
            self.without_encoder[history], _ = self._joint(F(0), history)
        return self.without_encoder[history]

    def _joint(self, encoded, history):
        hidden = self.rounding(self.activation(encoded + self.prediction(history)[1]))
        logits = self._linear("output", hidden)
        return logits[: self.tokens], logits[self.tokens :]


def log_softmax(logits):
    largest = logits.max()
    return (logits - largest) - oracle.log(oracle.tree(oracle.padded_terms(oracle.exp(logits - largest))))


@dataclass
class Model:
    """What the search is given."""

    networks: Networks
    frames: int
    blank: int
    durations: list | None
    max_symbols: int
    models: object = None  # a `fusion_oracle.BeamModels`

    def scores(self, history, frame):
        """What the search counts: the log-probs, of tokens with what the models make of them."""
        tokens, durations = self.networks.log_probs(history, frame)
        return tokens if self.models is None else self.models.scores(history, frame), durations

    def exact_scores(self, history, frame):
        """The same of tokens in float64, from the definitions."""
        tokens, durations = self.networks.log_probs(history, frame)
        return tokens if self.models is None else self.models.exact_scores(history, frame), durations

    def context(self, history, merge_context):
        """What of a history counts where hypotheses are merged: its last labels and the states of its automata."""
        if merge_context is None:
            return history
        return history[-merge_context:], None if self.models is None else tuple(self.models.state(history))

    @property
    def steps(self):
        """Frames by duration index."""
        return self.durations or [0]

    def after(self, frame, depth, token, duration):
        """Where a step leads: a frame, which may be after the last, and the labels written on it."""
        if token == self.blank or duration > 0 or depth + 1 >= self.max_symbols:
            return frame + max(duration, 1), 0
        return frame, depth + 1


# --- the law -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hypothesis:
    history: tuple
    score: F
    path: F
    labels: tuple = ()  # (token, frame, duration, log-prob) of the strongest single path


@dataclass
class Bucket:
    """Hypotheses by history, in the order of their first arrivals."""

    sums: bool
    found: dict = field(default_factory=dict)
    arrivals: list = field(default_factory=list)  # (history, the arc that leads to it)

    def add(self, one):
        there = self.found.get(one.history)
        if there is None:
            self.found[one.history] = one
            return
        kept = one if one.path > there.path else there
        self.found[one.history] = replace(kept, score=merged(there.score, one.score, self.sums))

    def cut_off(self, bound, most, context):
        live, contexts = [], set()
        for one in sorted(self.found.values(), key=lambda one: -one.score):  # stable
            if one.score >= bound and context(one.history) not in contexts:
                live.append(one)
                contexts.add(context(one.history))
        return live[:most]


def merged(a, b, sums):
    high, low = max(a, b), min(a, b)
    return high + oracle.log(F(1) + oracle.exp(low - high)) if sums else high


@dataclass
class Counts:
    """Live hypotheses of each step, as (frame, depth, histories)."""

    steps: list = field(default_factory=list)


@dataclass
class Arc:
    """A step of a lattice: tokens by number, a label or the blank, the place of its duration, the network's share."""

    source: int
    target: int
    label: int
    duration: int
    log_prob: F
    score: F


@dataclass
class Lattice:
    """Live hypotheses as (frame, depth), and the arcs between them."""

    tokens: list = field(default_factory=list)
    arcs: list = field(default_factory=list)

    def add(self, place, live, bucket, context):
        """Makes tokens of the live hypotheses of a place; returns the number of the first."""
        numbers = {context(one.history): number for number, one in enumerate(live, len(self.tokens))}
        self.tokens += [place] * len(live)
        for history, arc in bucket.arrivals:
            if context(history) in numbers:
                self.arcs.append(replace(arc, target=numbers[context(history)]))
        return len(self.tokens) - len(live)

    def that_ends(self, first):
        """What leads to the tokens from this one on."""
        leads = set(range(first, len(self.tokens)))
        for arc in reversed(self.arcs):
            if arc.target in leads:
                leads.add(arc.source)
        numbers = {token: number for number, token in enumerate(sorted(leads))}
        arcs = [arc for arc in self.arcs if arc.target in leads]
        arcs = [replace(arc, source=numbers[arc.source], target=numbers[arc.target]) for arc in arcs]
        return Lattice([self.tokens[token] for token in sorted(leads)], arcs)


def search(model, beam, most, merge="sum", length_power=0.0, settle_frames=None, merge_context=None, counts=None):
    """[(labels of the strongest path, score)], the best first."""
    return search_with_lattice(model, beam, most, merge, length_power, settle_frames, merge_context, counts)[0]


def search_with_lattice(
    model, beam, most, merge="sum", length_power=0.0, settle_frames=None, merge_context=None, counts=None
):
    """The same, and the lattice."""
    sums, beam, offset, lattice = merge == "sum", F(beam), 0.0, Lattice()

    def context(history):
        return model.context(history, merge_context)

    buckets = {0: Bucket(sums, {(): Hypothesis((), F(0), F(0))})}
    while True:
        frame = min(buckets)
        if frame >= model.frames:
            buckets = {frame: meeting(buckets, sums)}
        best = max(one.score for bucket in buckets.values() for one in bucket.found.values())
        for bucket in buckets.values():
            for history, one in bucket.found.items():
                bucket.found[history] = replace(one, score=one.score - best, path=one.path - best)
        offset += float(best)
        if settle_frames is not None and frame < model.frames:
            buckets = settled(buckets, frame - settle_frames)
        bucket, depth = buckets.pop(frame), 0
        live = bucket.cut_off(-beam, most, context)
        first = lattice.add((min(frame, model.frames), 0), live, bucket, context)
        if frame >= model.frames:
            return ranked(live, offset, length_power), lattice.that_ends(first)
        while live:
            if counts is not None:
                counts.steps.append((frame, depth, [one.history for one in live]))
            deeper = Bucket(sums)
            candidates, bound = expand(model, live, frame, buckets, beam, most)
            for score, rank, token, d in candidates:
                to, _ = place = model.after(frame, depth, token, model.steps[d])
                bucket = deeper if place == (frame, depth + 1) else buckets.setdefault(to, Bucket(sums))
                made = stepped(model, live[rank], score, frame, token, d)
                bucket.add(made)
                bucket.arrivals.append((made.history, arc_of(model, live[rank], first + rank, frame, token, d)))
            live = deeper.cut_off(max(bound, overtaken(buckets, most, context)), most, context)
            depth += 1
            first = lattice.add((frame, depth), live, deeper, context)


def meeting(buckets, sums):
    """All that has arrived after the last frame, by frame, then in the order of first arrivals."""
    end = Bucket(sums)
    for frame in sorted(buckets):
        for one in buckets[frame].found.values():
            end.add(one)
        end.arrivals += buckets[frame].arrivals
    return end


def settled(buckets, first):
    """Without those that begin otherwise than the best hypothesis does with its labels before a frame."""
    best = max(
        (one for _, bucket in sorted(buckets.items()) for one in bucket.found.values()), key=lambda one: one.score
    )
    stay = sum(label[1] < first for label in best.labels)
    found = {}
    for frame, bucket in buckets.items():
        kept = {h: one for h, one in bucket.found.items() if h[:stay] == best.history[:stay]}
        if kept or frame == min(buckets):
            found[frame] = Bucket(bucket.sums, kept, bucket.arrivals)
    return found


def expand(model, live, frame, buckets, beam, most):
    """The candidates that are admitted, in the order of the law, and what they score at least."""
    found = []
    for rank, one in enumerate(live):
        tokens, durations = model.scores(one.history, frame)
        for token, log_prob in enumerate(tokens):
            found += [(one.score + (log_prob + more), rank, token, d) for d, more in enumerate(durations)]
    passed_over = [one.score for bucket in buckets.values() for one in bucket.found.values()]
    bound = max([score for score, *_ in found] + passed_over) - beam
    found = [one for one in found if one[0] >= bound and np.isfinite(one[0])]
    kept = [one for one in found if one[2] == model.blank]
    for d in range(len(model.steps)):
        labels = sorted((one for one in found if one[2] != model.blank and one[3] == d), key=lambda one: -one[0])
        kept += labels[:most]  # stable: by rank and token among equals
    return sorted(kept, key=lambda one: (one[1], one[2] != model.blank, one[2], one[3])), bound


def overtaken(buckets, most, context):
    """The score below which a hypothesis on the frame has `most` contexts before it that have left the frame."""
    best = {}
    for bucket in buckets.values():
        for history, one in bucket.found.items():
            best[context(history)] = max(one.score, best.get(context(history), -INF))
    scores = sorted(best.values(), reverse=True)
    return scores[most - 1] if len(scores) >= most else F(-INF)


def stepped(model, source, score, frame, token, d):
    scores, durations = model.scores(source.history, frame)
    path = source.path + (scores[token] + durations[d])
    if token == model.blank:
        return replace(source, score=score, path=path)
    label = (token, frame, model.steps[d], model.networks.log_probs(source.history, frame)[0][token])
    return Hypothesis((*source.history, token), score, path, (*source.labels, label))


def arc_of(model, source, number, frame, token, d):
    scores, durations = model.scores(source.history, frame)
    log_probs, _ = model.networks.log_probs(source.history, frame)
    return Arc(number, -1, token, d, log_probs[token] + durations[d], scores[token] + durations[d])


def ranked(live, offset, power):
    totals = [(one.labels, offset + float(one.score)) for one in live]

    def rank(entry):
        labels, score = entry
        return -score / float(oracle.exp(F(power) * oracle.log(F(len(labels)) + F(1))))

    return sorted(totals, key=rank)


# --- what there is to find -----------------------------------------------------------------------------------------


def every_history(model, merge="sum"):
    """{history: log of the summed or largest probability of its paths, with models}, in float64, path by path."""
    paths = {}
    waiting = [(0, 0, (), 0.0)]
    while waiting:
        frame, depth, history, score = waiting.pop()
        if frame >= model.frames:
            paths.setdefault(history, []).append(score)
            continue
        tokens, durations = model.exact_scores(history, frame)
        for token, log_prob in enumerate(tokens):
            for d, more in enumerate(durations):
                after = history if token == model.blank else (*history, token)
                place = model.after(frame, depth, token, model.steps[d])
                waiting.append((*place, after, score + float(log_prob) + float(more)))
    return {history: log_sum(scores) if merge == "sum" else max(scores) for history, scores in paths.items()}


def log_sum(scores):
    largest = max(scores)
    return largest + math.log(math.fsum(math.exp(score - largest) for score in scores))


def full_sum(model, history):
    """The log of the summed probability of all paths that write these labels, by the forward algorithm in float64."""
    forward = {(0, 0, 0): 0.0}  # (frame, labels written, depth)
    for frame in range(model.frames):
        for written in range(len(history) + 1):
            for depth in range(model.max_symbols):
                score = forward.pop((frame, written, depth), None)
                if score is None:
                    continue
                tokens, durations = model.exact_scores(tuple(history[:written]), frame)
                for token, more in ((model.blank, 0), *(((history[written], 1),) if written < len(history) else ())):
                    for d, duration in enumerate(durations):
                        to, deeper = model.after(frame, depth, token, model.steps[d])
                        state = (min(to, model.frames), written + more, deeper)
                        step = score + float(tokens[token]) + float(duration)
                        forward[state] = np.logaddexp(forward.get(state, -INF), step)
    return float(forward.get((model.frames, len(history), 0), -INF))


def put_wrong(monkeypatch, place, wrong):
    """Has wrong(rule) in place of the rule of this name, which may be a class's."""
    owner, _, name = place.rpartition(".")
    holder = globals()[owner] if owner else sys.modules[__name__]
    monkeypatch.setattr(holder, name, wrong(getattr(holder, name)))
