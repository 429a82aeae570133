"""The transducer whose answers are known: a small one gives them all, as RNN-T and as TDT."""

import numpy as np
import pytest

from arcbeam import TransducerDecoder
from arcbeam.transducer.decoder import FrameLoopingDecoder
from data import synthetic_transducer as synthetic

SIZES = synthetic.Sizes(tokens=65, units=512, joint=512, features=448)


@pytest.mark.parametrize("tdt", [False, True])
@pytest.mark.parametrize("loop", [TransducerDecoder, FrameLoopingDecoder])
def test_every_label_on_its_frame(tdt, loop):
    arrays = synthetic.weights(SIZES, tdt=tdt)
    frames, texts, places = synthetic.utterances(12, 150, SIZES)
    durations = synthetic.DURATIONS if tdt else None
    options = {"activation": "relu", "durations": durations}
    found = loop.from_arrays(arrays, SIZES.blank, **options).decode(frames)
    assert [h.tokens.tolist() for h in found] == texts
    assert [h.frames.tolist() for h in found] == places
    assert 0.2 < np.mean([len(text) for text in texts]) / 150 < 0.35


def test_seeds_and_files(tmp_path, monkeypatch):
    one, other = (synthetic.utterances(2, 30, SIZES, seed=seed)[1] for seed in (0, 1))
    assert one == synthetic.utterances(2, 30, SIZES, seed=0)[1] != other
    monkeypatch.setattr("sys.argv", ["synthetic_transducer", str(tmp_path / "w.npz"), "--tdt"])
    synthetic.main()
    decoder = TransducerDecoder.from_arrays(
        np.load(tmp_path / "w.npz"), synthetic.Sizes().blank, activation="relu", durations=synthetic.DURATIONS
    )
    frames, texts, _ = synthetic.utterances(1, 50)
    assert decoder.decode(frames)[0].tokens.tolist() == texts[0]
