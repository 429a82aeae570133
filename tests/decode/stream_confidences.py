"""Streams with and without confidences of frames, in rounds of any company: every result against `decode`."""

import pickle

import numpy as np

from arcbeam import ConfidenceMethod

METHODS = ("entropy", None, "max_prob", ConfidenceMethod(entropy_type="renyi", alpha=0.5, entropy_norm="lin"))
NOT_ASKED = (None, None, None, None)


def confidences(partial):
    """All that is made of those of frames."""
    return partial.frame_confidence, partial.token_confidence, partial.labels, partial.word_confidence


class Followed:
    """A stream, what it hears, and what it must say of it.

    `cpu` : a decoder of the same options, which decodes what the stream has heard as a whole
    """

    def __init__(self, decoder, cpu, log_probs, method, **asked):
        self.cpu, self.log_probs, self.method = cpu, log_probs, method
        self.stream = decoder.stream(frame_confidence=method, **asked)
        [whole] = cpu.decode([log_probs], frame_confidence=method or "entropy")
        self.of_frames, self.at = whole.frame_confidence, 0
        self.stable, self.ends, self.unseen = b"", [0], []
        self.see(self.stream.partial)

    def chunk(self, most, rng):
        """The next frames, and whether they are the last."""
        end = self.at + int(rng.integers(0, most))
        found = self.log_probs[self.at : end]
        return found, bool(end >= len(self.log_probs) and rng.random() < 0.7)

    def take(self, partial, frames):
        """The result of a chunk that was taken."""
        self.at += frames
        assert partial.error is None
        assert self.stream.num_frames + self.stream.num_waiting == self.at
        self.see(partial)

    def refuse(self, partial, before):
        """The result of a chunk that was not."""
        assert partial.error is not None and self.stream.save() == before
        if self.method is None:
            assert confidences(partial) == NOT_ASKED
        else:
            assert [len(found) for found in confidences(partial)] == [0] * 4

    def see(self, partial):
        """Compares a result with the confidences of its frames."""
        if self.method is None:
            assert confidences(partial) == NOT_ASKED
            return
        of_frames, of_labels, labels, of_words = confidences(partial)
        first, end = partial.first_frame, partial.num_frames
        assert of_frames.dtype == of_labels.dtype == of_words.dtype == np.float32
        assert of_frames.tobytes() == self.of_frames[first:end].tobytes()
        assert [label.confidence for label in labels] == of_labels.tolist()
        for label in labels:
            assert label.confidence == of_frames[label.start_frame - first : label.end_frame - first].min()
        for word, found in zip(partial.words, of_words, strict=True):
            within = [one.confidence for one in labels if word.start_frame <= one.start_frame < word.end_frame]
            assert found == min(within, default=0.0)
        stable = of_words[: partial.num_stable].tobytes()
        assert stable.startswith(self.stable)
        self.stable = stable
        said = pickle.loads(pickle.dumps(partial))
        assert said.to_dict() == partial.to_dict() and said.frame_confidence.tobytes() == of_frames.tobytes()

    def end(self):
        """The sentence has ended: its result is that of its frames, as a whole."""
        partial, method = self.stream.partial, self.method
        first, end, shift = partial.first_frame, partial.num_frames, self.cpu.options.frame_shift
        assert partial.is_final and first == self.ends[-1]
        self.stable = b""
        self.ends.append(end)
        [whole] = self.cpu.decode([self.log_probs[first:end]], frame_confidence=method)
        assert (partial.arcs.tobytes(), partial.score) == (whole.arcs.tobytes(), whole.score)
        if method is None:
            return
        for found, wanted in zip(confidences(partial), confidences(whole), strict=True):
            if not isinstance(wanted, list):
                assert found.tobytes() == wanted.tobytes()
                continue
            assert len(found) == len(wanted)
            for label, other in zip(found, wanted, strict=True):
                begins, ends = other.start_frame + first, other.end_frame + first
                seconds = (None, None) if shift is None else (begins * shift, ends * shift)
                assert label == (other.label, begins, ends, *seconds, other.confidence)


def follow(decoders, batch, rng, methods=METHODS, most=9, endpoint=None, asked=({},), moves=0.3, refused=0.1):
    """Rounds of streams of the decoders, the last of which is a CPU's, until all have said what they have heard.

    `asked` : what the streams are asked for besides, in turns
    `moves` : of the rounds behind which a stream moves to any of the decoders
    `refused` : of the chunks that have a NaN and are not taken
    """
    cpu = decoders[-1]
    all_ = [
        Followed(
            decoders[rng.integers(len(decoders))], cpu, log_probs, methods[i % len(methods)],
            endpoint=endpoint if i % 3 != 2 else None, **asked[i % len(asked)],
        )
        for i, log_probs in enumerate(batch)
    ]  # fmt: skip
    going, later = list(all_), []
    while going:
        decoder = going[rng.integers(len(going))].stream._decoder
        some = [one for one in going if one.stream._decoder is decoder and not one.stream._last_came]
        some = [some[i] for i in rng.permutation(len(some))[: rng.integers(1, len(some) + 2)]]
        chunks = [one.chunk(most, rng) for one in some]
        bad = [len(rows) > 0 and rng.random() < refused for rows, _ in chunks]
        arrays = [np.full_like(rows, np.nan) if wrong else rows for (rows, _), wrong in zip(chunks, bad, strict=True)]
        before = [one.stream.save() if wrong else None for one, wrong in zip(some, bad, strict=True)]
        streams, last = [one.stream for one in some], [last for _, last in chunks]
        found = decoder.decode(streams, arrays, None, last, None, "return")
        for one, partial, rows, was in zip(some, found, arrays, before, strict=True):
            if was is not None:
                one.refuse(partial, was)
                continue
            one.take(partial, len(rows))
            later.append((partial, one, partial.first_frame, partial.num_frames))
        for one in list(going):
            stream = one.stream
            if stream.is_finished:
                one.end()
                going.remove(one)
            elif stream._last_came or (stream.partial.endpoint is not None and rng.random() < 0.6):
                one.end()
                one.see(stream.reset())
            if rng.random() < moves:
                data = stream.save()
                one.stream = decoders[rng.integers(len(decoders))].restore(data)
                assert one.stream.save() == data
                one.see(one.stream.partial)
    for one in all_:
        assert one.ends[-1] == len(one.log_probs)
    for partial, one, first, end in later:  # however much has been added to their sentences since
        if one.method is not None:
            del partial.__dict__["frame_confidence"]
            assert partial.frame_confidence.tobytes() == one.of_frames[first:end].tobytes()
    return all_
