"""An ARPA file comes back from its columns, byte for byte."""

import lzma
import re

import pytest

from benchmarks.pack import arpa_columns

TEXT = """\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-6.835205\t<unk>\t0
0\t<s>\t-1.8819802
-1.5\té\t-0.25
-2.0000217\t</s>\t0

\\2-grams:
-0.95734507\t<s> é
-0.000099076904\té </s>

\\end\\
"""


def test_a_small_file_comes_back():
    packed = arpa_columns.pack(TEXT.encode())
    assert arpa_columns.unpack(packed).decode() == TEXT


def test_the_demos_lm_comes_back(demo_data):
    text = lzma.decompress((demo_data / "novels.3gram.arpa.xz").read_bytes())
    # Its numbers have three decimals, also where fewer would do.
    text = re.sub(rb"(\.\d*?)0+(?=[\t\n])", rb"\1", text)
    text = re.sub(rb"\.(?=[\t\n])", b"", text)
    assert arpa_columns.unpack(arpa_columns.pack(text, preset=0)) == text


@pytest.mark.parametrize(
    ("was", "now"), [("-1.5\t", "-1.50\t"), ("<s> é", "<s> word"), ("-0.95734507", "-0.957345071"), ("-1.5\t", "x\t")]
)
def test_what_would_not_come_back_is_refused(was, now):
    with pytest.raises(ValueError):
        arpa_columns.pack(TEXT.replace(was, now).encode())
