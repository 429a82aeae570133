"""The lists of a batch are compiled side by side, and phrases are brought into one form."""

import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, Graph, SymbolTable
from arcbeam.ctc.boost._boost import are_plain
from arcbeam.ctc.boost.boosts import compiled_for
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


def test_every_character_is_white_space_where_python_says_so():
    for code in range(0x10000):
        text = f"a{chr(code)}b"
        is_plain = text.split() == [text] and code >= 0x20 and not 0xD800 <= code < 0xE000
        assert are_plain(text, 1) == (is_plain or code == ord(" ")), hex(code)


@pytest.mark.parametrize(
    ("lines", "count", "plain"),
    [
        ("", 0, True),
        ("", 1, False),
        ("a", 0, False),
        ("a", 2, False),
        ("a\nb c", 2, True),
        ("a\nb c", 1, False),
        ("a\nb c", 3, False),
        ("a\n\nb", 3, False),
        ("a\nb\n", 3, False),
        ("\na", 2, False),
        ("a \nb", 2, False),
        ("a\n b", 2, False),
        ("a\nb ", 2, False),
        ("a  b", 1, False),
        ("a\nb\na", 3, False),
        ("ab\nb\na", 3, True),
        ("eight le\neight let\neight l\nsixteen letters.\nsixteen letters", 5, True),
        ("sixteen letters.\neight le\nsixteen letters.", 3, False),
        ("\u00e4\u00f6\n\u00e4 \u00f6\n\u6771\u4eac\n\u6771 \u4eac", 4, True),
        ("\ud800", 1, False),
    ],
)
def test_lines_are_plain_if_they_are_phrases_that_differ(lines, count, plain):
    assert are_plain(lines, count) == plain


def test_phrases_with_the_same_hash_are_two_phrases():
    pair = ["gatheredaizjjksm", "nvzxnlwqKy3r5eqE"]  # found by trial
    assert not are_plain("\n".join(pair), 2)
    assert are_plain("\n".join([pair[0], pair[1].lower()]), 2)
    assert list(Boost(pair).phrases) == pair


def test_phrases_come_in_any_iterable():
    wanted = {"a b": 2.0, "c": 2.0}
    for phrases in (["a b", "c"], ("a b", "c"), iter(["a b", "c"]), {"a b": 1, "c": 1}.keys(), ("a  b", " c")):
        assert Boost(phrases, 2.0).phrases == wanted


def test_a_list_is_what_it_was_when_it_was_made():
    names = ["w1", "w2 w3"]
    boost = Boost(names, 2.0)
    names[:] = ["w4"]
    assert (len(boost), boost.phrases) == (2, {"w1": 2.0, "w2 w3": 2.0})
    assert boost.compiled(GRAPH).is_known.tolist() == [1, 1]


def test_scores_are_rounded_whatever_numbers_they_are():
    floats = [1 / 3, -2.0001, 1000.0, -0.0, 0.00048828125, 0.00146484375]  # the last two half way between two steps
    wanted = [round(score * 1024) / 1024 for score in floats]
    names = [f"w{i}" for i in range(1, 7)]
    assert list(Boost(dict(zip(names, floats, strict=True))).phrases.values()) == wanted
    others = [np.float32(0.5), 3, np.float64(1 / 3), np.int64(-2), 0.1, 1 / 3]
    wanted = [round(float(score) * 1024) / 1024 for score in others]
    found = list(Boost(dict(zip(names, others, strict=True))).phrases.values())
    assert found == wanted
    assert {type(score) for score in found} == {float}


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


def test_a_list_that_is_refused_does_not_take_the_warning_of_another():
    lists = [Boost(["w1 absent"]), Boost({" ".join(["w1"] * n): 1000.0 for n in range(1, 12)})]
    with pytest.raises(ValueError, match="the phrases of utterance 1 that end with 'w1' change a score by"):
        compiled_for(GRAPH, lists)
    with pytest.warns(UserWarning, match="1 of 1 phrase of utterance 0 is left out"):
        compiled_for(GRAPH, lists[:1])


def test_a_list_from_a_file_is_called_by_it(tmp_path):
    (tmp_path / "list.txt").write_text("w1\nabsent\n")
    boost = Boost.read(tmp_path / "list.txt")
    with pytest.warns(UserWarning, match="1 of 2 phrases of .*list.txt is left out"):
        compiled_for(GRAPH, [None, boost])


STARVED = """
import resource
import arcbeam
from arcbeam.ctc.boost.boosts import compiled_for

symbols = arcbeam.SymbolTable.from_list(["<eps>", "a", "b"])
plain = arcbeam.Graph.from_arcs([(0, 0, 1, 1, 0.0), (0, 0, 1, 2, 0.0)], finals={0: 0.0}, num_columns=2)
graph = arcbeam.Graph(**plain.fields() | {"word_symbols": symbols})
boosts = [arcbeam.Boost(["a", "a b"], 1.0) for _ in range(300)]
many = arcbeam.Boost([f"a {i:0300b}".replace("1", " a").replace("0", " b") for i in range(20_000)], 1.0)
names = [str(i) for i in range(1_000_000)]  # scores take 8 bytes each
alike = arcbeam.Boost(names, 1.0)
boosts[0].compiled(graph)


def leave(megabytes):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), resource.RLIM_INFINITY))


leave(64)
print(len(compiled_for(graph, boosts, 300)))
for megabytes, boost in ((4, alike), (64, many)):
    leave(megabytes)
    try:
        boost.compiled(graph)
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
    assert got.stdout.splitlines() == ["300", "too little memory", "too little memory", "2"]


def test_scores_above_the_beam_are_warned_of_once():
    decoder = CtcDecoder(GRAPH, device="cpu", beam=6.0)
    one, two = WORDS[3], f"{WORDS[3]} {WORDS[5]}"
    silent = Boost({one: 6.0, two: 3.0, WORDS[7]: -100.0})
    loud, other = Boost({one: 6.5, two: 9.0, WORDS[7]: -100.0}), Boost([one], score=7.0)
    utterance = np.log(np.full((2, GRAPH.num_columns), 1 / GRAPH.num_columns, np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder.decode([utterance], boost=silent)
        CtcDecoder(GRAPH, device="cpu", beam=9.0).decode([utterance], boost=loud)
        CtcDecoder(GRAPH, device="cpu", beam=math.inf).stream(boost=loud)
    message = rf"boost: expected scores up to the beam, 6, got 9 at most, for '{two}' and 1 more: where"
    with pytest.warns(UserWarning, match=message) as caught:
        decoder.decode([utterance] * 3, boost=[loud, None, loud])
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder.decode([utterance], boost=loud)
        decoder.stream(boost=loud)
    with pytest.warns(UserWarning, match=f"got 7 at most, for '{one}': where .* half the beam, 3, is a good score"):
        decoder.stream(boost=other)
