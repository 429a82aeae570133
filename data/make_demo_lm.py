"""Makes the language model of the demo from a large text of English novels.

    python -m data.make_demo_lm books.txt.xz --lmplz .../bin/lmplz --output data/demo/novels.3gram.arpa.xz

The text has one sentence a line, lower case, one book after the other. The demo's recordings read from *Sense and
Sensibility*, so that book must not be in the model:

1. It is found by its title and author lines and by its last sentence, each of which has to be there exactly once, and
   the span has to have as many words as the novel has.
2. A line anywhere else that shares eight words in a row with the span is left out, too: quotations, and any other
   copy of the book. The script prints how many there are.

The vocabulary is the most frequent words of what is left. KenLM's lmplz estimates a modified Kneser-Ney 3-gram with
count cut-offs; its numbers are then rounded to three decimals, which makes the packed file a third smaller.
"""

import argparse
import itertools
import lzma
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from data.lines import runs, text_lines

FIRST_LINES = ("sense and sensibility", "jane austen")
LAST_LINE = "and among the merits and the happiness of elinor and marianne"
WORDS_OF_THE_NOVEL = (117_000, 122_000)
OVERLAP = 8


def find_novel(lines: list[str]) -> range:
    """The lines of the novel, title included; SystemExit if it is not exactly once there and whole."""
    begins = [i for i in range(len(lines) - 1) if (lines[i], lines[i + 1]) == FIRST_LINES]
    ends = [i for i, line in enumerate(lines) if line.startswith(LAST_LINE)]
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise SystemExit(f"expected the novel to begin and end once, found beginnings {begins} and ends {ends}")
    span = range(begins[0], ends[0] + 1)
    words = sum(len(lines[i].split()) for i in span)
    if not WORDS_OF_THE_NOVEL[0] <= words <= WORDS_OF_THE_NOVEL[1]:
        raise SystemExit(f"expected {WORDS_OF_THE_NOVEL} words in the novel, found {words}")
    print(f"the novel: lines {span.start + 1} to {span.stop}, {words} words")
    return span


def without_novel(lines: list[str], step: int = 1) -> list[str]:
    """Every step-th line outside the novel that shares no OVERLAP words in a row with it."""
    span = find_novel(lines)
    of_novel = {run for i in span for run in runs(lines[i], OVERLAP)}
    outside = [*lines[: span.start], *lines[span.stop :]][::step]
    kept = [line for line in outside if not any(run in of_novel for run in runs(line, OVERLAP))]
    print(f"{len(outside) - len(kept)} more lines share {OVERLAP} words in a row with it and are left out")
    return kept


def spread_lines(lines: list[str], count: int) -> list[str]:
    """At most so many lines, evenly spread over a text, without the novel if it is in the text."""
    step = max(1, len(lines) // count)
    if FIRST_LINES not in itertools.pairwise(lines):
        print("the text does not contain the novel")
        return lines[::step][:count]
    return without_novel(lines, step)[:count]


def rounded(line: str) -> str:
    return re.sub(r"(?<!\S)-?\d+\.\d+(?:e-?\d+)?(?=\t|$)", lambda m: f"{float(m[0]):.3f}", line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--lmplz", type=Path, required=True, help="KenLM's estimator")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--words", type=int, default=30_000, help="size of the vocabulary")
    parser.add_argument("--prune", type=int, nargs=2, default=(100, 100), help="bigram and trigram counts to leave out")
    parser.add_argument("--memory", default="2G", help="memory of lmplz")
    options = parser.parse_args()

    lines = without_novel(list(text_lines(options.text)))
    counts = Counter(word for line in lines for word in line.split())
    vocabulary = [word for word, _ in counts.most_common(options.words)]
    print(f"{len(vocabulary)} words, the rarest seen {counts[vocabulary[-1]]} times")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "words").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
        (Path(folder) / "text").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [
            options.lmplz, "-o", "3", "--prune", "0", *map(str, options.prune), "-S", options.memory, "-T", folder,
            "--limit_vocab_file", f"{folder}/words", "--text", f"{folder}/text", "--arpa", f"{folder}/arpa",
        ]  # fmt: skip
        subprocess.run(command, check=True)
        arpa = (rounded(line) for line in text_lines(Path(folder) / "arpa"))
        with lzma.open(options.output, "wt", encoding="utf-8", preset=9 | lzma.PRESET_EXTREME) as file:
            file.writelines(line + "\n" for line in arpa)
    print(f"{options.output}: {options.output.stat().st_size / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
