"""Mutated files of tokens: a FormatError that names the file, or tokens; never a crash."""

import json

import pytest

from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.tokens.formats import read_tokens
from arcbeam.tokens.model_tokens import table_of
from tests.files.mutants import MUTANTS, attack, little_memory, mutate_text  # noqa: F401 - a fixture
from tests.front.models import WORDS, nemo_archive, sentencepiece_model
from tests.front.test_tokens import HUGGING_FACE, NEMO, WORD_PIECES, tokenizer_json

pytestmark = [pytest.mark.usefixtures("little_memory"), pytest.mark.filterwarnings("ignore::UserWarning")]
FILES = {
    "vocab.json": json.dumps(HUGGING_FACE),
    "tokenizer.json": tokenizer_json("WordPiece", WORD_PIECES, continuing_subword_prefix="##"),
    "unigram.json": json.dumps(
        {"model": {"vocab": [["▁a", -1.0], ["b", -2.5]]}, "added_tokens": [{"content": "x", "id": 2}]}
    ),
    "alphabet.json": json.dumps({"labels": [" ", "a", "b", ""], "is_bpe": False}),
    "vocab.txt": "▁a 0\nb 1\n▁c 2\n<blk> 3\n#0 4\n",
}
ADVICE = ("blank=", "occurs twice", "words that the tokens can spell")


def use(path):
    tokens = read_tokens(path)
    assert all(type(name) is str for name in tokens.names)
    table = table_of(tokens, 0)
    assert isinstance(table, TokenTable) and len(table) == len(tokens.names)
    if tokens.cutter is not None:
        Lexicon.cut(WORDS, tokens.cutter.cut, table)


@pytest.mark.parametrize("name", FILES)
def test_text(tmp_path, name):
    data = FILES[name].encode()
    use_path = tmp_path / name
    use_path.write_bytes(data)
    attack(name, data, use_path, use, MUTANTS, mutate_text, ADVICE)


def test_archives_of_nemo(tmp_path):
    pytest.importorskip("yaml")
    model = sentencepiece_model(tmp_path)
    config = NEMO + "tokenizer: {type: bpe, model_path: 'nemo:t.model'}\ndecoder: {vocabulary: [▁a, b, c]}\n"
    path = tmp_path / "m.nemo"
    data = nemo_archive(path, config, **{"t.model": model}).read_bytes()
    attack("nemo", data, path, use, MUTANTS // 3, advice=ADVICE)

    def other_config(rng, text):
        mutant = mutate_text(rng, text).decode("latin-1")
        return nemo_archive(tmp_path / "other", mutant, **{"t.model": model}).read_bytes()

    attack("config", config.encode(), path, use, MUTANTS // 3, other_config, ADVICE)


def test_sentencepiece_models(tmp_path):
    attack("pieces", sentencepiece_model(tmp_path), tmp_path / "bpe.model", use, MUTANTS // 3, advice=ADVICE)
