"""A 3-gram made larger says what it said, and KenLM's file of the same n-grams says the same."""

import random

import numpy as np
import pytest

from arcbeam import KenLM, LanguageModel
from arcbeam.lm.lm_file import check
from data import closed_lm
from tests.benchmarks.closed_models import write_closed_arpa
from tests.decode import kenlm_files

WORDS = [f"w{i}" for i in range(60)]
pytestmark = pytest.mark.filterwarnings("ignore")  # sums of probabilities; <unk>


def sentences(count, words):
    pick = random.Random(5)
    return [" ".join(pick.choice(words) for _ in range(pick.randint(0, 9))) for _ in range(count)]


@pytest.mark.parametrize("unk", [False, True])
@pytest.mark.parametrize("ngrams", [1500, 20_000])
def test_it_says_the_same(tmp_path, ngrams, unk):
    kenlm_files.need_kenlm()
    arpa = write_closed_arpa(tmp_path / "3.arpa", WORDS, unk=unk)
    base = LanguageModel.build(arpa, progress=False)
    made, pairs = closed_lm.close(base, ngrams)
    check(made.columns, made.about)
    assert made.info().ngrams == tuple(made.about["ngrams"]) and made.order == 3
    assert ngrams / 2 < sum(made.about["ngrams"]) <= ngrams
    assert made.about["ngrams"][2] > 3 * base.about["ngrams"][2]
    closed_lm.write_kenlm(made, pairs, arpa, tmp_path / "closed.probing")
    theirs, before = KenLM(tmp_path / "closed.probing"), KenLM(arpa)
    for sentence in sentences(400, [*WORDS, "nothing"] if unk else WORDS):
        assert made.score(sentence) == pytest.approx(base.score(sentence), abs=1e-4)
        assert theirs.score(sentence) == pytest.approx(before.score(sentence), abs=1e-4)
        assert theirs.score(sentence) == pytest.approx(made.score(sentence), abs=1e-4)


def test_every_ngram_is_found(tmp_path):
    """By KenLM's package, which tells how long the n-gram was that it found."""
    kenlm = kenlm_files.need_kenlm()
    arpa = write_closed_arpa(tmp_path / "3.arpa", WORDS)
    made, pairs = closed_lm.close(LanguageModel.build(arpa, progress=False), 3000)
    closed_lm.write_kenlm(made, pairs, arpa, tmp_path / "closed.probing")
    model = kenlm.Model(str(tmp_path / "closed.probing"))
    names = ["<s>", *made.words, "</s>"]
    low = made.columns["labels.low"]
    for state, pair in enumerate(pairs.of_state):
        u, v = names[pairs.first[pair]], names[pairs.second[pair]]
        for arc in range(pairs.arc_first[state], pairs.arc_first[state + 1]):
            before, after = kenlm.State(), kenlm.State()
            (model.BeginSentenceWrite if u == "<s>" else model.NullContextWrite)(before)
            if u != "<s>":
                model.BaseFullScore(before, u, after)
                before, after = after, before
            model.BaseFullScore(before, v, after)
            found = model.BaseFullScore(after, names[low[arc]], before)
            assert found.ngram_length == 3


def test_the_file_is_what_the_library_makes_of_the_text(tmp_path):
    """But for where the tables' entries lie, which depends on their order."""
    kenlm_files.need_kenlm()
    arpa = write_closed_arpa(tmp_path / "3.arpa", WORDS)
    base = LanguageModel.build(arpa, progress=False)
    made, pairs = closed_lm.close(base, 3000)
    closed_lm.write_kenlm(made, pairs, arpa, tmp_path / "closed.probing")
    names, words = ["<s>", *made.words, "</s>"], made.about["ngrams"]
    text = arpa.read_text().split("\\2-grams:")[0].split("\\1-grams:")[1]
    lines = [f"\\data\\\nngram 1={words[0]}\nngram 2={words[1]}\nngram 3={words[2]}\n\n\\1-grams:{text}\\2-grams:\n"]

    def log(cost):
        return repr(float(np.float32(-np.float64(cost) / 2.302585092994045684)))

    for first, second, cost, backoff, is_history in zip(
        pairs.first, pairs.second, pairs.cost, pairs.backoff, pairs.is_history, strict=True
    ):
        more = f"\t{log(backoff)}" if is_history else ""
        lines.append(f"{log(cost)}\t{names[first]} {names[second]}{more}\n")
    lines.append("\n\\3-grams:\n")
    for state, pair in enumerate(pairs.of_state):
        for arc in range(pairs.arc_first[state], pairs.arc_first[state + 1]):
            weight, label = made.columns["arcs"]["weight"][arc], made.columns["labels.low"][arc]
            lines.append(f"{log(weight)}\t{names[pairs.first[pair]]} {names[pairs.second[pair]]} {names[label]}\n")
    (tmp_path / "same.arpa").write_text("".join(lines) + "\n\\end\\\n")
    closed_lm.write_binary(tmp_path / "same.arpa", tmp_path / "same.probing")
    ours, theirs = ((tmp_path / f"{name}.probing").read_bytes() for name in ("closed", "same"))
    assert len(ours) == len(theirs)
    middle, longest = closed_lm.places_for(words[1]), closed_lm.places_for(words[2])
    end = len(ours) - sum(len(name.encode()) + 1 for name in ["<unk>", "<s>", "</s>", *WORDS])
    begin_longest, begin_middle = end - 12 * longest, end - 12 * longest - 16 * middle
    assert ours[end:] == theirs[end:] and ours[:begin_middle] == theirs[:begin_middle]
    for begin, stop, size in ((begin_middle, begin_longest, 16), (begin_longest, end, 12)):
        assert sorted(ours[at : at + size] for at in range(begin, stop, size)) == sorted(
            theirs[at : at + size] for at in range(begin, stop, size)
        )


def test_what_it_takes(tmp_path):
    arpa = write_closed_arpa(tmp_path / "3.arpa", WORDS)
    model = LanguageModel.build(arpa, progress=False)
    model.save(tmp_path / "3.lm")
    closed_lm.main([str(tmp_path / "3.lm"), str(tmp_path / "large.lm"), "--ngrams", "2000"])
    assert LanguageModel.load(tmp_path / "large.lm").num_arcs > 1000
    with pytest.raises(SystemExit):
        closed_lm.main([str(tmp_path / "3.lm"), str(tmp_path / "large.lm"), "--kenlm", "x"])
    with pytest.raises(ValueError, match="expected a 3-gram, got a model of order 2"):
        closed_lm.close(LanguageModel.build(write_bigram(tmp_path / "2.arpa")), 1000)


def write_bigram(path):
    unigrams = "-99\t<s>\t0\n-1\t</s>\n-1\ta\n"
    path.write_text(f"\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n{unigrams}\n\\2-grams:\n-1\t<s> a\n\n\\end\\\n")
    return path
