"""riva-asrlib-decoder's classes on CtcDecoder: options, outputs, and the programs that call them."""

import math
import subprocess
import sys

import numpy as np
import pytest

from arcbeam import CtcDecoder, InputError, MissingDependencyError
from arcbeam.compat import riva
from tests.compat.riva_callers import Nemo, WeNet, as_dict, fill
from tests.compat.riva_decoders import config, decoder, ours, post, said, small

DEFAULTS = {
    "n_input_per_chunk": 50,
    "online_opts": {
        "max_batch_size": 400, "num_channels": 800, "num_post_processing_worker_threads": -1,
        "determinize_lattice": True, "num_decoder_copy_threads": 2, "frame_shift_seconds": 3.4028234663852886e38,
        "use_lattice_postprocessor": True, "use_final_probs": True,
        "decoder_opts": {
            "default_beam": 15.0, "lattice_beam": 10.0, "ntokens_pre_allocated": 1_000_000, "main_q_capacity": -1,
            "aux_q_capacity": -1, "max_active": 10_000, "blank_penalty": 0.0, "blank_ilabel": -1, "length_penalty": 0.0,
            "endpointing_config": {
                "silence_phones": "",
                **{
                    f"rule{number}": {
                        "must_contain_nonsilence": speech, "min_trailing_silence": silence,
                        "max_relative_cost": cost, "min_utterance_length": length,
                    }
                    for number, speech, silence, cost, length in [
                        (1, False, 5.0, math.inf, 0.0), (2, True, 0.5, 2.0, 0.0), (3, True, 1.0, 8.0, 0.0),
                        (4, True, 2.0, math.inf, 0.0), (5, False, 0.0, math.inf, 20.0),
                    ]
                },
            },
        },
        "det_opts": {
            "delta": 2.0**-10, "max_mem": 50_000_000, "phone_determinize": True, "word_determinize": True,
            "minimize": False,
        },
        "lattice_postprocessor_opts": {
            "word_boundary_rxfilename": "", "mbr_opts": {"decode_mbr": True, "print_silence": False},
            "wip_opts": {"silence_label": 0, "partial_word_label": 0, "reorder": True}, "max_expand": 0.0,
            "acoustic_scale": 1.0, "lm_scale": 1.0, "acoustic2lm_scale": 0.0, "lm2acoustic_scale": 0.0,
            "word_ins_penalty": 0.0, "nbest": 1,
        },
    },
}  # fmt: skip


def test_defaults_are_those_of_the_original():
    assert as_dict(riva.BatchedMappedDecoderCudaConfig()) == DEFAULTS
    assert as_dict(riva.BatchedMappedOnlineDecoderCudaConfig()) == DEFAULTS["online_opts"]


def test_names_and_defaults_of_the_installed_original():
    original = pytest.importorskip("riva.asrlib.decoder.python_decoder", reason="riva-asrlib-decoder is not installed")
    for name in (name for name in dir(original) if not name.startswith("__")):
        theirs, mine = getattr(original, name), getattr(riva, name)
        has = {*dir(mine), *getattr(mine, "__dataclass_fields__", ())}
        assert {attribute for attribute in dir(theirs) if not attribute.startswith("_")} <= has, name
    assert as_dict(original.BatchedMappedDecoderCudaConfig()) == DEFAULTS
    assert as_dict(original.OnlineEndpointRule()) == as_dict(riva.OnlineEndpointRule())


def test_options_keep_their_types():
    made = riva.BatchedMappedDecoderCudaConfig()
    made.online_opts.frame_shift_seconds = np.float32(0.5)
    made.online_opts.decoder_opts.max_active = np.int64(7)
    assert type(made.online_opts.frame_shift_seconds) is float and type(made.online_opts.decoder_opts.max_active) is int
    for name, value in (("n_input_per_chunk", 1.5), ("online_opts", made.online_opts.decoder_opts)):
        with pytest.raises(TypeError, match=f"^{name}: expected a "):
            setattr(made, name, value)
    with pytest.raises(TypeError, match=r"^determinize_lattice: expected a bool, got int"):
        made.online_opts.determinize_lattice = 1
    with pytest.raises(AttributeError, match=r"has no option 'beam', but default_beam"):
        made.online_opts.decoder_opts.beam = 5.0
    other = riva.CudaDecoderConfig()
    made.online_opts.decoder_opts = other
    other.default_beam = 3.0
    assert made.online_opts.decoder_opts.default_beam == 15.0  # a group is copied, as in C++


def test_options_survive_a_configuration_of_nemo():
    values = as_dict(config(decoder_opts__length_penalty=-0.5, **post(nbest=7)))
    made = riva.BatchedMappedDecoderCudaConfig()
    fill(made, values)
    assert as_dict(made) == values


@pytest.mark.parametrize("nbest", [1, 4])
def test_entries_are_those_of_the_decoder(spoken, nbest):
    found = decoder(spoken, **post(nbest=nbest)).decode_nbest(spoken.padded, spoken.lengths)
    wanted = ours(spoken).decode(spoken.utterances, nbest=nbest)
    assert [said(spoken, entries)[0] for entries in found] == [h.text for h in wanted]
    assert sum(h.text == text for h, text in zip(wanted, spoken.said, strict=True)) >= 11
    for entries, hypothesis in zip(found, wanted, strict=True):
        assert len(entries) == len(hypothesis.nbest)
        for entry, path in zip(entries, hypothesis.nbest, strict=True):
            assert entry.score == -path.score
            assert entry.ilabels == [column + 1 for column in path.tokens]
            assert entry.words == path.word_ids.tolist()
            times = list(zip(entry.word_start_times_seconds, entry.word_durations_seconds, strict=True))
            assert times == [(w.start_frame * 0.02, (w.end_frame - w.start_frame) * 0.02) for w in path.words]


def test_a_list_and_a_padded_batch_give_the_same(spoken):
    made = decoder(spoken, **post(nbest=3))
    as_list = made.decode_nbest(spoken.utterances, spoken.lengths)
    assert made.decode_nbest(spoken.padded, spoken.lengths) == as_list
    assert made.decode_mbr(spoken.padded, spoken.lengths) == made.decode_mbr(spoken.utterances, spoken.lengths)
    assert made.decode_nbest(spoken.utterances[:0], spoken.lengths[:0]) == []
    assert made.device == "cpu" and "CtcDecoder of" in repr(made)


def test_words_of_the_fewest_errors(spoken):
    found = decoder(spoken).decode_mbr(spoken.padded, spoken.lengths)
    wanted = ours(spoken).decode(spoken.utterances, mbr=True)
    assert found == [
        [(w.word, w.start_frame * 0.02, w.end_frame * 0.02, w.confidence) for w in h.mbr.words] for h in wanted
    ]
    best = decoder(spoken, **post(mbr_opts=riva.MinimumBayesRiskOptions(decode_mbr=False)))
    wanted = ours(spoken).decode(spoken.utterances, confidence=True)
    assert [[(w, c) for w, _, _, c in words] for words in best.decode_mbr(spoken.padded, spoken.lengths)] == [
        [(w.word, w.confidence) for w in h.words] for h in wanted
    ]


def test_costs_that_are_scaled_alike(spoken):
    """The original scales a lattice once for each of its outputs: n-best lists have the third power."""
    plain, scaled = (decoder(spoken, **post(nbest=3, acoustic_scale=s, lm_scale=s)) for s in (1.0, 4.0))
    one, other = (made.decode_nbest(spoken.padded, spoken.lengths) for made in (plain, scaled))
    assert [[entry.words for entry in entries] for entries in one] == [[e.words for e in entries] for entries in other]
    assert [[64 * entry.score for entry in entries] for entries in one] == [[e.score for e in es] for es in other]
    words = scaled.decode_mbr(spoken.padded, spoken.lengths)
    wanted = ours(spoken, posterior_scale=16.0).decode(spoken.utterances, mbr=True)
    assert [[(w, c) for w, *_, c in said] for said in words] == [
        [(w.word, w.confidence) for w in h.mbr.words] for h in wanted
    ]


LOG_PROBS = np.log(np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]], np.float32))
LENGTHS = np.array([3])


@pytest.mark.filterwarnings("ignore:log_probs. expected:UserWarning")
@pytest.mark.parametrize(("penalty", "words", "cost"), [(0.0, [1], 0.5), (-2.0, [1, 2], 2.0 - 3 * 2.0)])
def test_length_penalty(tmp_path, penalty, words, cost):
    """It counts arcs that read a frame and lead to another state: one of the first path, three of the second."""
    arcs = [(0, 1, 1, 1, 0.5), (1, 1, 1, 0, 0.0), (0, 2, 1, 1, 1.0), (2, 3, 1, 2, 1.0), (3, 4, 1, 0, 0.0)]
    files = small(tmp_path, arcs, {1: 0.0, 4: 0.0})
    made = riva.BatchedMappedDecoderCuda(config(decoder_opts__length_penalty=penalty), *files, device="cpu")
    [[entry]] = made.decode_nbest([np.zeros((3, 3), np.float32)], LENGTHS)
    count = 1 if penalty == 0.0 else 0
    assert (entry.words, entry.score) == (words, cost + count * penalty)


def test_blank_penalty(tmp_path):
    files = small(tmp_path, [(0, 0, label, 0, 0.0) for label in (1, 2, 3)], {0: 0.0})
    for blank, labels in ((0, [2, 2, 3]), (2, [1, 2, 1])):
        options = {"decoder_opts__blank_penalty": 5.0, "decoder_opts__blank_ilabel": blank}
        made = riva.BatchedMappedDecoderCuda(config(**options), *files, device="cpu")
        [[entry]] = made.decode_nbest([LOG_PROBS], LENGTHS)
        assert entry.ilabels == labels


def test_paths_that_may_end_anywhere(tmp_path):
    arcs = [
        (0, 1, 1, 1, 0.0),
        (1, 1, 2, 0, 0.0),
        (1, 1, 3, 0, 0.0),
        (0, 2, 1, 2, 3.0),
        (2, 2, 2, 0, 0.0),
        (2, 2, 3, 0, 0.0),
    ]
    files = small(tmp_path, arcs, {2: 1.0})
    found = []
    for ends in (True, False):
        made = riva.BatchedMappedDecoderCuda(config(use_final_probs=ends), *files, device="cpu")
        [[entry]] = made.decode_nbest([LOG_PROBS], LENGTHS)
        found.append((entry.words, entry.score))
    acoustic = -float(LOG_PROBS[np.arange(3), np.arange(3)].astype(np.float64).sum())
    assert [words for words, _ in found] == [[2], [1]]
    assert [score for _, score in found] == pytest.approx([acoustic + 4.0, acoustic], abs=1e-6)


def test_a_search_that_has_died(tmp_path):
    files = small(tmp_path, [(0, 1, 1, 1, 0.0)], {1: 0.0})
    for scales in ({}, {"lm_scale": 2.0}):
        made = riva.BatchedMappedDecoderCuda(config(**post(**scales)), *files, device="cpu")
        assert made.decode_nbest([LOG_PROBS, LOG_PROBS[:1]], np.array([3, 1]))[0] == []
        assert made.decode_mbr([LOG_PROBS, LOG_PROBS[:1]], np.array([3, 1]))[1][0][0] == "a"
        assert made.decode_mbr([LOG_PROBS], LENGTHS) == [[]]


REFUSED = {
    "frame_shift_seconds": (0.0, "of seconds above 0, got 0.0"),
    "max_batch_size": (0, "at least 1, got 0"),
    "n_input_per_chunk": (0, "at least 1, got 0"),
    "decoder_opts__default_beam": (-1.0, "of at least 0, got -1.0"),
    "decoder_opts__lattice_beam": (math.nan, "of at least 0, got nan"),
    "decoder_opts__max_active": (0, "at least 1, got 0"),
    "decoder_opts__blank_penalty": (1.0, "expected the blank's column, which blank_penalty needs, got -1"),
    "decoder_opts__blank_ilabel": (29, "expected a column below 29, got 29"),
    "decoder_opts__length_penalty": (math.inf, "that is finite, got inf"),
    "det_opts__word_determinize": (False, "expected True, because a determinised lattice"),
    "lattice_postprocessor_opts__word_boundary_rxfilename": ("b.int", "expected '', because .* got 'b.int'"),
    "lattice_postprocessor_opts__mbr_opts__print_silence": (True, "expected False, because .* got True"),
    "lattice_postprocessor_opts__lm_scale": (-1.0, "of at least 0, got -1.0"),
    "lattice_postprocessor_opts__word_ins_penalty": (math.nan, "that is finite, got nan"),
    "lattice_postprocessor_opts__nbest": (0, "at least 1, got 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_are_refused(spoken, name):
    value, reason = REFUSED[name]
    with pytest.raises(ValueError, match=reason) as error:
        decoder(spoken, **{name: value})
    assert name.split("__")[-1] in str(error.value)


def test_milliseconds_are_no_seconds(spoken):
    with pytest.raises(ValueError, match="frame_shift_seconds: expected at most 1 second, got 20; write 20 millisec"):
        decoder(spoken, frame_shift_seconds=20.0)


def test_a_graph_of_arcbeam_is_none_of_rivas(spoken, tmp_path):
    spoken.graph.save(tmp_path / "TLG.arcbeam")
    with pytest.raises(ValueError, match=r"wfst_path: expected an OpenFst .*, got .*TLG\.arcbeam, a graph of arcbeam"):
        riva.BatchedMappedDecoderCuda(config(), tmp_path / "TLG.arcbeam", spoken.words, 29, device="cpu")


def test_options_that_need_parts_that_are_scaled_alike(spoken):
    for name, value in (
        ("decoder_opts__length_penalty", -0.5),
        ("lattice_postprocessor_opts__mbr_opts__decode_mbr", False),
    ):
        assert decoder(spoken, **{name: value}).decode_nbest(spoken.utterances[:1], spoken.lengths[:1])[0]
        with pytest.raises(ValueError, match="because the parts of lattices are not scaled alike, got"):
            decoder(spoken, **{name: value}, **post(lm_scale=0.5))


def test_what_is_no_configuration(spoken):
    files = str(spoken.fst), str(spoken.words), spoken.columns
    with pytest.raises(
        TypeError, match=r"^config: expected a BatchedMappedDecoderCudaConfig of .*, got CudaDecoderConfig"
    ):
        riva.BatchedMappedDecoderCuda(riva.CudaDecoderConfig(), *files)
    with pytest.raises(TypeError, match=r"^config: expected a BatchedMappedOnlineDecoderCudaConfig of .*, got dict"):
        riva.BatchedMappedOnlineDecoderCuda({}, *files)
    with pytest.raises(FileNotFoundError):
        riva.BatchedMappedDecoderCuda(config(), "missing.fst", *files[1:])
    with pytest.raises(ValueError, match="column"):
        riva.BatchedMappedDecoderCuda(config(), *files[:2], 5)


def test_a_decoder_goes_on_after_bad_input(spoken):
    made = decoder(spoken)
    wanted = made.decode_nbest(spoken.padded, spoken.lengths)
    bad = spoken.padded
    bad[1, 3, 5] = np.nan
    with pytest.raises(InputError, match="utterance 1, frame 3, column 5"):
        made.decode_nbest(bad, spoken.lengths)
    with pytest.raises(ValueError, match=r"^logits: expected \[batch, frames, columns\] or a list"):
        made.decode_nbest(spoken.utterances[0], spoken.lengths[:1])
    with pytest.raises(ValueError, match="lengths"):
        made.decode_mbr(spoken.padded, spoken.lengths + 1000)
    with pytest.raises(ValueError, match="columns"):
        made.decode_mbr(spoken.padded[..., :7], spoken.lengths)
    assert made.decode_nbest(spoken.padded, spoken.lengths) == wanted


def test_a_gpu_that_is_not_there(spoken):
    if CtcDecoder(spoken.graph).device != "cpu":
        pytest.skip("there is a GPU")
    with pytest.raises((MissingDependencyError, RuntimeError)):
        riva.BatchedMappedDecoderCuda(config(), str(spoken.fst), str(spoken.words), spoken.columns, device="cuda")


def test_tensors_of_torch(spoken):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    made = decoder(spoken, **post(nbest=2))
    batch, lengths = torch.from_numpy(spoken.padded).requires_grad_(), torch.from_numpy(spoken.lengths)
    wanted = made.decode_nbest(spoken.padded, spoken.lengths)
    assert made.decode_nbest(batch, lengths) == wanted
    assert made.decode_nbest([torch.from_numpy(one) for one in spoken.utterances], lengths) == wanted


@pytest.mark.parametrize("lm_weight", [1.0, 0.5])
def test_nemo(spoken, lm_weight):
    """Its three modes; log-probs that nobody may read are NaN, and units are in the order of their costs."""
    fst = spoken.fst.with_name("with_tables.fst")
    caller = Nemo(riva, fst, "nbest", lm_weight=lm_weight, nbest=4)
    found = caller.decode(spoken.padded, spoken.lengths)
    assert sum(" ".join(units[0].words) == text for units, text in zip(found, spoken.said, strict=True)) >= 11
    for units, frames in zip(found, spoken.lengths.tolist(), strict=True):
        assert all(len(unit.alignment) == frames and unit.timesteps[-1] < frames for unit in units)
        assert list(units[0].timesteps) == sorted(units[0].timesteps)
    said = Nemo(riva, fst, "mbr", lm_weight=lm_weight).decode(spoken.padded, spoken.lengths)
    assert [units[0].words for units in said] == [units[0].words for units in found]
    lattices = Nemo(riva, fst, "lattice", lm_weight=lm_weight).decode(spoken.padded, spoken.lengths)
    assert all(arcs and all(arc[1] > arc[0] for arc in arcs) for arcs in lattices)


def test_wenet(spoken):
    caller = WeNet(riva, spoken.columns, spoken.fst, spoken.words, 10)
    texts, labels, longest = caller.decode_nbest(spoken.padded, spoken.lengths)
    assert [len(said) for said in texts] == [len(spelled) for spelled in labels] == [10] * len(spoken.said)
    assert sum(one[0] == text for one, text in zip(texts, spoken.said, strict=True)) >= 11
    assert longest == max(len(spelled) for spellings in labels for spelled in spellings)
    assert caller.decode_mbr(spoken.padded, spoken.lengths) == [said[0] for said in texts]


INSTALLED = """
import sys, types
{before}
from arcbeam.compat import riva as ours
ours.install()
ours.install()
import riva.asrlib.decoder.python_decoder as python_decoder
from riva.asrlib.decoder.python_decoder import BatchedMappedDecoderCuda, BatchedMappedDecoderCudaConfig
assert python_decoder is ours and BatchedMappedDecoderCuda is ours.BatchedMappedDecoderCuda
{after}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("sys.path.insert(0, {folder!r})", "import riva.client; assert riva.client.ASR == 1")],
)
def test_the_name_of_the_original(tmp_path, before, after):
    """Also where there is another package of that name, which stays."""
    (tmp_path / "riva" / "client").mkdir(parents=True)
    (tmp_path / "riva" / "__init__.py").write_text("")
    (tmp_path / "riva" / "client" / "__init__.py").write_text("ASR = 1\n")
    code = INSTALLED.format(before=before.format(folder=str(tmp_path)), after=after)
    subprocess.run([sys.executable, "-c", code], check=True)
