"""The model repository for Triton, with a stand-in for its module: sequences that share batches, errors, the end."""

import importlib.util
import json
import random
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam import CtcDecoder
from tests.decode.test_streams import BATCH, GRAPH
from tests.examples import triton_stand_in as triton

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "triton" / "arcbeam_ctc"
CONFIG = triton.config((FOLDER / "config.pbtxt").read_text())
WHOLES = CtcDecoder(GRAPH, beam=17.0, frame_shift=0.04, device="cpu").decode(BATCH)


def imported(monkeypatch, name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / "1" / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, made)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def sources(monkeypatch):
    """The modules of the repository, as Triton imports them."""
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", triton.module())
    return SimpleNamespace(sequences=imported(monkeypatch, "sequences"), model=imported(monkeypatch, "model"))


@pytest.fixture
def initialize(sources, tmp_path):
    """Makes the model with the shipped configuration, on a CPU."""
    GRAPH.save(tmp_path / "graph.arcbeam")

    def make(**parameters):
        config = CONFIG | {"parameters": CONFIG["parameters"] | {k: {"string_value": v} for k, v in parameters.items()}}
        model = sources.model.TritonPythonModel()
        model.initialize(
            {
                "model_config": json.dumps(config), "model_repository": str(tmp_path), "model_version": "1",
                "model_instance_kind": "CPU", "model_instance_device_id": "0",
            }
        )  # fmt: skip
        return model

    return make


def values(response):
    assert not response.has_error(), response.error().message()
    tensors = {one.name(): one.as_numpy() for one in response.output_tensors()}
    for output in CONFIG["output"]:
        value = tensors[output["name"]]
        assert value.dtype == triton.TYPES[output["data_type"]] and value.shape == (1, *output["dims"])
    assert len(tensors) == len(CONFIG["output"])
    return {name: value.item() for name, value in tensors.items()}


def text(response):
    return values(response)["TEXT"].decode()


def test_the_configuration_names_what_the_model_reads():
    batching = CONFIG["sequence_batching"]
    kinds = {one["name"]: one["control"][0]["kind"] for one in batching["control_input"]}
    assert kinds == {
        "START": "CONTROL_SEQUENCE_START", "READY": "CONTROL_SEQUENCE_READY", "END": "CONTROL_SEQUENCE_END",
        "CORRID": "CONTROL_SEQUENCE_CORRID",
    }  # fmt: skip
    assert "oldest" in batching and CONFIG["backend"] == "python" and CONFIG["name"] == FOLDER.name
    assert [(one["name"], one["data_type"], one["dims"]) for one in CONFIG["input"]] == [
        ("LOG_PROBS", "TYPE_FP32", [-1, -1])
    ]
    assert CONFIG["input"][0]["allow_ragged_batch"] is True, "chunks of a batch differ in length"


@pytest.mark.parametrize("seed", range(3))
def test_sequences_that_share_batches(initialize, seed):
    """Any mixture of chunks of any sequences gives each the text of its whole utterance."""
    rng, model = random.Random(seed), initialize()
    at, found, partials = dict.fromkeys(range(len(BATCH)), 0), {}, dict.fromkeys(range(len(BATCH)), "")
    while len(found) < len(BATCH):
        chosen = rng.sample(sorted(set(at) - set(found)), rng.randint(1, len(BATCH) - len(found)))
        requests, ends = [], []
        for n in chosen:
            begin, utterance = at[n], BATCH[n]
            at[n] = begin + rng.randint(1, 9)
            ends.append(at[n] >= len(utterance))
            requests.append(triton.request(utterance[begin : at[n]], 7 + n, start=begin == 0, end=ends[-1]))
        for n, end, response in zip(chosen, ends, model.execute(requests), strict=True):
            said = values(response)
            assert said["IS_FINAL"] == end and said["NUM_FRAMES"] == min(at[n], len(BATCH[n]))
            assert text(response).startswith(partials[n])
            partials[n] = said["STABLE_TEXT"].decode()
            if end:
                found[n] = text(response)
    assert [found[n] for n in range(len(BATCH))] == [one.text for one in WHOLES]
    assert len(model.sequences) == 0


def test_two_chunks_of_a_sequence_in_one_batch(initialize):
    model = initialize()
    half = len(BATCH[0]) // 2
    first, other, last = model.execute(
        [
            triton.request(BATCH[0][:half], 1, start=True),
            triton.request(BATCH[4], 2, start=True, end=True),
            triton.request(BATCH[0][half:], 1, end=True),
        ]
    )
    assert values(first)["NUM_FRAMES"] == half and values(last)["IS_FINAL"]
    assert (text(last), text(other)) == (WHOLES[0].text, WHOLES[4].text)


NAN = np.full((3, BATCH[0].shape[1]), np.nan, np.float32)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (triton.request(NAN, 2), "log_probs: expected finite values or -inf, got nan in frame 0, column 0"),
        (triton.request(np.zeros((3, 5), np.float32), 2), "expected 12 columns, got 5"),
        (triton.request(np.zeros(12, np.float32), 2), "got 1 dimension (12,)"),
        (triton.request(np.zeros((3, 12), np.int32), 2), "int32"),
        (triton.request(BATCH[2], 9), "sequence 9: expected its start, or a sequence that has begun"),
        (triton.request(None, 2), "expected the input LOG_PROBS, got none"),
    ],
    ids=["nan", "width", "dimensions", "type", "no start", "no input"],
)
def test_an_error_in_one_request_harms_no_other(initialize, wrong, said):
    """Nor its own sequence, which goes on as if the request had not been."""
    model = initialize()
    model.execute([triton.request(BATCH[n][:10], n, start=True) for n in (0, 2, 4)])
    fine, failed, good = model.execute(
        [triton.request(BATCH[0][10:], 0, end=True), wrong, triton.request(BATCH[4][10:], 4, end=True)]
    )
    assert said in failed.error().message() and "utterance 1" not in failed.error().message()
    assert (text(fine), text(good)) == (WHOLES[0].text, WHOLES[4].text)
    [last] = model.execute([triton.request(BATCH[2][10:], 2, end=True)])
    assert text(last) == WHOLES[2].text and len(model.sequences) == 0


def test_a_sequence_that_ends_with_an_error_has_ended(initialize):
    model = initialize()
    [failed] = model.execute([triton.request(NAN, 3, start=True, end=True)])
    assert "got nan" in failed.error().message() and len(model.sequences) == 0


def test_an_error_of_all_is_everybodys(initialize, monkeypatch):
    model = initialize()

    def lost(*arguments, **options):
        raise RuntimeError("the device was lost")

    monkeypatch.setattr(model.decoder, "decode_chunks", lost)
    found = model.execute([triton.request(BATCH[n], n, start=True) for n in (0, 2)])
    assert [one.error().message() for one in found] == ["the device was lost"] * 2


def test_a_start_begins_anew_and_an_empty_slot_is_answered(initialize):
    model = initialize()
    model.execute([triton.request(BATCH[4], 1, start=True)])
    again, empty = model.execute(
        [triton.request(BATCH[0], 1, start=True, end=True), triton.request(BATCH[4], 0, ready=False)]
    )
    assert text(again) == WHOLES[0].text
    assert values(empty) == {"TEXT": b"", "STABLE_TEXT": b"", "NUM_FRAMES": 0, "IS_FINAL": False}


def test_idle_sequences_are_forgotten(sources):
    now = [0.0]
    kept = sources.sequences.Sequences(CtcDecoder(GRAPH, device="cpu"), 60.0, lambda: now[0])

    def chunk(sequence, start=True):
        return sources.sequences.Chunk(sequence, start, False, BATCH[2])

    kept.decode([chunk(1), chunk(2)])
    now[0] = 40.0
    kept.decode([chunk(1, start=False)])
    now[0] = 70.0
    [found] = kept.decode([chunk(2, start=False)])
    assert isinstance(found, ValueError) and "was not idle for 60 s" in str(found) and len(kept) == 1


def test_unloaded(initialize):
    model = initialize()
    model.execute([triton.request(BATCH[0], 1, start=True)])
    model.finalize()
    assert len(model.sequences) == 0
    assert model.decoder.decode([BATCH[4]])[0].text  # the decoder could still be used


def test_parameters(initialize, sources):
    assert initialize(beam="6", max_active="60").decoder.options.beam == 6.0
    with pytest.raises(ValueError, match=r"expected the parameters graph, words, beam, .*, got \{'beem'\}"):
        initialize(beem="6")
    with pytest.raises(FileNotFoundError, match="missing"):
        initialize(graph="missing.arcbeam")
    with pytest.raises(ValueError, match="expected the parameter graph, a file in the model's folder, got none"):
        sources.model.TritonPythonModel().initialize({"model_config": json.dumps(CONFIG | {"parameters": {}})})


def test_the_client_of_the_page(initialize, tmp_path, monkeypatch, capsys):
    """The client runs against the model, in place of a server and of the package tritonclient."""
    model = initialize()

    class Client:
        def __init__(self, url):
            assert url == "localhost:8001"

        def infer(self, model_name, inputs, *, sequence_id, sequence_start, sequence_end):
            [given] = inputs
            request = triton.request(given.values[0], sequence_id, sequence_start, sequence_end)
            [response] = model.execute([request])
            assert model_name == CONFIG["name"] and not response.has_error()
            found = {one.name(): one.as_numpy() for one in response.output_tensors()}
            return SimpleNamespace(as_numpy=lambda name: found[name].reshape(1, 1))

    class Input:
        def __init__(self, name, shape, datatype):
            assert (name, datatype) == ("LOG_PROBS", "FP32")
            self.shape = shape

        def set_data_from_numpy(self, values):
            assert values.dtype == np.float32 and list(values.shape) == self.shape
            self.values = values

    grpc = SimpleNamespace(InferenceServerClient=Client, InferInput=Input)
    monkeypatch.setitem(sys.modules, "tritonclient", SimpleNamespace(grpc=grpc))
    monkeypatch.setitem(sys.modules, "tritonclient.grpc", grpc)
    monkeypatch.chdir(tmp_path)
    longest = int(np.argmax([len(frames) for frames in BATCH]))
    np.save("utterance.npy", BATCH[longest])
    page = (FOLDER.parents[2] / "docs" / "guide" / "triton.md").read_text()
    [code] = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    exec(compile(code.replace("50", "5"), "triton.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == -(-len(BATCH[longest]) // 5) > 1 and printed[-1] == WHOLES[longest].text != ""
