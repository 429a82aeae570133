"""The lists of a batch are compiled side by side, and phrases are brought into one form."""

import os
import subprocess
import sys

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, Graph, SymbolTable
from arcbeam.ctc.boost import compiled_for
from tests.decode import graphs
from tests.decode.equality import same

WORDS = [f"w{i}" for i in range(1, 50)]
PLAIN = graphs.random_graph(3, states=100)
GRAPH = Graph(**PLAIN.fields() | {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS])})


def phrases_of(seed, count=60):
    rng = np.random.default_rng(seed)
    names = [*WORDS, "absent"]
    return {" ".join(rng.choice(names, rng.integers(1, 4))): float(rng.normal(2.0, 2.0)) for _ in range(count)}


def arrays(made):
    return made.states.tobytes(), made.arcs.tobytes(), made.is_known.tobytes(), made.all_known, made.largest


@pytest.mark.filterwarnings("ignore:boost. :UserWarning")
@pytest.mark.parametrize("threads", [1, 3])
def test_side_by_side_is_one_by_one(threads):
    phrases = [phrases_of(seed) for seed in range(10)]
    scalings = [1.0, 1.7]
    wanted = [Boost(one, depth_scaling=scalings[at % 2]).compiled(GRAPH) for at, one in enumerate(phrases)]
    boosts = [Boost(one, depth_scaling=scalings[at % 2]) for at, one in enumerate(phrases)]
    made = compiled_for(GRAPH, [None, *boosts, boosts[4]], threads)
    assert made[0] is None
    assert [arrays(one) for one in made[1:-1]] == [arrays(one) for one in wanted]
    assert made[-1] is made[5] is boosts[4].compiled(GRAPH)
    assert not made[1].all_known and not made[1].is_known.all()
    assert compiled_for(GRAPH, boosts, threads) == made[1:-1]  # the same objects


@pytest.mark.filterwarnings("ignore:boost. :UserWarning")
def test_a_batch_with_new_lists_is_decoded_as_with_those_that_are_there():
    batch = [graphs.random_log_probs(seed, 12) for seed in range(5)]
    boosts = [Boost(phrases_of(seed)) for seed in range(5)]
    boosts[1].compiled(GRAPH)
    one = CtcDecoder(GRAPH, beam=6.0, device="cpu", threads=3)
    got = one.decode(batch, boost=boosts)
    for hypothesis, logp, boost in zip(got, batch, boosts, strict=True):
        same([hypothesis], one.decode([logp], boost=Boost(boost.phrases)))


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "a  b",
        " a",
        "a ",
        "a\tb",
        "a\nb",
        "a\x1fb",
        "a\u00a0b",
        "\u00e4 \u00f6",
        "\u00e4  b",
        "\u3000c",
        "c\x00d",
    ],
)
def test_words_have_one_space_between_them(name):
    assert list(Boost(["first", name, "last word"]).phrases) == ["first", " ".join(name.split()), "last word"]


def test_names_of_another_kind_of_str_are_plain_afterwards():
    class Name(str):
        __slots__ = ()

    assert [type(name) for name in Boost([Name("a b")]).phrases] == [str]


def test_the_lists_of_a_batch_give_one_warning():
    boosts = [Boost([f"w1 absent{i}", "W2"]) for i in range(13)]
    with pytest.warns(UserWarning) as told:
        CtcDecoder(GRAPH, device="cpu").decode([graphs.random_log_probs(1, 3)] * 14, boost=[None, *boosts])
    [message] = [str(one.message) for one in told]
    assert message.startswith("boost: 26 of 26 phrases of utterance 1 and 12 more are left out, because the graph ")
    assert "cannot write 14 words ('absent0', 'W2', 'absent1', " in message and "'absent8', ...); " in message
    assert "; it has 'w2'; a graph built with open_slot=True (--open-slot) can write words " in message


def test_a_list_from_a_file_is_called_by_it(tmp_path):
    (tmp_path / "list.txt").write_text("w1\nabsent\n")
    boost = Boost.read(tmp_path / "list.txt")
    with pytest.warns(UserWarning, match="1 of 2 phrases of .*list.txt is left out"):
        compiled_for(GRAPH, [None, boost])


STARVED = """
import resource
import arcbeam
from arcbeam.ctc.boost import compiled_for

symbols = arcbeam.SymbolTable.from_list(["<eps>", "a", "b"])
plain = arcbeam.Graph.from_arcs([(0, 0, 1, 1, 0.0), (0, 0, 1, 2, 0.0)], finals={0: 0.0}, num_columns=2)
graph = arcbeam.Graph(**plain.fields() | {"word_symbols": symbols})
boosts = [arcbeam.Boost(["a", "a b"], 1.0) for _ in range(300)]
many = arcbeam.Boost([f"a {i:0300b}".replace("1", " a").replace("0", " b") for i in range(20_000)], 1.0)
boosts[0].compiled(graph)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
print(len(compiled_for(graph, boosts, 300)))
try:
    many.compiled(graph)
except MemoryError as error:
    print("too little memory")
print(len(boosts[1].compiled(graph).states))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space through /proc")
@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer itself dies of the limit")
def test_no_threads_and_no_memory_to_be_had():
    """Without threads the caller compiles all lists; without memory there is an error, and the next is compiled."""
    got = subprocess.run([sys.executable, "-c", STARVED], capture_output=True, text=True, timeout=60)
    assert got.returncode == 0, got.stderr
    assert got.stdout.splitlines() == ["300", "too little memory", "2"]
