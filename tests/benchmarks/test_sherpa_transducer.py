"""The adapter of sherpa-onnx's searches of transducers: on a small network it writes the labels that were put in."""

import pytest

for package in ("onnx", "sherpa_onnx"):
    pytest.importorskip(package, reason="the adapter needs it")

from benchmarks.adapters.sherpa_transducer import SherpaTransducer  # noqa: E402
from data import synthetic_transducer as synthetic  # noqa: E402

SIZES = synthetic.Sizes(tokens=33, units=256, joint=296, features=256)


@pytest.mark.parametrize("paths", [None, 4])
@pytest.mark.parametrize("tdt", [False, True])
def test_known_labels(tmp_path, tdt, paths):
    frames, texts, _ = synthetic.utterances(5, 30, SIZES)
    cut = [*frames, frames[0, :7], frames[1, :1]]
    search = SherpaTransducer(tmp_path, synthetic.weights(SIZES, tdt=tdt), cut, SIZES.blank, paths)
    for _ in range(2):  # streams are decoded once, the recognizer as often as one likes
        streams = search.streams()
        search.decode(streams)
        found = search.tokens(streams)
        assert found[:5] == texts
        assert 0 < len(found[5]) < len(texts[0]) and found[5] == texts[0][: len(found[5])] and len(found[6]) <= 1
