"""Attacks on a Batcher: 32 threads whose chunks are cancelled, bad or long, whose streams move, are forged and reset,
while it is closed and replaced. What comes out of streams that are not harmed has the bytes of an undisturbed decode.
"""

import random
import struct
import time

from arcbeam import BatcherClosedError
from tests.batching.clients import FAULTS, batcher_of, cut, speak, together
from tests.batching.stand_ins import PATIENCE_S
from tests.files.mutants import TELLING, mutate
from tests.graph import sealing

THREADS = 32
ATTACKS = ("speaks", "moves", "forges", "resets")


class Service:
    """A Batcher that is closed, in one way or another, and replaced."""

    def __init__(self, speech, **options):
        self.speech, self.options = speech, options
        self.batcher, self._batchers = batcher_of(speech, **options), []

    def renew(self, rng):
        """Closes the Batcher; those that wait for it see that, and go on with the next one."""
        closed, self.batcher = self.batcher, batcher_of(self.speech, **self.options)
        self._batchers.append(closed)
        closed.close(drain=rng.random() < 0.5, timeout=rng.choice((None, 0.0, 0.001, 0.05)))

    def close(self):
        """Closes the last one; every chunk of all of them has come to an end."""
        self.batcher.close()
        for batcher in [*self._batchers, self.batcher]:
            batcher._thread.join(PATIENCE_S)
            stats = batcher.stats()
            assert (stats.waiting, stats.waiting_frames, stats.waiting_streams, stats.round_seconds) == (0, 0, 0, 0.0)


def attack(service, rng, tally):
    """One utterance of an attacker; AssertionError if anything is not as it should be."""
    kind = rng.choice(ATTACKS)
    tally.count(kind)
    try:
        if kind == "speaks":
            return speak(service.batcher, service.speech, rng, tally)
        return {"moves": move, "forges": forge, "resets": reset}[kind](service, rng, tally)
    except BatcherClosedError:
        tally.count("closed")


def begun(service, rng):
    """A Batcher, a stream that has had some of an utterance, the numbers of this and its boost, and where it ends."""
    speech, batcher = service.speech, service.batcher
    utterance, boost = rng.randrange(len(speech.utterances)), rng.randrange(len(speech.boosts))
    stream, whole = speech.decoder.stream(boost=speech.boosts[boost]), speech.utterances[utterance]
    at = rng.randrange(1 + len(whole))
    batcher.submit(stream, whole[:at]).result(PATIENCE_S)
    return batcher, stream, utterance, boost, at


def move(service, rng, tally):
    """A stream is saved and goes on from its bytes, perhaps in the next Batcher: its results are the same."""
    speech = service.speech
    _, stream, utterance, boost, at = begun(service, rng)
    for chunk in cut(rng, speech.utterances[utterance][at:]):
        stream = speech.decoder.restore(stream.save(), boost=speech.boosts[boost])
        service.batcher.submit(stream, chunk).result(PATIENCE_S)
    speech.check(service.batcher.submit(stream, None, last=True).result(PATIENCE_S), utterance, boost)


def forge(service, rng, tally):
    """A saved stream is changed: it is refused, or it is one that does no harm."""
    speech = service.speech
    batcher, stream, utterance, boost, at = begun(service, rng)
    rest, data = speech.utterances[utterance][at:], stream.save()
    for _ in range(5):
        try:
            forged = speech.decoder.restore(mutant_of(rng, data), boost=speech.boosts[boost])
            tally.count("forged")
            batcher.submit(forged, rest, last=True).result(PATIENCE_S)
        except ValueError:
            tally.count("refused state")
    speech.check(batcher.submit(stream, rest, last=True).result(PATIENCE_S), utterance, boost)


def mutant_of(rng, data):
    if rng.random() < 0.2:
        return mutate(rng, data)
    if rng.random() < 0.3:
        return sealing.reseal(mutate(rng, data))
    offset, size = rng.choice([(o, s) for name, (o, s) in sealing.sections(data).items() if s > 3 and name != "about"])
    number = rng.choice((rng.randrange(40), rng.choice(TELLING) & 0xFFFFFFFF))
    return sealing.reseal(sealing.poke(data, offset + rng.randrange(0, size - 3, 4), struct.pack("<I", number)))


def reset(service, rng, tally):
    """The stream begins again in the middle of its speech, while its chunks may wait."""
    speech = service.speech
    batcher, stream, utterance, boost, at = begun(service, rng)
    waits = batcher.submit(stream, speech.utterances[utterance][at:])
    stream.reset()
    try:
        waits.result(PATIENCE_S)
    except MemoryError:  # of another in its round, in which it cannot be told whether this one was decoded
        return tally.count("reset in a round that was lost")
    stream.reset()
    found = batcher.submit(stream, speech.utterances[utterance], last=True).result(PATIENCE_S)
    whole = speech.wholes[boost][utterance]
    assert found.is_final and found.first_frame == found.num_frames - len(speech.utterances[utterance])
    assert found.text == whole.text if hasattr(whole, "arcs") else found.tokens.tolist() == whole.tokens.tolist()


def under_attack(speech, utterances, threads=THREADS, seed=0):
    """Threads that attack a Batcher, which is closed and replaced, with so many utterances each; what happened."""
    service, rng = Service(speech, max_batch=24, max_frames=7), random.Random(seed)
    done, renewed = [0] * threads, []

    def act(number, rng, tally):
        attack(service, rng, tally)
        done[number] += 1
        return done[number] < utterances

    def renew():
        time.sleep(rng.uniform(0.0, 0.1))
        renewed.append(service.renew(rng))

    happened = together(threads, seed, act, renew)
    service.close()
    happened["renewed"] = len(renewed)
    assert set(ATTACKS) <= set(happened) and set(happened) & set(FAULTS)
    return happened
