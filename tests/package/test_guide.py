"""The Python examples and the commands of the pages run as they stand, on small files of the names that they use."""

import ast
import asyncio
import gzip
import json
import lzma
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import arcbeam
from data.token_ngrams import write_arpa
from tests.decode import kenlm_files
from tests.simt import build

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
UTTERANCES = 3
# Pages whose examples are run below; a new block on one of them, or on another page, fails until a test has it.
PYTHON = {
    "design/kernels.md": 1, "guide/alignment.md": 2, "guide/baseline.md": 1, "guide/batch-jobs.md": 1,
    "guide/batches-from-python.md": 2,
    "guide/boosting.md": 3, "guide/captions.md": 2,
    "guide/decoding.md": 3, "guide/endpoints.md": 2, "guide/frame-confidences.md": 3,
    "guide/from-flashlight.md": 1, "guide/from-nemo.md": 3, "guide/from-onnx.md": 3, "guide/from-other-toolkits.md": 5,
    "guide/from-pyctcdecode.md": 2,
    "guide/from-riva-and-kaldi.md": 4, "guide/from-torchaudio.md": 2, "guide/from-transformers.md": 2,
    "guide/front-door.md": 3, "guide/gpu.md": 2, "guide/graphs.md": 2, "guide/install.md": 1,
    "guide/large-language-models.md": 3, "guide/lattice-rescoring.md": 2, "guide/lattices-of-kaldi.md": 2,
    "guide/lattices.md": 3, "guide/more-answers.md": 5, "guide/not-yet.md": 1, "guide/report.md": 1,
    "guide/serving-streams.md": 5, "guide/streams.md": 5, "guide/transcribe.md": 4, "guide/transducer-streams.md": 4,
    "guide/transducer-boosting.md": 2, "guide/transducer-lattices.md": 2, "guide/transducer-weights.md": 1,
    "guide/transducers.md": 3,
    "guide/triton.md": 1, "guide/which-decoder.md": 1, "guide/word-times.md": 3, "index.md": 1,
}  # fmt: skip
COMMANDS = {
    "guide/alignment.md": 1, "guide/batch-jobs.md": 7, "guide/beam-and-scales.md": 1, "guide/boosting.md": 4,
    "guide/decoding.md": 1, "guide/endpoints.md": 1,
    "guide/frame-confidences.md": 1,
    "guide/graphs.md": 7, "guide/json.md": 2, "guide/large-language-models.md": 4, "guide/lattices-of-kaldi.md": 1,
    "guide/more-answers.md": 2, "guide/report.md": 4, "guide/streams.md": 2, "guide/transcribe.md": 2,
    "guide/transducer-boosting.md": 2, "guide/transducer-lattices.md": 1, "guide/transducer-streams.md": 4,
    "guide/transducer-weights.md": 1, "guide/transducers.md": 5,
    "guide/troubleshooting.md": 2, "guide/word-times.md": 3,
}  # fmt: skip
NOT_RUN = {
    "benchmarks-howto.md": "experiments: minutes, the larger speech sets, models of one's own",
    "guide/install.md": "the demo, which tests/cli runs; and a GPU",
}


def examples(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[list[str]]:
    shown = re.findall(r"^```console\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    lines = "\n".join(shown).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if re.match(r" *arcbeam ", line)]


def run(page: str, code: str, names: dict) -> None:
    exec(compile(code, page, "exec"), names)


def command(arguments: list[str]) -> str:
    """What a command prints, within this process, which has imported what it needs; tests/cli starts processes."""
    for package in ("typer", "rich", "jiwer"):
        pytest.importorskip(package, reason=f"{package} is not installed: .[cli]")
    from typer.testing import CliRunner

    from arcbeam.cli.app import app

    got = CliRunner().invoke(app, arguments, prog_name="arcbeam", catch_exceptions=False)
    assert got.exit_code == 0, (arguments, got.stderr)
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


@pytest.fixture(scope="module")
def site(tmp_path_factory, demo_data, small, speech):
    """A folder with the files that pages name: tables, models, graphs, log-probs of the utterances, references."""
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    words, model = small
    folder = tmp_path_factory.mktemp("site")
    (folder / "tokens.txt").write_text((demo_data / "tokens.txt").read_text())
    (folder / "lexicon.txt").write_text("".join(f"{word} {' '.join(word)}\n" for word in words))
    for name in ("3gram.arpa", "3gram.pruned.arpa"):
        (folder / name).write_text(model)
    parts = [str(folder / name) for name in ("tokens.txt", "lexicon.txt", "3gram.arpa")]
    graph = arcbeam.Graph.build(*parts, separator="<space>", progress=False, openfst=folder / "TLG.fst")
    graph.save(folder / "graph.arcbeam")
    graph.word_symbols.write(folder / "words.txt")
    (folder / "vocabulary.txt").write_text("\n".join(words))
    utterances, said = speech
    np.save(folder / "utterance.npy", utterances[0])
    np.save(folder / "long.npy", np.concatenate(utterances))
    named = {f"utterance{i}": one for i, one in enumerate(utterances)}
    np.savez(folder / "log_probs.npz", **named)
    (folder / "reference.tsv").write_text("".join(f"{n}\t{text}\n" for n, text in zip(named, said, strict=True)))
    return folder


@pytest.fixture
def there(site, here):
    """The working directory, with links to the files of the site, which a page may replace."""
    for path in site.iterdir():
        (here / path.name).write_bytes(path.read_bytes())
    return here


def test_every_example_is_known():
    pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    assert {page: len(examples(page)) for page in pages if examples(page)} == PYTHON
    assert {page: len(commands(page)) for page in pages if commands(page) and page not in NOT_RUN} == COMMANDS


def test_install(capsys):
    (code,) = examples("guide/install.md")
    run("install.md", code, {})
    assert capsys.readouterr().out == f"{arcbeam.__version__}\n"


def test_graphs(there, speech):
    build_graph, load = examples("guide/graphs.md")
    os.remove("graph.arcbeam")
    run("graphs.md", build_graph, names := {})
    assert names["graph"].meta["topology"] == "compact" and Path("graph.arcbeam").exists()
    run("graphs.md", load, names := {})
    assert arcbeam.CtcDecoder(names["graph"]).decode([speech[0][0]])[0].text == speech[1][0]

    os.remove("graph.arcbeam")
    outputs = [command(arguments) for arguments in commands("guide/graphs.md")]
    assert "epsilon depth" in outputs[1] and "pronunciations         none" in outputs[4]
    assert f"utterance0 {speech[1][0]}\n" in outputs[5]
    assert outputs[6].count("\n") == len(speech[0])
    graph = arcbeam.Graph.load("graph.arcbeam")
    [found] = arcbeam.CtcDecoder(graph).decode([speech[0][0]])
    assert found.text == speech[1][0]
    assert graph.open_slot is not None  # of the build with --open-slot, which came last


def test_decoding(there, speech, capsys):
    first, results, _ = examples("guide/decoding.md")
    run("decoding.md", first, names := {})
    assert names["hypotheses"][0].text == speech[1][0]
    capsys.readouterr()

    spoiled, dead = speech[0][0].copy(), speech[0][1].copy()
    spoiled[0, 0], dead[60:] = np.nan, -np.inf
    decoder = arcbeam.CtcDecoder(names["graph"], device="cpu")
    given = '[np.load("utterance.npy"), np.full((50, 29), np.nan)]'
    assert given in results
    batch = {"decoder": decoder, "np": np, "three": [spoiled, dead, speech[0][2]]}
    run("decoding.md", results.replace(given, "three"), batch)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("not decoded: log_probs: expected finite values or -inf, got nan in utterance 0")
    assert lines[1].startswith("the search died after: ")
    assert lines[2].endswith(speech[1][2])
    assert [line["complete"] for line in json.loads(lines[3])] == [False, False, True]


def test_the_files_of_examples_come_from_the_demo(here):
    Path("data").symlink_to(ROOT / "data")
    [copying] = re.findall(r"^cp .*$", (DOCS / "guide" / "decoding.md").read_text(), re.MULTILINE)
    subprocess.run(copying, shell=True, check=True)
    for arguments in commands("guide/decoding.md"):
        command(arguments)
    first, _, files = examples("guide/decoding.md")
    run("decoding.md", files, names := {})
    run("decoding.md", first, names)
    said = dict(line.split("\t") for line in Path("reference.tsv").read_text().splitlines())
    assert names["hypotheses"][0].text == said["0870"]
    assert len(np.load("long.npy")) == sum(map(len, names["utterances"].values())) and len(names["utterances"]) == 13
    boost, *_ = examples("guide/boosting.md")
    run("boosting.md", boost, names)
    assert [found.phrase for found in names["hypothesis"].boosts] == ["john dashwood"]
    page = (DOCS / "guide" / "boosting.md").read_text()
    told = re.search(r"of `(.*?)` is \*(.*?)\*\s+instead of \*(.*?)\*", page)
    for line in re.findall(r"^printf .*$", page, re.MULTILINE)[:2]:
        subprocess.run(line, shell=True, check=True)
    for arguments in commands("guide/boosting.md")[:2]:
        assert f"{told[1]} {told[2]}\n" in command(arguments)
    assert f"{told[1]} {told[3]}\n" in command(["decode", "graph.arcbeam", "log_probs.npz"])
    lists, *_ = examples("guide/more-answers.md")
    run("more-answers.md", lists, names)
    told = re.search(r"they begin with ([\d., ]+\d)", (DOCS / "guide" / "more-answers.md").read_text())
    assert [f"{entry.posterior:.3f}" for entry in names["hypothesis"].nbest[:3]] == told[1].split(", ")
    page = (DOCS / "guide" / "large-language-models.md").read_text()
    for line in re.findall(r"^(?:cp|python) .*$", page, re.MULTILINE):
        subprocess.run(line.replace("python", sys.executable, 1), shell=True, check=True)
    *_, rescored = map(command, commands("guide/large-language-models.md"))
    assert f"0870 {said['0870']}\n" in rescored


def test_alignment(there, speech, capsys):
    found, lacking = examples("guide/alignment.md")
    run("alignment.md", found, names := {})
    assert [one.text for one in names["alignments"]] == speech[1]
    assert all(one.exact and not one.doubtful for one in names["alignments"])
    words = " ".join(speech[1]).split()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if "True" not in line] == words
    run("alignment.md", lacking, names)
    spoken = [word for word, _, _ in ast.literal_eval(capsys.readouterr().out)]
    assert spoken == ["<star>", speech[1][0].split()[-1]]
    for arguments in commands("guide/alignment.md"):
        command(arguments)
    assert [line.split()[4] for line in Path("words.ctm").read_text().splitlines()] == words


def test_front_door(there, arpa, speech, monkeypatch, capsys):
    monkeypatch.setenv("ARCBEAM_CACHE", str(there / "cache"))
    Path("3gram.arpa.gz").write_bytes(gzip.compress(Path("3gram.arpa").read_bytes()))
    opening, options, batch = examples("guide/front-door.md")
    names = {}
    for code in (opening, options):
        run("front-door.md", code, names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == names["hypothesis"].text == speech[1][0] and names["hypothesis"].nbest[0].text == lines[0]
    run("front-door.md", batch, names)
    whole, cut = ast.literal_eval(capsys.readouterr().out)
    assert whole == lines[0] and cut.split()[:2] == whole.split()[:2]
    for page in ("index.md", "guide/which-decoder.md"):
        run(page, *examples(page), {"log_probs": names["log_probs"]})  # of a model, on the first page
        assert capsys.readouterr().out == f"{speech[1][0]}\n"


class RayData:
    """Stands for ray.data: does the same in this process, a batch after the other."""

    def __init__(self):
        self.written = {}

    def from_items(self, items):
        self.items = items
        return self

    def ActorPoolStrategy(self, size):
        return size

    def map_batches(self, kind, fn_constructor_kwargs, batch_size, compute, num_cpus):
        assert (batch_size, num_cpus) == (1, 1)
        actors = [kind(**fn_constructor_kwargs) for _ in range(compute)]
        self.found = [actors[i % compute]({"item": np.array([item])}) for i, item in enumerate(self.items)]
        return self

    def write_parquet(self, where, mode):
        assert mode == "overwrite"
        self.written[where] = self.found


def test_batch_jobs(there, speech, capsys, monkeypatch):
    for arguments in commands("guide/batch-jobs.md"):
        command(arguments)
    assert Path("hypotheses.txt").read_text().splitlines()[0] == f"utterance0 {speech[1][0]}"
    assert re.match(r"utterance0 1 [\d.]+ [\d.]+ \w+\n", Path("words.ctm").read_text())
    whole = Path("words.txt").read_text()
    assert whole.splitlines()[0].startswith("utterance0 ") and Path("lattices.ark").exists()
    assert Path("words-1.txt").read_text() + Path("words-2.txt").read_text() == whole
    (files,) = examples("guide/batch-jobs.md")
    in_a_row, on_many_machines = examples("guide/batches-from-python.md")
    run("batch-jobs.md", files, {})
    assert list(np.load("both.npz")) == ["first", "second"]
    run("batches-from-python.md", in_a_row.replace("i + 4", "i + 2").replace(", 4)", ", 2)"), {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in printed] == speech[1]
    for number in range(2):
        np.savez(f"shard{number}.npz", **{f"{number}-{i}": frames for i, frames in enumerate(speech[0])})
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(data=(data := RayData())))
    run("batches-from-python.md", on_many_machines, {})
    [(where, found)] = data.written.items()
    assert where == "transcripts"
    assert [one["id"] for one in found] == [["0-0", "0-1", "0-2"], ["1-0", "1-1", "1-2"]]
    assert [one["text"] for one in found] == [speech[1]] * 2


def test_captions(there, capsys):
    for package in ("starlette", "uvicorn", "websockets", "python_multipart", "openai", "soundfile"):
        pytest.importorskip(package, reason=f"{package} is not installed: .[captions]")
    import soundfile

    from tests.examples.captions_server import serving
    from tests.transcribe import tones

    soundfile.write("speech.wav", tones.recording(["abc dea", "cab"]), tones.RATE)
    with serving(tones.ToneModel()) as port:
        for code in examples("guide/captions.md"):
            run("captions.md", code.replace(":8000", f":{port}"), {})
    first, second, *live = capsys.readouterr().out.splitlines()
    assert (first, second) == ("1.00 1.54 abc dea", "2.56 2.78 cab")
    assert live[0] == "1.0 1.54 False abc | abc dea"
    assert [line.split(" ", 3)[2:] for line in live[1:]] == [["True", "abc dea | abc dea"], ["True", "cab | cab"]]


def test_beam_and_scales(there):
    (arguments,) = commands("guide/beam-and-scales.md")
    assert "the fewest errors: WER 0.00 %" in command(arguments)
    assert len(Path("grid.csv").read_text().splitlines()) == 1 + 72


def test_word_times(there, speech, capsys):
    arguments, from_elsewhere, _ = commands("guide/word-times.md")
    lines = command(arguments).splitlines()
    ours, elsewhere, _ = examples("guide/word-times.md")
    run("word-times.md", ours, names := {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == speech[1][0].split()
    assert [line.split()[4] for line in lines if line.startswith("utterance0 ")] == speech[1][0].split()
    words = names["hypothesis"].words

    Path("lexicon.txt").write_text(
        "".join(f"{w} {' '.join(w)}\n" for w in arcbeam.recipe.lexicon.read_words("words.txt"))
    )
    run("word-times.md", elsewhere, names := {})
    assert capsys.readouterr().out == "spellings\n"
    decoder = arcbeam.CtcDecoder(names["graph"], acoustic_scale=1.5, frame_shift=0.02)
    assert decoder.decode([speech[0][0]])[0].words == words
    times = [line.split()[2:4] for line in command(from_elsewhere).splitlines() if line.startswith("utterance0 ")]
    assert len(times) == len(words)
    late = arcbeam.Graph.load("TLG.fst", words="words.txt", tokens="tokens.txt")
    decoder = arcbeam.CtcDecoder(late, acoustic_scale=1.5, frame_shift=0.02)
    assert decoder.decode([speech[0][0]])[0].words != words


def test_more_answers(there, speech, capsys):
    lines = Path("reference.tsv").read_text().splitlines()
    wrong = [re.sub(r"\t\w+ ", "\t", line) for line in lines]  # as if the first words were wrong
    Path("reference.tsv").write_text("\n".join(wrong))
    names = {}
    for code in examples("guide/more-answers.md"):
        run("more-answers.md", code, names)
        if "Endpoint" in code:
            ended = names["stream"].partial
    hypothesis, printed = names["hypothesis"], capsys.readouterr().out
    assert names["found"].posterior_scale > 0
    assert names["partial"].nbest[0].text == names["partial"].text and not names["partial"].is_final
    assert ended.is_final and f"[{ended.nbest[0].text!r}" in printed
    assert f"[{speech[1][0]!r}" in printed
    assert speech[1][0] in printed and "posterior_scale=" in printed and hypothesis.text == speech[1][0]
    outputs = [command(arguments) for arguments in commands("guide/more-answers.md")]
    answers = json.loads(outputs[0].splitlines()[0])
    assert answers["nbest"][0]["text"] == answers["mbr"]["text"] == speech[1][0]
    assert all({"confidence", "frame_confidence"} <= word.keys() for word in answers["words"])
    assert 0 <= float(outputs[1].split()[5]) <= 1
    assert len(list(arcbeam.read_lattices("lattices.ark"))) == len(speech[0])


def test_frame_confidences(there, capsys):
    names = {}
    for code in examples("guide/frame-confidences.md"):
        run("frame-confidences.md", code, names)
        found = names["hypothesis"].word_confidence
        assert 0 < found.min() <= found.max() <= 1
    assert names["hypothesis"].is_final
    assert "None" not in capsys.readouterr().out
    [shown] = [command(arguments) for arguments in commands("guide/frame-confidences.md")]
    assert all("frame_confidence" in word for word in json.loads(shown.splitlines()[-1])["stable_words"])


def test_boosting(there, speech, capsys):
    Path("boost.txt").write_text("norland\t3\nFerrars\t1\n")
    Path("lists.txt").write_text("utterance1 boost.txt\n")
    Path("names.txt").write_text("Ferrars f e r r a r s\n")
    for arguments in commands("guide/boosting.md"):
        assert speech[1][0] in command(arguments) or arguments[0] == "build-graph"
    first, calibrate, new_words = examples("guide/boosting.md")
    run("boosting.md", first, names := {})
    assert speech[1][0] in capsys.readouterr().out
    np.save("other_speech.npy", speech[0][1])
    phrase = next(word for word in speech[1][0].split() if word not in speech[1][1].split())
    names["boost"] = arcbeam.Boost([phrase])
    run("boosting.md", calibrate, names)
    assert names["boost"].phrases[phrase] > 0
    run("boosting.md", new_words, names)
    assert "Ferrars" in names["boost"].new_words(names["graph"])
    assert names["hypothesis"].text == speech[1][0]


def test_streams(there, speech, capsys):
    names = {}
    for code in examples("guide/streams.md") + examples("guide/endpoints.md"):
        run("streams.md", code, names)
        assert names["hypothesis"].text == speech[1][0]  # of the whole, and of a stream that has moved
    assert speech[1][0].startswith(capsys.readouterr().out.splitlines()[5].split(" |")[0])
    assert list(names["patient"].rules) == ["pause", "end of sentence"]
    for arguments in commands("guide/streams.md"):
        command(arguments)
    (sentences,) = commands("guide/endpoints.md")
    assert command(sentences).startswith("long-1 ")


def test_serving_streams(there, speech, capsys, monkeypatch):
    threads, tasks, sentences, counters, prometheus = examples("guide/serving-streams.md")
    run("serving-streams.md", threads, names := {})
    assert names["hypothesis"].text == speech[1][0]
    run("serving-streams.md", tasks, names)

    async def chunks():
        for chunk in np.array_split(speech[0][1], 3):
            yield chunk

    with arcbeam.Batcher(names["decoder"]) as batcher:
        names["batcher"] = batcher
        assert asyncio.run(names["caption"](batcher, chunks())).text == speech[1][1]
        capsys.readouterr()
        run("serving-streams.md", counters, names)
        load, counted, *_ = capsys.readouterr().out.splitlines()
    assert 0 < float(load.split()[0]) <= 1 and load.endswith(" 0.0 0 0 0.0") and counted == "4 4 0 1.0"
    with names["batcher"]:
        run("serving-streams.md", sentences, dict(names))
    *_, last = capsys.readouterr().out.splitlines()
    assert speech[1][0].endswith(last.split(" | ")[1])
    client = pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    monkeypatch.setattr(client, "REGISTRY", registry := client.CollectorRegistry(auto_describe=True))
    run("serving-streams.md", prometheus, names)
    assert registry.get_sample_value("arcbeam_batcher_rounds_total") == 4


def test_lattices(there, demo_data, speech, capsys):
    arcbeam.LanguageModel.build(demo_data / "novels.3gram.arpa.xz").save("4gram.lm")
    names, of_kaldi = {}, {}
    *first, prune = examples("guide/lattices.md")
    for code in first:
        run("lattices.md", code, names)
    for code in examples("guide/lattices-of-kaldi.md"):
        run("lattices-of-kaldi.md", code, of_kaldi)
    for code in [*examples("guide/lattice-rescoring.md"), prune]:
        run("lattices.md", code.replace("what was said", speech[1][0]), names)
    assert names["errors"] == 0 and " ".join(names["words"]) == speech[1][0]
    assert 0 < names["small"].num_links <= names["lattice"].num_links
    assert of_kaldi["fst"].num_states == names["lattice"].num_tokens
    assert names["rescored"].rescoring_scores.any() and names["rescored"].text in capsys.readouterr().out
    assert of_kaldi["best"].words.tolist() == names["hypothesis"].word_ids.tolist()
    assert dict(arcbeam.read_lattices("one.scp")) == {"utterance": names["found"]}
    assert dict(arcbeam.read_lattices("one.txt")) == {"utterance": names["found"]}
    assert names["later"].best_path(acoustic_scale=1.5).text == names["rescored"].text
    assert (names["found"].arcs["word"] != 0).all()
    for arguments in commands("guide/lattices-of-kaldi.md"):
        command(arguments)
    assert len(list(arcbeam.read_lattices("scp:lattices.scp"))) == len(speech[0])


def test_troubleshooting(there):
    outputs = [command(arguments) for arguments in commands("guide/troubleshooting.md")]
    assert outputs[0].startswith("utterance0 ") and "epsilon depth" in outputs[1]


def test_json(there):
    of_files, of_streams = commands("guide/json.md")
    command(of_files)
    found = {row["id"]: row for row in map(json.loads, Path("hypotheses.jsonl").read_text().splitlines())}
    finals = [row for row in map(json.loads, command(of_streams).splitlines()) if row["is_final"]]
    assert [(row["id"], row["stable_words"]) for row in finals] == [(id, row["words"]) for id, row in found.items()]


def test_report(there, speech):
    Path("recordings").mkdir()
    for name in ("utterance0", "utterance1", "utterance2"):
        Path("recordings", f"{name}.wav").write_bytes(b"RIFF")
    decode, *reports = commands("guide/report.md")
    command(decode)
    for arguments, part in zip(
        reports, ("recordings/utterance0.wav", "data:audio/wav;base64,UklGRg==", '"boxes":[['), strict=True
    ):
        assert command(arguments).startswith("WER 0.00 % [ 0 / ")
        assert all(text in Path("report.html").read_text() for text in [part, *speech[1]])
    (code,) = examples("guide/report.md")
    run("report.md", code, names := {})
    assert names["score"].wer == 0.0 and '"nbest":[{' in Path("report.html").read_text()


def test_not_yet(capsys):
    (code,) = examples("guide/not-yet.md")
    run("not-yet.md", code, {})
    assert "CtcDecoder" in capsys.readouterr().out


def test_baseline(there, speech, arpa, small):
    pytest.importorskip("kenlm", reason="kenlm is not installed: .[kenlm]")
    (code,) = examples("guide/baseline.md")
    Path("vocabulary.txt").write_text("\n".join(small[0]))
    Path("3gram.arpa.gz").write_bytes(gzip.compress(arpa.encode(), 1))
    run("baseline.md", code, names := {})
    assert [result.text for result in names["results"]] == speech[1][:1]
    table = (DOCS / "guide" / "baseline.md").read_text().split("## Results")[1].split("## Times")[0]
    attributes = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    assert {"text", "lm_score", "timesteps"} <= set(attributes)
    assert all(hasattr(names["results"][0].nbest[1], name) for name in attributes)


class Recogniser:
    """Stands for Transformers' pipeline: calls the decoder as that does."""

    def __init__(self, task, model, tokenizer, feature_extractor, decoder):
        self.model, self.decoder = model, decoder

    def __call__(self, audio, return_timestamps, decoder_kwargs):
        [best, *_] = self.decoder.decode_beams(self.model(audio), **decoder_kwargs)
        return {"text": best[0], "chunks": [word for word, (start, end) in best[2]]}


def test_from_pyctcdecode(there, speech, arpa, monkeypatch, capsys):
    pytest.importorskip("kenlm", reason="kenlm is not installed: .[kenlm]")
    first, with_transformers = examples("guide/from-pyctcdecode.md")
    Path("3gram.arpa").write_text(arpa)
    utterances, said = speech
    run("from-pyctcdecode.md", first, names := {})
    assert names["text"] == said[0]
    assert f" {said[0]} [('{said[0].split()[0]}', (" in capsys.readouterr().out
    vocabulary = {label: column for column, label in reversed(list(enumerate(names["labels"])))}
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(pipeline=Recogniser))
    names |= {
        "model": lambda audio: utterances[1],
        "tokenizer": SimpleNamespace(get_vocab=lambda: vocabulary),
        "feature_extractor": None,
        "audio": None,
    }
    run("from-pyctcdecode.md", with_transformers, names)
    assert capsys.readouterr().out == f"{ {'text': said[1], 'chunks': said[1].split()} }\n"


@pytest.fixture
def flashlight(there, arpa, small):
    """Flashlight's files, with the blank as - and the space as |, made by the commands of the page."""
    pytest.importorskip("kenlm", reason="kenlm is not installed: .[kenlm]")
    Path("3gram.arpa").write_text(arpa)
    Path("lexicon.txt").unlink()
    [shown] = re.findall(
        r"^```console\n(.*?)^```", (DOCS / "guide" / "from-flashlight.md").read_text(), re.DOTALL | re.M
    )
    subprocess.run(shown, shell=True, check=True)
    tokens = arcbeam.TokenTable.read("tokens.txt")
    labels = ["|" if token == "<space>" else token for token in tokens.tokens]
    labels[tokens.blank] = "-"
    assert Path("labels.txt").read_text().splitlines() == labels
    assert Path("lexicon.txt").read_text().splitlines() == [f"{word} {' '.join(word)} |" for word in small[0]]


def test_from_torchaudio(flashlight, speech, capsys):
    words_and_lm, tokens_only = examples("guide/from-torchaudio.md")
    run("from-torchaudio.md", words_and_lm, names := {})
    assert f" {speech[1][0].split()} " in capsys.readouterr().out
    run("from-torchaudio.md", tokens_only, names)
    assert names["hypotheses"][0].words == list(speech[1][0].replace(" ", "|"))


def test_from_riva_and_kaldi(there, speech, capsys, monkeypatch):
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    batch, alias, streams, of_kaldi = examples("guide/from-riva-and-kaldi.md")
    said = speech[1][:1]
    run("from-riva-and-kaldi.md", batch, names := {})
    log_probs, lengths = names["log_probs"], names["lengths"]
    assert [" ".join(word for word, *_ in words) for words in names["decoder"].decode_mbr(log_probs, lengths)] == said
    table = arcbeam.SymbolTable.read("words.txt")
    spoken = [
        [table[word] for word in entries[0].words] for entries in names["decoder"].decode_nbest(log_probs, lengths)
    ]
    assert spoken == [text.split() for text in said] and len(capsys.readouterr().out.splitlines()) == 2 * len(said)

    for place in ("riva", "riva.asrlib", "riva.asrlib.decoder", "riva.asrlib.decoder.python_decoder"):
        monkeypatch.setitem(sys.modules, place, sys.modules.get(place))  # so that it is taken away again
        monkeypatch.delitem(sys.modules, place)
    run("from-riva-and-kaldi.md", alias, aliased := {})
    assert aliased["BatchedMappedDecoderCuda"] is type(names["decoder"])

    run("from-riva-and-kaldi.md", streams, names)
    assert [table[word] for word in names["partial"].words] == said[0].split()
    assert len(names["partial"].ilabels) == lengths[0]
    assert f"words [('{said[0].split()[0]}', " in capsys.readouterr().out

    run("from-riva-and-kaldi.md", of_kaldi, names)
    assert [table[word] for word in names["words"]] == said[0].split()


def test_from_flashlight(flashlight, speech, capsys):
    (code,) = examples("guide/from-flashlight.md")
    run("from-flashlight.md", code, {})
    assert f" {speech[1][0].split()}\n" in capsys.readouterr().out


def test_gpu(there, speech):
    decode, in_a_row = examples("guide/gpu.md")
    said = speech[1]
    assert 'device="cuda"' in decode
    run("gpu.md", decode.replace('device="cuda"', 'device="auto"'), names := {})  # the GPU if there is one
    assert [hypothesis.text for hypothesis in names["hypotheses"]] == said
    run("gpu.md", in_a_row, names)
    assert [entries[0] for entries in names["texts"]] == said


@pytest.mark.kernels
def test_kernels():
    text = (DOCS / "design" / "kernels.md").read_text()
    (kernel,) = re.findall(r"^```cpp\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (code,) = examples("design/kernels.md")
    folder = build.CACHE.parent / "docs"  # the same path in every run, so that it is compiled once
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sum_values.cu").write_text(kernel)
    assert "cuda/decode/sum_values.cu" in code
    run("kernels.md", code.replace("cuda/decode", str(folder)), names := {})
    assert names["total"][0] == sum(range(1000))


def test_large_language_models(there, demo_data, arpa, speech):
    decode, model_alone, _ = examples("guide/large-language-models.md")
    Path("4gram.arpa.xz").symlink_to(demo_data / "novels.3gram.arpa.xz")
    run("large-language-models.md", model_alone, names := {})
    model = names["model"]
    words = model.score_words("the cat sat")
    assert [word.word for word in words] == ["the", "cat", "sat", "</s>"]
    assert model.score("the cat sat") == pytest.approx(sum(word.log_prob for word in words), rel=1e-6)

    utterances, said = speech
    run("large-language-models.md", decode, names := {"log_probs": utterances})
    hypothesis = names["hypothesis"]
    assert hypothesis.text == said[0]
    large, less = arcbeam.LanguageModel.load("4gram.lm"), arcbeam.LanguageModel.build("3gram.pruned.arpa")
    difference = 1.2 * large.score(said[0]) - less.score(said[0])
    assert hypothesis.rescoring_score == pytest.approx(difference, rel=1e-4)

    Path("4gram.lm").unlink()
    outputs = [command(arguments) for arguments in commands("guide/large-language-models.md")]
    assert "n-grams" in outputs[2]
    assert arcbeam.LanguageModel.load("4gram.lm").info() == model.info()
    assert dict(line.split(" ", 1) for line in outputs[3].splitlines())["utterance0"] == said[0]


def test_kenlm(there, arpa):
    pytest.importorskip("kenlm", reason="kenlm is not installed: .[kenlm]")
    _, _, code = examples("guide/large-language-models.md")
    Path("large.arpa").write_text(arpa)
    kenlm_files.write_binary(Path("large.arpa"), Path("4gram.binary"), kenlm_files.TRIE)
    arcbeam.LanguageModel.build("3gram.arpa").save("small.lm")
    names = {"arcbeam": arcbeam, "graph": arcbeam.Graph.load("graph.arcbeam")}
    run("large-language-models.md", code, names)
    assert names["large"].order == 3


def test_transducers(here, demo_data, capsys):
    """Both pages run in a checkout as they stand, shell commands included; the demo's errors are those on the page."""
    Path("data").symlink_to(ROOT / "data")
    whole, beam, fused = examples("guide/transducers.md")
    boost, calibrate = examples("guide/transducer-boosting.md")
    run("transducers.md", whole, names := {})
    said = capsys.readouterr().out.splitlines()
    shown, plain, as_json, as_lists, with_models = commands("guide/transducers.md")
    boosted, mapped = commands("guide/transducer-boosting.md")
    text = (DOCS / "guide" / "transducers.md").read_text()
    told = re.search(r"this TDT has a word error rate of ([\d.]+) %.*?alone\s+has\s+([\d.]+) %", text, re.DOTALL)
    measured = re.findall(r"^(?:transducer|greedy CTC) +WER ([\d.]+) %", command(shown), re.MULTILINE)
    assert [f"{float(rate):.1f}" for rate in measured] == list(told.groups())
    assert command(plain).splitlines() == said and "cards-002 four queen of cloves" in said
    rows = [json.loads(line) for line in command(as_json).splitlines()]
    assert [f"{row['id']} {row['text']}" for row in rows] == said and all(
        "confidence" in row["tokens"][0] for row in rows
    )

    run("transducers.md", beam, dict(names))
    lists = [line.split(" ", 3) for line in capsys.readouterr().out.splitlines()]
    firsts = {name: [posterior, text] for name, posterior, _, text in reversed(lists)}
    assert len(firsts) == len(said) < len(lists) <= 5 * len(said)
    printed = [
        (row["id"], entry["text"]) for row in map(json.loads, command(as_lists).splitlines()) for entry in row["nbest"]
    ]
    assert printed == [(name, text) for name, _, _, text in lists]
    assert firsts["0880"][0] == "1.000" and firsts["cards-002"][1] == "four queen of cloves"

    run("transducer-boosting.md", boost, names := {})
    better = ["four queen of clubs", "eight of spades four of clubs seven of hearts"]
    both = names["decoder"].decode(
        [names["utterances"][name] for name in ("cards-002", "cards-005")], boost=names["tree"]
    )
    assert [found.text for found in both] == better
    assert [found.text for found in names["found"]] == [better[0], said[9].partition(" ")[2]]
    page = (DOCS / "guide" / "transducer-boosting.md").read_text()
    for line in re.findall(r"^printf .*$", page, re.MULTILINE):
        subprocess.run(line, shell=True, check=True)
    lines = command(boosted).splitlines()
    assert f"cards-002 {better[0]}" in lines and f"cards-005 {better[1]}" in lines
    run("transducer-boosting.md", calibrate, names)
    assert list(names["tree"].phrases) == ["of clubs", "of hearts"]
    assert set(names["tree"].phrases.values()) == {8.0}  # too little speech for a false alarm

    read = dict(names)
    words = [[names["decoder"].pieces.index(piece) for piece in ("▁of", "▁s", "▁c")]] * 3
    write_arpa(Path("tokens.arpa"), words, 2, len(names["decoder"].pieces), lambda token: chr(100 + token))
    capsys.readouterr()
    run("transducers.md", fused, read)
    entries = [line.split(" ", 5) for line in capsys.readouterr().out.splitlines()]
    assert entries[0][-1] == better[0] and len(entries) > 1
    for total, *parts, _ in entries:
        assert float(total) == pytest.approx(sum(map(float, parts)), abs=0.03)
    [best] = [one for one in map(json.loads, command(with_models).splitlines()) if one["id"] == "cards-002"]
    assert best["text"] == better[0] and best["boost_score"] > 0 > best["lm_score"]
    assert command(mapped).splitlines() == [one if "cards-002" not in one else f"cards-002 {better[0]}" for one in said]


def test_lattices_of_transducers(here, demo_data, capsys):
    folder = here / "data" / "demo"
    folder.mkdir(parents=True)
    for name in ("transducer.npz", "encoder_output.npz", "novels.3gram.arpa.xz"):
        (folder / name).symlink_to(demo_data / name)
    rescore, words = examples("guide/transducer-lattices.md")
    run("transducer-lattices.md", rescore, names := {})
    lines = capsys.readouterr().out.splitlines()
    firsts = [line for line in lines if not line.startswith(" ")]
    assert len(firsts) == len(names["utterances"]) < len(lines) <= 4 * len(firsts)
    changed = [line for line in firsts if line.split(" ", 1)[1].split(" | ")[0] != line.split(" | ")[1]]
    assert changed
    run("transducer-lattices.md", words, names)
    (write,) = commands("guide/transducer-lattices.md")
    assert command(write).splitlines() == [line.split(" | ")[0] for line in firsts]
    assert [name for name, _ in arcbeam.read_lattices("lattices.ark")] == list(names["utterances"])
    lattice, said, frames, pieces = capsys.readouterr().out.splitlines()
    assert lattice.startswith("<Lattice of ")
    assert said == f"{names['found'].text} {names['found'].text} 0"
    assert frames.startswith("[('go', 8), ('somewhere', 11)")
    assert "".join(ast.literal_eval(pieces)).replace("\u2581", " ").strip() == names["found"].text


def test_weights_of_transducers(here, capsys):
    (write,) = examples("guide/transducer-weights.md")
    run("transducer-weights.md", write, {})
    printed = capsys.readouterr().out
    assert (
        "word='hello', start_frame=1, end_frame=2" in printed and "word='world', start_frame=3, end_frame=5" in printed
    )
    (transduce,) = commands("guide/transducer-weights.md")
    assert command(transduce) == "first hello world\n"


def test_streams_and_words_of_transducers(here, demo_data, capsys):
    folder = here / "data" / "demo"
    folder.mkdir(parents=True)
    (folder / "transducer.npz").symlink_to(demo_data / "transducer.npz")
    with np.load(demo_data / "encoder_output.npz") as file:  # fewer frames, because --real-time takes their seconds
        frames = {"0870": file["0870"][:36], "cards-001": file["cards-001"], "empty": file["numbers"][:0]}
    np.savez(folder / "encoder_output.npz", **frames)
    decoder = arcbeam.TransducerDecoder.from_arrays(folder / "transducer.npz")
    whole = dict(zip(frames, decoder.decode(list(frames.values())), strict=True))
    assert whole["0870"].text == "and mister john dashwood had then leisure"

    encoder, stream, saved, with_a_beam = examples("guide/transducer-streams.md")
    run("transducer-streams.md", stream, names := {})
    assert names["found"].tokens.tobytes() == whole["0870"].tokens.tobytes()
    assert names["found"].frames.tobytes() == whole["0870"].frames.tobytes()
    for line in capsys.readouterr().out.splitlines():
        assert whole["0870"].text.startswith(line.split(" |")[0]) and whole["0870"].text.startswith(line.split("| ")[1])
    run("transducer-streams.md", saved, names)
    assert capsys.readouterr().out == f"{whole['0870'].text}\n"
    run("transducer-streams.md", with_a_beam, names)
    printed = capsys.readouterr().out.splitlines()
    entries = [line.split(" ", 2)[2] for line in printed if " | " not in line]
    partials = [line.split(" | ") for line in printed if " | " in line]
    assert all(text.startswith(stable) for stable, text in partials) and len(partials) == 18
    assert entries[0] == whole["0870"].text and len({*entries}) == len(entries) > 1

    live, sentences, as_json, by_beam = map(command, commands("guide/transducer-streams.md"))
    assert by_beam.splitlines()[0] == f"0870 {whole['0870'].text}"
    assert live.splitlines() == [f"{name} {found.text}".rstrip() for name, found in whole.items()]
    assert sentences.startswith(f"0870-1 {whole['0870'].text}\n")
    finals = [row for row in map(json.loads, as_json.splitlines()) if row["is_final"]]
    files = ["data/demo/transducer.npz", "data/demo/encoder_output.npz"]
    rows = [json.loads(line) for line in command(["transduce", *files, "-f", "json", "--confidence"]).splitlines()]
    assert [row["stable_words"] for row in finals] == [row["words"] for row in rows]

    (here / "encoder.py").write_text(encoder)
    page = (DOCS / "guide" / "transducer-streams.md").read_text()
    [piped] = re.findall(r"^python encoder.py \| arcbeam (.*)$", page, re.MULTILINE)
    written = subprocess.run([sys.executable, "encoder.py"], capture_output=True, check=True).stdout
    assert written == frames["0870"].astype("<f4").tobytes()
    got = subprocess.run(
        [sys.executable, "-m", "arcbeam.cli", *shlex.split(piped)], input=written, capture_output=True, check=True
    )
    assert got.stdout.decode() == f"--1 {whole['0870'].text}\n"

    ours, by_command = examples("guide/word-times.md")[2], commands("guide/word-times.md")[2]
    run("word-times.md", ours, {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == whole["0870"].text.split()
    lines = [line.split() for line in command(by_command).splitlines() if line.startswith("0870 ")]
    assert [(line[4], float(line[2])) for line in lines] == [
        (word, round(float(start), 3)) for word, start, *_ in map(str.split, printed)
    ]
