"""Figures that guide pages quote are those of the stored results; a paragraph that links a table has no others."""

import re
from functools import cache, partial

import pytest

from benchmarks.harness import record, registry

GUIDE = record.ROOT / "docs" / "guide"


@cache
def rows_of(name):
    return record.read(record.RESULTS / f"{name}.jsonl")[1]


def figure(name, key, **where):
    """The one value of the rows that have these cells."""
    rows = [row for row in rows_of(name) if all(row.get(cell) == value for cell, value in where.items())]
    found = {row[key] for row in rows if row.get(key) is not None}
    assert len(found) == 1, f"{name}: {key} of the rows with {where} is one of {found}"
    return found.pop()


def tree(key, model, alpha, others=1000, kind="words"):
    return figure(
        "cpu/transducer_boosting", key, model=model, set="test-other-100", kind=kind, others=others, alpha=alpha
    )


def beams(beam):
    where = {"set": "test-other-100", "beam": float(beam), "contender": "CPU, one core, no rescoring"}
    rtfx, wer, tokens = (figure("cpu/f19_figures", key, **where) for key in ("rtfx", "wer", "tokens"))
    return f"| {beam} | {wer:.2f} | {float(f'{rtfx:.2g}'):,.0f} | {tokens:.0f} |"


def errors_at(beam, contender):
    sets = ("ljspeech-200", "test-other-100")
    return sum(figure("cpu/f19_figures", "errors", set=name, beam=beam, contender=contender) for name in sets)


def rare(decoder, why, *keys):
    found = []
    for key in keys:
        without = key.endswith("_without")
        where = {"why": "no boost"} if without else {"why": why, "others": 1000}
        name = "cpu/boost_rare_words"
        found.append(figure(name, key.removesuffix("_without"), set="test-other-100", decoder=decoder, **where))
    return found


def rare_row(label, decoder, why="tuned"):
    wer, wer_without, recall, recall_without, false = rare(
        decoder, why, "wer", "wer_without", "recall", "recall_without", "false"
    )
    return f"| {label} | {wer:.1f} | {wer_without:.1f} | {recall:.0f} | {recall_without:.0f} | {false:.0f} |"


def peer_times(ours, peer):
    return figure("cpu/boost_rare_words", "cpu_ratio", set="test-other-100", decoder=ours, score=7.0, compared=peer)


def magnitude(key, kind, **where):
    return figure("cpu/boost_magnitude", key, set="test-other-100", list=kind, **where)


def phrases(key, words, score, how="as phrases", others=1000):
    return figure(
        "cpu/boost_phrases", key, set="test-other-100", words=words, others=others, how=how, score=float(score)
    )


def new_words(key, **where):
    return figure("cpu/boost_new_words", key, set="test-other-100", beam=17.0, others=100, **where)


def calibrated(key):
    where = {"count": 10_000, "calibrated": "ljspeech-200", "accepted": 1.0}
    return figure("cpu/boost_calibration", key, **where)


def lattices(label, beam=None, contender="in the lattice"):
    where = {"set": "test-other-100", "contender": contender, "lattice_beam": beam}
    name, times = "cpu/kl14_lattice_rescoring", label.endswith("fly")
    ratio = figure(name, "ratio", **where)
    return f"| {label} | {figure(name, 'errors', **where)} | {ratio:.{0 if ratio == 1 else 1}f}{' times' * times} |"


def stream(key, name):
    """Of chunks of 0.4 s at beam 12."""
    return figure("cpu/stream_words", key, set=name, beam=12.0, chunk_ms=400.0)


def endpoints(key, rules, least, most=10.0):
    return [row[key] for row in rows_of("cpu/endpoints") if row["rules"] == rules and least <= row["pause"] <= most]


def batch(size, search="17 / 10,000"):
    return figure("h100/gpu_batch", "rtfx", batch=size, search=search)


def said(text, *values, holds=True):
    """The quote with its figures; one that no page has where what it says is no longer true."""
    return text.format(*values) if holds else f"not so any more: {text}"


def of_transducers():
    words, pairs = partial(tree, "wer", "RNN-T"), "phrases of 2 words"
    other = partial(tree, "wer", "TDT")
    yield said(
        "makes {:.1f} % word errors without a tree: with each utterance's rare words alone 1 gives {:.1f} %.",
        words(0.0),
        words(1.0, 0),
    )
    yield said(
        "With 1,000 others it gives {:.1f} % and {:.0f} false alarms in a hundred utterances",
        words(1.0),
        tree("false", "RNN-T", 1.0),
    )
    yield said("0.25 gives {:.1f} % and none.", words(0.25), holds=tree("false", "RNN-T", 0.25) == 0)
    yield said(
        "A small TDT makes {:.1f} % without a tree, and {:.1f}, {:.1f} and {:.1f} % with these.",
        other(0.0),
        other(1.0, 0),
        other(1.0),
        other(0.25),
    )
    yield said("{:.1f} % at 0.5 with 1,000 others and the RNN-T", words(0.5, kind=pairs))


def of_not_yet():
    yield said(
        "the default makes [{:.0f} to {:.0f} false alarms in a hundred utterances]",
        tree("false", "RNN-T", 1.0),
        tree("false", "TDT", 1.0),
    )


def of_beam_and_scales():
    scales = [figure("cpu/wer", f"scale_{scale}", set="ljspeech-200") for scale in ("1", "1.5", "2")]
    yield said("the errors on ljspeech-200 are {:.2f}, {:.2f} and {:.2f} % at scales 1, 1.5 and 2", *scales)
    yield from map(beams, (8, 10, 12, 14, 16))


def of_boosting():
    default, plain_ = (figure("cpu/boost_score", "recall_17", list="1,000 others", score=s) for s in (7.0, 0.0))
    yield said("{:.1f} % of the listed words that were said are found, {:.1f} % without a boost", default, plain_)
    right = [magnitude(f"{key}", "accurate", beam=17.0) for key in ("wer_without", "wer_half", "best", "wer_best")]
    yield said("fall from {:.2f} to {:.2f} % at beam 17 (the best score, {:.0f}, gives {:.2f} %)", *right)
    without, half = (magnitude(key, "inaccurate", beam=17.0) for key in ("wer_without", "wer_half"))
    yield said("by less than 0.05 %", holds=abs(half - without) < 0.05)
    yield said("more than a fourth of the words are wrong", holds=magnitude("wer_8", "accurate", magnitude=12.0) > 25)
    false = [magnitude("false_17", "mixed", magnitude=score) for score in (8.5, 4.0, 0.0)]
    yield said(
        "8.5 makes {:.0f} false alarms in a hundred utterances of test-other-100 at beam 17, and 4 makes "
        "{:.0f}; without a boost there are {:.0f}",
        *false,
    )
    pairs = phrases("wer", 2, 0), phrases("wer", 2, 7), phrases("wer", 2, 7, "one by one")
    yield said("fall from {:.2f} to {:.2f} %, and to {:.2f} % where the rare words", *pairs)
    yield said(
        "phrases of two words give {:.2f} %, those of three {:.2f} %, without a false alarm",
        phrases("wer", 2, 14),
        phrases("wer", 3, 14, others=0),
        holds=phrases("false", 2, 14) == phrases("false", 3, 14, others=0) == 0,
    )
    yield rare_row("beam 17, the default score", "arcbeam, beam 17", "the default")
    yield rare_row("pyctcdecode, its best settings", "pyctcdecode, tuned")
    yield rare_row("NeMo's beam search, its best settings", "NeMo, beam search")
    yield rare_row("the same with a 6-gram of letters", "NeMo, beam search with an LM")
    yield rare_row("NeMo's greedy decoding, its best settings", "NeMo, greedy")
    known, new = "pyctcdecode, tuned", "pyctcdecode, tuned, new lists"
    yield said(
        "pyctcdecode takes {:.0f} times the processor time of arcbeam with beam 17 and the default score, and "
        "{:.0f} times that with beam 12 ({:.1f} % word errors); where all lists are new, {:.0f} and {:.0f} "
        "times.",
        peer_times("arcbeam, beam 17", known),
        peer_times("arcbeam, beam 12", known),
        *rare("arcbeam, beam 12", "the default", "wer"),
        peer_times("arcbeam, beam 17, new lists", new),
        peer_times("arcbeam, beam 12, new lists", new),
    )
    yield said(
        "the score that makes {:.0f} % of false alarms on clear recordings makes {:.0f} % on hard ones",
        calibrated("there"),
        calibrated("false_alarms"),
    )
    yield said(
        "{:.0f} % are found at beam 17, and {:.0f} % with the same lists and the whole vocabulary; but "
        "there are {:.0f} false alarms in a hundred utterances, where the whole vocabulary has none.",
        new_words("recall", why="default"),
        new_words("recall", vocabulary="whole"),
        new_words("false", why="default"),
        holds=new_words("false", vocabulary="whole") == 0,
    )
    costly = [row for row in rows_of("cpu/boost_new_words") if row["why"] == "tuned" and (row["slot"] or 0) < -15]
    found = {row["beam"]: row["recall"] for row in costly if row["others"] == 100}
    yield said(
        "With the {:.0f} that the model gave `<unk>`, {:.0f} % were found at beam 17, and none at 12",
        -costly[0]["slot"],
        found[17.0],
        holds=found[12.0] == 0,
    )


def of_gpu():
    yield said("batches of 4,096 are {:.0f} times as fast as those of 256", batch(4096) / batch(256))
    gains = [batch(size, "12 / 5,000") / batch(size) for size in (256, 512, 1024, 2048, 4096)]
    yield said("12 / 5,000 is {:.1f} to {:.1f} times as fast as 17 / 10,000", min(gains), max(gains))
    times = [
        figure("h100/gpu_single", key, graph="char-3gram", search="17 / 10,000", kind="short")
        for key in ("us_a_frame", "twin_us_a_frame")
    ]
    yield said("takes {:.0f} times as long on an H100 as on one core at beam 17 (`gpu_single`)", times[0] / times[1])


def of_large_language_models():
    errors = {
        row["hypotheses"]: row["errors"]
        for row in rows_of("cpu/rescoring_wer")
        if (row["models"], row["beam"]) == ("small and large, 1.2", 17.0)
    }
    yield said(
        "is as accurate as no limit. 3 costs three words of 5,341",
        holds=errors[8] == errors["no limit"] == errors[3] - 3,
    )
    both = [errors_at(beam, who) for beam in (8.0, 14.0) for who in ("CPU, one core", "CPU, one core, no rescoring")]
    yield said("at beam 8 it makes {} errors where the small one alone makes {}; at 14 it is {} and {}", *both)
    size = partial(figure, "cpu/kl14_table1", model="large model")
    yield said("A 4-gram of {:.0f} million n-grams has {:.0f} MB", size("total") / 1e6, size("lm_mb"))
    yield said("(a trie of the 4-gram above has {:,.0f} MB, probing {:,.0f} MB)", size("trie_mb"), size("probing_mb"))
    yield said("its index, {:.0f} % of its size", size("index_share"))


def of_lattices():
    yield lattices("on the fly", contender="on the fly")
    yield lattices("on the fly, `hypotheses_per_state=3`", contender="on the fly, n = 3")
    yield from (lattices(f"lattice beam {beam}", float(beam)) for beam in (4, 8, 10, 12))
    yield lattices("without the large model", contender="3-gram alone")


def of_more_answers():
    where = {"graph": "spm512-3gram", "set": "an4-test", "lattice_beam": 8.0}
    errors = [figure("cpu/confidence_calibration", key, **where) for key in ("ece_before", "ece")]
    yield said("on another, an4-test, from {:.2f} to {:.2f} %", *errors)
    size, frames = (
        figure("cpu/long_lattice", key, graph="char-3gram", minutes=60.0) for key in ("bytes_a_frame", "frames")
    )
    yield said("on a CPU {:.0f} bytes a frame with letters", size)
    yield said("{:.0f} MB for an hour of {:,} frames", size * frames / 1e6, frames)


def of_streams():
    kept, half, most = (partial(stream, key) for key in ("before_end", "delay_median", "delay_p95"))
    clear, hard, short = "ljspeech-200", "test-other-100", "an4-test"
    yield said(
        "{:.0f} % of the words of read sentences became stable before their sentence ended: half of these "
        "{:.1f} s after they were said, 95 % within {:.1f} s.",
        kept(hard),
        half(hard) / 1e3,
        most(hard) / 1e3,
        holds=kept(clear) >= kept(hard) and half(clear) <= half(hard),
    )
    yield said("it was {:.0f} %, in {:.1f} and {:.1f} s.", kept(short), half(short) / 1e3, most(short) / 1e3)
    yield said("found all pauses of 1.5 s", holds=max(endpoints("missed", "sherpa", 1.5)) == 0)
    yield said("cut up to {:.0f} % of the utterances at pauses within them", max(endpoints("false", "sherpa", 1.5)))
    yield said("found 96 % or more of those of 1 s", holds=max(endpoints("missed", "Kaldi", 1.0, 1.0)) <= 4)
    after, false = endpoints("delay_median", "Kaldi", 1.0), endpoints("false", "Kaldi", 1.0)
    yield said(
        "{:.1f} to {:.1f} s after the last word; they cut {:.0f} to {:.0f} % of the utterances within",
        min(after),
        max(after),
        min(false),
        max(false),
    )


QUOTES = {
    "transducers.md": of_transducers,
    "not-yet.md": of_not_yet,
    "beam-and-scales.md": of_beam_and_scales,
    "boosting.md": of_boosting,
    "gpu.md": of_gpu,
    "large-language-models.md": of_large_language_models,
    "lattices.md": of_lattices,
    "more-answers.md": of_more_answers,
    "streams.md": of_streams,
}


def plain(text):
    return " ".join(text.split())


@pytest.mark.parametrize("page", QUOTES)
def test_the_page_quotes_the_results(page):
    text = plain((GUIDE / page).read_text(encoding="utf-8"))
    assert [quote for quote in QUOTES[page]() if quote not in text] == []


def test_no_page_that_refers_to_a_result_has_other_figures():
    """No percents, in a paragraph with a link to a table or with the name of an experiment."""
    found = []
    for path in sorted(GUIDE.glob("*.md")):
        for paragraph in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            names = set(re.findall(r"`(\w+)`", paragraph)) & set(registry.names())
            if names or "results/tables/" in paragraph:
                rest = plain(paragraph)
                for quote in QUOTES.get(path.name, list)():
                    rest = rest.replace(quote, "")
                found += [(path.name, figure) for figure in re.findall(r"[\d.]+ %", rest)]
    assert found == []
