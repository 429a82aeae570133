"""``arcbeam transduce``: archives of models and encoder output in, transcripts out."""

import json
import warnings

import numpy as np
import pytest

from arcbeam import BoostingTree, TransducerDecoder, read_lattices
from arcbeam.cli import options as opt
from tests.cli.transducer_models import write_icefall
from tests.transducer.archives import icefall_names, nemo_file, nemo_names
from tests.transducer.arpas import random_arpa
from tests.transducer.networks import random_arrays, random_frames

CONFIG = """
preprocessor: {window_stride: 0.01}
encoder: {subsampling_factor: 8}
joint: {jointnet: {activation: relu}, vocabulary: [▁a, b, c, d, e, ▁f, g, h, i, j, k, l]}
"""
FRAMES = {name: random_frames(i, 30) for i, name in enumerate(["one", "two"])}


@pytest.fixture
def models(tmp_path):
    pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")
    arrays = random_arrays(6, blank=12, blank_bias=2.0)
    nemo_file(tmp_path / "m.nemo", CONFIG, nemo_names(arrays))
    write_icefall(tmp_path / "m.pt")
    np.savez(tmp_path / "in.npz", **FRAMES)
    return tmp_path


def test_nemo(run, models):
    expected = TransducerDecoder.from_nemo(models / "m.nemo", confidence="max_prob").decode(list(FRAMES.values()))
    result = run("transduce", models / "m.nemo", models / "in.npz")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [f"{k} {h.text}" for k, h in zip(FRAMES, expected, strict=True)]
    assert "decoded 2 utterances, 60 frames, 4.8 s of audio" in result.stderr
    result = run(
        "transduce",
        models / "m.nemo",
        models / "in.npz",
        "-f",
        "json",
        "--confidence",
        "--confidence-method",
        "max_prob",
    )
    found = [json.loads(line) for line in result.stdout.splitlines()]
    for fields, h in zip(found, expected, strict=True):
        tokens = {name: [token[name] for token in fields["tokens"]] for name in fields["tokens"][0]}
        assert tokens["token"] == h.tokens.tolist() and tokens["start_frame"] == h.frames.tolist()
        assert fields["frames"] == 30 and fields["score"] == pytest.approx(h.score, abs=1e-6)
        assert [word["word"] for word in fields["words"]] == h.text.split() and fields["text"] == h.text
        assert [word["start_frame"] for word in fields["words"]] == [word.start_frame for word in h.words]
        np.testing.assert_allclose(tokens["start"], h.times, atol=1e-6)
        np.testing.assert_allclose(tokens["confidence"], h.confidence, atol=1e-6)
        np.testing.assert_allclose(tokens["log_prob"], h.log_probs, atol=1e-6)
        assert "duration" not in tokens
    one = run("transduce", models / "m.nemo", models / "in.npz", "-f", "trn", "--max-symbols", "1", "--batch-size", "1")
    assert [line.rpartition(" ")[2] for line in one.stdout.splitlines()] == ["(one)", "(two)"]


def test_named_arrays(run, models):
    """Weights and options in an .npz: the same lines as of the archive of NeMo."""
    pieces = [f"▁{c}" if c in "af" else c for c in "abcdefghijkl"]
    arrays = random_arrays(6, blank=12, blank_bias=2.0)
    options = {"blank_id": 12, "activation": "relu", "frame_shift": 0.08, "tokenizer": pieces}
    np.savez(models / "m.npz", **arrays, **options)
    for given in ((), ("-f", "ctm"), ("-f", "json", "--max-symbols", "1"), ("--frame-shift", "0.5", "-f", "ctm")):
        ours, of_nemo = (run("transduce", models / name, models / "in.npz", *given) for name in ("m.npz", "m.nemo"))
        assert ours.exit_code == 0, ours.output
        assert ours.stdout == of_nemo.stdout and len(ours.stdout.splitlines()) >= 2
    np.savez(models / "m.npz", **arrays)
    result = run("transduce", models / "m.npz", models / "in.npz")
    assert result.exit_code == 1 and "m.npz: expected an array blank_id" in result.stderr
    swapped = run("transduce", models / "in.npz", models / "m.npz")
    assert swapped.exit_code == 1 and "in.npz: arrays: unknown array one, two: expected some of" in swapped.stderr
    assert "; the model comes first, and then the output of its encoder" in swapped.stderr


def test_times_of_words(run, models):
    arrays, config = random_arrays(6, blank=12, blank_bias=2.0), CONFIG.replace("c, d", "▁c, d")
    nemo_file(models / "m.nemo", config, nemo_names(arrays))
    expected = TransducerDecoder.from_nemo(
        models / "m.nemo", confidence="entropy", confidence_aggregation="mean", frame_shift=0.5
    ).decode(list(FRAMES.values()))
    given = ("--confidence", "--confidence-aggregation", "mean", "--frame-shift", "0.5")
    result = run("transduce", models / "m.nemo", models / "in.npz", "-f", "ctm", *given)
    assert result.stdout.splitlines() == [
        f"{name} 1 {word.start:.3f} {word.end - word.start:.3f} {word.word} {word.confidence:.3f}"
        for name, h in zip(FRAMES, expected, strict=True) for word in h.words
    ]  # fmt: skip
    assert len(result.stdout.splitlines()) > 4
    plain = run("transduce", models / "m.nemo", models / "in.npz", "-f", "ctm").stdout.splitlines()
    assert {len(line.split()) for line in plain} == {5}
    unknown = models / "unknown.nemo"
    nemo_file(unknown, config.replace("window_stride: 0.01", ""), nemo_names(arrays))
    result = run("transduce", unknown, models / "in.npz", "-f", "ctm")
    assert result.exit_code == 2 and "set --frame-shift" in result.stderr


def test_ids_that_a_format_has_no_room_for(run, models):
    np.savez(models / "spaced.npz", **{"one two": FRAMES["one"]})
    result = run("transduce", models / "m.nemo", models / "spaced.npz")
    assert result.exit_code == 1 and "use --format json" in " ".join(result.stderr.split())
    assert run("transduce", models / "m.nemo", models / "spaced.npz", "-f", "json").exit_code == 0


def test_boosted_phrases(run, models):
    (models / "phrases").write_text("abd\t3\nfl\n")
    decoder = TransducerDecoder.from_nemo(models / "m.nemo", boosting_tree_alpha=2.0)
    tree = BoostingTree({"abd": 3.0, "fl": 1.0}, decoder.pieces)
    assert tree.tokens == {"abd": [(0, 1, 3)], "fl": [(5, 11)]}
    expected = decoder.decode(list(FRAMES.values()), boost=tree)
    assert [h.text for h in expected] != [h.text for h in decoder.decode(list(FRAMES.values()))]
    options = ["--boost", models / "phrases", "--boosting-tree-alpha", "2"]
    result = run("transduce", models / "m.nemo", models / "in.npz", *options)
    assert result.stdout.splitlines() == [f"{k} {h.text}" for k, h in zip(FRAMES, expected, strict=True)]
    scores = {"context_score": 0.5, "depth_scaling": 3.0, "unk_score": 0.25}
    expected = decoder.decode(list(FRAMES.values()), boost=BoostingTree(["abd", "fl"], decoder.pieces, **scores))
    (models / "phrases").write_text("abd\nfl\n")
    given = [part for name, score in scores.items() for part in (f"--{name.replace('_', '-')}", score)]
    result = run("transduce", models / "m.nemo", models / "in.npz", *options, *given)
    assert result.stdout.splitlines() == [f"{k} {h.text}" for k, h in zip(FRAMES, expected, strict=True)]
    drawn = run("transduce", models / "m.nemo", models / "in.npz", *options, "--use-bpe-dropout")
    assert "use_bpe_dropout: expected a SentencePiece model as tokenizer" in drawn.stderr
    (models / "phrases").write_text("a\nzz\n")
    wrong = run("transduce", models / "m.nemo", models / "in.npz", *options)
    assert wrong.exit_code and "phrases: phrase 'zz' has characters that the tokenizer does not" in wrong.output
    (models / "phrases").write_text("\n")
    plain = run("transduce", models / "m.nemo", models / "in.npz")
    assert run("transduce", models / "m.nemo", models / "in.npz", *options).stdout == plain.stdout
    missing = run("transduce", models / "m.pt", models / "in.npz", *options)
    assert missing.exit_code and "the model has no pieces to make phrases of; give --tokenizer" in missing.output


def test_phrases_of_single_utterances(run, models):
    (models / "lists").mkdir()
    (models / "lists" / "one").write_text("abd\t3\nfl\n")
    (models / "all").write_text("fg\t9\n")
    (models / "map").write_text("two lists/one\nfour  lists/one\n")
    decoder = TransducerDecoder.from_nemo(models / "m.nemo")
    common, own = (BoostingTree(p, decoder.pieces) for p in ({"fg": 9.0}, {"abd": 3.0, "fl": 1.0}))
    for options, trees in [
        (["--boost-map", models / "map"], [None, own]),
        (["--boost-map", models / "map", "--boost", models / "all"], [common, own]),
    ]:
        expected = decoder.decode(list(FRAMES.values()), boost=trees)
        result = run("transduce", models / "m.nemo", models / "in.npz", "--batch-size", "1", *options)
        assert result.stdout.splitlines() == [f"{k} {h.text}" for k, h in zip(FRAMES, expected, strict=True)]
        assert "note: --boost-map: the input lacks 1 utterance: four" in result.stderr
        plain = decoder.decode(list(FRAMES.values()))
        changed = [h.text != p.text for h, p in zip(expected, plain, strict=True)]
        assert changed == [tree is not None for tree in trees]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one\n", "line 1: expected an utterance and the file of its boost, got 'one'"),
        ("one x\none y\n", "line 2: utterance 'one' occurs twice"),
        ("one absent\n", "absent"),
        ("four wrong\n", "wrong, line 2: phrase 'a' occurs twice"),
    ],
)
def test_bad_maps(run, models, text, message):
    (models / "wrong").write_text("a\na\n")
    (models / "map").write_text(text)
    result = run("transduce", models / "m.nemo", models / "in.npz", "--boost-map", models / "map")
    assert result.exit_code == 1 and message in result.stderr


def test_a_model_of_tokens(run, models):
    arpa = random_arpa(models / "tokens.arpa", range(12))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decoder = TransducerDecoder.from_nemo(models / "m.nemo", ngram_lm_model=arpa, ngram_lm_alpha=0.9)
    expected = decoder.decode(list(FRAMES.values()))
    lines = [f"{k} {h.text}" for k, h in zip(FRAMES, expected, strict=True)]
    result = run("transduce", models / "m.nemo", models / "in.npz", "--ngram-lm", arpa, "--ngram-lm-alpha", "0.9")
    assert result.stdout.splitlines() == lines
    named = random_arpa(models / "named.arpa", range(12), word_of=lambda token: f"piece{token}")
    given = ("transduce", models / "m.nemo", models / "in.npz", "--ngram-lm", named, "--ngram-lm-alpha", "0.9")
    assert "has 0 of their 12 words" in run(*given).stderr
    (models / "names.txt").write_text("".join(f"piece{token}\t-3.5\n" for token in range(12)))
    names = [f"piece{token}" for token in range(12)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decoder = TransducerDecoder.from_nemo(
            models / "m.nemo", ngram_lm_model=named, ngram_lm_alpha=0.9, ngram_lm_tokens=names
        )
    expected = decoder.decode(list(FRAMES.values()))
    result = run(*given, "--ngram-lm-tokens", models / "names.txt")
    assert result.stdout.splitlines() == [f"{k} {h.text}" for k, h in zip(FRAMES, expected, strict=True)]


def test_precision_and_device(run, models):
    expected = TransducerDecoder.from_nemo(models / "m.nemo", precision="bfloat16").decode(list(FRAMES.values()))
    result = run("transduce", models / "m.nemo", models / "in.npz", "--precision", "bfloat16", "--device", "cpu")
    assert result.stdout.splitlines() == [f"{k} {h.text}" for k, h in zip(FRAMES, expected, strict=True)]
    wrong = run("transduce", models / "m.nemo", models / "in.npz", "--precision", "float8")
    assert wrong.exit_code == 2 and "'--precision': expected float32 or bfloat16, got 'float8'" in wrong.output
    missing = run("transduce", models / "m.nemo", models / "in.npz", "--device", "tpu")
    assert missing.exit_code == 2 and "'--device': expected" in missing.output


def test_icefall(run, models):
    expected = TransducerDecoder.from_icefall(models / "m.pt").decode(list(FRAMES.values()))
    result = run("transduce", models / "m.pt", models / "in.npz")
    assert result.exit_code == 0, result.output
    lines = [" ".join([k, *map(str, h.tokens.tolist())]) for k, h in zip(FRAMES, expected, strict=True)]
    assert result.stdout.splitlines() == lines
    assert "tokens are numbers; give --tokenizer" in result.stderr


def test_safetensors(run, models):
    """The names of the weights say whose they are."""
    files = pytest.importorskip("safetensors.numpy", reason="the package safetensors writes the files")
    stateless = random_arrays(6, layers=0, context=2, groups=3, blank_bias=2.0)
    del stateless["convolution_bias"]
    for name, weights in (
        ("icefall", icefall_names(stateless)),
        ("nemo", nemo_names(random_arrays(6, blank=12, blank_bias=2.0))),
    ):
        path = models / f"{name}.safetensors"
        files.save_file({key: np.ascontiguousarray(value) for key, value in weights.items()}, path)
        expected = getattr(TransducerDecoder, f"from_{name}")(weights).decode(list(FRAMES.values()))
        result = run("transduce", path, models / "in.npz")
        assert result.exit_code == 0, result.output
        numbers = [" ".join(map(str, h.tokens.tolist())) for h in expected]
        assert result.stdout.splitlines() == [f"{k} {n}".rstrip() for k, n in zip(FRAMES, numbers, strict=True)]
    path.write_bytes(path.read_bytes()[:-1])
    result = run("transduce", path, models / "in.npz")
    assert result.exit_code == 1
    assert f"{path}: expected a safetensors file" in " ".join(result.stderr.split())


def test_a_limit(run, models):
    result = run("transduce", models / "m.pt", models / "in.npz", "--max-bytes", "100")
    assert result.exit_code == 1
    assert "m.pt: expected at most 100 bytes" in " ".join(result.stderr.split())


def test_help(run):
    shown = " ".join(run("transduce", "--help", env={"COLUMNS": "200"}).stdout.split())
    assert "Encoder output [frames, features]: .npz" in shown
    assert "bfloat16 is faster on a GPU, and may change a token." in shown
    assert "from one frame of the encoder output to the next" in shown
    assert "CTM, STM and RTFx" in shown and "frame of log-probs" not in shown


def test_errors(run, models):
    np.savez(models / "wide.npz", one=np.zeros((3, 8), np.float32))
    np.save(models / "none.npy", np.zeros((0, 5, 7), np.float32))
    np.savez(models / "nan.npz", one=FRAMES["one"], two=FRAMES["two"] * np.nan)
    for arguments, code, message in [
        (("m.onnx", "in.npz"), 1, "unknown kind of model '.onnx', expected one of .nemo, .pt"),
        (("m.nemo", "wide.npz"), 1, "utterance 'one' has 8 features, the model expects 7"),
        (("m.nemo", "none.npy"), 1, "the input contains no utterances"),
        (
            ("m.nemo", "nan.npz"),
            1,
            "nan.npz: utterance 'two': encoder_output: expected finite values, got nan in frame 0, feature 0",
        ),
        (("m.pt", "in.npz", "-f", "ctm"), 1, "m.pt: CTM gives words, and the model has no pieces to make them of"),
        (
            ("m.nemo", "in.npz", "-f", "json", "--confidence", "--confidence-aggregation", "least"),
            2,
            "'--confidence-aggregation': expected one of mean",
        ),
        (
            ("m.nemo", "in.npz", "-f", "json", "--confidence", "--confidence-method", "high"),
            2,
            "'--confidence-method': expected max_prob or entropy, got 'high'",
        ),
        (("m.nemo", "in.npz", "-f", "trn", "--confidence"), 2, "confidences are for --format json or ctm"),
        (("m.nemo", "in.npz", "--confidence"), 2, "confidences are for --format json or ctm"),
    ]:
        paths = [models / a if "." in a else a for a in arguments]
        result = run("transduce", *paths)
        assert result.exit_code == code, result.output
        assert message in " ".join(result.stderr.replace("│", " ").split())


def test_a_run_that_breaks_off_leaves_the_file_as_it_was(run, models, tmp_path):
    bad = random_frames(1, 5)
    bad[3, 2] = np.inf
    np.savez(tmp_path / "frames.npz", a=random_frames(0, 4), b=bad)
    out = tmp_path / "out.txt"
    out.write_text("what was there\n")
    result = run("transduce", models / "m.nemo", tmp_path / "frames.npz", "-o", out)
    assert result.exit_code == 1
    note, error = result.stderr.splitlines()
    assert note == (
        f"note: stopped early: {out}.partial has what was done, 1 utterance; {out} is unchanged; the same command with "
        "--resume goes on"
    )
    assert "utterance 'b': encoder_output: expected finite values, got inf in frame 3, feature 2" in error
    assert out.with_suffix(".txt.partial").read_text().startswith("a")
    assert out.read_text() == "what was there\n"


def test_a_beam(run, models):
    """The n-best list is that of the decoder, also of a model without pieces; and what a beam does not take is said."""
    options = ("--beam", "3", "--max-hypotheses", "4", "--merge", "max", "--length-power", "0.5")
    decoder = TransducerDecoder.from_nemo(
        models / "m.nemo", beam=3, max_hypotheses=4, merge="max", length_power=0.5, device="cpu"
    )
    expected = decoder.decode(list(FRAMES.values()), nbest=3)
    assert max(len(one.nbest) for one in expected) > 1
    result = run("transduce", models / "m.nemo", models / "in.npz", *options)
    assert result.stdout.splitlines() == [f"{k} {h.text}" for k, h in zip(FRAMES, expected, strict=True)]
    result = run("transduce", models / "m.nemo", models / "in.npz", *options, "-f", "json", "--nbest", "3")
    for line, one in zip(map(json.loads, result.stdout.splitlines()), expected, strict=True):
        assert line["posterior"] == pytest.approx(one.posterior, abs=1e-6)
        assert [entry["text"] for entry in line["nbest"]] == [entry.text for entry in one.nbest]
        assert [entry["score"] for entry in line["nbest"]] == pytest.approx([e.score for e in one.nbest], abs=1e-6)
    result = run("transduce", models / "m.pt", models / "in.npz", "--beam", "3", "-f", "json", "--nbest", "3")
    for line in map(json.loads, result.stdout.splitlines()):
        assert [entry["text"] for entry in line["nbest"]] == [
            " ".join(str(token["token"]) for token in entry["tokens"]) for entry in line["nbest"]
        ]

    given = ("transduce", models / "m.nemo", models / "in.npz", "--beam", "3")
    for wrong, said in {
        ("--nbest", "3"): "only --format json has a place for it",
        ("--nbest", "9", "-f", "json"): "which is 8, got 9; give --max-hypotheses 9 ",
    }.items():
        result = run(*given, *wrong)
        assert result.exit_code == 2 and said in " ".join(result.stderr.replace("│", " ").split())
    result = run(*given, "--device", "cuda", "--max-hypotheses", "33")
    assert result.exit_code == 1 and 'device: expected "cpu"' in result.stderr


@pytest.mark.parametrize("raw", [False, True])
def test_lattices(run, models, raw):
    """They are those of the decoder; a model without pieces writes numbers."""
    options = ("--beam", "1.5", "--merge-context", "1", "--lattice", models / "out.ark", *(["--raw-lattice"] * raw))
    for name, make in (("m.nemo", TransducerDecoder.from_nemo), ("m.pt", TransducerDecoder.from_icefall)):
        decoder = make(models / name, beam=1.5, merge_context=1, device="cpu")
        expected = decoder.decode(list(FRAMES.values()), lattice=True)
        result = run("transduce", models / name, models / "in.npz", *options)
        assert f"wrote {models / 'out.ark'}: {len(FRAMES)} lattices, whose words are tokens" in result.stderr
        for (utterance, read), key, one in zip(read_lattices(models / "out.ark"), FRAMES, expected, strict=True):
            assert utterance == key
            assert read == one.lattice.to_kaldi(determinize=not raw)
    for wrong, said in {
        ("--lattice", "a.ark"): "--beam",
        ("--beam", "4", "--raw-lattice"): "--lattice",
        ("--beam", "4", "--lattice", "ark:-"): "cannot both go to the standard output",
        ("--beam", "4", "--merge-context", "0"): "a whole number of at least 1",
        ("--merge-context", "2"): "--beam",
        ("--beam", "4", "--merge-context", "2", "--settle-frames", "9"): "leave out --settle-frames",
        ("--beam", "4", "--merge-context", "2", "--chunk-frames", "5"): "leave out --chunk-frames",
        ("--beam", "4", "--lattice", "a.ark", "--chunk-frames", "5"): "leave out --chunk-frames",
    }.items():
        result = run("transduce", models / "m.nemo", models / "in.npz", *wrong)
        assert result.exit_code == 2 and said in " ".join(result.stderr.replace("│", " ").split())


def test_what_only_a_cpu_does_takes_the_cpu_unless_a_device_is_named(run, models, monkeypatch):
    devices = []
    monkeypatch.setattr(opt, "devices_of", lambda device: devices.append(device) or ["cpu"])
    beam, lattice = ("--beam", "4"), ("--lattice", models / "out.ark")
    cpu = [(*beam, *given) for given in (lattice, ("--merge-context", "5"))]
    any_device = [beam, ("--chunk-frames", "5"), *((*beam, one, "5") for one in ("--settle-frames", "--chunk-frames"))]
    for given in (*cpu, *any_device, (*beam, *lattice, "--device", "cuda")):
        assert run("transduce", models / "m.nemo", models / "in.npz", *given).exit_code == 0
    assert devices == [*["cpu"] * len(cpu), *["auto"] * len(any_device), "cuda"]


@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
def test_models_with_a_beam(run, models):
    """Lists, an n-gram model, LODR and the internal language model: the decoder's n-best list, with the parts."""
    (models / "phrases").write_text("abd\t3\nfl\n")
    ngram_lm = random_arpa(models / "n.arpa", range(12), 3)
    lodr = random_arpa(models / "l.arpa", range(12), 2, seed=4)
    decoder = TransducerDecoder.from_nemo(
        models / "m.nemo", beam=6, ngram_lm_model=ngram_lm, ngram_lm_alpha=0.5, lodr_model=lodr, lodr_scale=-0.25,
        ilm_scale=0.1, boosting_tree_alpha=2.0, device="cpu",
    )  # fmt: skip
    tree = BoostingTree({"abd": 3.0, "fl": 1.0}, decoder.pieces)
    expected = decoder.decode(list(FRAMES.values()), boost=tree, nbest=4)
    given = ["--beam", "6", "--boost", models / "phrases", "--boosting-tree-alpha", "2", "--ngram-lm", ngram_lm]
    given += ["--ngram-lm-alpha", "0.5", "--lodr", lodr, "--lodr-scale", "-0.25", "--ilm-scale", "0.1"]
    result = run("transduce", models / "m.nemo", models / "in.npz", *given, "-f", "json", "--nbest", "4")
    assert result.exit_code == 0, result.output
    parts = ("score", "network_score", "lm_score", "boost_score", "lodr_score", "ilm_score")
    for line, one in zip(map(json.loads, result.stdout.splitlines()), expected, strict=True):
        for found, entry in zip((line, *line["nbest"]), (one, *one.nbest), strict=True):
            assert found["text"] == entry.text
            assert [found[name] for name in parts] == pytest.approx([getattr(entry, name) for name in parts], abs=1e-6)
            assert sum(found[name] for name in parts[1:]) == pytest.approx(found["score"], abs=1e-5)
    assert "network_score" not in run("transduce", models / "m.nemo", models / "in.npz", "-f", "json").stdout
    for wrong, said in {
        ("--lodr", lodr): "needs --beam",
        ("--ilm-scale", "0.1"): "needs --beam",
        ("--beam", "4", "--lodr-scale", "-0.1"): "needs --lodr",
        ("--beam", "4", "--ilm-scale", "1.5"): "at least 0 and of at most 1, got '1.5'",
    }.items():
        result = run("transduce", models / "m.nemo", models / "in.npz", *wrong)
        assert result.exit_code == 2 and said in " ".join(result.stderr.replace("│", " ").split())


def test_log_probs_are_no_output_of_an_encoder(run, demo_data):
    result = run("transduce", demo_data / "transducer.npz", demo_data / "log_probs.npz")
    assert result.exit_code == 1
    assert "has 29 features, the model expects 256: they are log-probs of a CTC model" in result.stderr
    decoder = TransducerDecoder.from_arrays(demo_data / "transducer.npz", device="cpu")
    with pytest.raises(ValueError, match=r"expected 256 features, got 29 .* are for CtcDecoder"):
        decoder.decode(np.zeros((9, 29), np.float32))
