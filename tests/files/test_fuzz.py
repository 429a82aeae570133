"""Mutated files of every loader: a FormatError that names the file, or something that can be used; never a crash.

Log-probs that come out are decoded, and lists of phrases boost a decode. Graphs have tests of their own
(``tests/graph/test_fuzz.py``), as have pickles (``tests/transducer``). The mutations are drawn from fixed seeds; a
failing one is kept in the file that the message names.
"""

import bz2
import gzip
import io
import lzma
import re
import warnings
import zipfile

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, Graph, KenLM, LanguageModel, SymbolTable, TokenTable, TransducerDecoder
from arcbeam.cli.boosts import word_boosts
from arcbeam.cli.graphs import read_label_table
from arcbeam.files.log_probs import count, find_inputs, read_all
from arcbeam.recipe.language_model import read_language_model
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.recipe.word_lists import read_words, words_of_arpa
from arcbeam.report.references import read_references
from arcbeam.report.results import read_results
from tests.decode import kenlm_files
from tests.files.mutants import MUTANTS, attack, little_memory, mutate, mutate_text  # noqa: F401 - a fixture
from tests.recipe.test_arpa import GOOD
from tests.transducer.archives import nemo_file, nemo_names, torch_file
from tests.transducer.networks import random_arrays
from tests.transducer.test_loaders import CONFIG, FRAMES, arrays_of, stateless

PACKERS = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}
TOKENS = TokenTable.from_list(["<blank>", "a", "b", "c"])
LEXICON = b"a a\nab a b\nabc 0.5 a b c\n" * 3
WORDS = "a 1\nab 2\ncab 3\nüber 4\n".encode()
RNG = np.random.default_rng(5)
UTTERANCES = {f"utt-{n}": np.log(RNG.dirichlet(np.ones(5), n + 2)).astype(np.float32) for n in range(3)}

PHRASES = b"new york\t3.5\na ab\nab\t-1e0\n\nnew ab a\t2\n"
DECODER = CtcDecoder(
    Graph.from_arcs(
        [(0, 0, column + 1, column, 0.25 * column) for column in range(5)],
        finals={0: 0.0},
        tokens=TokenTable.from_list(["<blank>", "a", "b", "c", "d"]),
        word_symbols=SymbolTable.from_list(["<eps>", "a", "ab", "new", "york"]),
    ),
    device="cpu",
    threads=1,
)

pytestmark = [pytest.mark.usefixtures("little_memory"), pytest.mark.filterwarnings("ignore::UserWarning")]


def build(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LanguageModel.build(path, progress=False).score("a b a")


def read_automaton(path):
    acceptor = read_language_model(path, ["a", "b"], backoff_label=3).acceptor
    assert acceptor.start < acceptor.num_states and np.isfinite(acceptor.costs).all()
    assert (acceptor.targets < acceptor.num_states).all()


def read_inputs(path):
    inputs = find_inputs([str(path)])
    count(inputs)
    for utterance in read_all(inputs):
        assert utterance.log_probs.ndim == 2 and utterance.log_probs.dtype in (np.float16, np.float32)
        try:
            [found] = DECODER.decode([utterance.log_probs[:100]], nbest=3, confidence=True)
        except ValueError as error:
            assert re.match(r"log_probs(\[0\])?: expected", str(error)), error
        else:
            assert isinstance(found.text, str)


def read_phrases(path):
    DECODER.decode([UTTERANCES["utt-2"]], boost=Boost.read(path))


def read_map(path):
    path.with_name("phrases.txt").write_bytes(PHRASES)
    boosts = word_boosts(None, path, 1.0, None)
    assert all(boosts(name) is None or len(boosts(name)) for name in UTTERANCES)


TEXTS = {
    "language model": (GOOD.encode(), "lm.arpa", build),
    "words of an ARPA": (GOOD.encode(), "lm.arpa", words_of_arpa),
    "automaton": (GOOD.encode(), "lm.arpa", read_automaton),
    "lexicon": (LEXICON, "lexicon.txt", lambda path: Lexicon.from_file(path, TOKENS, probabilities=False)),
    "word list": (WORDS, "words.txt", read_words),
}


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("case", TEXTS)
def test_texts(tmp_path, case, packer):
    text, name, load = TEXTS[case]
    if packer == "plain":
        assert attack(case, text, tmp_path / name, load, MUTANTS, mutate_text) < MUTANTS
        return
    assert attack(case, PACKERS[packer](text), tmp_path / name, load, MUTANTS) < MUTANTS
    attack(case, text, tmp_path / name, load, MUTANTS // 4, lambda rng, data: PACKERS[packer](mutate_text(rng, data)))


RESULTS = b"""{"id": "a", "text": "b c", "score": -1.5, "words": [{"word": "b c", "end": 0.5, "end_frame": 25}]}
{"id": "b", "text": "", "confidence": 0.5, "nbest": [{"text": "x", "posterior": 0.25}]}
"""

LINES = {
    "label table": (b"0 0\n1 2\n3 1\n", "labels.txt", read_label_table),
    "references": (b"utt-1\ta b\nutt-2\tc\n", "a.tsv", lambda path: read_references([path])),
    "results": (RESULTS, "a.jsonl", read_results),
    "transcripts": (b"a b (utt-1)\nc (utt-2)\n", "a.trn", lambda path: read_references([path])),
    "phrases": (PHRASES, "a.txt", read_phrases),
    "map": (b"utt-0 phrases.txt\nutt-1\tphrases.txt\nutt-2 phrases.txt\n", "a.txt", read_map),
}


@pytest.mark.parametrize("case", LINES)
def test_lines(tmp_path, case):
    text, name, load = LINES[case]
    assert 0 < attack(case, text, tmp_path / name, load, MUTANTS, mutate_text) < MUTANTS


def test_language_model_files(tmp_path):
    (tmp_path / "lm.arpa").write_text(GOOD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LanguageModel.build(tmp_path / "lm.arpa", progress=False).save(tmp_path / "lm")
    attack("lm", (tmp_path / "lm").read_bytes(), tmp_path / "mutant", LanguageModel.load, MUTANTS)


@pytest.mark.parametrize("packer", PACKERS)
def test_kenlm_reads_text(tmp_path, packer):
    kenlm_files.need_kenlm()
    text = kenlm_files.random_ngrams(["a", "b"], 3, 1).write(tmp_path / "a.arpa").read_bytes()
    KenLM(tmp_path / "a.arpa")
    attack(f"kenlm {packer}", text, tmp_path / "m", lambda path: KenLM(path).score("a b zebra"), MUTANTS // 2,
           lambda rng, data: PACKERS[packer](mutate_text(rng, data)))  # fmt: skip


def test_kenlm_binaries_cut_short(tmp_path):
    """More than that is KenLM's, which trusts its files: SECURITY.md."""
    kenlm_files.need_kenlm()
    kenlm_files.random_ngrams(["a", "b"], 3, 1).write(tmp_path / "a.arpa")
    binary = kenlm_files.write_binary(tmp_path / "a.arpa", tmp_path / "binary", kenlm_files.PROBING).read_bytes()
    # The names of the words stand at the end, and are not read.
    assert attack("binary", binary, tmp_path / "m", KenLM, 60, lambda rng, data: data[: rng.randrange(len(data))]) < 9


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def packed_arrays():
    whole = np.concatenate(list(UTTERANCES.values()))
    lengths = np.array([len(u) for u in UTTERANCES.values()])
    return {"log_probs.npy": npy(whole), "lengths.npy": npy(lengths), "ids.npy": npy(np.array(list(UTTERANCES)))}


def test_npy(tmp_path):
    for array in (UTTERANCES["utt-2"], np.zeros((2, 3, 4), np.float16)):
        assert 0 < attack("npy", npy(array), tmp_path / "a.npy", read_inputs, 2 * MUTANTS) < 2 * MUTANTS
        header = npy(array)[:128]
        attack("header", header, tmp_path / "a.npy", read_inputs, MUTANTS, mutate_text)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_npz(tmp_path, compression):
    named = {f"{name}.npy": npy(value) for name, value in UTTERANCES.items()}
    padded = {"log_probs.npy": npy(np.zeros((3, 4, 5), np.float16)), "lengths.npy": npy(np.array([4, 0, 2]))}
    for seed, members in enumerate((packed_arrays(), named, padded)):
        attack(seed, npz(members, compression), tmp_path / "a.npz", read_inputs, MUTANTS)

        def change(rng, _, members=members):
            changed = {name: mutate(rng, data) if rng.random() < 0.5 else data for name, data in members.items()}
            return npz(changed, compression)

        assert attack(seed, b"", tmp_path / "a.npz", read_inputs, MUTANTS, change) > 0


@pytest.mark.parametrize(
    "settings", [{}, {"compression_method": 2}, {"compression_method": 3}, {"text": True}], ids=str
)
def test_kaldi_archives(tmp_path, settings):
    kaldiio = pytest.importorskip("kaldiio", reason="writes and reads compressed matrices: .[cli]")
    kaldiio.save_ark(str(tmp_path / "a.ark"), UTTERANCES, **settings)
    change = mutate_text if settings.get("text") else mutate
    attack(str(settings), (tmp_path / "a.ark").read_bytes(), tmp_path / "m.ark", read_inputs, MUTANTS, change)


def test_kaldi_indices(tmp_path):
    kaldiio = pytest.importorskip("kaldiio", reason="writes the archive: .[cli]")
    kaldiio.save_ark(str(tmp_path / "a.ark"), UTTERANCES, scp=str(tmp_path / "a.scp"))
    attack("scp", (tmp_path / "a.scp").read_bytes(), tmp_path / "m.scp", read_inputs, MUTANTS, mutate_text)


def from_icefall(path):
    decode(TransducerDecoder.from_icefall(path, device="cpu", threads=1))


def from_nemo(path):
    decode(TransducerDecoder.from_nemo(path, device="cpu", threads=1))


def from_arrays(path):
    decode(TransducerDecoder.from_arrays(path, device="cpu", threads=1))


def decode(decoder):
    try:
        decoder.decode([RNG.normal(size=(9, decoder.features)).astype(np.float32)])
    except ValueError as error:
        assert "the network's output is not finite" in str(error)


def within_zip(change, kind):
    """Changes members of an archive whose names end so, and makes checksums that fit."""

    def changed(rng, data):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        return npz({name: change(rng, data) if name.endswith(kind) else data for name, data in members.items()})

    return changed


def test_checkpoints(tmp_path):
    data = torch_file({"model": stateless(), "epoch": 3})
    path = tmp_path / "m.pt"
    attack("checkpoint", data, path, from_icefall, MUTANTS)
    attack("pickle", data, path, from_icefall, 2 * MUTANTS, within_zip(mutate, "data.pkl"))
    attack("storages", data, path, from_icefall, MUTANTS, within_zip(mutate, "0"))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_named_arrays(tmp_path, save):
    options = {"blank_id": 12, "durations": [0, 1, 2], "activation": "relu", "frame_shift": 0.08, "relu": False}
    save(tmp_path / "whole.npz", **arrays_of("tdt"), **options, max_symbols=3, tokenizer=list("abcdefghijkl"))
    data, path = (tmp_path / "whole.npz").read_bytes(), tmp_path / "m.npz"
    attack("named arrays", data, path, from_arrays, MUTANTS)
    for kind in (".npy", *(f"{name}.npy" for name in ("tokenizer", "durations", "blank_id", "frame_shift"))):
        attack(kind, data, path, from_arrays, MUTANTS // 3, within_zip(mutate, kind))


def test_safetensors(tmp_path):
    files = pytest.importorskip("safetensors.numpy", reason="the package safetensors writes the file")
    data = files.save({name: np.ascontiguousarray(value) for name, value in stateless().items()})
    attack("tensors", data, tmp_path / "m.safetensors", from_icefall, MUTANTS)
    attack("header", data, tmp_path / "m.safetensors", from_icefall, MUTANTS,
           lambda rng, data: mutate_text(rng, data[:400]) + data[400:])  # fmt: skip


def test_nemo_archives(tmp_path):
    pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")
    path, weights = tmp_path / "m.nemo", torch_file(nemo_names(arrays_of("rnnt")), "model_weights")
    advice = ("give max_symbols=", "give durations=")
    whole = nemo_file(tmp_path / "whole", CONFIG, weights).read_bytes()
    attack("nemo", whole, path, from_nemo, MUTANTS // 3, advice=advice)
    attack("head", whole[:4096], path, from_nemo, MUTANTS, lambda rng, data: mutate(rng, data) + whole[4096:], advice)
    attack("packed", gzip.compress(whole), path, from_nemo, MUTANTS // 3, advice=advice)

    def other_config(rng, data):
        return nemo_file(tmp_path / "other", mutate_text(rng, data), weights).read_bytes()

    attack("config", CONFIG.encode(), path, from_nemo, MUTANTS * 2 // 3, other_config, advice)

    def other_weights(rng, data):
        return nemo_file(tmp_path / "other", CONFIG, within_zip(mutate, "data.pkl")(rng, data)).read_bytes()

    attack("weights", weights, path, from_nemo, MUTANTS // 3, other_weights, advice)


def test_sentencepiece_models(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece", reason="makes and reads the model: .[build]")
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on the mat", "a quick brown fox"] * 20), model_writer=made, vocab_size=30,
        normalization_rule_name="identity", hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    size = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue()).get_piece_size()
    arrays = random_arrays(1, tokens=size)

    def transduce(path):
        decoder = TransducerDecoder.from_arrays(arrays, 0, tokenizer=path, device="cpu", threads=1)
        assert isinstance(decoder.decode(FRAMES[:1])[0].text, str)

    def cut(path):
        Lexicon.sentencepiece(["the", "cat"], path, TokenTable.from_list(["<blank>", *"▁the"]))

    # A model of another size, or whose pieces are no tokens, is a mistake of the caller's.
    attack("tokenizer", made.getvalue(), tmp_path / "p.model", transduce, MUTANTS, advice=("tokenizer: expected",))
    attack("lexicon", made.getvalue(), tmp_path / "p.model", cut, MUTANTS // 3, advice=("words that the tokens",))
