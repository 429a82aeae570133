"""`RayDecoder` in actors on a local cluster of Ray, one of which is killed; and called as Ray calls it."""

import json
import os
import pickle
import signal

import numpy as np
import pytest

import arcbeam
from arcbeam.adapters import RayDecoder
from arcbeam.core.json_lines import ctc_fields, json_line
from tests.decode.random_graphs import random_graph, random_log_probs

OPTIONS = arcbeam.DecoderOptions(beam=9.0, device="cpu", threads=1, frame_shift=0.02)
FILES, EACH = 8, 5


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """(path of a graph, paths of log-probs, the lines of one process)."""
    folder = tmp_path_factory.mktemp("job")
    graph = random_graph(1)
    graph.save(folder / "graph.arcbeam")
    decoder = arcbeam.CtcDecoder(graph, beam=9.0, device="cpu", threads=1, frame_shift=0.02)
    paths, lines = [], []
    for number in range(FILES):
        arrays = {f"u{number}-{n}": random_log_probs(10 * number + n, 20 + 3 * n) for n in range(EACH)}
        paths.append(str(folder / f"{number}.npz"))
        np.savez(paths[-1], **arrays)
        found = decoder.decode(list(arrays.values()), confidence=True)
        lines += [
            json_line({"id": name, "frames": len(array), **ctc_fields(hypothesis)}).rstrip("\n")
            for (name, array), hypothesis in zip(arrays.items(), found, strict=True)
        ]
    return str(folder / "graph.arcbeam"), paths, lines


def test_as_ray_calls_it(job):
    graph, paths, lines = job
    decode = pickle.loads(pickle.dumps(RayDecoder))(graph, pickle.loads(pickle.dumps(OPTIONS)), confidence=True)
    result = decode({"path": np.array(paths)})
    assert result["json"] == lines and set(result["error"]) == {""}
    assert result["text"] == [json.loads(line)["text"] for line in lines] and any(result["text"])
    with np.load(paths[0]) as file:
        arrays = dict(file)
    assert decode({"id": np.array(list(arrays)), "log_probs": list(arrays.values())})["json"] == lines[:EACH]


def test_an_utterance_with_an_error_harms_no_other(job):
    graph, paths, lines = job
    with np.load(paths[0]) as file:
        arrays = dict(file)
    arrays["u0-2"] = np.full_like(arrays["u0-2"], np.nan)
    decode = RayDecoder(graph, OPTIONS, confidence=True)
    result = decode({"id": list(arrays), "log_probs": list(arrays.values())})
    assert [not why for why in result["error"]] == [True, True, False, True, True]
    assert result["error"][2].startswith("log_probs: expected finite values or -inf, got nan in frame 0")
    assert result["json"] == [*lines[:2], "", *lines[3:EACH]] and result["text"][2] == ""


def test_other_columns_and_files_that_are_not_there(job, tmp_path):
    graph, _, _ = job
    decode = RayDecoder(graph, OPTIONS)
    with pytest.raises(arcbeam.InputError, match="expected rows with the columns id and log_probs, or path, got bytes"):
        decode({"bytes": [b""]})
    with pytest.raises(FileNotFoundError):
        decode({"item": [str(tmp_path / "gone.npz")]})
    with pytest.raises(FileNotFoundError):
        RayDecoder(tmp_path / "gone.arcbeam")


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "ray[data]"')
    pytest.importorskip("ray.data", reason='Ray Data is not installed: pip install "ray[data]"')
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False)
    yield ray
    ray.shutdown()


def test_an_actor_is_killed_in_the_middle(cluster, job, tmp_path):
    """Nothing is lost, nothing is there twice, and the bytes are those of one process."""
    graph, paths, lines = job
    marker = str(tmp_path / "killed")

    class Dying(RayDecoder):
        """Its process is killed after it has decoded its second batch, once."""

        calls = 0

        def __call__(self, rows):
            result = super().__call__(rows)
            self.calls += 1
            if self.calls == 2:
                try:
                    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return result
                os.kill(os.getpid(), signal.SIGKILL)
            return result

    found = cluster.data.from_items(paths).map_batches(
        Dying, fn_constructor_kwargs={"graph": graph, "options": OPTIONS, "confidence": True}, batch_size=1,
        compute=cluster.data.ActorPoolStrategy(size=2), num_cpus=1,
    ).take_all()  # fmt: skip
    assert os.path.exists(marker)
    assert sorted(row["json"] for row in found) == sorted(lines) and {row["error"] for row in found} == {""}
