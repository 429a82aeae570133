"""The experiments on a GPU, line by line, on an emulated one: tiny inputs, peers that are stubs."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from arcbeam import Graph, KenLM, MissingDependencyError, SymbolTable, cuda_plan
from benchmarks import adapters, ceilings, datasets, gpu, graphs, profiler, registry, rescoring_models
from benchmarks.adapters import Answer, SearchOptions, Unavailable
from benchmarks.registry import Context
from tests.cuda_host.conftest import fake_library  # noqa: F401
from tests.decode import kenlm_files
from tests.decode.conftest import emulated_gpu  # noqa: F401
from tests.decode.language_models import random_model
from tests.decode.random_graphs import random_graph, random_log_probs

LENGTHS = (4, 7, 1, 5, 6, 3)
ROOMY = cuda_plan.Room(spill_states=512, log_entries=4096, shared_states=128)


class Peer:
    """Says what arcbeam's CPU engine says; of riva and of NeMo."""

    device, settings = "cuda", "a stub"

    def __init__(self, files, options, **more):
        self.more = more
        self.decoder = gpu.decoder(files.graph, options, device="cpu")

    def prepare(self, utterances):
        return utterances

    def look_into(self, arrays):
        sizes = [(array.__cuda_array_interface__["data"][0], array.shape) for array in arrays]
        import ctypes

        return [
            np.ctypeslib.as_array((ctypes.c_float * (n * c)).from_address(at)).reshape(n, c) for at, (n, c) in sizes
        ]

    def search(self, prepared):
        self.decoder.decode(prepared)

    def decode(self, prepared):
        return self.decoder.decode(prepared)

    def answers(self, decoded):
        return [Answer(h.text, -h.score, h.reached_final) for h in decoded]


@pytest.fixture
def small(emulated_gpu, monkeypatch, tmp_path):  # noqa: F811
    """Every graph and every set is a tiny one; children are this process."""
    emulated_gpu.begin_with(ROOMY)
    graph = random_graph(4, states=120, columns=12)
    graph.save(tmp_path / "tiny.arcbeam")
    files = graphs.GraphFiles("tiny", tmp_path / "tiny.arcbeam", tmp_path / "tiny.fst")
    batch = [random_log_probs(seed, frames, 12) for seed, frames in enumerate(LENGTHS)]
    texts = [h.text for h in gpu.decoder(graph, gpu.WIDE, device="cpu").decode(batch)]

    def dataset(name, utterances=None):
        made = datasets.Dataset(
            name, np.concatenate(batch).astype(np.float16), np.array(LENGTHS), [f"u{i}" for i in range(len(batch))],
            texts, 0.04, [],
        )  # fmt: skip
        return gpu.cycled(made, utterances or len(batch))

    monkeypatch.setattr(gpu, "WORKLOADS", gpu.WORKLOADS[:1])
    monkeypatch.setattr(registry.load("gpu_riva"), "WORKLOADS", gpu.WORKLOADS[:1])
    monkeypatch.setattr(graphs, "get", lambda name, progress=None: files)
    monkeypatch.setattr(datasets, "load", dataset)
    monkeypatch.setattr(ceilings, "reads_of", lambda graph, repeats: ceilings.Reads(1000, True, 1e9, 200.0))
    monkeypatch.setattr(ceilings, "copies_of", lambda repeats: 1e9)
    monkeypatch.setattr(gpu, "rows_or_failure", lambda what, function, *arguments: function(*arguments))
    made = adapters.make
    monkeypatch.setattr(adapters, "make", lambda name: Peer if name in ("riva", "nemo") else made(name))
    return emulated_gpu


def rows_of(name, repeats=1, utterances=6, **options):
    experiment = registry.load(name)
    rows = list(experiment.run(Context(repeats, utterances, options)))
    keys = {column.key for column in experiment.COLUMNS} - {"status"}
    for row in rows:
        assert "status" not in row, row
        assert all(isinstance(row.get(c.key, ""), object) and c.text(row) is not None for c in experiment.COLUMNS)
    assert keys <= set().union(*rows), f"no row fills {keys - set().union(*rows)}"
    return rows


def test_riva(small):
    rows = rows_of("gpu_riva")
    assert [row["search"] for row in rows] == ["17 / 10,000", "12 / 5,000"]
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)
    assert all(row["equal"] == 100.0 and row["wer"] == row["peer_wer"] and row["ratio"] > 0 for row in rows)
    assert [tried[:3] for tried in rows[0]["tried"]] == [
        [200, 50, 10_000_000], [200, 50, None], [264, 50, None], [264, 200, None],
    ]  # fmt: skip


def test_riva_that_is_missing_or_wrong(small, monkeypatch):
    def make(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(adapters, "make", make)
    rows = list(registry.load("gpu_riva").run(Context(1, 3)))
    assert all(row["status"] == "missing: No module named 'riva'" and row["rtfx"] > 0 for row in rows)

    def none_of_1024(name, progress=None):
        if "1024" in name:
            raise datasets.DataMissing("no books")
        return files

    files = graphs.get("any")
    monkeypatch.setattr(graphs, "get", none_of_1024)
    monkeypatch.setattr(registry.load("gpu_riva"), "WORKLOADS", (("spm1024-3gram", "workload-1024"),))
    assert list(registry.load("gpu_riva").run(Context(1, 1))) == [
        {"graph": "spm1024-3gram", "set": "workload-1024", "status": "missing: no books"}
    ]
    monkeypatch.setattr(graphs, "get", lambda name, progress=None: files)
    monkeypatch.setattr(registry.load("gpu_riva"), "WORKLOADS", gpu.WORKLOADS)

    class Deaf(Peer):
        def answers(self, decoded):
            return [Answer("what", 0.0, True) for _ in decoded]

    monkeypatch.setattr(adapters, "make", lambda name: Deaf)
    with pytest.raises(gpu.Wrong, match="riva says the same in 0% of the utterances"):
        list(registry.load("gpu_riva").run(Context(1, 3)))


@pytest.fixture
def rescored(small, monkeypatch, tmp_path):
    """A graph with words, and its language models; the large one."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(1, 50)]
    large, language_model = (random_model(rng, words, order, share=0.2) for order in (2, 1))
    files = graphs.get("any")
    symbols = SymbolTable.from_list(["<eps>", *words])
    fields = files.graph.fields() | {"word_symbols": symbols, "meta": {"lm_digest": language_model.digest}}
    Graph(**fields).save(files.arcbeam.with_name("words.arcbeam"))
    named = graphs.GraphFiles("words", files.arcbeam.with_name("words.arcbeam"), files.fst)
    monkeypatch.setattr(graphs, "get", lambda name, progress=None: named)
    models = {"language_model": large, "graph_language_model": language_model}
    monkeypatch.setattr(rescoring_models, "load", lambda graph: models)
    kenlm_files.need_kenlm()
    kenlm = KenLM(kenlm_files.random_ngrams(words, 2, 5).write(tmp_path / "lm.arpa"))
    monkeypatch.setattr(rescoring_models, "kenlm", lambda: kenlm)
    return large


def test_rescoring(rescored, monkeypatch):
    experiment = registry.load("gpu_rescoring")
    monkeypatch.setattr(experiment, "LIMITS", (2,))
    rows = rows_of("gpu_rescoring", utterances=1, ngrams=2000)
    places = ["none", "resident", "resident", *["host-direct"] * 4, "host", "host", *[experiment.BUCKETED] * 3]
    with_kenlm = [*places[:9], "cpu", "cpu", *places[9:]]
    assert [row["placement"] for row in rows] == [*with_kenlm * 2, *places * 2]
    assert {row["ngrams"] for row in rows} == {sum(rescored.about["ngrams"]), rows[-1]["ngrams"]}
    assert rows[1]["hits"] == 0.0 and rows[1]["bytes"] > 0
    assert all(("waiting" in row) == (row["placement"] in ("host", "cpu")) for row in rows)

    def missing():
        raise MissingDependencyError("the package kenlm")

    monkeypatch.setattr(rescoring_models, "kenlm", missing)
    assert next(experiment.run(Context(1, 1))) == {"placement": "cpu", "status": "missing: the package kenlm"}


def test_lookup_timeline(rescored, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'arcbeam[bench]'")
    experiment = registry.load("gpu_lookup_timeline")
    monkeypatch.setattr(experiment, "WINDOW_NS", 10**9)
    monkeypatch.setattr(gpu, "BEAMS", gpu.BEAMS[:1])
    rows = list(experiment.run(Context(1, 2)))
    assert [row["placement"] for row in rows] == ["host", "host", "host", "cpu", "cpu"]
    assert rows.pop(2)["status"].startswith("no profile: "), "there is no CUPTI, or it saw no kernel"
    assert all(row["rounds"] > 0 and 0 < row["any"] <= 100 and row["questions"] >= 1 for row in rows)
    assert all(bool(row["cache_mb"]) == ("shown" in row) for row in rows)
    experiment.draw(rows, tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").stat().st_size > 1000


def test_a_timeline_by_hand():
    """Two lanes: two threads share the first round of one of them; the other waits meanwhile, and once alone."""
    experiment = registry.load("gpu_lookup_timeline")
    kernel = (None, 0, 0, 0, 1000, 11_000)
    answered = [(0, 0, 1, 64, 2000, 4000), (1, 0, 1, 6, 2500, 5000), (0, 1, 1, 2, 4500, 6000), (1, 1, 2, 4, 9000, 9500)]
    spans, kernels = experiment.split([*answered[::-1], kernel])
    row = experiment.told(spans, kernels)
    assert (row["lanes"], row["threads"], row["rounds"], row["questions"]) == (2, 2, 3, 76 / 3)
    assert row["ms"] == 0.01 and row["round_us"] == 1.5
    assert row["waiting"] == (3000 + 1500 + 500) / 10_000 and row["any"] == 100 * (4000 + 500) / 10_000
    assert row["busy"] == 100 * (2000 + 2500 + 1500 + 500) / 20_000
    assert experiment.window(spans, kernels)[0] == ["lane 1", 3000, 3500]


def test_a_profile_by_hand(tmp_path):
    """A trace as torch writes it: a kernel, copies on two streams and their counts, and what is not ours."""
    pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'arcbeam[bench]'")

    def span(category, name, began, took, stream, count=None):
        args = {"stream": stream, "device": 0} | ({} if count is None else {"bytes": count})
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 0,
            "tid": stream,
            "ts": began,
            "dur": took,
            "args": args,
        }

    to_device = "Memcpy HtoD (Pinned -> Device)"
    trace = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
        span("gpu_memcpy", to_device, 100.0, 9.0, 14, 4096),  # before the kernel
        span("kernel", "fill", 100.0, 9.0, 13),
        span("kernel", "arcbeam_asking_wide", 1000.0, 200.0, 13),
        *[span("gpu_memcpy", to_device, 1100.0 + 20 * i, 2.5, 17 + i % 2, 1024) for i in range(5)],
        *[span("gpu_memcpy", to_device, 1104.0 + 20 * i, 1.0, 19 + i % 2, 4) for i in range(5)],
        span("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 1200.0, 5.0, 13, 4096),
    ]
    row = profiler.told(trace, "arcbeam_asking", 50.0)
    assert (row["kernel_ms"], row["copies"], row["streams"]) == (0.2, 5, 2)
    assert (row["copy_bytes"], row["copy_us"], row["turn_us"]) == (1024.0, 2.5, 40.0)
    assert row["copied"][:2] == [[17, 0.0, 2.5, 1024], [19, 4.0, 1.0, 4]] and len(row["copied"]) == 6
    experiment = registry.load("gpu_lookup_timeline")
    shown = {"search": "12", "placement": "host", "cache_mb": 1.0, "shown": [["lane 1", 0, 500], ["thread 0", 9, 90]]}
    assert list(experiment.copies_of(row)) == [
        "stream 20: counts", "stream 19: counts", "stream 18: answers", "stream 17: answers", "kernel",
    ]  # fmt: skip
    experiment.draw([shown, shown | row], tmp_path / "both.png")
    experiment.draw([shown], tmp_path / "one.png")
    assert (tmp_path / "both.png").stat().st_size > (tmp_path / "one.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="4 spans and no kernel 'search'"):
        profiler.told(
            [one for one in trace if one.get("cat") != "gpu_memcpy" or one["args"]["bytes"] > 1024], "search", 1
        )


def test_nemo(small, monkeypatch):
    experiment = registry.load("gpu_nemo")
    monkeypatch.setattr(experiment, "OUR_BEAMS", ((0.5, 5), (17.0, 10_000)))
    rows = rows_of("gpu_nemo")
    assert [row["peer_beam"] for row in rows] == [4, 8, 16]
    assert all(row["wer"] <= row["peer_wer"] and row["worse"] == 0 for row in rows)
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)


def test_peers_that_break_leave_our_figures(small, monkeypatch):
    class Broken(Peer):
        def decode(self, prepared):
            raise RuntimeError("CUDA error 700")

    def rows_or_failure(what, function, *arguments):
        try:
            yield from function(*arguments)
        except RuntimeError as error:
            yield what | {"status": f"failed: {error}"}

    monkeypatch.setattr(adapters, "make", lambda name: Broken)
    monkeypatch.setattr(ceilings, "reads_of", lambda graph, repeats: ceilings.Reads(1000, True, 1e9, 200.0))
    monkeypatch.setattr(gpu, "rows_or_failure", rows_or_failure)
    monkeypatch.setattr(registry.load("gpu_nemo"), "OUR_BEAMS", ((17.0, 10_000),))
    for name in ("gpu_riva", "gpu_nemo"):
        for row in registry.load(name).run(Context(1, 2)):
            assert row["status"].startswith("failed: ") and "CUDA error 700" in row["status"]
            assert row["rtfx"] > 0 and "ratio" not in row


def test_riva_without_room_for_so_many_tokens(small, monkeypatch):
    class Small(Peer):
        def __init__(self, files, options, **more):
            if more["tokens"]:
                raise MemoryError("std::bad_alloc")
            super().__init__(files, options, **more)

    def rows_or_failure(what, function, *arguments):
        try:
            yield from function(*arguments)
        except MemoryError as error:
            yield what | {"status": f"failed: {error}"}

    monkeypatch.setattr(adapters, "make", lambda name: Small)
    monkeypatch.setattr(ceilings, "reads_of", lambda graph, repeats: ceilings.Reads(1000, True, 1e9, 200.0))
    monkeypatch.setattr(gpu, "rows_or_failure", rows_or_failure)
    rows = list(registry.load("gpu_riva").run(Context(1, 2)))
    assert all("status" not in row and row["ratio"] > 0 and len(row["tried"]) == 3 for row in rows)


def test_which_beam_stands_beside_nemos():
    experiment = registry.load("gpu_nemo")

    class Found:
        def __init__(self, score):
            self.score = score

    ours = [("narrow", None, [Found(-5.0)], 3.0), ("middle", None, [Found(-4.0)], 2.0), ("wide", None, [], 2.0)]
    said = [Answer("", 4.0, True)]
    assert experiment.match(ours, said, 3.5)[0] == "middle"  # the narrow one finds a worse path
    assert experiment.match(ours, [], 3.5)[0] == "narrow"
    assert experiment.match(ours, said, 1.0)[0] == "wide"
    assert experiment.scores([Found(-1.0), Found(-2.0), Found(-3.0)], [Answer("", 2.0, True)] * 3) == (1 / 3, 1 / 3)


def test_arcs(small):
    for name, graphs_of in (("gpu_arcs", 3), ("gpu_pieces", 2)):
        rows = rows_of(name)
        assert [row["fits_l2"] for row in rows] == [True] * 2 * graphs_of
        assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)


def test_single(small):
    rows = rows_of("gpu_single", utterances=3)
    assert [row["kind"] for row in rows[:2]] == ["short", "long"]
    assert rows[1]["frames"] == 3 * rows[0]["frames"]
    assert all(row["reads_in_a_row"] == pytest.approx(5 * row["us_a_frame"]) for row in rows)
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)


@pytest.mark.parametrize("name", ["gpu_long", "long"])
def test_long(small, name):
    rows = rows_of(name, minutes="0.05,0.01")
    assert [(row["minutes"], row["frames"]) for row in rows[:2]] == [(0.01, 15), (0.05, 75)]
    assert [row["search"] for row in rows[::2]] == ["17 / 10,000", "12 / 5,000"]
    assert rows[0]["ratio"] == 1.0 < rows[0]["us_a_frame"]


def test_batch(small, tmp_path):
    rows = rows_of("gpu_batch", utterances=4)
    assert [row["batch"] for row in rows] == [1, 2, 4] * 2
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)
    registry.load("gpu_batch").draw([*rows, {"status": "failed"}], tmp_path / "batch.png") if _matplotlib() else None
    assert not _matplotlib() or (tmp_path / "batch.png").stat().st_size > 1000


def _matplotlib():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def test_host_arrays(small):
    rows = rows_of("gpu_host_arrays", utterances=4)
    assert [row["kind"] for row in rows[:5]] == [
        "device, float32", "host, float32", "host, float32, page-locked", "device, float16", "host, float16",
    ]  # fmt: skip
    assert ["slower" in row for row in rows[:5]] == [False, True, True, False, True]
    assert all(row["of_copy"] == pytest.approx(row["gb_a_second"]) for row in rows if "slower" in row)
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)


def test_balance(small, monkeypatch):
    monkeypatch.setattr(registry.load("gpu_balance"), "TIMES", 1.5)
    rows = rows_of("gpu_balance", utterances=5)
    assert [row["hot"] for row in rows] == [1]
    assert rows[0]["times"] > 1.05
    assert rows[0]["reads_without"] > 0 and rows[0]["reads_with"] > 0


def test_twin(small):
    rows = rows_of("gpu_twin", utterances=4)
    assert len(rows) == 2 and all(row["ratio_n"] > 0 for row in rows)
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)


def test_the_adapter_counts_the_arcs_of_all_batches(small):
    files, batch = graphs.get("any"), [random_log_probs(seed, 5, 12) for seed in range(3)]
    adapter = adapters.make("arcbeam_cuda")(files, SearchOptions(batch=2))
    prepared, counts = adapter.prepare(batch), []
    for some in (prepared, prepared[:2], prepared[2:]):
        adapter.decode(some)
        counts.append(adapter.leaving_arcs)
    assert counts[0] == counts[1] + counts[2] > counts[1] > 0


def test_shapes(small, monkeypatch):
    experiment = registry.load("gpu_shapes")
    assert {shape for shape, _ in experiment.shapes()} > {cuda_plan.WIDE, cuda_plan.DENSE, cuda_plan.CLUSTER}
    some = [(cuda_plan.WIDE, cuda_plan.TEAM_TOKENS), (cuda_plan.CLUSTER, cuda_plan.TEAM_TOKENS)]
    monkeypatch.setattr(experiment, "shapes", lambda: some)
    rows = rows_of("gpu_shapes", utterances=2)
    assert [bool(row["chosen"]) for row in rows] == [True, False] * 2
    assert min(row["to_best"] for row in rows) == 1.0
    monkeypatch.setattr(experiment, "LITTLE_SHARED_BATCHES", (2,))
    rows = rows_of("gpu_shapes", utterances=2)[:4]
    assert [row["shape"].endswith(", 512 shared") for row in rows] == [False, False, True, True]
    assert [bool(row["chosen"]) for row in rows] == [True, False, False, False]


def test_one_decode_for_a_profiler(small, capsys, monkeypatch):
    from benchmarks import one_decode

    monkeypatch.setattr(cuda_plan, "first_room", cuda_plan.first_room)  # which it changes
    assert one_decode.main(["--batch", "3", "--beam", "5"]) == 0
    assert "tokens," in capsys.readouterr().out
    assert len(small.shapes) == 2, "a launch each"


def test_answers_that_are_not_the_twins(small):
    graph = graphs.get("tiny").graph
    batch = [random_log_probs(seed, 5, 12) for seed in range(3)]
    found = gpu.decoder(graph, gpu.WIDE).decode(batch)
    gpu.check(found, graph, gpu.WIDE, batch)
    with pytest.raises(gpu.Wrong, match="expected 3 answers, got 2"):
        gpu.check(found[:2], graph, gpu.WIDE, batch)
    with pytest.raises(gpu.Wrong, match="utterance 0: the path differs"):
        gpu.check(found[::-1], graph, gpu.WIDE, batch)
    found[1].score += 1e-9
    with pytest.raises(gpu.Wrong, match="utterance 1: score"):
        gpu.check(found, graph, gpu.WIDE, batch)


def test_log_probs_lie_on_the_device_as_they_were(small):
    batch = [random_log_probs(0, 3, 12), random_log_probs(0, 3, 12)[:0], random_log_probs(1, 2, 12)]
    for dtype in (np.float32, np.float16):
        arrays = gpu.send(batch, dtype)
        for array, logp in zip(arrays, batch, strict=True):
            told = array.__cuda_array_interface__
            assert (told["shape"], told["typestr"]) == (logp.shape, np.dtype(dtype).str)
            first = arrays[0].__cuda_array_interface__["data"][0]
            assert (told["data"][0] - first) % 256 == 0 or not len(logp)
        assert Peer.look_into(None, arrays)[2].tobytes() == batch[2].tobytes() or dtype is np.float16
        del array, arrays


def test_sets_are_cycled_to_larger_ones(small):
    dataset = datasets.load("x")
    more = gpu.cycled(dataset, 14)
    assert len(more.ids) == len(more.utterances) == 14
    assert more.utterances[13].tobytes() == dataset.utterances[1].tobytes()
    assert gpu.cycled(dataset, 2).ids == ["u0", "u1"]


# Children


def test_children_end_with_a_command_that_is_ended(tmp_path):
    """As `timeout` does it: the handler of the command must not be theirs, and none may stay behind."""
    code = f"""
import runpy, sys, time
from benchmarks import gpu, registry, record
def child():
    yield {{"n": 1}}
    import os, pathlib
    pathlib.Path({str(tmp_path / "child")!r}).write_text(str(os.getpid()))
    yield {{"n": 2}}
    time.sleep(60)
class Experiment:
    COLUMNS, TAKES, ON_GPU = [registry.Column("n", "n")], {{}}, False
    run = staticmethod(lambda context: gpu.rows_or_failure({{}}, child))
registry.load = lambda name: Experiment
registry.summary = lambda name: name
sys.argv[1:] = ["some", "--out", {str(tmp_path)!r}]
runpy.run_module("benchmarks", run_name="__main__")
"""
    command = subprocess.Popen(
        [sys.executable, "-c", code], cwd=datasets.ROOT, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    partial = tmp_path / "some.partial.jsonl"
    for _ in range(600):
        if partial.exists() and partial.read_text().count("\n") == 3:
            break
        time.sleep(0.1)
    command.terminate()
    said = command.communicate(timeout=30)
    assert command.returncode == 143, said
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), 0)
    assert partial.read_text().count("\n") == 3 and not (tmp_path / "some.jsonl").exists()


def rows_of_a_child(how):
    yield {"n": 1}
    if how == "raises":
        raise ValueError("so it is")
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hangs":
        time.sleep(60)
    yield {"n": 2}


def test_rows_of_a_child():
    assert list(gpu.isolated(rows_of_a_child, "ends")) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("how", "telling"),
    [("raises", "ValueError: so it is"), ("dies", "the process ended with -9"), ("hangs", "nothing came for 0.5 s")],
)
def test_a_child_that_fails_leaves_a_row(how, telling, capsys, monkeypatch):
    with pytest.raises(gpu.ChildFailed, match=telling):
        list(gpu.isolated(rows_of_a_child, how, limit_s=0.5))
    monkeypatch.setattr(gpu, "isolated", lambda *a: iter_failing(telling))
    assert list(gpu.rows_or_failure({"graph": "g"}, rows_of_a_child, how)) == [
        {"graph": "g", "status": f"failed: {telling}"}
    ]
    assert telling in capsys.readouterr().err


def iter_failing(text):
    raise gpu.ChildFailed(f"{text}\nand a traceback")
    yield


def test_without_a_gpu_the_adapter_says_why(monkeypatch):
    monkeypatch.setattr(gpu, "why_no_cuda", lambda: "no CUDA driver: none")
    with pytest.raises(Unavailable, match="no CUDA driver"):
        adapters.make("arcbeam_cuda")(None, SearchOptions())
