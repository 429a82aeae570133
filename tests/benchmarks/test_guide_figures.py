"""Figures that guide pages quote are those of the stored results; a paragraph that links a table has no others."""

import itertools
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
    return figure("h200/gpu_batch", "rtfx", batch=size, search=search)


def if_so(holds, text):
    """The quote; one that no page has where what it says is no longer true."""
    return text if holds else f"not so any more: {text}"


def of_transducer_boosting():
    words, pairs = partial(tree, "wer", "RNN-T"), "phrases of 2 words"
    other = partial(tree, "wer", "TDT")
    alone = f"With each utterance's rare words alone a factor of 1 gives {words(1.0, 0):.1f} %."
    yield f"makes {words(0.0):.1f} % word errors without a tree. {alone}"
    false = tree("false", "RNN-T", 1.0)
    yield f"With 1,000 others it gives {words(1.0):.1f} % and {false:.0f} false alarms in a hundred utterances"
    yield if_so(tree("false", "RNN-T", 0.25) == 0, f"0.25 gives {words(0.25):.1f} % and none.")
    these = f"{other(1.0, 0):.1f}, {other(1.0):.1f} and {other(0.25):.1f} % with the same lists and factors."
    yield f"A small TDT makes {other(0.0):.1f} % without a tree, and {these}"
    yield f"{words(0.5, kind=pairs):.1f} % at 0.5 with 1,000 others and the RNN-T"


def with_models(key, fused, model="RNN-T", name="test-other-100", search="arcbeam", **where):
    where = ({"most": 16} if search == "arcbeam" else {}) | where
    return figure("cpu/transducer_beam_wer", key, set=name, model=model, fused=fused, search=search, **where)


def of_transducers():
    phrases = "tree, 1,000 others"
    listed = {
        "none": ("", "", {}),
        "phrases, factor 1": (phrases, phrases, {"tree": 1.0, "depth": 2.0}),
        "phrases, factor 2": (phrases, phrases, {"tree": 2.0, "depth": 2.0}),
        "phrases, factor 2, `depth_scaling=1.0`": (phrases, phrases, {"tree": 2.0, "depth": 1.0}),
        "n-gram model": ("LM", "LM", {}),
        "n-gram model, `ilm_scale`": ("LM + ILM", "LM", {"lm": 0.3, "ilm": 0.15}),
        "n-gram model, `lodr_model`": ("LM + LODR", "LM", {"lm": 0.3, "lodr": -0.3}),
        "n-gram model of three times the text": ("larger LM", "larger LM", {}),
        "n-gram model, phrases, factor 1": ("tree and LM", "tree and LM", {"tree": 1.0, "depth": 2.0}),
    }
    wer = partial(with_models, "wer")
    which = list(itertools.product(("RNN-T", "TDT"), ("test-other-100", "ljspeech-200")))
    for label, (fused, greedy, where) in listed.items():
        can = {} if greedy.endswith("LM") and "tree" not in greedy else where  # greedy search has a factor of its own
        cells = [f"{wer(greedy, *one, 'greedy', **can):.1f}, {wer(fused, *one, **where):.1f}" for one in which]
        yield f"| {label} | {' | '.join(cells)} |"
    letters = []
    for model in ("RNN-T", "TDT"):
        an4 = partial(with_models, "wer", model=model, name="an4-test")
        lodr, large = (an4("LM + LODR", lm=factor, lodr=-factor) for factor in (0.3, 0.4))
        letters.append((an4("", search="greedy"), an4(""), lodr, an4("LM"), large))
    ordered = all(list(one[:4]) == sorted(one[:4]) for one in letters) and letters[1][4] > letters[1][3]
    greedy, plain, lodr, fused = (f"{rnnt:.0f} and {tdt:.0f} %" for rnnt, tdt in list(zip(*letters, strict=True))[:4])
    yield if_so(ordered, f"greedy search makes {greedy} (RNN-T and TDT), a beam {plain}")
    yield f"with the model of books {fused}, with `lodr_scale=-0.3` {lodr}"
    yield f"factors of 0.4 and -0.4 make {letters[1][4]:.0f} % with the TDT"
    held_out = partial(figure, "cpu/transducer_beam_wer", "wer", set="held out", model="RNN-T", most=8)
    alone, half, whole = (held_out(fused="LM", lm=0.3, power=power) for power in (0.0, 0.5, 1.0))
    both, too_much = (held_out(fused="LM + ILM", lm=lm, ilm=ilm, power=1.0) for lm, ilm in ((0.3, 0.15), (0.1, 0.4)))
    low_order = held_out(fused="LM + LODR", lm=0.3, lodr=-0.3, power=1.0)
    powers = f"{half:.2f} and {whole:.2f} % with a `length_power` of 0.5 and 1"
    yield f"{alone:.2f} % with `ngram_lm_alpha=0.3` alone, and {powers}"
    yield f"With the latter, `ilm_scale=0.15` gives {both:.2f} %, and `lodr_scale=-0.3` {low_order:.2f} %"
    yield f"`ngram_lm_alpha=0.1` with `ilm_scale=0.4` makes {too_much:.0f} %"


def of_not_yet():
    rnnt, tdt = (tree("false", model, 1.0) for model in ("RNN-T", "TDT"))
    yield f"the default makes [{rnnt:.0f} false alarms with an RNN-T and {tdt:.0f} with a TDT]"


def compat(key, labels, decoder="arcbeam.compat.pyctcdecode", **where):
    return figure("cpu/compat_pyctcdecode", key, labels=labels, decoder=decoder, **where)


def of_from_pyctcdecode():
    widths = (20, 100, 500)
    for labels in ("letters", "256 pieces", "512 pieces"):
        times = " | ".join(f"{compat('cpu_ratio', labels, width=width):.1f}" for width in widths)
        fewer = [compat("wer", labels, width=w) <= compat("wer", labels, "pyctcdecode", width=w) for w in widths]
        yield if_so(all(fewer), f"| {labels} | {times} |")
    narrow, enough, wide = (
        partial(compat, labels="512 pieces", decoder="CtcDecoder", beam=beam) for beam in (8.0, 12.0, 17.0)
    )
    peer = compat("wer", "512 pieces", "pyctcdecode", width=100)
    rtfx = float(f"{narrow('rtfx'):.2g}")
    yield if_so(
        narrow("wer") <= peer,
        f"With 512 pieces, `beam=8` and `max_active=5000` give {narrow('wer'):.2f} % word errors where pyctcdecode "
        f"with 100 beams gives {peer:.2f} %, and decode {narrow('cpu_ratio'):.0f} times as fast (RTFx {rtfx:,.0f}). "
        f"`beam=12` gives {enough('wer'):.2f} % and is {enough('cpu_ratio'):.1f} times as fast",
    )
    yield if_so(
        wide("wer") == enough("wer"),
        f"the default of 17 has the same errors and is {wide('cpu_ratio'):.1f} times as fast.",
    )


def of_from_transformers():
    alone, many = (partial(figure, "h200/gpu_transformers", batch=batch) for batch in (1, 128))
    ours, peers = (
        [f"{alone(key, model=model):.{digits}f}" for model in ("RNN-T", "TDT")]
        for key, digits in (("ms", 1), ("peer_ms", 0))
    )
    yield (
        f"an utterance alone takes {ours[0]} ms with an RNN-T and {ours[1]} ms with a TDT, and `generate()` {peers[0]} "
        f"and {peers[1]} ms; batches of 128 are decoded {many('ratio', model='RNN-T'):.0f} and "
        f"{many('ratio', model='TDT'):.0f} times as fast"
    )


def of_from_flashlight():
    letters, pieces = (
        partial(figure, "cpu/baseline_speed", lexicon=lexicon, beam_size=500) for lexicon in ("letters", "pieces 256")
    )
    yield f"it is {letters('ratio'):.0f} times as fast as flashlight-text with letters and a beam size of 500"
    yield f"and {pieces('ratio'):.0f} times with 256 pieces"


def of_from_torchaudio():
    ratios = [row["ratio"] for row in rows_of("cpu/baseline_speed")]
    yield f"on one core this one is [{min(ratios):.0f} to {max(ratios):.0f} times as fast](from-flashlight.md)"


def of_from_riva_and_kaldi():
    letters, pieces = (
        figure("h200/gpu_riva", "ratio", graph=graph, search="17 / 10,000") for graph in ("char-3gram", "spm512-3gram")
    )
    yield f"{letters:.0f} times as fast as riva-asrlib-decoder with letters and {pieces:.0f} times with 512 pieces"
    rows = rows_of("cpu/faster_decoder")
    ratios = [row["ratio"] for row in rows]
    yield if_so(
        all(row["answers"].endswith("equal") for row in rows),
        f"On one core it is {min(ratios):.0f} to {max(ratios):.0f} times as fast as kaldi-decoder, with the same paths",
    )


def of_from_nemo():
    where = {"batch": 128, "precision": "float32"}
    rnnt, tdt = (figure("h200/gpu_ll24", "ratio", model=model, **where) for model in ("RNN-T", "TDT"))
    yield f"is {rnnt:.1f} times as fast as NeMo's label-looping with an RNN-T and {tdt:.1f} times with a TDT"
    narrow = partial(figure, "h200/gpu_nemo", peer_beam=4)
    yield if_so(
        narrow("wer") < narrow("peer_wer"),
        f"the graph search is {narrow('ratio'):.0f} times as fast as NeMo's beam search with a beam of 4, with fewer "
        "word errors",
    )


def of_beam_and_scales():
    one, more, two = (figure("cpu/wer", f"scale_{scale}", set="ljspeech-200") for scale in ("1", "1.5", "2"))
    yield f"the errors on ljspeech-200 are {one:.2f}, {more:.2f} and {two:.2f} % at scales 1, 1.5 and 2"
    yield from map(beams, (8, 10, 12, 14, 16))


def of_boosting():
    default, plain_ = (figure("cpu/boost_score", "recall_17", list="1,000 others", score=s) for s in (7.0, 0.0))
    yield f"{default:.1f} % of the listed words that were said are found, {plain_:.1f} % without a boost"
    without, half, best, least = (
        magnitude(key, "accurate", beam=17.0) for key in ("wer_without", "wer_half", "best", "wer_best")
    )
    yield f"fall from {without:.2f} to {half:.2f} % at beam 17 (the best score, {best:.0f}, gives {least:.2f} %)"
    without, half = (magnitude(key, "inaccurate", beam=17.0) for key in ("wer_without", "wer_half"))
    yield if_so(abs(half - without) < 0.05, "by less than 0.05 %")
    yield if_so(magnitude("wer_8", "accurate", magnitude=12.0) > 25, "more than a fourth of the words are wrong")
    high, low, none = (magnitude("false_17", "mixed", magnitude=score) for score in (8.5, 4.0, 0.0))
    yield (
        f"8.5 makes {high:.0f} false alarms in a hundred utterances of test-other-100 at beam 17, and 4 makes "
        f"{low:.0f}. Without a boost there are {none:.0f}"
    )
    without, both, single = phrases("wer", 2, 0), phrases("wer", 2, 7), phrases("wer", 2, 7, "one by one")
    rare_alone = f"and to {single:.2f} % with their rare words alone"
    yield f"fall from {without:.2f} to {both:.2f} % with phrases of two words, {rare_alone}"
    two, three = (partial(phrases, words=2, score=14), partial(phrases, words=3, score=14, others=0))
    yield if_so(
        two("false") == three("false") == 0,
        f"phrases of two words give {two('wer'):.2f} %, those of three {three('wer'):.2f} %, without a false alarm",
    )
    yield rare_row("beam 17, the default score", "arcbeam, beam 17", "the default")
    yield rare_row("pyctcdecode, its best settings", "pyctcdecode, tuned")
    yield rare_row("NeMo's beam search, its best settings", "NeMo, beam search")
    yield rare_row("the same with a 6-gram of letters", "NeMo, beam search with an LM")
    yield rare_row("NeMo's greedy decoding, its best settings", "NeMo, greedy")
    wide, narrow = (peer_times(f"arcbeam, beam {beam}", "pyctcdecode, tuned") for beam in (17, 12))
    wide_new, narrow_new = (
        peer_times(f"arcbeam, beam {beam}, new lists", "pyctcdecode, tuned, new lists") for beam in (17, 12)
    )
    [wer] = rare("arcbeam, beam 12", "the default", "wer")
    yield (
        f"pyctcdecode takes {wide:.0f} times the processor time of arcbeam with beam 17 and the default score, and "
        f"{narrow:.0f} times the processor time of arcbeam with beam 12 ({wer:.1f} % word errors). With new lists in "
        f"every request it takes {wide_new:.0f} and {narrow_new:.0f} times as much."
    )
    listed, written = (
        [row["share"] for row in rows_of("h200/gpu_boosting") if (row["lists"] == "new words") == new]
        for new in (False, True)
    )
    speed = f"[{min(listed):.0f} to {max(listed):.0f} % of its speed](../../benchmarks/results/tables/gpu_boosting.md)"
    yield f"keeps {speed} with lists, and {min(written):.0f} % or more with new words"
    there, elsewhere = calibrated("there"), calibrated("false_alarms")
    yield f"the score that gives {there:.0f} % false alarms on clear recordings gives {elsewhere:.0f} % on hard ones"
    new, whole = (partial(new_words, **how) for how in ({"why": "default"}, {"vocabulary": "whole"}))
    yield if_so(
        whole("false") == 0,
        f"{new('recall'):.0f} % are found at beam 17, and {whole('recall'):.0f} % with the same lists and the whole "
        f"vocabulary. But there are {new('false'):.0f} false alarms in a hundred utterances, and none with the "
        "whole vocabulary.",
    )
    costly = [row for row in rows_of("cpu/boost_new_words") if row["why"] == "tuned" and (row["slot"] or 0) < -15]
    found = {row["beam"]: row["recall"] for row in costly if row["others"] == 100}
    cost = f"With the cost of {-costly[0]['slot']:.0f} that a model gave `<unk>`"
    yield if_so(
        found[12.0] == 0, f"{cost}, {found[17.0]:.0f} % of the new words were found at beam 17, and none at beam 12"
    )


def of_gpu():
    yield f"batches of 4,096 are {batch(4096) / batch(256):.0f} times as fast as those of 256"
    gains = [batch(size, "12 / 5,000") / batch(size) for size in (256, 512, 1024, 2048, 4096)]
    yield f"12 / 5,000 is {min(gains):.1f} to {max(gains):.1f} times as fast as 17 / 10,000"
    single = partial(figure, "h200/gpu_single", graph="char-3gram", search="17 / 10,000", kind="short")
    times = single("us_a_frame") / single("twin_us_a_frame")
    yield f"takes {times:.0f} times as long on an H200 as on one core at beam 17 (`gpu_single`)"


def of_large_language_models():
    rows = [row for row in rows_of("cpu/rescoring_wer") if row["models"] == "small and large, 1.2"]
    errors = {row["hypotheses"]: row["errors"] for row in rows if row["beam"] == 17.0}
    is_enough = errors[8] == errors["no limit"] == errors[3] - 3
    yield if_so(is_enough, "is as accurate as no limit. 3 costs three words of 5,341")
    cheap, both = "CPU, one core, no rescoring", "CPU, one core"
    at_8, at_14 = ([errors_at(beam, who) for who in (both, cheap)] for beam in (8.0, 14.0))
    yield (
        f"At beam 8 it makes {at_8[0]} errors where the small one alone makes {at_8[1]}; at 14 it is {at_14[0]} and "
        f"{at_14[1]}"
    )
    size = partial(figure, "cpu/kl14_table1", model="large model")
    yield f"A 4-gram of {size('total') / 1e6:.0f} million n-grams takes {size('lm_mb'):.0f} MB"
    yield f"(a trie of the 4-gram above takes {size('trie_mb'):,.0f} MB, probing {size('probing_mb'):,.0f} MB)"
    yield f"its index, {size('index_share'):.0f} % of its size"


def of_lattice_rescoring():
    yield lattices("on the fly", contender="on the fly")
    yield lattices("on the fly, `hypotheses_per_state=3`", contender="on the fly, n = 3")
    yield from (lattices(f"lattice beam {beam}", float(beam)) for beam in (4, 8, 10, 12))
    yield lattices("without the large model", contender="3-gram alone")


def of_more_answers():
    for graph, scale, kind in (("char-3gram", 1.5, "letters"), ("spm512-3gram", 1.0, "512 pieces")):
        where = {"graph": graph, "acoustic_scale": scale, "lattice_beam": 16.0}
        for name in ("ljspeech-200", "test-other-100", "an4-test"):
            nce = partial(figure, "cpu/confidence_calibration", set=name, **where)
            one, default, fitted = (nce(key) for key in ("nce_one", "nce_default", "nce"))
            yield f"| {kind}, {name} | {one:.2f} | {default:.2f} | {fitted:.2f} |"
    hour = partial(figure, "cpu/long_lattice", graph="char-3gram", minutes=60.0)
    size, frames = hour("bytes_a_frame"), hour("frames")
    yield f"on a CPU {size:.0f} bytes a frame with letters"
    yield f"{size * frames / 1e6:.0f} MB for an hour of {frames:,} frames"


def of_streams():
    kept, half, most = (partial(stream, key) for key in ("before_end", "delay_median", "delay_p95"))
    clear, hard, short = "ljspeech-200", "test-other-100", "an4-test"
    yield if_so(
        kept(clear) >= kept(hard) and half(clear) <= half(hard),
        f"{kept(hard):.0f} % of the words of read sentences became stable before their sentence ended. Half of these "
        f"were stable {half(hard) / 1e3:.1f} s after they were said, 95 % within {most(hard) / 1e3:.1f} s.",
    )
    within = f"half of these within {half(short) / 1e3:.1f} s and 95 % within {most(short) / 1e3:.1f} s"
    yield f"of short sentences (an4) {kept(short):.0f} % became stable before, {within}."


def of_endpoints():
    yield if_so(max(endpoints("missed", "sherpa", 1.5)) == 0, "found all pauses of 1.5 s")
    yield f"cut up to {max(endpoints('false', 'sherpa', 1.5)):.0f} % of the utterances at pauses within them"
    yield if_so(max(endpoints("missed", "Kaldi", 1.0, 1.0)) <= 4, "found 96 % or more of the pauses of 1 s")
    after, false = endpoints("delay_median", "Kaldi", 1.0), endpoints("false", "Kaldi", 1.0)
    cut = f"they cut {min(false):.0f} to {max(false):.0f} % of the utterances at pauses within them"
    yield f"{min(after):.1f} to {max(after):.1f} s after the last word; {cut}"


QUOTES = {
    "transducers.md": of_transducers,
    "transducer-boosting.md": of_transducer_boosting,
    "not-yet.md": of_not_yet,
    "from-pyctcdecode.md": of_from_pyctcdecode,
    "from-transformers.md": of_from_transformers,
    "from-flashlight.md": of_from_flashlight,
    "from-torchaudio.md": of_from_torchaudio,
    "from-riva-and-kaldi.md": of_from_riva_and_kaldi,
    "from-nemo.md": of_from_nemo,
    "beam-and-scales.md": of_beam_and_scales,
    "boosting.md": of_boosting,
    "gpu.md": of_gpu,
    "large-language-models.md": of_large_language_models,
    "lattice-rescoring.md": of_lattice_rescoring,
    "more-answers.md": of_more_answers,
    "streams.md": of_streams,
    "endpoints.md": of_endpoints,
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
