"""What a reader sees and hears, in a browser without a window."""

import math
import struct
import wave

import pytest

import arcbeam
from tests.report.chromium import chromium

EVIL = "</script><script>window.broken=1</script><img/src=x/onerror=window.broken=1>"
RATE = 8000


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page of three utterances, the first with a recording of three seconds."""
    folder = tmp_path_factory.mktemp("report")
    with wave.open(str(folder / "one.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(i / 5))) for i in range(3 * RATE)))
    texts = ("ah sea dee eff", "ah bee dee", "")
    nbest = [{"text": text, "score": -1.0, "posterior": 0.5 / (rank + 1)} for rank, text in enumerate(texts)]
    words = [
        {"word": one, "start": place / 2, "end": place / 2 + 0.4, "confidence": 0.9 - 0.2 * place}
        for place, one in enumerate(texts[0].split())
    ]
    results = [
        {"id": "one", "text": texts[0], "words": words, "nbest": nbest},
        {"id": EVIL, "text": f"{EVIL} bee"},
        {"id": "three", "text": "ah"},
    ]
    with pytest.warns(UserWarning, match="no recording"):
        said = {"one": "ah bee dee", EVIL: EVIL, "three": "ah ah"}
        arcbeam.write_report(folder / "r.html", results, said, audio=folder)
    return folder / "r.html"


@pytest.fixture
def opened(page, report):
    page.open(report)
    return page


def test_errors_are_seen_and_no_text_is_read_as_html(opened):
    assert opened.texts("#utterances .words")[0] == "▶ah bee sea dee eff "
    assert opened.texts("#utterances .substitution") == ["bee", "sea"]
    assert opened.texts("#utterances .insertion") == ["eff", "bee"]
    assert opened.texts("#utterances .deletion") == ["ah"]
    assert opened.texts("#figures b") == ["66.67 %", "1", "1", "2", "3", "33.33 %"]
    unsure = "[...document.querySelectorAll('#utterances .word')].map((one) => one.style.getPropertyValue('--unsure'))"
    assert [round(1 - float(one), 6) for one in opened.run(unsure) if one] == [0.9, 0.7, 0.5, 0.3]
    assert opened.run("document.querySelectorAll('#plots circle').length") == 4
    assert opened.texts("[aria-expanded]")[1] == EVIL and EVIL in opened.texts("#utterances .word")
    assert opened.run("[window.broken ?? 0, document.querySelectorAll('img').length]") == [0, 0]


def test_a_click_opens_the_n_best_list(opened):
    assert opened.texts(".nbest") == []
    opened.run("document.querySelector('[aria-expanded]').click()")
    assert opened.texts(".nbest td:nth-child(2)") == ["2", "0", "3"]
    assert opened.texts(".fewest td:last-child") == ["ah bee dee "]
    opened.run("document.querySelector('[aria-expanded]').click()")
    assert opened.texts(".nbest") == []


def test_the_table_is_sorted_searched_and_filtered(opened):
    opened.run("document.querySelectorAll('th button')[0].click()")
    assert opened.texts("[aria-expanded]") == [EVIL, "one", "three"]
    opened.run("document.querySelectorAll('th button')[2].click()")
    assert opened.texts("[aria-expanded]")[0] == "one" and opened.texts("th[aria-sort=descending]") == ["Errors"]
    opened.run("byId('search').value = 'THREE'; byId('search').dispatchEvent(new Event('input'))")
    assert opened.texts("[aria-expanded]") == ["three"] and opened.texts("#shown") == ["1 of 3 utterances"]
    opened.run("byId('search').value = ''; document.querySelector('#confusions button').click()")
    assert opened.texts("[aria-expanded]") == [EVIL]
    assert opened.texts("#shown") == ["1 of 3 utterances: bee inserted"]


def test_the_recording_plays_from_a_word_by_mouse_and_by_keyboard(opened):
    opened.run("window.seeks = []; player.addEventListener('seeking', () => seeks.push(player.currentTime))")
    opened.run("document.querySelectorAll('[data-start]')[2].click()")
    opened.wait_for("player.currentTime > 1.1")
    assert opened.texts("footer span") == ["one"]
    opened.run("player.pause(); player.currentTime = 1.2")
    opened.wait_for("document.querySelector('.now')?.textContent === 'dee'")
    opened.run("document.querySelector('[data-start]').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft"):
        opened.press(key)
    assert opened.run("document.activeElement.textContent") == "sea"
    assert opened.run("document.querySelectorAll('#utterances [data-start][tabindex=\"0\"]').length") == 1
    opened.press("Enter")
    opened.wait_for("!player.paused && player.currentTime > 0.6 && seeks.length > 2")
    seeks = opened.run("seeks")
    assert 1.0 <= seeks[0] < 1.5 and seeks[1] == 1.2 and 0.5 <= seeks[2] < 1.0


def test_a_thousand_utterances(page, tmp_path):
    words = [f"word{i}" for i in range(20)]
    nbest = [{"text": " ".join(words[: 20 - rank]), "score": -1.0, "posterior": 0.1} for rank in range(10)]
    results = [{"id": f"utterance-{i:04}", "text": nbest[0]["text"], "nbest": nbest} for i in range(1000)]
    arcbeam.write_report(tmp_path / "r.html", results, {one["id"]: f"{one['text']} more" for one in results})
    for width in (1400, 400):
        page.open(tmp_path / "r.html", width)
        assert page.run("document.documentElement.scrollWidth") <= width
        assert 0 < len(page.texts("[aria-expanded]")) < 1000
        page.wait_for("(scrollTo(0, 1e9), document.querySelectorAll('tbody').length === 1000)")
        assert page.texts("[aria-expanded]") == [one["id"] for one in results]
