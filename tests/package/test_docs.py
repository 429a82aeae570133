"""The Python examples and the commands in docs/ run as they stand, on small files of the names that they use."""

import gzip
import json
import lzma
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import arcbeam
from arcbeam.gpu.devices import cuda_devices, why_no_cuda
from arcbeam.recipe.lexicon import Lexicon
from tests.decode import kenlm_files
from tests.simt import build
from tests.transducer.archives import nemo_file, nemo_names
from tests.transducer.networks import random_arrays, random_frames

ROOT = Path(__file__).resolve().parents[2]
UTTERANCES = 3
# Pages whose examples are run below; a new block on one of them, or on another page, fails until a test has it.
PYTHON = {
    "baseline.md", "gpu.md", "kernels.md", "language-models.md", "large-lms.md", "results.md", "transducers.md",
}  # fmt: skip
COMMANDS = {"language-models.md", "large-lms.md", "transducers.md"}
NOT_RUN = {"benchmarks-howto.md": "experiments: minutes, the larger speech sets, models of one's own"}
NEMO = """
preprocessor: {window_stride: 0.01}
encoder: {subsampling_factor: 8}
decoder: {_target_: nemo.collections.asr.modules.RNNTDecoder, prednet: {pred_hidden: 11, pred_rnn_layers: 2}}
joint:
  _target_: nemo.collections.asr.modules.RNNTJoint
  jointnet: {joint_hidden: 15, activation: relu}
  vocabulary: [▁a, b, c, d, e, ▁f, g, h, i, j, k, l]
decoding: {strategy: greedy_batch, greedy: {max_symbols: 3}}
"""


def examples(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[list[str]]:
    text = (ROOT / "docs" / page).read_text().replace("\\\n", " ")
    return [line.split() for line in re.findall(r"^    arcbeam (.*)$", text, re.MULTILINE)]


def run(page: str, code: str, names: dict) -> None:
    exec(compile(code, page, "exec"), names)


def command(arguments: list[str]) -> str:
    for package in ("typer", "rich", "jiwer"):
        pytest.importorskip(package, reason=f"{package} is not installed: arcbeam[cli]")
    got = subprocess.run([sys.executable, "-m", "arcbeam.cli", *arguments], capture_output=True, text=True)
    assert got.returncode == 0, (arguments, got.stderr)
    return got.stdout


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def speech(demo_data):
    """(log-probs of the shortest utterances, what is said in each)."""
    archive = np.load(demo_data / "log_probs.npz")
    utterances = np.split(archive["log_probs"], np.cumsum(archive["lengths"])[:-1])
    said = dict(line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    chosen = np.argsort(archive["lengths"], kind="stable")[:UTTERANCES]
    return [utterances[i] for i in chosen], [said[archive["ids"][i]] for i in chosen]


@pytest.fixture(scope="module")
def arpa(demo_data):
    """The demo's 3-gram."""
    return lzma.open(demo_data / "novels.3gram.arpa.xz", "rt", encoding="utf-8").read()


@pytest.fixture(scope="module")
def small(arpa, speech):
    """(words, ARPA of their unigrams in the demo's 3-gram): what is said and some more."""
    said = set(" ".join(speech[1]).split())
    rows = [line.split("\t") for line in arpa.split("\\1-grams:\n")[1].split("\n\n")[0].splitlines()]
    kept = [row for i, row in enumerate(rows) if row[1] in said or row[1].startswith("<") or i % 20 == 0]
    costs = {row[1]: float(row[0]) for row in kept if row[1] != "<s>"}
    total = np.log10(sum(10.0**cost for cost in costs.values()))
    unigrams = "\n".join(["-99\t<s>", *(f"{cost - total:.6f}\t{word}" for word, cost in costs.items())])
    words = sorted(row[1] for row in kept if not row[1].startswith("<"))
    return words, f"\\data\\\nngram 1={len(kept)}\n\n\\1-grams:\n{unigrams}\n\n\\end\\\n"


@pytest.fixture
def parts(here, demo_data, small):
    """What pages take for granted: tokens and lexicon; small.arpa is in the folder."""
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: arcbeam[build]")
    words, model = small
    Path("small.arpa").write_text(model)
    tokens = arcbeam.TokenTable.read(demo_data / "tokens.txt")
    return {"arcbeam": arcbeam, "tokens": tokens, "lexicon": Lexicon.spell(words, tokens)}


def graph_of(parts):
    return arcbeam.Graph.build(parts["tokens"], parts["lexicon"], "small.arpa")


def test_every_example_is_known():
    pages = [path.name for path in sorted((ROOT / "docs").glob("*.md"))]
    assert {page for page in pages if examples(page)} == PYTHON
    assert {page for page in pages if commands(page)} == COMMANDS | set(NOT_RUN)
    for page in pages:
        indented = re.search(r"^    (>>> |import |from \w+ import )", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        assert not indented, f"{page}: Python without a fence is not tested"


def test_baseline(here, demo_data, speech, arpa, small):
    pytest.importorskip("kenlm", reason="kenlm is not installed: arcbeam[kenlm]")
    (code,) = examples("baseline.md")
    Path("tokens.txt").symlink_to(demo_data / "tokens.txt")
    Path("words.txt").write_text("\n".join(small[0]))
    Path("3gram.arpa.gz").write_bytes(gzip.compress(arpa.encode(), 1))
    utterances, said = speech
    lengths = np.array([len(one) for one in utterances])
    padded = np.zeros((len(utterances), lengths.max(), utterances[0].shape[1]), np.float32)
    for row, one in zip(padded, utterances, strict=True):
        row[: len(one)] = one
    names = {"log_probs": padded, "lengths": lengths}
    run("baseline.md", code, names)
    assert [result.text for result in names["results"]] == said


def test_gpu(parts, speech, capsys):
    which, decode = examples("gpu.md")
    run("gpu.md", which, {})
    assert capsys.readouterr().out == f"{why_no_cuda() or cuda_devices()}\n"
    utterances, said = speech
    assert 'device="cuda"' in decode
    names = parts | {"graph": graph_of(parts), "log_probs": utterances, "lengths": None}
    run("gpu.md", decode.replace('device="cuda"', 'device="auto"'), names)  # the GPU if there is one
    assert [hypothesis.text for hypothesis in names["hypotheses"]] == said


def test_results(parts, speech, capsys):
    (code,) = examples("results.md")
    spoiled, dead = speech[0][0].copy(), speech[0][1].copy()
    spoiled[0, 0], dead[60:] = np.nan, -np.inf
    decoder = arcbeam.CtcDecoder(graph_of(parts), device="cpu")
    run("results.md", code, {"decoder": decoder, "log_probs": [spoiled, dead, speech[0][2]], "lengths": None})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("not decoded: log_probs: expected finite values or -inf, got nan in utterance 0")
    assert lines[1].startswith("the search died; until then it heard: ")
    assert lines[2].endswith(speech[1][2])
    assert [line["complete"] for line in json.loads(lines[3])] == [False, False, True]


def test_kernels():
    text = (ROOT / "docs" / "kernels.md").read_text()
    (kernel,) = re.findall(r"^```cpp\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (code,) = examples("kernels.md")
    folder = build.CACHE.parent / "docs"  # the same path in every run, so that it is compiled once
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sum_values.cu").write_text(kernel)
    assert "cuda/decode/sum_values.cu" in code
    run("kernels.md", code.replace("cuda/decode", str(folder)), names := {})
    assert names["total"][0] == sum(range(1000))


def test_language_models(here, demo_data):
    code, _ = examples("language-models.md")
    Path("4gram.arpa.xz").symlink_to(demo_data / "novels.3gram.arpa.xz")
    run("language-models.md", code, names := {})
    model = names["model"]
    words = model.score_words("the cat sat")
    assert [word.word for word in words] == ["the", "cat", "sat", "</s>"]
    assert model.score("the cat sat") == pytest.approx(sum(word.log_prob for word in words), rel=1e-6)

    Path("4gram.lm").unlink()
    outputs = [command(arguments) for arguments in commands("language-models.md")]
    assert "n-grams" in outputs[-1]
    assert arcbeam.LanguageModel.load("4gram.lm").info() == model.info()


def test_kenlm(parts, arpa):
    pytest.importorskip("kenlm", reason="kenlm is not installed: arcbeam[kenlm]")
    _, code = examples("language-models.md")
    Path("large.arpa").write_text(arpa)
    kenlm_files.write_binary(Path("large.arpa"), Path("4gram.binary"), kenlm_files.TRIE)
    arcbeam.LanguageModel.build("small.arpa").save("small.lm")
    run("language-models.md", code, names := parts | {"graph": graph_of(parts)})
    assert names["large"].order == 3


def test_large_language_models(parts, arpa, speech):
    (code,) = examples("large-lms.md")
    Path("small.arpa").rename("3gram.pruned.arpa")
    Path("large.arpa").write_text(arpa)
    arcbeam.LanguageModel.build("large.arpa").save("4gram.lm")
    utterances, said = speech
    run("large-lms.md", code, names := parts | {"log_probs": utterances})
    hypothesis = names["hypothesis"]
    assert hypothesis.text == said[0]
    large, less = arcbeam.LanguageModel.load("4gram.lm"), arcbeam.LanguageModel.build("3gram.pruned.arpa")
    difference = 1.2 * large.score(said[0]) - less.score(said[0])
    assert hypothesis.rescoring_score == pytest.approx(difference, rel=1e-4)

    names["graph"].save("graph.arcbeam")
    np.savez("log_probs.npz", **{f"utterance{i}": one for i, one in enumerate(utterances)})
    (arguments,) = commands("large-lms.md")
    decoded = dict(line.split(" ", 1) for line in command(arguments).splitlines())
    assert decoded["utterance0"] == said[0]


def test_transducers(here):
    pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")
    batch, stream = examples("transducers.md")
    nemo_file("parakeet.nemo", NEMO, nemo_names(random_arrays(6, blank=12, blank_bias=2.0, layers=2)))
    frames = [random_frames(i, 40) for i in range(3)]
    lengths = np.array([40, 31, 0])
    names = {"encoder_output": np.stack(frames), "lengths": lengths}
    run("transducers.md", batch, names)
    whole = names["decoder"].decode(names["encoder_output"], lengths)
    assert len(whole[0].tokens) > 5

    pieces = []
    names["chunks"] = (pieces.append(names.get("found")) or chunk for chunk in np.split(frames[0], [7, 8, 30]))
    run("transducers.md", stream, names)
    pieces.append(names["found"])
    assert np.concatenate([piece.tokens for piece in pieces[1:]]).tolist() == whole[0].tokens.tolist()
    assert pieces[-1].frames[-1] == whole[0].frames[-1]

    np.savez(
        "encoder_output.npz",
        **{f"utterance{i}": one[:n] for i, (one, n) in enumerate(zip(frames, lengths, strict=True))},
    )
    (arguments,) = commands("transducers.md")
    rows = [json.loads(line) for line in command(arguments).splitlines()]
    assert [row["text"] for row in rows] == [found.text for found in whole]
