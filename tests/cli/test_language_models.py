"""``arcbeam decode`` with a large language model: files of every kind, on the demo's speech, and what is wrong."""

import json

import numpy as np
import pytest

import arcbeam
from tests.cli.conftest import TOKENS, WORDS, arcs_of_a_word_loop
from tests.decode import kenlm_files

ARPA = """\\data\\
ngram 1=6
ngram 2=1

\\1-grams:
-2\t<unk>
-99\t<s>
-1\t</s>
-1\tah\t-0.25
-1\tbee
-1\tsea

\\2-grams:
-0.5\tah bee

\\end\\
"""


AUTO = "--device", "auto"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with the graph of a model, that model and a larger one as ARPA, as .lm, and as KenLM's binary."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "large.arpa").write_text(ARPA)
    small = ARPA.replace("ngram 2=1\n", "").replace("\t-0.25", "").partition("\n\\2-grams")[0] + "\n\\end\\\n"
    (folder / "small.arpa").write_text(small)
    for name in ("large", "small"):
        with pytest.warns(UserWarning, match="sum"):
            model = arcbeam.LanguageModel.build(folder / f"{name}.arpa", progress=False)
        model.save(folder / f"{name}.lm")
    graph = arcbeam.Graph.from_arcs(
        list(arcs_of_a_word_loop()), finals=dict.fromkeys(range(4), 0.0), meta={"lm_digest": model.digest},
        tokens=arcbeam.TokenTable.from_list(TOKENS), word_symbols=arcbeam.SymbolTable.from_list(WORDS),
    )  # fmt: skip
    graph.save(folder / "graph.arc")
    return folder


@pytest.fixture
def decode(run, models):
    def decode(large, *options, graph="graph.arc", small="small.lm"):
        return run(
            "decode", models / graph, "in.npz", "--format", "json", "--device", "cpu", "--language-model",
            models / large, "--graph-language-model", models / small, *options,
        )  # fmt: skip

    return decode


def fields_of(result):
    assert result.exit_code == 0, result.output
    return {fields["id"]: fields for fields in map(json.loads, result.stdout.splitlines())}


def test_every_kind_of_file(decode, models):
    ours = fields_of(decode("large.lm"))
    # ah bee: 0.5 for the bigram instead of 1 as log10; after bee there is no history
    assert ours["one"]["rescoring_score"] == pytest.approx(0.5 * np.log(10), abs=1e-4)
    assert ours["one"]["score"] == pytest.approx(
        ours["one"]["acoustic_score"] + ours["one"]["graph_score"] + ours["one"]["rescoring_score"], abs=1e-4
    )
    built = decode("large.arpa", small="small.arpa")
    assert fields_of(built) == ours
    assert "small.arpa; build-lm makes a file that loads at once" in built.stderr
    assert "UserWarning" not in built.stderr
    kenlm_files.need_kenlm()
    kenlm_files.write_binary(models / "large.arpa", models / "large.binary", kenlm_files.TRIE)
    theirs = fields_of(decode("large.binary", "--placement", "cpu"))
    assert {name: f["text"] for name, f in theirs.items()} == {name: f["text"] for name, f in ours.items()}
    assert theirs["one"]["score"] == pytest.approx(ours["one"]["score"], abs=1e-3)


def test_streams_have_the_same_models(run, decode, models):
    """With the bytes of whole utterances, chunk by chunk."""
    requested = "--nbest", 2, "--lm-scale", 2
    shown = run(
        "stream", models / "graph.arc", "in.npz", "--format", "json", "--chunk-frames", 2, "--threads", 2, "--device",
        "cpu", "--language-model", models / "large.lm", "--graph-language-model", models / "small.lm", *requested,
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    rows = [row for row in map(json.loads, shown.stdout.splitlines()) if row["is_final"]]
    wholes = fields_of(decode("large.lm", *requested))
    assert {row["id"]: row["nbest"] for row in rows} == {name: one["nbest"] for name, one in wholes.items()}


def test_options_reach_the_decoder(decode):
    once, twice = (fields_of(decode("large.lm", "--lm-scale", scale))["two"] for scale in (1, 2))
    assert twice["rescoring_score"] - once["rescoring_score"] == pytest.approx(-3 * np.log(10), abs=1e-4)
    halved = fields_of(decode("large.lm", "--graph-lm-scale", 0.5))["two"]
    assert halved["rescoring_score"] - once["rescoring_score"] == pytest.approx(-1.5 * np.log(10), abs=1e-4)
    same = "--hypotheses-per-state", 2, "--unknown-words", "unk", "--placement", "auto"
    assert fields_of(decode("large.lm", *same))["two"] == once


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--lm-scale", -1), "'--lm-scale': expected a number of at least 0"),
        (("--unknown-words", "skip"), "'--unknown-words': expected one of error, unk, small, got 'skip'"),
        (("--placement", "gpu"), "'--placement': expected one of auto, resident"),
        (("--gpu-budget", "2G", *AUTO), "'--gpu-budget': expected a number of bytes, at least 1, or a size"),
        (("--arc-cache", "much", *AUTO), "'--arc-cache': expected a number of bytes, at least 0, or a size"),
        (("--gpu-budget", "2GiB"), "'--gpu-budget': is about the memory of a GPU, and the CPU decodes; leave it out"),
        (("--arc-cache", 0), "'--arc-cache': is about the memory of a GPU, and the CPU decodes; leave it out"),
    ],
)
def test_options_are_checked(decode, options, message):
    result = decode("large.lm", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_files_that_are_none(run, decode, models):
    kenlm_files.need_kenlm()
    (models / "noise").write_bytes(b"\x00" * 100)
    for large, small, message in [
        ("gone.lm", "small.lm", "gone.lm: No such file"),
        ("graph.arc", "small.lm", "graph.arc: expected a language model, got a graph"),
        ("noise", "small.lm", "noise, line 1: expected"),
        ("/dev/null", "small.lm", "/dev/null: expected a regular file, not a pipe or a device"),
        ("large.lm", "large.lm", "expected the model that the graph was built with"),
        ("small.lm", "large.lm", "that one was given as --language-model: exchange the two"),
    ]:
        result = decode(large, small=small)
        assert result.exit_code == 1
        assert message in result.stderr
        assert result.stderr.splitlines()[-1].startswith("error: ")
    assert "building" not in decode("gone.lm", small="small.arpa").stderr
    kenlm_files.write_binary(models / "large.arpa", models / "large.probing", kenlm_files.PROBING)
    info = run("info", models / "large.probing")
    assert (info.exit_code, "got KenLM's binary format, which decode takes as" in info.stderr) == (1, True)
    assert "large.probing: expected the graph's own model, as ARPA" in decode("large.lm", small="large.probing").stderr


def test_a_graph_that_does_not_say_its_model(run, models):
    both = "--language-model", models / "large.lm", "--graph-language-model", models / "small.lm"
    result = run("decode", "graph.arc", "in.npz", "--device", "cpu", *both)
    assert result.exit_code == 0
    assert "note: the graph does not record which language model it was built with" in result.stderr


def test_words_that_the_model_lacks(decode, models):
    (models / "narrow.arpa").write_text(ARPA.replace("sea", "tea"))
    result = decode("narrow.arpa")
    assert result.exit_code == 1
    assert "error: --language-model: it lacks 1 word ('sea') of the graph; --unknown-words unk" in result.stderr
    kept = fields_of(decode("narrow.arpa", "--unknown-words", "small"))
    assert kept["two"]["rescoring_score"] == 0.0
    assert fields_of(decode("narrow.arpa", "--unknown-words", "unk"))["two"]["rescoring_score"] < -1
