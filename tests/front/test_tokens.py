"""Every kind of tokens, from tiny files and stand-ins for objects, decodes the words that are said."""

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import arcbeam
from arcbeam.core.errors import FormatError, MissingDependencyError
from arcbeam.tokens.formats import read_tokens
from arcbeam.tokens.model_tokens import longest_pieces
from tests.front.models import CHARACTERS, WORDS, nemo_archive, said, sentencepiece_model, write_arpa

pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
SAID = ["cab", "abba", "dad"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ARCBEAM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def lm(tmp_path):
    return write_arpa(tmp_path / "3gram.arpa.gz")


def spelled(between: str | None) -> list[str]:
    """The characters of what is said, with the token between words."""
    return [c for i, word in enumerate(SAID) for c in ([between] if i and between else []) + list(word)]


def check_characters(decoder, columns, blank, between):
    log_probs = said(spelled(between), columns, blank)
    assert str(decoder.decode(log_probs)) == " ".join(SAID)
    assert decoder.graph.blank == blank and decoder.graph.separator == between


HUGGING_FACE = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "a": 5, "b": 6, "c": 7, "d": 8}


def test_labels(lm):
    labels = ["<blank>", *CHARACTERS, "<space>"]
    check_characters(arcbeam.ctc_decoder(labels, lm), labels, 0, "<space>")
    check_characters(arcbeam.ctc_decoder(tuple(labels), lm), labels, 0, "<space>")
    check_characters(arcbeam.ctc_decoder(arcbeam.TokenTable.from_list(labels), lm), labels, 0, "<space>")


def test_a_blank_in_the_middle(lm):
    labels = ["a", "b", "<blk>", "c", "d", " "]
    check_characters(arcbeam.ctc_decoder(labels, lm), labels, 2, " ")
    check_characters(arcbeam.ctc_decoder(["a", "b", "x", "c", "d", " "], lm, blank="x"), labels, 2, " ")
    check_characters(arcbeam.ctc_decoder(["a", "b", "x", "c", "d", " "], lm, blank=2), labels, 2, " ")


def test_labels_without_a_blank(lm):
    labels = [*CHARACTERS, "|"]
    with pytest.raises(ValueError, match=r"got none among 5; give blank=.* blank=5 if it is the column after the last"):
        arcbeam.ctc_decoder(labels, lm)
    decoder = arcbeam.ctc_decoder(labels, lm, blank=5)
    check_characters(decoder, [*labels, "<blank>"], 5, "|")
    with pytest.raises(ValueError, match=r"expected 6 columns, got 7 \(do the tokens lack one, such as the blank\?\)"):
        decoder.decode(np.zeros((3, 7), np.float32))
    with pytest.raises(ValueError, match="the blank's column is 6"):
        arcbeam.ctc_decoder(labels, lm, blank=6)


def test_a_second_blank_after_the_last_token(lm):
    with pytest.raises(ValueError, match=r"blank: expected column 2, whose token is '<blank>', got 5, the column"):
        arcbeam.ctc_decoder(["a", "b", "<blank>", "c", " "], lm, blank=5)


def test_several_that_look_like_the_blank(lm):
    labels = ["<blank>", "<pad>", *CHARACTERS, "|"]
    with pytest.raises(ValueError, match=r"'<blank>' .* and '<pad>' .* both look like the blank.*blank="):
        arcbeam.ctc_decoder(labels, lm)
    check_characters(arcbeam.ctc_decoder(labels, lm, blank="<pad>"), labels, 1, "|")


def test_several_that_may_stand_between_words(lm):
    labels = ["<blank>", *CHARACTERS, "|", "<space>"]
    with pytest.raises(ValueError, match=r"expected one separator .*word_delimiter="):
        arcbeam.ctc_decoder(labels, lm)
    check_characters(arcbeam.ctc_decoder(labels, lm, word_delimiter="|"), labels, 0, "|")
    with pytest.raises(ValueError, match="word_delimiter: expected a token, or a mark"):
        arcbeam.ctc_decoder(labels, lm, word_delimiter="_")


@pytest.mark.parametrize("name", ["_", "SPACE", "<sil>"])
def test_a_separator_of_another_name_is_asked_for(lm, name):
    labels = ["<blank>", *CHARACTERS, name]
    for _ in range(2):  # the second graph is that of the cache
        with pytest.warns(UserWarning, match=rf"^word_delimiter: no token .* word_delimiter='{name}' names it"):
            arcbeam.ctc_decoder(labels, lm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_characters(arcbeam.ctc_decoder(labels, lm, word_delimiter=name), labels, 0, name)
        arcbeam.ctc_decoder(["<blank>", *CHARACTERS], lm)
        arcbeam.ctc_decoder(["_", *CHARACTERS], lm, blank="_")


@pytest.mark.parametrize(
    ("given", "error", "got"),
    [
        ("", ValueError, "got ''"),
        (0, TypeError, "got int"),
        (["|"], TypeError, "got list"),
        ("<blank>", ValueError, "got '<blank>', which is the blank"),
    ],
)
def test_what_is_no_word_delimiter(lm, given, error, got):
    with pytest.raises(error, match=f"word_delimiter: expected .*{got}$"):
        arcbeam.ctc_decoder(["<blank>", *CHARACTERS, "|"], lm, word_delimiter=given)


def test_a_vocabulary_of_hugging_face(tmp_path, lm):
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(HUGGING_FACE))
    check_characters(arcbeam.ctc_decoder(path, lm), HUGGING_FACE, 0, "|")
    check_characters(arcbeam.ctc_decoder(HUGGING_FACE, lm), HUGGING_FACE, 0, "|")


class Wav2Vec2Tokenizer:
    """A tokenizer of transformers that is written in Python."""

    pad_token, word_delimiter_token = "[PAD]", "_"

    def get_vocab(self):
        return {"[PAD]": 5, "a": 1, "b": 2, "c": 3, "d": 4, "_": 0, "<pad>": 6}


def test_a_tokenizer_and_a_processor_of_transformers(lm):
    tokenizer = Wav2Vec2Tokenizer()
    columns = ["_", *CHARACTERS, "[PAD]", "<pad>"]
    for tokens in (tokenizer, SimpleNamespace(tokenizer=tokenizer)):
        check_characters(arcbeam.ctc_decoder(tokens, lm), columns, 5, "_")


WORD_PIECES = {
    name: i for i, name in enumerate(["[PAD]", "[UNK]", "a", "##b", "##ba", "c", "##ab", "##a", "##d", "d", "b"])
}


def tokenizer_json(kind, vocab, **more):
    return json.dumps({"model": {"type": kind, "vocab": vocab, **more}, "added_tokens": []})


def test_word_pieces(tmp_path, lm):
    (tmp_path / "tokenizer.json").write_text(tokenizer_json("WordPiece", WORD_PIECES, continuing_subword_prefix="##"))
    pieces = ["c", "##ab", "a", "##b", "##ba", "d", "##a", "##d"]
    for tokens in (tmp_path / "tokenizer.json", list(WORD_PIECES)):
        for model in (lm, None):
            decoder = arcbeam.ctc_decoder(tokens, model)
            assert str(decoder.decode(said(pieces, WORD_PIECES, 0))) == "cab abba dad"


def test_the_longest_piece_first():
    known = frozenset(["a", "##b", "##ba", "##bad"])
    assert longest_pieces("abba", known, "", "##") == ["a", "##b", "##ba"]
    assert longest_pieces("abad", known, "", "##") == ["a", "##bad"]
    assert longest_pieces("ax", known, "", "##") is None


class Backend:
    """A tokenizer of the package tokenizers, which cuts words into characters."""

    def __init__(self, text):
        self.text = text

    @classmethod
    def from_str(cls, text):
        return cls(text)

    def to_str(self):
        return self.text

    def get_vocab(self):
        raise AssertionError("to_str says more")

    def encode(self, word, add_special_tokens):
        assert add_special_tokens is False
        return SimpleNamespace(tokens=["▁" + word[0], *word[1:]])


PIECES = ["▁a", "▁b", "▁c", "▁d", "a", "b", "c", "d", "<unk>"]


def test_a_tokenizer_that_its_package_must_run(tmp_path, lm, monkeypatch):
    text = tokenizer_json("Unigram", [[piece, -1.0] for piece in PIECES])
    text = json.dumps(json.loads(text) | {"added_tokens": [{"content": "<pad>", "id": 9}]})
    columns = [*PIECES, "<pad>"]
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(MissingDependencyError, match=r"cutting words into the pieces of .*tokenizer.json needs"):
        arcbeam.ctc_decoder(path, lm)
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", SimpleNamespace(Tokenizer=Backend))
    fast = SimpleNamespace(backend_tokenizer=Backend(text), get_vocab=None)
    pieces = [piece for word in SAID for piece in Backend("").encode(word, False).tokens]
    for tokens in (path, Backend(text), fast, SimpleNamespace(tokenizer=fast, feature_extractor=None)):
        decoder = arcbeam.ctc_decoder(tokens, lm)
        assert str(decoder.decode(said(pieces, columns, 9))) == " ".join(SAID)


def test_an_alphabet_of_pyctcdecode(tmp_path, lm):
    path = tmp_path / "alphabet.json"
    labels = [" ", *CHARACTERS, ""]
    path.write_text(json.dumps({"labels": labels, "is_bpe": False}))
    for tokens in (path, labels):
        check_characters(arcbeam.ctc_decoder(tokens, lm), labels, 5, " ")


def test_tokens_of_torchaudio(tmp_path, lm):
    path = tmp_path / "tokens.txt"
    labels = ["-", "|", *CHARACTERS]
    path.write_text("\n".join(labels) + "\n")
    with pytest.warns(UserWarning, match=r"tokens.txt: the blank is taken to be '-', column 0.* blank= says"):
        decoder = arcbeam.ctc_decoder(path, lm)
    check_characters(decoder, labels, 0, "|")
    check_characters(arcbeam.ctc_decoder(path, lm, blank="-"), labels, 0, "|")
    lexicon = tmp_path / "lexicon.txt"
    lexicon.write_text("".join(f"{word} {' '.join(word)} |\n" for word in WORDS))
    decoder = arcbeam.ctc_decoder(path, lm, lexicon=lexicon, blank="-")
    assert str(decoder.decode(said([*spelled("|"), "|"], labels, 0))) == " ".join(SAID)


def test_a_vocabulary_of_onnx_asr(tmp_path, lm):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token} {i}\n" for i, token in enumerate([*PIECES, "<blk>"])))
    with pytest.warns(UserWarning, match="words are cut into the longest pieces.* SentencePiece model"):
        decoder = arcbeam.ctc_decoder(path, lm)
    pieces = [piece for word in SAID for piece in Backend("").encode(word, False).tokens]
    assert str(decoder.decode(said(pieces, [*PIECES, "<blk>"], 9))) == " ".join(SAID)


def test_a_sentencepiece_model(tmp_path, lm):
    content = sentencepiece_model(tmp_path)
    path = tmp_path / "bpe.model"
    path.write_bytes(content)
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    names = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    log_probs = said([p for word in SAID for p in processor.EncodeAsPieces(word)], [*names, "<blank>"], len(names))
    with pytest.raises(ValueError, match=f"got none among {len(names)}; give blank="):
        arcbeam.ctc_decoder(path, lm)
    for tokens in (path, processor, SimpleNamespace(tokenizer=processor)):
        assert str(arcbeam.ctc_decoder(tokens, lm, blank=len(names)).decode(log_probs)) == " ".join(SAID)
    path.write_bytes(content[: len(content) // 2])
    for damaged in (content[:100], b"", b"x" * 200):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"bpe.model: expected a SentencePiece model"):
            arcbeam.ctc_decoder(path, lm, blank=0)


def test_tokens_and_model_of_icefall(tmp_path, lm):
    content = sentencepiece_model(tmp_path, user_defined_symbols=["<blk>", "<sos/eos>"])
    (tmp_path / "bpe.model").write_bytes(content)
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    names = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    path = tmp_path / "tokens.txt"
    path.write_text("".join(f"{name} {i}\n" for i, name in enumerate([*names, "#0", "#1"])))
    blank = names.index("<blk>")
    log_probs = said([p for word in SAID for p in processor.EncodeAsPieces(word)], names, blank)
    for tokens in (path, tmp_path / "bpe.model"):
        decoder = arcbeam.ctc_decoder(tokens, lm)
        assert str(decoder.decode(log_probs)) == " ".join(SAID) and decoder.graph.blank == blank


NEMO = """
preprocessor: {window_stride: 0.01}
encoder: {subsampling_factor: 8}
"""


def test_an_archive_of_nemo_with_characters(tmp_path, lm):
    pytest.importorskip("yaml")
    path = nemo_archive(tmp_path / "m.nemo", NEMO + "decoder: {vocabulary: [' ', a, b, c, d]}\n")
    decoder = arcbeam.ctc_decoder(path, lm)
    check_characters(decoder, [" ", *CHARACTERS, "<blank>"], 5, " ")
    assert decoder.options.frame_shift == 0.08
    assert arcbeam.ctc_decoder(path, lm, frame_shift=0.04).options.frame_shift == 0.04


def test_an_archive_of_nemo_with_a_tokenizer(tmp_path, lm):
    pytest.importorskip("yaml")
    content = sentencepiece_model(tmp_path)
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    names = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    config = {"tokenizer": {"type": "bpe", "model_path": "nemo:7f_tokenizer.model"}}
    config = json.dumps(config | {"aux_ctc": {"decoder": {"vocabulary": names}}})
    path = nemo_archive(tmp_path / "m.nemo", config, **{"7f_tokenizer.model": content})
    log_probs = said([p for word in SAID for p in processor.EncodeAsPieces(word)], [*names, "<blank>"], len(names))
    assert str(arcbeam.ctc_decoder(path, lm).decode(log_probs)) == " ".join(SAID)
    transducer = nemo_archive(tmp_path / "t.nemo", "joint: {vocabulary: [a]}\n")
    with pytest.raises(FormatError, match=r"expected the labels of a CTC decoder .*TransducerDecoder.from_nemo"):
        arcbeam.ctc_decoder(transducer, lm)


BAD = {
    "gap.json": ('{"a": 0, "b": 2}', "expected a token for each id from 0 to 1, got none for 1"),
    "twice.json": ('{"a": 0, "b": 0}', "'a' and 'b' both have the id 0"),
    "kinds.json": ('{"a": "0"}', "expected tokens and their ids, got 'a': 0"),
    "list.json": ("[1]", "got a JSON list"),
    "none.json": ("{}", "got none"),
    "cut.json": ('{"a": ', r"vocab.json \(an object of tokens and their ids\)"),
    "deep.json": ("[" * 100_000, r"vocab.json \(an object"),
    "labels.json": ('{"labels": [1]}', "expected labels that are text"),
    "model.json": ('{"model": {"type": "BPE", "vocab": 3}}', "tokenizer.json of Hugging Face"),
    "tokens.txt": ("", "expected tokens, got an empty file"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_none(tmp_path, name):
    content, message = BAD[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(FormatError, match=message) as raised:
        read_tokens(tmp_path / name)
    assert name in str(raised.value)


def test_what_has_no_tokens(tmp_path):
    with pytest.raises(TypeError, match=r"tokens: expected a list of labels, .* got int"):
        read_tokens(3)
    with pytest.raises(TypeError, match=r"got Graph; with a graph write arcbeam\.CtcDecoder\(graph\)"):
        read_tokens(arcbeam.Graph.greedy(["<blank>", "a"]))
    with pytest.raises(TypeError, match="expected a sequence of str, got int for column 1"):
        read_tokens(["a", 1])
    with pytest.raises(TypeError, match="expected a sequence of str, a column each, got set"):
        read_tokens({"<blank>", "a"})  # which has no order
    with pytest.raises(ValueError, match=r"expected one blank, got '' \(column 2\) and '<blank>' \(column 0\)"):
        read_tokens(["<blank>", "a", ""])
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        read_tokens(["<blank>", "\ud800"])
    assert read_tokens({"<blank>": 0, "a": 0}.keys()).names == ("<blank>", "a")
    with pytest.raises(ValueError, match="tokens: expected the labels of the columns, got none"):
        read_tokens([])
    with pytest.raises(FileNotFoundError):
        read_tokens(tmp_path / "none.txt")
