"""Makes the language models of the rescoring experiments from a large text: a large one and a small one beside it.

    python data/make_large_lm.py books.txt.xz --lmplz .../bin/lmplz --output folder

Lines of the demo's novel are left out as `data/make_demo_lm.py` does, and every 440th of the other lines is held out.
Both models have the most frequent words of the rest as their vocabulary; KenLM's lmplz estimates a 4-gram without any
pruning and a 3-gram with high count cut-offs, whose n-grams are therefore all in the 4-gram.

The folder then holds ``words.txt``, ``heldout.txt``, ``large.arpa`` and ``small.arpa``.
"""

import argparse
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from data.lines import text_lines
from data.make_demo_lm import without_novel

HELD_OUT_EVERY = 440


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--lmplz", type=Path, required=True, help="KenLM's estimator")
    parser.add_argument("--output", type=Path, required=True, help="folder")
    parser.add_argument("--words", type=int, default=126_000, help="size of the vocabulary")
    parser.add_argument("--order", type=int, default=4, help="of the large model")
    parser.add_argument("--prune", type=int, nargs=2, default=(40, 40), help="bigrams and trigrams the small one drops")
    parser.add_argument("--memory", default="5G", help="memory of lmplz")
    options = parser.parse_args()

    lines = without_novel(list(text_lines(options.text)))
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "heldout.txt").write_text("\n".join(lines[::HELD_OUT_EVERY]) + "\n", encoding="utf-8")
    del lines[::HELD_OUT_EVERY]
    counts = Counter(word for line in lines for word in line.split())
    words = options.output / "words.txt"
    words.write_text("\n".join(w for w, _ in counts.most_common(options.words)) + "\n", encoding="utf-8")
    with tempfile.TemporaryDirectory(dir=options.output) as folder:
        text = Path(folder, "text")
        text.write_text("\n".join(lines) + "\n", encoding="utf-8")
        del lines, counts
        models = {"large": [str(options.order)], "small": ["3", "--prune", "0", *map(str, options.prune)]}
        for name, order in models.items():
            command = [
                options.lmplz, "-o", *order, "-S", options.memory, "-T", folder, "--limit_vocab_file", words,
                "--text", text, "--arpa", options.output / f"{name}.arpa",
            ]  # fmt: skip
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
