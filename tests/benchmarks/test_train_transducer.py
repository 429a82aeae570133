"""Training a transducer over log-probs: alignments, spoken texts, the loss, and a run from data to weights."""

import itertools
import lzma
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("sentencepiece", reason="training needs sentencepiece")

from arcbeam import LanguageModel, TransducerDecoder  # noqa: E402
from benchmarks.data import datasets, pieces_lm  # noqa: E402
from benchmarks.experiments import (  # noqa: E402
    transducer_beam,
    transducer_beam_sherpa,
    transducer_beam_wer,
    transducer_boosting,
    transducer_lattice,
    transducer_wer,
)
from benchmarks.harness.registry import Context  # noqa: E402
from benchmarks.tasks import boosting  # noqa: E402
from data import (  # noqa: E402
    make_demo_lm,
    make_demo_transducer,
    speech_transducer,
    spoken_text,
    train_transducer,
    workload,
)
from data.letter_alignment import first_frames  # noqa: E402
from data.pieces import train_sentencepiece  # noqa: E402
from data.word_errors import word_error_rate  # noqa: E402

TOKENS = [" ", *"abcdefghijklmnopqrstuvwxyz'", "<blank>"]


def test_alignment_against_all_paths():
    rng = np.random.default_rng(0)
    for letters, frames in ([0, 1], 5), ([1, 1], 6), ([2], 3), ([0, 0, 1], 5):
        scores = np.log(rng.dirichlet(np.ones(4), frames))
        best = {}
        for path in itertools.product(range(4), repeat=frames):
            if [c for c, _ in itertools.groupby(path) if c != 3] == letters:
                best[path] = sum(scores[t, c] for t, c in enumerate(path))
        path = max(best, key=best.__getitem__)
        wanted = [t for t in range(frames) if path[t] != 3 and (t == 0 or path[t] != path[t - 1])]
        [found] = first_frames([scores], [np.array(letters)])
        assert found.tolist() == wanted
    with pytest.raises(ValueError, match="its 2 letters do not fit into 2 frames"):
        first_frames([scores[:2]], [np.array([1, 1])])


@pytest.fixture(scope="module")
def data(demo_data, tmp_path_factory):
    """A data folder in which every set is the demo's, with a SentencePiece model of its words."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("throughput", *train_transducer.EVALUATED):
        shutil.copytree(demo_data, folder / name)
    shutil.copy(demo_data / "tokens.txt", folder)
    lines = train_transducer.read_set(demo_data).references
    alphabet = "".join(TOKENS[1:-1])
    model = folder / "tokenizers" / "librispeech_bpe_256.model"
    train_sentencepiece([*lines, *alphabet, alphabet] * 3, 80, model)
    (folder / "lines.txt").write_text("he saw the road\nthe house is made of wood\n" * 20 + "\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def source(data):
    torch.manual_seed(0)
    alphabet = spoken_text.Alphabet(TOKENS, str(data / "tokenizers" / "librispeech_bpe_256.model"))
    texts = train_transducer.read_text(data / "lines.txt", 1000, ["he saw the road by night"])
    assert len(texts) == 53  # four words in a row are no overlap
    spoken = train_transducer.read_set(data / "throughput")
    return train_transducer.Source(spoken, texts, alphabet, "cpu", 600, 0), alphabet


def test_a_spelled_text_ends_its_pieces(source):
    _, alphabet = source
    symbols, ends = alphabet.spell("the house")
    assert symbols[0] == spoken_text.START and "".join(TOKENS[s] for s in symbols[1:]) == "the house"
    assert alphabet.text(ends[ends >= 0]) == "the house"
    with pytest.raises(KeyError):
        alphabet.spell("die straße")
    assert len(train_transducer.spell_all(alphabet, ["straße", "road"])) == 1


@pytest.mark.parametrize("kind", ["made", "real"])
def test_spoken_texts_say_their_pieces(source, kind):
    source, alphabet = source
    texts = getattr(source, kind)
    batch = spoken_text.speak(source.units, *texts.draw(900, np.random.default_rng(1)), None)
    written = [alphabet.text(p[:n]) for p, n in zip(batch.pieces.tolist(), batch.counts.tolist(), strict=True)]
    decoded = [
        workload.collapse(values[: 4 * groups].argmax(1).numpy(), TOKENS)
        for values, groups in zip(batch.log_probs, batch.lengths.tolist(), strict=True)
    ]
    assert word_error_rate(written, decoded) < 0.2  # units with other neighbours, and the model's errors
    for due, count, groups in zip(batch.due.tolist(), batch.counts.tolist(), batch.lengths.tolist(), strict=True):
        assert due[:count] == sorted(due[:count]) and due[count - 1] < groups


def test_distortion_keeps_distributions(source):
    batch = source[0].draw()
    assert batch.log_probs.shape[1] % 4 == 0
    torch.testing.assert_close(batch.log_probs.exp().sum(2), torch.ones(batch.log_probs.shape[:2]), atol=1e-3, rtol=0)


def test_the_encoder_does_not_see_padding():
    torch.manual_seed(1)
    light = speech_transducer.Light(speech_transducer.Sizes(channels=32, blocks=2, inner=48)).eval()
    rng = np.random.default_rng(0)
    rows = [np.log(rng.dirichlet(np.ones(29), n)) for n in (10, 41)]
    together = speech_transducer.encode(light, rows)
    for row, found in zip(rows, together, strict=True):
        assert found.shape == (-(-len(row) // 4), 32)
        np.testing.assert_allclose(speech_transducer.encode(light, [row])[0], found, atol=1e-4)


def source_of(data):
    """Batches as `train_transducer.main` draws them."""
    torch.manual_seed(5)
    alphabet = train_transducer.alphabet_of(data)
    texts = train_transducer.read_text(data / "lines.txt", 1000, [])
    return train_transducer.Source(train_transducer.read_set(data / "throughput"), texts, alphabet, "cpu", 900, 5)


@torch.inference_mode()
def loss_of_all_paths(source, weights, tdt):
    """The mean of a few batches."""
    with np.load(weights) as arrays:
        sizes = speech_transducer.Sizes(tokens=81, **train_transducer.SIZES["small"])
        model = speech_transducer.Transducer(sizes, speech_transducer.DURATIONS if tdt else None).eval()
        model.take(arrays)
    return float(np.mean([model.full_sum_loss(source.draw()).item() for _ in range(4)]))


@pytest.mark.parametrize("tdt", [False, True])
def test_from_data_to_weights(data, tmp_path, monkeypatch, capsys, tdt):
    """The loss falls, and what is written is what arcbeam decodes."""
    monkeypatch.setattr(train_transducer, "REAL_SHARE", 1.0)
    kind = ["--tdt"] if tdt else []
    argv = ["--data", str(data), "--out", str(tmp_path / "w.npz"), "--text", str(data / "lines.txt"), "--size", "small"]
    train_transducer.main([*argv, *kind, "--steps", "60", "--letters", "900", "--device", "cpu"])
    said = capsys.readouterr().out
    assert "60 steps in" in said and "test-other-100: " in said
    assert "53 of 53 lines have 2 to 60 words" in said and "8 of them share 5 words in a row with an evaluated" in said
    train_transducer.main(["--data", str(data), "--evaluate", str(tmp_path / "w.npz"), *kind])
    assert "demo: " in capsys.readouterr().out
    with np.load(tmp_path / "w.npz") as arrays:
        light = speech_transducer.load_light(arrays)
        assert all(v.dtype == torch.float32 for v in light.parameters())
        assert len(arrays["output_bias"]) == 81 + 5 * tdt
        first = {name: value.astype(np.float32).tobytes() for name, value in arrays.items()}
    on = ["--weights", str(tmp_path / "w.npz"), "--loss", "full-sum", "--rate", "1e-3", "--letters", "900"]
    train_transducer.main([*argv, *kind, *on, "--out", str(tmp_path / "on.npz"), "--steps", "30", "--device", "cpu"])
    assert "30 steps in" in capsys.readouterr().out
    losses = [loss_of_all_paths(source_of(data), tmp_path / name, tdt) for name in ("w.npz", "on.npz")]
    assert losses[1] < losses[0]
    begun = []
    monkeypatch.setattr(train_transducer, "train", lambda source, model, *rest: begun.append(model.arrays()))
    train_transducer.main([*argv, *kind, "--weights", str(tmp_path / "w.npz"), "--device", "cpu"])
    assert {name: value.tobytes() for name, value in begun[0].items()} == first


def test_the_text_has_no_line_of_the_demos_novel(tmp_path, monkeypatch, capsys):
    """Nor one of other books that quotes it; a text without the novel is taken as it is."""
    monkeypatch.setattr(make_demo_lm, "WORDS_OF_THE_NOVEL", (15, 30))
    novel = [
        *make_demo_lm.FIRST_LINES,
        "the family of dashwood had long been settled in sussex",
        make_demo_lm.LAST_LINE,
    ]
    quoting = "he read the family of dashwood had long been settled in sussex"
    others = [f"another line about number {'x' * i}" for i in range(1, 9)]
    path = tmp_path / "books.txt"
    path.write_text("\n".join([*others[:4], *novel, quoting, *others[4:]]) + "\n")
    assert train_transducer.read_text(path, 100, []) == others
    assert train_transducer.read_text(path, 4, [others[3]]) == [others[0], others[5]]  # every third line outside
    said = capsys.readouterr().out
    assert "the novel: lines 5 to 8" in said and "1 more lines share 8 words in a row" in said
    path.write_text("\n".join(others) + "\n")
    assert train_transducer.read_text(path, 100, []) == others
    assert "the text does not contain the novel" in capsys.readouterr().out


def test_progress_is_told_while_texts_are_spelled(source, monkeypatch, capsys):
    monkeypatch.setattr(train_transducer, "TOLD_EVERY", 2)
    assert len(train_transducer.spell_all(source[1], ["road"] * 5)) == 5
    assert [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()] == [
        "2 texts spelled",
        "4 texts spelled",
    ]


@pytest.mark.parametrize("tdt", [False, True])
def test_the_demos_files(data, demo_data, tmp_path, tdt):
    """A tokenizer that is trained on the way, weights, and the demo's files made of them: the same is decoded."""
    kind, model = ["--tdt"] if tdt else [], tmp_path / "pieces.model"
    (tmp_path / "text").write_text("the quick brown fox jumps over the lazy dog\nit's a very short text\n" * 9)
    argv = ["--data", str(data), "--text", str(tmp_path / "text"), "--tokenizer", str(model), *kind]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_transducer, "PIECES", 40)
        train_transducer.main(
            [*argv, "--out", str(tmp_path / "w.npz"), "--size", "demo", "--steps", "3", "--letters", "900"]
        )
    folder = tmp_path / "demo"
    folder.mkdir()
    shutil.copy(demo_data / "log_probs.npz", folder)
    make_demo_transducer.main([str(tmp_path / "w.npz"), "--tokenizer", str(model), "--folder", str(folder)])
    decoder = TransducerDecoder.from_arrays(folder / "transducer.npz", device="cpu")
    assert decoder.options.durations == (speech_transducer.DURATIONS if tdt else None)
    assert (decoder.options.blank_id, decoder.options.frame_shift, len(decoder.pieces)) == (40, 0.08, 40)
    spoken = train_transducer.read_set(demo_data)
    alphabet = train_transducer.alphabet_of(data, model)
    with np.load(tmp_path / "w.npz") as arrays, np.load(folder / "encoder_output.npz") as encoded:
        wanted = speech_transducer.encode(speech_transducer.load_light(arrays), spoken.log_probs)
        assert list(encoded) == np.load(demo_data / "log_probs.npz")["ids"].tolist()
        halves = [encoded[name] for name in encoded]
        assert [one.tobytes() for one in halves] == [one.astype(np.float16).tobytes() for one in wanted]
        ours = TransducerDecoder.from_arrays(
            speech_transducer.decoder_arrays(arrays), alphabet.blank, activation="relu",
            durations=speech_transducer.DURATIONS if tdt else None, device="cpu",
        )  # fmt: skip
    for one, other in zip(decoder.decode(halves), ours.decode(halves), strict=True):
        assert one.tokens.tobytes() == other.tokens.tobytes() and one.log_probs.tobytes() == other.log_probs.tobytes()
        assert one.text == alphabet.text(one.tokens.tolist())


def test_the_answers_of_nodes():
    """Two pieces due on frames 1 and 3 of 6: an RNN-T that knows them has no loss; a TDT knows how far to go, too."""
    seen = {}

    def cross_entropy(logits, answer, reduction):
        seen.setdefault("answers", []).append(answer)
        return torch.zeros(len(answer))

    torch.manual_seed(0)
    sizes = speech_transducer.Sizes(5, tokens=4, channels=8, blocks=1, inner=8, embedding=4, units=4, joint=8)
    model = speech_transducer.Transducer(sizes, speech_transducer.DURATIONS)
    batch = spoken_text.Batch(
        torch.zeros(1, 24, 5), torch.tensor([6]), torch.tensor([[2, 1]]), torch.tensor([[1, 3]]), torch.tensor([2])
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speech_transducer, "functional", SimpleNamespace(
            **{**vars(torch.nn.functional), "cross_entropy": cross_entropy}
        ))  # fmt: skip
        model.loss(batch)
    tokens, lengths = (a.view(6, 4) for a in seen["answers"])
    at = {(t, n): (int(tokens[t, i]), int(lengths[t, i])) for t in range(6) for i, n in enumerate(nodes(t))}
    assert [at[t, 0] for t in range(4)] == [(3, 1), (2, 2), (2, 1), (2, 0)]
    assert [at[t, 1] for t in range(1, 6)] == [(3, 2), (3, 1), (1, 3), (1, 2), (1, 1)]
    assert [at[t, 2] for t in range(3, 6)] == [(3, 3), (3, 2), (3, 1)]


def nodes(frame):
    """Pieces written, at the nodes of a frame."""
    due = (frame >= 1) + (frame >= 3)
    return [due + n for n in speech_transducer.NODES]


@pytest.fixture
def trained(data, tmp_path, monkeypatch):
    """Weights of both kinds in the cache, of networks that were never trained."""
    for kind, durations in (("rnnt", None), ("tdt", speech_transducer.DURATIONS)):
        sizes = speech_transducer.Sizes(
            tokens=81, channels=32, blocks=1, inner=32, embedding=16, units=32, joint=32
        )  # fmt: skip
        torch.manual_seed(3)
        model = speech_transducer.Transducer(sizes, durations)
        speech_transducer.save(tmp_path / "transducer" / f"{kind}.npz", model.arrays())
    monkeypatch.setattr(datasets, "CACHE", tmp_path)
    monkeypatch.setenv("ARCBEAM_DATA", str(data))
    monkeypatch.setattr(transducer_wer, "SETS", ("demo",))


def test_word_error_rates(trained):
    rows = list(transducer_wer.run(Context(1, 3)))
    assert [(row["set"], row["model"]) for row in rows] == [("demo", "RNN-T"), ("demo", "TDT")]
    for row in rows:
        assert row["greedy"] < 20 < row["float32"] and row["tokens"] > 0 and row["unlike"] < 50


def test_boosting_of_trained_models(trained, data, monkeypatch):
    (data / "lm").mkdir(exist_ok=True)
    said = " ".join(train_transducer.read_set(data / "throughput").references).split()
    (data / "lm" / "words.txt").write_text("\n".join(sorted(set(said))))
    monkeypatch.setattr(boosting, "frequent_words", lambda: frozenset(said[::3]))
    monkeypatch.setattr(transducer_boosting, "SETS", ("demo",))
    monkeypatch.setattr(transducer_boosting, "DISTRACTORS", (0, 5))
    monkeypatch.setattr(transducer_boosting, "COMPARED", ("words", 5))
    monkeypatch.setattr(transducer_boosting, "ALPHAS", (0.0, 20.0))
    rows = list(transducer_boosting.run(Context()))
    assert [row["model"] for row in rows] == ["RNN-T"] * 8 + ["TDT"] * 8
    for without, boosted in zip(rows[::2], rows[1::2], strict=True):
        assert (without["alpha"], boosted["alpha"]) == (0, 20) and without["listed"] == boosted["listed"] > 0
    # With such a factor whatever is written is of the list.
    assert sum(row["recall"] + row["false"] for row in rows[1::2]) > sum(row["recall"] for row in rows[::2])
    compared = [row for row in rows if (row["kind"], row["others"]) == ("words", 5)]
    assert len(compared) == 4 and all(
        (row["unlike"], row["status"]) == (None, None) for row in rows if row not in compared
    )
    for row in compared:
        assert row["unlike"] == 0 or str(row["status"]).startswith("NeMo missing: ")
    one = list(transducer_boosting.run(Context(options={"models": "TDT"})))
    assert one == rows[8:]


def test_beam_search_of_trained_models(trained, tmp_path, monkeypatch):
    """No search finds more than the widest; weights that are not there have no rows."""
    monkeypatch.setattr(transducer_beam, "SETS", ("demo",))
    monkeypatch.setattr(transducer_beam, "SEARCHES", ((2.0, 2), (8.0, 8), transducer_beam.WIDEST))
    shutil.copy(tmp_path / "transducer" / "tdt.npz", tmp_path / "transducer" / "tdt-full-sum.npz")
    rows = list(transducer_beam.run(Context(1, 2)))
    each = len(rows) // 3
    assert [(row["model"], row["loss"]) for row in rows[::each]] == [
        ("RNN-T", "alignment"), ("TDT", "alignment"), ("TDT", "full-sum")
    ]  # fmt: skip
    assert [{**row, "loss": ""} for row in rows[each : 2 * each]] == [{**row, "loss": ""} for row in rows[2 * each :]]
    for first in range(0, len(rows), each):
        greedy, narrow, _, widest = rows[first : first + 4]
        assert (greedy["search"], greedy["rows"], narrow["most"], widest["most"]) == ("greedy", 1, 2, 64)
        assert widest["gap"] <= 1e-6 and narrow["live"] <= 2 and widest["live"] > 8
        assert all(row["gap"] >= 0 and row["utterances"] == 2 for row in rows if "gap" in row)
        assert {row["power"] for row in rows[first + 4 : first + each - 2]} == set(transducer_beam.POWERS)
        for row in rows[first + each - 2 : first + each]:
            assert row["search"] == "NeMo" and ("wer" in row or str(row["status"]).startswith("NeMo missing: "))


@pytest.fixture
def with_models(trained, data, tmp_path, monkeypatch):
    """Weights, text for n-gram models, and a vocabulary for lists."""
    for kind in ("rnnt", "tdt"):
        shutil.copy(tmp_path / "transducer" / f"{kind}.npz", tmp_path / "transducer" / f"{kind}-full-sum.npz")
    said = " ".join(train_transducer.read_set(data / "throughput").references).split()
    for folder in ("lm", "text"):
        (data / folder).mkdir(exist_ok=True)
    (data / "lm" / "words.txt").write_text("\n".join(sorted(set(said))))
    monkeypatch.setattr(boosting, "frequent_words", lambda: frozenset(said[::3]))
    with lzma.open(data / "text" / "books.txt.xz", "wt") as file:
        file.writelines(f"{' '.join(said[at : at + 4])}\n" for at in range(len(said) - 4))
    monkeypatch.setattr(pieces_lm, "MEASURED", ())
    for name, value in {
        "ORDER": 3,
        "PRUNE": (),
        "WHOLE_PRUNE": (),
        "TRAINED": (5, 10),
        "HELD_OUT": 2,
        "WORDS": (2, 9),
    }.items():
        monkeypatch.setattr(pieces_lm, name, value)


def test_models_of_pieces_and_what_is_held_out(with_models, data):
    found = pieces_lm.get(data / "tokenizers" / "librispeech_bpe_256.model")
    first, whole, second = (path.read_bytes() for path in (found.large, found.whole, found.low_order))
    assert len(found.held_out) == 2 and b"\\3-grams" in first and b"\\3-grams" not in second
    assert len(whole) >= len(first)
    known = [text for count in pieces_lm.TRAINED for text in train_transducer.read_text(books(data), count, ())]
    assert known and not set(known) & set(found.held_out)
    assert pieces_lm.get(data) == found  # is kept


def books(data):
    return data / "text" / "books.txt.xz"


def test_beam_search_with_models(with_models, monkeypatch):
    module = transducer_beam_wer
    factors = {"LM_FACTORS": (0.1, 0.3), "ILM_FACTORS": (0.05,), "LODR_FACTORS": (-0.05,), "POWERS": (0.0, 1.0)}
    for name, value in {**factors, "SETS": ("demo",), "NEMO_BEAMS": (2, 3), "OTHERS": 3}.items():
        monkeypatch.setattr(module, name, value)
    rows = list(module.run(Context(1, 2)))
    for model in ("RNN-T", "TDT"):
        tried, found = (
            [row for row in rows if row["model"] == model and (row["set"] == module.HELD_OUT) == held]
            for held in (True, False)
        )
        assert {row["fused"] for row in tried} == {"greedy LM", "LM", "LM + ILM", "LM + LODR"}
        plain = [row for row in found if row["fused"] == "" and "gap" in row]
        assert min(row["gap"] for row in plain) >= 0 and plain[3]["gap"] <= 1e-6 and plain[3]["most"] == 64
        for row in found:
            if "wer" not in row:
                assert str(row["status"]).startswith("NeMo missing: ")
                continue
            assert row["interval"][0] <= row["above"] <= row["interval"][1] and row["oracle"] <= row["wer"]
            assert row["search"] != "greedy" or row["above"] == 0
            names = {"lm": "LM", "ilm": "ILM", "lodr": "LODR", "tree": "tree"}
            for name, shown in names.items():  # of a model that does not help the factor may be 0
                fused = shown in row["fused"].replace(",", " ").split()
                assert fused == bool(row.get(name)) if name != "lm" else fused or name not in row
        [best] = {row.get("lm") for row in found if row["fused"] == "LM" and row["search"] == "arcbeam"}
        of_best = [row["wer"] for row in tried if row["fused"] == "LM" and row.get("lm") == best]
        assert min(of_best) == min(row["wer"] for row in tried if row["fused"] == "LM")


def test_beam_search_and_sherpa_onnx(with_models, monkeypatch):
    monkeypatch.setattr(transducer_beam_sherpa, "SET", "demo")
    monkeypatch.setattr(transducer_beam_sherpa, "MOST", (2, 4))
    rows = list(transducer_beam_sherpa.run(Context(1, 2)))
    measured = [row for row in rows if "rtfx" in row]
    assert [row["most"] for row in measured if row["decoder"] == "arcbeam"] == [None, 2, 4] * 2
    for row in rows:
        assert row.get("gap", 0) >= 0 and ("rtfx" in row or str(row["status"]).startswith("sherpa-onnx missing: "))


def test_lattices_of_trained_models(trained, tmp_path, monkeypatch):
    """Unmerged, a lattice has the texts of its list; the nearest of all is as near as the nearest of ten."""
    monkeypatch.setattr(transducer_lattice, "SETS", ("demo",))
    monkeypatch.setattr(transducer_lattice, "BEAMS", (3.0,))
    monkeypatch.setattr(transducer_lattice, "CONTEXTS", (None, 2))
    model = LanguageModel.build(datasets.DEMO / "novels.3gram.arpa.xz", progress=False)
    monkeypatch.setattr(transducer_lattice, "words_model", lambda: model)
    for name in ("rnnt", "tdt"):
        shutil.copy(tmp_path / "transducer" / f"{name}.npz", tmp_path / "transducer" / f"{name}-full-sum.npz")
    rows = list(transducer_lattice.run(Context(1, 2)))
    assert [(row["model"], row["context"]) for row in rows] == [
        ("RNN-T", "none"), ("RNN-T", 2), ("TDT", "none"), ("TDT", 2)
    ]  # fmt: skip
    for plain, merged in zip(rows[::2], rows[1::2], strict=True):
        assert plain["lattice"] == plain["list"] <= min(plain["path"], plain["wer"])
        assert 1 <= merged["live"] <= transducer_lattice.MOST
        for row in (plain, merged):
            assert row["lattice"] <= row["ten"] <= row["path"]
            assert row["links"] >= 12.5  # one a frame
            assert min(row["plain"], row["with"], row["rescoring"]) > 0


def test_weights_that_are_missing(tmp_path, monkeypatch):
    with pytest.raises(datasets.DataMissing, match=r"data/train_transducer\.py makes them"):
        monkeypatch.setattr(datasets, "CACHE", tmp_path)
        monkeypatch.setattr(transducer_beam.datasets, "data_folder", lambda: tmp_path)
        monkeypatch.setattr(train_transducer, "alphabet_of", lambda *_: None)
        list(transducer_beam.run(Context()))
    monkeypatch.setattr(datasets, "CACHE", tmp_path)
    with pytest.raises(datasets.DataMissing, match=r"data/train_transducer\.py makes it"):
        transducer_wer.weights("rnnt")
