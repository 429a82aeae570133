"""An acoustic model whose letters are tones, in NumPy: audio with words of which it is known when they were said."""

import numpy as np

import arcbeam

RATE, FRAME = 16_000, 320
LETTERS = "abcde"
TOKENS = ["|", *LETTERS, "<blank>"]
SPACE = 400.0  # hertz
TONES = np.array([SPACE * (i + 1) for i in range(len(TOKENS) - 1)])
LOUD = 0.3


class ToneModel:
    """A frame of 320 samples is the letter with whose tone it sounds; a silent one is the blank."""

    def __init__(self, lm=None, lost_frames=0, **options):
        options = {"frame_shift": FRAME / RATE, **options}
        self.decoder = arcbeam.ctc_decoder(TOKENS, lm, device="cpu", threads=1, **options)
        self.calls = []  # samples of each recording that was given
        self.lost_frames = lost_frames  # at the end, as in models without padding

    sample_rate = RATE

    def encode(self, audio, *, sample_rate=RATE, batch_size=1):
        assert sample_rate == RATE and len(audio) <= batch_size
        self.calls += [len(samples) for samples in audio]
        return [self._frames(samples) for samples in audio]

    def _frames(self, samples):
        count = -(-len(samples) // FRAME)
        frames = np.zeros((count, FRAME), np.float32)
        frames.reshape(-1)[: len(samples)] = samples
        at = np.arange(FRAME) / RATE
        power = [
            sum((frames * wave(2 * np.pi * tone * at)).sum(1) ** 2 for wave in (np.sin, np.cos)) / FRAME**2
            for tone in TONES
        ]
        logits = np.stack([*power, np.full(count, 0.002)], axis=1) * 1000
        logits -= logits.max(axis=1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return log_probs[: count - self.lost_frames].astype(np.float32)


def tone(column, frames):
    at = np.arange(frames * FRAME) / RATE
    return (LOUD * np.sin(2 * np.pi * TONES[column] * at)).astype(np.float32)


def spoken(text, letter_frames=3, rest_frames=1):
    """The samples of words, letter by letter with a rest after each."""
    parts = []
    for letter in text.replace(" ", "|"):
        parts += [tone(TOKENS.index(letter), letter_frames), silence(rest_frames)]
    return np.concatenate(parts)


def silence(frames):
    return np.zeros(frames * FRAME, np.float32)


def recording(sentences, pause_frames=50):
    """Sentences with a second of silence before and after each."""
    parts = [silence(pause_frames)]
    for sentence in sentences:
        parts += [spoken(sentence), silence(pause_frames)]
    return np.concatenate(parts)


def random_sentences(seed, count, most_words=6):
    generator = np.random.default_rng(seed)
    return [
        " ".join(
            "".join(generator.choice([*LETTERS], generator.integers(1, 5)))
            for _ in range(generator.integers(1, most_words))
        )
        for _ in range(count)
    ]
