"""Law 10's endpoints in plain Python: each check decodes the sentence so far, without endpoints, from its beginning."""

import math


def sentences(decoder, log_probs, endpoint, boost=None):
    """First frame, end frame and rule of each sentence; the last one has no rule, unless one holds at its very end."""
    found, first = [], 0
    while True:
        frames, name = first_sentence(decoder, log_probs[first:], endpoint, boost)
        found.append((first, first + frames, name))
        first += frames
        if first == len(log_probs):
            return found


def first_sentence(decoder, log_probs, endpoint, boost):
    shift = decoder.options.frame_shift
    every = max(1, round(0.2 / shift))
    for frames in range(every, len(log_probs) + 1, every):
        name = rule_that_holds(decoder, log_probs[:frames], endpoint, boost, shift)
        if name is not None:
            return frames, name
    return len(log_probs), None


def rule_that_holds(decoder, log_probs, endpoint, boost, shift):
    partial = decoder.stream(boost=boost).decode_chunk(log_probs)
    [whole] = decoder.decode([log_probs], boost=boost)
    silence = {decoder.graph.blank, decoder.graph.separator_column}
    said = [frame for frame, column in enumerate(partial.tokens.tolist()) if column not in silence]
    trailing = len(log_probs) - (said[-1] + 1 if said else 0)
    # The cost of the best end above the best path's: scores are minus costs.
    relative = partial.partial_score - whole.partial_score if whole.reached_final else math.inf
    for name, rule in endpoint.rules.items():
        if (
            (said or not rule.must_contain_nonsilence)
            and trailing * shift >= rule.min_trailing_silence - 1e-9
            and len(log_probs) * shift >= rule.min_utterance_length - 1e-9
            and relative <= rule.max_relative_cost
        ):
            return name
    return None
