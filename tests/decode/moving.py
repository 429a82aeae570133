"""Streams in rounds of any company, which move between decoders, compared with streams that stay alone on one."""

from tests.decode.lattices import packed

REQUESTED = (
    {"nbest": 4, "confidence": True, "lattice": True, "mbr": True, "interim_answers": True},
    {"nbest": 2},
    {"lattice": True},
    {"confidence": True, "mbr": True, "interim_answers": True},
)


def seen(partial):
    """All that a partial result is made of."""
    return (
        partial.arcs.tobytes(), partial.score, partial.reached_final, partial.complete, partial.num_stable,
        partial.num_frames, partial.is_final, len(partial._settled), partial.words,
        None if partial.posteriors is None else partial.posteriors.tobytes(),
    )  # fmt: skip


def answers(partial):
    """What the end of a sentence has given besides its best path, as bytes and numbers."""
    lattice, nbest, found = partial.lattice, partial.nbest, partial.mbr
    return (
        None if lattice is None else packed(lattice._arrays),
        None if nbest is None else [(entry.arcs.tobytes(), entry.score, entry.posterior) for entry in nbest],
        partial.confidence, None if found is None else (found.text, found.errors, found.words), partial.sausage,
    )  # fmt: skip


def agree(found, wanted):
    """That two results of a stream are the same in all that they give."""
    assert seen(found) == seen(wanted)
    assert answers(found) == answers(wanted)
    assert (found.endpoint, found.first_frame) == (wanted.endpoint, wanted.first_frame)
    assert (found.rescoring_score, found.boosts) == (wanted.rescoring_score, wanted.boosts)
    assert found.to_dict() == wanted.to_dict()
    if wanted.lattice is not None:
        assert (found.lattice.times is None) == (wanted.lattice.times is None)
        for name in ("acoustic_scores", "rescoring_scores", "boost_scores", "final_rescoring_scores", "steps"):
            assert getattr(found.lattice, name).tobytes() == getattr(wanted.lattice, name).tobytes()


class Pair:
    """A stream that moves between the decoders, from the first of them on, and one that stays on the last.

    Attributes
    ----------
    partials, finals : list
        The results after each chunk, and of each sentence.
    waited, died : int
        How often the stream moved with frames waiting, or where the search had died.
    """

    def __init__(self, decoders, log_probs, boost, endpoint, requested):
        self.decoders, self.log_probs, self.boost = decoders, log_probs, boost
        self.endpoint, self.requested = endpoint, requested
        self.decoder, self.at, self.waited, self.died = decoders[0], 0, 0, 0
        self.partials, self.finals, self.stable = [], [], []
        self.moves, self.stays = (
            one.stream(boost=boost, endpoint=endpoint, **requested) for one in (decoders[0], decoders[-1])
        )

    def chunk(self, most, rng):
        """The next frames, and whether they are the last."""
        end = self.at + int(rng.integers(0, most))
        return self.log_probs[self.at : end], bool(end >= len(self.log_probs) and rng.random() < 0.7)

    def take(self, partial, rows, last):
        """The result of a chunk."""
        self.at += len(rows)
        assert partial.error is None and partial is self.moves.partial
        assert partial.num_frames == self.moves.num_frames
        assert partial.num_frames + self.moves.num_waiting == self.at
        agree(partial, self.stays.decode_chunk(rows, last=last))
        stable = [word._replace(confidence=None) for word in partial.stable_words]
        assert stable[: len(self.stable)] == self.stable, "a stable word is never taken back"
        assert partial.stable_text == " ".join(word.word for word in stable)
        self.stable = stable
        self.partials.append(partial)

    def reset(self):
        self.finals.append(self.moves.partial)
        agree(self.moves.reset(), self.stays.reset())
        self.stable = []

    def move(self, rng):
        data = self.moves.save()
        assert data == self.stays.save()
        self.decoder = self.decoders[rng.integers(len(self.decoders))]
        self.moves = self.decoder.restore(data, boost=self.boost, posteriors=self.requested.get("posteriors", False))
        assert self.moves.save() == data
        agree(self.moves.partial, self.stays.partial)
        for name in ("num_frames", "num_waiting", "num_settled", "is_finished", "interim_answers", "endpoint"):
            assert getattr(self.moves, name) == getattr(self.stays, name), name
        self.waited += self.moves.num_waiting > 0
        self.died += not self.moves.partial.complete


def rounds(decoders, batch, rng, boosts=None, most=9, endpoint=None, requested=REQUESTED, share=0.5, refused=0.0):
    """Decodes utterances in chunks, sentence by sentence, until all have ended: a pair of streams for each.

    endpoint
        Of all streams but every third.
    requested
        What the streams are requested, in turns.
    share
        Of the rounds after which a stream moves to any of the decoders.
    refused
        Of the chunks that have a NaN: the stream stays as it was.
    """
    boosts = boosts or [None] * len(batch)
    pairs = [
        Pair(decoders, log_probs, boosts[i], endpoint if i % 3 != 2 else None, requested[i % len(requested)])
        for i, log_probs in enumerate(batch)
    ]
    while going := [pair for pair in pairs if not pair.moves.is_finished]:
        decoder = going[rng.integers(len(going))].decoder
        some = [pair for pair in going if pair.decoder is decoder and not pair.moves._last_came]
        some = [some[i] for i in rng.permutation(len(some))[: rng.integers(1, len(some) + 2)]]
        chunks = [pair.chunk(most, rng) for pair in some]
        bad = [len(rows) > 0 and rng.random() < refused for rows, _ in chunks]
        before = [pair.moves.save() if wrong else None for pair, wrong in zip(some, bad, strict=True)]
        found = decoder.decode_chunks(
            [pair.moves for pair in some],
            [rows * float("nan") if wrong else rows for (rows, _), wrong in zip(chunks, bad, strict=True)],
            last=[last for _, last in chunks], errors="return",
        )  # fmt: skip
        for pair, partial, (rows, last), state in zip(some, found, chunks, before, strict=True):
            if state is None:
                pair.take(partial, rows, last)
            else:
                assert partial.error is not None and pair.moves.save() == state
        for pair in going:
            ended = pair.moves._last_came or (pair.moves.partial.endpoint is not None and rng.random() < 0.7)
            if ended and not pair.moves.is_finished:
                pair.reset()
            if rng.random() < share:
                pair.move(rng)
    for pair in pairs:
        assert pair.stays.is_finished and pair.moves.save() == pair.stays.save()
        pair.finals.append(pair.moves.partial)
    return pairs


def beside(*arguments, **options):
    """The final results of `rounds`, and how often a stream moved with frames waiting, or after its search had died."""
    pairs = rounds(*arguments, **options)
    return [pair.finals for pair in pairs], sum(pair.waited for pair in pairs), sum(pair.died for pair in pairs)


def one_state(decoders, log_probs, company, lengths, chunks=(1, 9, 100), boosts=(None, None), **requested):
    """The state of a stream depends on its frames alone: not on the decoder, its chunks, or another stream's rounds."""
    for frames in lengths:
        states = set()
        for decoder in decoders:
            for chunk in chunks:
                stream, other = (
                    decoder.stream(boost=one, **more) for one, more in zip(boosts, (requested, {}), strict=True)
                )
                decoder.decode_chunks([stream], [log_probs[:0]])
                for at in range(0, frames, chunk):
                    decoder.decode_chunks([other, stream], [company, log_probs[at : min(at + chunk, frames)]])
                states.add(stream.save())
        assert len(states) == 1
