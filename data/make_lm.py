"""Makes the language models that are too large to ship, with KenLM's ``lmplz``: of words, or of SentencePiece pieces.

``lmplz`` builds from the source distribution of the package kenlm (cmake, Boost). Logarithms are rounded to four
digits, so that the files travel well. Pieces are written as NeMo does, see ``token_encoding`` of
:meth:`arcbeam.Graph.build`.

    python -m data.make_lm words --lmplz lmplz --text books.txt.xz --words vocabulary.txt --out large.3gram.arpa.xz
    python -m data.make_lm pieces --lmplz lmplz --text books.txt.xz --model spm512.model --out spm512.5gram.arpa.xz
"""

import argparse
import lzma
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from arcbeam.files.writing import replacing
from data.lines import text_lines
from data.pieces import Pieces

LARGE_PRUNE = "0 1 2"  # counts up to which n-grams of each order go
PIECES_PRUNE = "0 0 10 30 60"
NEMO_OFFSET = 100  # piece i is chr(i + 100); token_encoding="nemo" of Graph.build reads it
# Lines for the LM of pieces: workloads draw their sentences from the lines before.
PIECES_LINES = (400_000, 2_400_000)


def known_words(lines: Iterable[str], vocabulary: Iterable[str]) -> list[str]:
    """The words of the vocabulary that the lines hold, the frequent ones first."""
    wanted, counts = set(vocabulary), Counter[str]()
    for line in lines:
        counts.update(line.split())
    return sorted((w for w in counts if w in wanted), key=lambda w: (-counts[w], w))


def pieces_of(lines: Iterable[str], pieces: Pieces) -> Iterator[str]:
    """Each line as its pieces, separated by spaces; a piece is one character, as NeMo writes them."""
    for line in lines:
        yield " ".join(chr(NEMO_OFFSET + i) for word in line.split() for i in pieces.encode(word))


def lmplz(command: Sequence[str], lines: Iterable[str], arpa: Path) -> None:
    """Runs lmplz on lines of symbols."""
    with arpa.open("wb") as out:
        run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, text=True, encoding="utf-8")
        assert run.stdin is not None
        try:
            for line in lines:
                run.stdin.write(line + "\n")
        except BrokenPipeError:
            pass  # its exit status says more
        finally:
            run.stdin.close()
            status = run.wait()
    if status:
        raise RuntimeError(f"{command[0]} ended with {status}")


def rounded(lines: Iterable[str], digits: int = 4) -> Iterator[str]:
    """An ARPA file with fewer digits; n-grams are not touched."""
    for line in lines:
        fields = line.rstrip("\n").split("\t")
        if len(fields) > 1:
            fields[0::2] = [f"{float(value):.{digits}g}" for value in fields[0::2]]
        yield "\t".join(fields) + "\n"


def write(arpa: Path, out: Path) -> None:
    """Rounds and, by the name, compresses."""
    out.parent.mkdir(parents=True, exist_ok=True)
    packed = out.suffix == ".xz"
    with arpa.open(encoding="utf-8", newline="\n") as source, replacing(out) as file:
        with lzma.open(file, "wb", preset=9) if packed else nullcontext(file) as target:
            target.writelines(line.encode() for line in rounded(source))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("kind", choices=["words", "pieces"])
    parser.add_argument("--lmplz", default="lmplz", help="the program (lmplz)")
    parser.add_argument("--text", required=True, help="text, one sentence a line, plain or .xz")
    parser.add_argument("--words", help="words: vocabulary, a word a line; those in the text are kept")
    parser.add_argument("--model", help="pieces: SentencePiece model")
    parser.add_argument("--order", type=int, help="3 for words, 5 for pieces")
    parser.add_argument("--prune", help=f"counts that go, by order ({LARGE_PRUNE!r} or {PIECES_PRUNE!r})")
    parser.add_argument(
        "--lines", help=f"FIRST:LAST of the text (words: all; pieces: {PIECES_LINES[0]}:{PIECES_LINES[1]})"
    )
    parser.add_argument("--memory", default="4G", help="of lmplz (4G)")
    parser.add_argument("--out", required=True, type=Path, help="ARPA file, compressed if named .xz")
    args = parser.parse_args(argv)
    of_words = args.kind == "words"
    if not (args.words if of_words else args.model):
        parser.error("words needs --words, pieces needs --model")
    first, last = (int(n) if n else None for n in args.lines.split(":")) if args.lines else PIECES_LINES
    if of_words and not args.lines:
        first, last = 0, None
    lines = lambda: text_lines(args.text, first or 0, last)  # noqa: E731

    args.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.out.parent) as folder:
        arpa, vocabulary = Path(folder, "full.arpa"), Path(folder, "vocabulary")
        prune = (args.prune or (LARGE_PRUNE if of_words else PIECES_PRUNE)).split()
        command = [args.lmplz, "-o", str(args.order or len(prune)), "-S", args.memory, "-T", folder, "--prune", *prune]
        if of_words:
            known = known_words(lines(), Path(args.words).read_text(encoding="utf-8").split())
            vocabulary.write_text("\n".join(known) + "\n", encoding="utf-8")
            lmplz([*command, "--limit_vocab_file", str(vocabulary)], lines(), arpa)
        else:
            lmplz([*command, "--discount_fallback"], pieces_of(lines(), Pieces(args.model)), arpa)
        write(arpa, args.out)
    print(args.out, *(line for line in text_lines(args.out, 0, 12) if line.startswith("ngram")))


if __name__ == "__main__":
    main()
