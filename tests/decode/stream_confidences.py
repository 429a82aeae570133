"""Streams with and without confidences of frames, in rounds of any company: every result against `decode`."""

import pickle

import numpy as np

from arcbeam import ConfidenceMethod
from tests.decode.moving import rounds
from tests.decode.wholes import check_sentences

METHODS = ("entropy", None, "max_prob", ConfidenceMethod(entropy_type="renyi", alpha=0.5, entropy_norm="lin"))
NOT_REQUESTED = (None, None, None, None)


def confidences(partial):
    """All that is made of those of frames."""
    return partial.frame_confidence, partial.token_confidence, partial.labels, partial.word_confidence


def check(partial, of_frames):
    """That a result has the confidences of its frames, of all those of its stream."""
    found, of_labels, labels, of_words = confidences(partial)
    first = partial.first_frame
    assert found.dtype == of_labels.dtype == of_words.dtype == np.float32
    assert found.tobytes() == of_frames[first : partial.num_frames].tobytes()
    assert [label.confidence for label in labels] == of_labels.tolist()
    for label in labels:
        assert label.confidence == found[label.start_frame - first : label.end_frame - first].min()
    for word, confidence in zip(partial.words, of_words, strict=True):
        within = [one.confidence for one in labels if word.start_frame <= one.start_frame < word.end_frame]
        assert confidence == min(within, default=0.0)
    said = pickle.loads(pickle.dumps(partial))
    assert said.to_dict() == partial.to_dict() and said.frame_confidence.tobytes() == found.tobytes()


def follow(decoders, batch, rng, methods=METHODS, most=9, endpoint=None, requested=({},), moves=0.3, refused=0.1):
    """Streams of each method in turns, the last decoder a CPU's; results are checked when all have ended."""
    outputs = [
        requested[i % len(requested)] | {"frame_confidence": methods[i % len(methods)]} for i in range(len(batch))
    ]
    for pair in rounds(decoders, batch, rng, None, most, endpoint, outputs, share=moves, refused=refused):
        method, sentences = (
            pair.requested["frame_confidence"],
            [(f.first_frame, f.num_frames, f.endpoint) for f in pair.finals],
        )
        check_sentences(pair.finals, sentences, decoders[-1], pair.log_probs, requested=pair.requested)
        if method is None:
            assert {confidences(partial) for partial in (*pair.partials, *pair.finals)} == {NOT_REQUESTED}
            continue
        [whole] = decoders[-1].decode([pair.log_probs], frame_confidence=method)
        stable, sentence = b"", 0
        for partial in pair.partials:
            check(partial, whole.frame_confidence)
            stable = stable if partial.first_frame == sentence else b""
            words = partial.word_confidence[: partial.num_stable].tobytes()
            assert words.startswith(stable)
            stable, sentence = words, partial.first_frame
        for final in pair.finals:
            check(final, whole.frame_confidence)
