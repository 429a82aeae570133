"""Every stage's kernel beside the CPU twin's stage, frame by frame, under the emulator's schedules: the same bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decode import graphs
from tests.hypothesis_examples import examples
from tests.rescore.demo import demo_speech
from tests.simt.build import schedules
from tests.stages import stage_kernel
from tests.stages.emulated_machine import Emulated
from tests.stages.stage_kernel import Layout, NoRoom, StageKernel, Twin, compare

SMALL = Layout(shared=128, spilled=512, threads=64)


def check(graph, rows, layout=SMALL, schedule=None, frames=None, **options):
    """Decodes the rows by the twin's stages; the kernel makes each of the frames besides."""
    twin = Twin(graph, **options)
    for number, row in enumerate(rows):
        frame = twin.frame(row)
        wanted = twin.make(frame)
        if frames is None or number in frames:
            kernel = StageKernel(Emulated(**(schedule or {})), frame, layout)
            if wanted is None:
                with pytest.raises(NoRoom, match="died"):
                    kernel.run()
            else:
                compare(frame, kernel.run(), wanted)
        if wanted is None:
            return


@settings(max_examples=examples(60))
@given(
    graphs.graphs(blank=3),
    graphs.log_probs(),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, float("inf")]),
    st.sampled_from([0, 1, 2, 5]),
    st.sampled_from([0.0, 0.25]),
    st.integers(0, 2**32),
)
def test_random_graphs(graph, rows, beam, max_active, penalty, seed):
    check(
        graph, rows, Layout(shared=64, spilled=64, threads=32), {"seed": seed}, beam=beam, max_active=max_active,
        acoustic_scale=0.5, blank=3, blank_penalty=penalty,
    )  # fmt: skip


@pytest.fixture(scope="module")
def graph():
    return graphs.random_graph(4, states=120, columns=12)


@pytest.mark.parametrize("room", stage_kernel.ROOMS)
def test_schedules(graph, room):
    rows = graphs.random_log_probs(2, 6, 12)
    layout = Layout(shared=128, spilled=512, room=room, threads=64)
    for schedule in schedules():
        check(graph, rows, layout, schedule, frames={2, 5}, beam=5.0, max_active=40)


def test_more_tokens_than_shared_memory_holds(graph):
    rows = graphs.random_log_probs(3, 6, 12)
    check(graph, rows, Layout(shared=16, spilled=512, room="spilled", threads=96), beam=5.0, max_active=10)


def test_turns_make_the_same(graph):
    twin = Twin(graph, beam=5.0, max_active=40)
    frame = twin.frame(graphs.random_log_probs(2, 1, 12)[0])
    kernel = StageKernel(Emulated(), frame, SMALL)
    compare(frame, kernel.run(turns=3), twin.make(frame))
    assert all(cycles > 0 for cycles in kernel.run(turns=2).cycles.values())


def test_demo_speech(demo_data, tmp_path):
    """Real speech through a graph of real words, from where words begin to end."""
    graph, _, rows = demo_speech(demo_data, tmp_path)
    rows = rows[:60].astype(np.float32)
    for schedule in schedules():
        check(graph, rows, SMALL, schedule, frames={20, 40, 59}, beam=10.0, max_active=50, blank=graph.blank)
