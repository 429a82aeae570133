"""Streams that keep lattices and move, beside streams that stay: their results and states are the same."""

from tests.decode.test_streams_emulated import answers, seen

ASKED = (
    {"nbest": 4, "confidence": True, "lattice": True, "mbr": True, "interim_answers": True},
    {"nbest": 2},
    {"lattice": True},
    {"confidence": True, "mbr": True, "interim_answers": True},
)


def beside(decoders, batch, rng, boosts=None, most=9, endpoint=None, asked=ASKED, share=0.5):
    """Decodes each utterance in chunks, sentence by sentence; between them the stream moves to any of the decoders.

    What stays is on the last of them. Returns the final results of all sentences of each, and how often a stream moved
    with frames waiting, or where the search had died.

    `asked` : what the streams are asked for, in turns
    `share` : of the chunks behind which a stream moves
    """
    finals, waited, died = [], 0, 0
    for number, log_probs in enumerate(batch):
        one, more = (boosts or [None] * len(batch))[number], asked[number % len(asked)]
        stays = decoders[-1].stream(boost=one, endpoint=endpoint, **more)
        moves = decoders[rng.integers(len(decoders))].stream(boost=one, endpoint=endpoint, **more)
        found, at = [], 0
        while not stays.is_finished:
            if stays._last_came or (stays.partial.endpoint is not None and rng.random() < 0.7):
                found.append(stays.partial)
                partials = [stream.reset() for stream in (moves, stays)]
            else:
                end = at + int(rng.integers(0, most))
                last = bool(end >= len(log_probs) and rng.random() < 0.7)
                partials = [stream.decode_chunk(log_probs[at:end], last=last) for stream in (moves, stays)]
                at = min(end, len(log_probs))
            agree(*partials)
            if rng.random() < share:
                data = moves.save()
                assert data == stays.save()
                moves = decoders[rng.integers(len(decoders))].restore(data, boost=one)
                agree(moves.partial, stays.partial)
                assert moves.save() == data
                assert (moves.num_waiting, moves.is_finished) == (stays.num_waiting, stays.is_finished)
                assert moves.interim_answers == stays.interim_answers and moves.num_settled == stays.num_settled
                waited += moves.num_waiting > 0
                died += not moves.partial.complete
        assert moves.save() == stays.save()
        finals.append([*found, stays.partial])
    return finals, waited, died


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
