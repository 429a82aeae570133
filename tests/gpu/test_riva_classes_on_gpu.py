"""arcbeam.compat.riva on a real GPU: the CPU's answers, and those of riva-asrlib-decoder to the same calls.

riva's process may end with it: run this file alone. It needs graphs and sets of speech, and the package for its part.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam.compat import riva
from benchmarks import adapters
from benchmarks.adapters import gpu as on_gpu
from benchmarks.data import graphs
from benchmarks.tasks import riva_answers
from tests.gpu.test_speech_on_gpu import graph_named, set_named

torch = pytest.importorskip("torch", reason="torch is not installed")

COUNT = 64  # utterances of the set
SCALES = [(1.0, 1.0), (10.0, 10.0), (10.0, 5.0)]  # of the log-probs and of the graph


def config(module, options, lm_scale, acoustic_scale, frame_shift):
    made = module.BatchedMappedDecoderCudaConfig()
    online = made.online_opts
    online.max_batch_size, online.num_channels, online.frame_shift_seconds = COUNT, 2 * COUNT, frame_shift
    search, post = online.decoder_opts, online.lattice_postprocessor_opts
    search.default_beam, search.lattice_beam, search.max_active = options.beam, options.lattice_beam, options.max_active
    post.acoustic_scale, post.lm_scale, post.nbest = acoustic_scale, lm_scale, 10
    return made


@pytest.fixture(scope="module", params=on_gpu.WORKLOADS, ids=lambda workload: workload[0])
def speech(request, tmp_path_factory):
    """The files, the columns and the log-probs of a workload, on the host."""
    name, of_set = request.param
    graph = graph_named(name)  # skips where it has not been built
    files, dataset = graphs.files(name), set_named(of_set).first(COUNT)
    words = tmp_path_factory.mktemp("words") / "words.txt"
    words.write_text("".join(f"{word} {label}\n" for label, word in enumerate(files.words())), encoding="utf-8")
    utterances = [torch.from_numpy(one.astype(np.float32)) for one in dataset.utterances]
    batch = torch.nn.utils.rnn.pad_sequence(utterances, batch_first=True)
    lengths = torch.tensor([len(one) for one in utterances], dtype=torch.int64)
    return SimpleNamespace(
        files=(str(files.fst), str(words), graph.num_columns), batch=batch, lengths=lengths, shift=dataset.frame_shift
    )


def made_by(module, speech, scales, **device):
    acoustic_scale, lm_scale = scales
    options = config(module, on_gpu.BEAMS[0], lm_scale, acoustic_scale, speech.shift)
    return module.BatchedMappedDecoderCuda(options, *speech.files, **device)


@pytest.mark.parametrize("scales", SCALES)
def test_its_answers_are_those_of_the_cpu(speech, scales, tmp_path):
    """Also for tensors of the host, and in what is written."""
    on_device, on_host = (made_by(riva, speech, scales, device=device) for device in ("cuda", "cpu"))
    assert (on_device.device, on_host.device) == ("cuda:0", "cpu")
    batch, lengths = speech.batch.cuda(), speech.lengths
    wanted = on_host.decode_nbest(speech.batch, lengths)
    assert on_device.decode_nbest(batch, lengths) == on_device.decode_nbest(speech.batch, lengths) == wanted
    assert on_host.decode_nbest(batch, lengths) == wanted  # copied to the host
    assert on_device.decode_mbr(batch, lengths) == on_host.decode_mbr(speech.batch, lengths)
    keys = [f"utterance-{i}" for i in range(len(lengths))]
    for decoder, given, name in ((on_device, batch, "gpu"), (on_host, speech.batch, "cpu")):
        decoder.decode_write_lattice(given, lengths, keys, f"ark:{tmp_path / name}")
    assert (tmp_path / "gpu").read_bytes() == (tmp_path / "cpu").read_bytes()


@pytest.mark.parametrize("scales", SCALES)
def test_its_answers_are_near_those_of_the_original(speech, scales):
    """The same words in most utterances, never a better path than ours; costs are of the same scale."""
    reason = adapters.missing("riva")
    if reason:
        pytest.skip(reason)
    import riva.asrlib.decoder.python_decoder as original

    batch, lengths = speech.batch.cuda().contiguous(), speech.lengths
    ours, theirs = made_by(riva, speech, scales), made_by(original, speech, scales)
    mine, peer = ours.decode_nbest(batch, lengths), theirs.decode_nbest(batch, lengths)
    pairs = {i: (a[0], b[0]) for i, (a, b) in enumerate(zip(mine, peer, strict=True)) if a and b}
    assert len(pairs) > 0.95 * COUNT
    same = {i for i, (a, b) in pairs.items() if a.words == [word for word in b.words if word]}
    more = {i: b.score - a.score for i, (a, b) in pairs.items()}
    usual = np.median([more[i] for i in same])  # the original's may have a constant part
    allowed = {i: max(riva_answers.ROUNDING * max(scales) ** 3, 1e-4 * b.score) for i, (_, b) in pairs.items()}
    others = {i: more[i] - usual for i in pairs if i not in same}
    assert all(dearer >= -allowed[i] for i, dearer in others.items()), others
    lost = [i for i, dearer in others.items() if dearer > allowed[i]]  # by the original: its path costs more than ours
    assert len(same) + len(lost) >= 0.9 * len(pairs), f"{len(same)} of {len(pairs)} are the same: {others}"
    assert np.mean([abs(more[i] - usual) <= allowed[i] for i in same]) >= 0.9, more
    assert all(len(b.ilabels) == len(a.ilabels) for a, b in map(pairs.get, same))
    said = [[[word for word, *_ in words] for words in d.decode_mbr(batch, lengths)] for d in (ours, theirs)]
    assert np.mean([a == b for a, b in zip(*said, strict=True)]) >= 0.9
