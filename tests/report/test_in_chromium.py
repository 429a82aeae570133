"""What a reader sees and hears, in a browser without a window."""

import math
import struct
import wave

import pytest

import arcbeam
from tests.report.chromium import Page, chromium

EVIL = "</script><script>window.broken=1</script><img/src=x/onerror=window.broken=1>"
RATE = 8000


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def page(browser):
    return Page(browser)


def word(written, place, confidence):
    times = {"start": place / 2, "end": place / 2 + 0.4, "start_frame": 25 * place, "end_frame": 25 * place + 20}
    return {"word": written, "confidence": confidence, **times}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page of three utterances, the first with a recording of three seconds."""
    folder = tmp_path_factory.mktemp("report")
    with wave.open(str(folder / "one.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(i / 5))) for i in range(3 * RATE)))
    texts = ("ah sea dee eff", "ah bee dee", "")
    nbest = [{"text": text, "score": -1.0 - rank, "posterior": 0.5 / (rank + 1)} for rank, text in enumerate(texts)]
    words = [word(one, place, 0.9 - 0.2 * place) for place, one in enumerate(texts[0].split())]
    results = [
        {"id": "one", "frames": 150, "text": texts[0], "words": words, "nbest": nbest, "confidence": 0.5},
        {"id": EVIL, "text": f"{EVIL} bee"},
        {"id": "three", "text": "ah"},
    ]
    said = {"one": "ah bee dee", EVIL: EVIL, "three": "ah ah"}
    with pytest.warns(UserWarning, match="no recording"):
        arcbeam.write_report(folder / "r.html", results, said, audio=folder)
    return folder / "r.html"


@pytest.fixture
def opened(page, report):
    page.open(report)
    return page


def test_errors_are_seen(opened):
    assert opened.texts("#utterances .words")[0] == "▶ah bee sea dee eff "
    assert opened.texts("#utterances .substitution") == ["bee", "sea"]
    assert opened.texts("#utterances .insertion") == ["eff", "bee"]
    assert opened.texts("#utterances .deletion") == ["ah"]
    assert opened.texts("#figures b") == ["66.67 %", "1", "1", "2", "3", "33.33 %"]
    unsure = "[...document.querySelectorAll('#utterances .word')].map((one) => one.style.getPropertyValue('--unsure'))"
    assert [round(1 - float(one), 6) for one in opened.run(unsure) if one] == [0.9, 0.7, 0.5, 0.3]
    assert opened.run("document.querySelectorAll('#plots circle').length") == 4


def test_no_text_is_read_as_html(opened):
    assert opened.texts("[aria-expanded]")[1] == EVIL
    assert EVIL in opened.texts("#utterances .word")
    assert opened.run("[window.broken ?? 0, document.querySelectorAll('img').length]") == [0, 0]


def test_a_click_opens_the_n_best_list(opened):
    assert opened.texts(".nbest") == []
    opened.run("document.querySelector('[aria-expanded]').click()")
    assert opened.texts(".nbest td:nth-child(2)") == ["2", "0", "3"]
    assert opened.texts(".fewest td:last-child") == ["ah bee dee "]
    opened.run("document.querySelector('[aria-expanded]').click()")
    assert opened.texts(".nbest") == []


def test_the_table_is_sorted_searched_and_filtered(opened):
    def ids():
        return opened.texts("[aria-expanded]")

    assert ids() == ["one", EVIL, "three"]
    opened.run("document.querySelectorAll('th button')[0].click()")
    assert ids() == [EVIL, "one", "three"]
    opened.run("document.querySelectorAll('th button')[2].click()")
    assert ids()[0] == "one" and opened.texts("th[aria-sort=descending]") == ["Errors"]
    opened.run("byId('search').value = 'THREE'; byId('search').dispatchEvent(new Event('input'))")
    assert ids() == ["three"] and opened.texts("#shown") == ["1 of 3 utterances"]
    opened.run("byId('search').value = ''; document.querySelector('#confusions button').click()")
    assert opened.texts("#confusions [aria-pressed=true]") == ["1bee inserted"] and ids() == [EVIL]


MOVED = """new Promise((done) => document.querySelector('audio').addEventListener('timeupdate', ({target}) => {
    if (target.currentTime > %s) { done(target.currentTime); target.pause(); } }))"""


def test_the_recording_plays_from_a_word(opened):
    opened.run("document.querySelectorAll('[data-start]')[2].click()")
    assert 1.05 < opened.run(MOVED % 1.05) < 2 and opened.texts(".now") == ["dee"]
    assert opened.texts("footer span") == ["one"]


def test_the_keyboard_leads_to_words_and_plays_them(opened):
    opened.run("document.querySelector('[data-start]').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft"):
        opened.press(key)
    assert opened.run("document.activeElement.textContent") == "sea"
    assert opened.run("document.querySelectorAll('#utterances [data-start][tabindex=\"0\"]').length") == 1
    opened.press("Enter")
    assert 0.55 < opened.run(MOVED % 0.55) < 1.5


def test_a_thousand_utterances(page, tmp_path):
    words = [f"word{i}" for i in range(20)]
    text = " ".join(words)
    nbest = [{"text": " ".join(words[: 20 - rank]), "score": -1.0, "posterior": 0.1} for rank in range(10)]
    results = [{"id": f"utterance-{i:04}", "text": text, "nbest": nbest} for i in range(1000)]
    arcbeam.write_report(tmp_path / "r.html", results, {one["id"]: f"{text} more" for one in results})
    for width in (1400, 400):
        page.open(tmp_path / "r.html", width)
        assert page.run("document.documentElement.scrollWidth") <= width
        assert 0 < len(page.texts("[aria-expanded]")) < 1000
        page.run("""new Promise((done) => { const wait = () => { scrollTo(0, 1e9);
            document.querySelectorAll('tbody').length < 1000 ? setTimeout(wait, 10) : done(); }; wait(); })""")
        assert page.texts("[aria-expanded]") == [one["id"] for one in results]
