"""Tiny graphs and sets for the experiments on a GPU, which is emulated."""

import warnings

import numpy as np
import pytest

from arcbeam import KenLM, LanguageModel
from arcbeam.gpu.tuned import search_plan
from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.data import graphs
from benchmarks.engine import rescoring_models
from benchmarks.harness import registry
from tests.benchmarks.closed_models import write_closed_arpa
from tests.benchmarks.on_emulated_gpu import PEERS
from tests.benchmarks.tiny import WORDS, dataset_of, give, graph_of_words
from tests.cuda_host.conftest import fake_library  # noqa: F401
from tests.decode import kenlm_files
from tests.decode.conftest import emulated_gpu  # noqa: F401
from tests.decode.language_models import random_model
from tests.decode.random_graphs import random_graph, random_log_probs

LENGTHS = (4, 7, 1, 5, 6, 3)
ROOMY = search_plan.Room(spill_states=512, log_entries=4096, shared_states=128)


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
        return gpu.cycled(dataset_of(name, batch, texts, np.float16), utterances or len(batch))

    give(monkeypatch, files, dataset)
    monkeypatch.setattr(gpu, "WORKLOADS", gpu.WORKLOADS[:1])
    monkeypatch.setattr(registry.load("gpu_riva"), "WORKLOADS", gpu.WORKLOADS[:1])
    monkeypatch.setattr(gpu, "rows_or_failure", lambda what, function, *arguments: function(*arguments))
    made = adapters.make
    monkeypatch.setattr(adapters, "make", lambda name: PEERS.get(name) or made(name))
    return emulated_gpu


@pytest.fixture
def closed_arpa(monkeypatch, tmp_path):
    """The ARPA that large models are made from: one that can be made larger, and KenLM's with it."""
    arpa = tmp_path / "lm" / rescoring_models.LARGE.removesuffix(".xz")
    arpa.parent.mkdir()
    monkeypatch.setattr(rescoring_models, "LARGE", arpa.name)
    monkeypatch.setattr(rescoring_models, "data_folder", lambda: tmp_path)
    return write_closed_arpa(arpa, WORDS)


@pytest.fixture
def rescored(small, closed_arpa, monkeypatch, tmp_path):
    """A graph with words, and its language models; the large one."""
    kenlm_files.need_kenlm()
    language_model = random_model(np.random.default_rng(0), WORDS, 1, share=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its probabilities sum to anything
        large = LanguageModel.build(closed_arpa, progress=False)
    give(monkeypatch, graph_of_words(tmp_path / "words.arcbeam", language_model=language_model))
    models = {"language_model": large, "graph_language_model": language_model}
    monkeypatch.setattr(rescoring_models, "load", lambda graph: models)
    kenlm = KenLM(closed_arpa)
    monkeypatch.setattr(rescoring_models, "kenlm", lambda: kenlm)
    return large
