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
    for skip_errors in (False, True):  # rows without log-probs are a mistake of the whole job
        decode = RayDecoder(graph, OPTIONS, skip_errors=skip_errors)
        with pytest.raises(arcbeam.InputError, match="expected the columns id and log_probs, or the column path"):
            decode({"bytes": [b""]})
    decode = RayDecoder(graph, OPTIONS)
    with pytest.raises(FileNotFoundError):
        decode({"item": [str(tmp_path / "gone.npz")]})
    with pytest.raises(FileNotFoundError):
        RayDecoder(tmp_path / "gone.arcbeam")


@pytest.fixture
def spoiled(job, tmp_path):
    """Paths, some of them of files with errors; and the id and the message of each error."""
    _, paths, _ = job
    with np.load(paths[0]) as file:
        arrays = dict(file)
    arrays |= {"narrow": arrays["u0-1"][:, :3], "whole": arrays["u0-1"][:, :3].astype("i4"), "flat": arrays["u0-1"][0]}
    np.savez(tmp_path / "spoiled.npz", **arrays)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "spoiled.npz").read_bytes()[:-300])
    (tmp_path / "a.txt").touch()
    names = [str(tmp_path / name) for name in ("gone.npz", "cut.npz", "spoiled.npz", "a.txt")]
    said = [
        ("", "gone.npz: No such file"), ("", "cut.npz: "), ("narrow", "columns, got 3"),
        ("whole", "log-probs must be float16"), ("flat", "must be [frames, columns], got "),
        ("", "a.txt: unknown kind of input"),
    ]  # fmt: skip
    return [names[0], paths[1], *names[1:], paths[2]], said


def test_errors_are_rows_or_end_the_batch(job, spoiled):
    """With skip_errors the rest has the bytes that it has without errors; otherwise the first error is raised."""
    graph, _, lines = job
    names, said = spoiled
    result = RayDecoder(graph, OPTIONS, confidence=True, skip_errors=True)({"item": names})
    wanted = [*lines[EACH : 2 * EACH], *lines[:EACH], *lines[2 * EACH : 3 * EACH]]
    assert [line for line in result["json"] if line] == wanted
    failed = [(name, why) for name, why in zip(result["id"], result["error"], strict=True) if why]
    assert [name for name, _ in failed] == [name for name, _ in said]
    assert all(part in why for (_, why), (_, part) in zip(failed, said, strict=True)), failed
    decode = RayDecoder(graph, OPTIONS, confidence=True)
    with np.load(names[3]) as file:
        rows = {"id": ["u0-0", "narrow"], "log_probs": [file["u0-0"], file["narrow"]]}
    with pytest.raises(arcbeam.InputError, match=r"columns, got 3, in utterance 'narrow' of .*skip_errors=True"):
        decode(rows)
    assert decode({"path": names[1:2]})["json"] == lines[EACH : 2 * EACH]


def test_options_are_no_error_of_an_utterance(job):
    graph, paths, _ = job
    with pytest.raises(ValueError, match="nbest"):
        RayDecoder(graph, OPTIONS, nbest=-1, skip_errors=True)({"path": paths[:1]})


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


def test_errors_in_a_job_that_is_repeated(cluster, job, spoiled, tmp_path):
    """As the guide has it: rows about errors are filtered out, and a repeated job replaces the rows of the first."""
    graph, _, lines = job
    names, said = spoiled
    decoder = {"graph": graph, "options": OPTIONS, "confidence": True, "skip_errors": True}
    for _ in range(2):
        found = cluster.data.from_items(names).map_batches(
            RayDecoder, fn_constructor_kwargs=decoder, batch_size=1, compute=cluster.data.ActorPoolStrategy(size=1)
        )
        found.write_parquet(str(tmp_path / "transcripts"), mode="overwrite")
    rows = cluster.data.read_parquet(str(tmp_path / "transcripts")).take_all()
    assert sorted(row["json"] for row in rows if not row["error"]) == sorted(lines[: 3 * EACH])
    assert sorted(row["id"] for row in rows if row["error"]) == sorted(name for name, _ in said)
