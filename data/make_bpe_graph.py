"""Builds the decoding graph of a SentencePiece model and a word 3-gram: the graph that a workload is decoded with.

The SentencePiece model is trained from the text if it is not there, the 3-gram pruned to the wanted size, and words
cut into pieces. With 512 pieces, the books 3-gram and the default threshold: about 1.4 M states and 5 M arcs.

    python -m data.make_bpe_graph --text books.txt.xz --lm books.3gram.arpa.xz --words vocabulary.txt
        --out spm512.arcbeam
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import arcbeam
from data import arpa_prune, workload
from data.pieces import Pieces, train_sentencepiece

PRUNE_THRESHOLD = 2e-7


def bpe_graph(
    model: str | Path, words: Iterable[str], lm: str | Path, prune: float = PRUNE_THRESHOLD, **options: Any
) -> "arcbeam.Graph":
    """The TLG of a SentencePiece model.

    model : path of the model; its pieces are the columns, the blank comes last
    words : the lexicon
    lm : 3-gram, ARPA
    prune : threshold below which n-grams go; 0 keeps all. The pruned LM is kept beside the model.
    options : of :meth:`arcbeam.Graph.build`
    """
    from arcbeam.graph.token_table import TokenTable
    from arcbeam.recipe.lexicon import Lexicon

    tokens = TokenTable.from_list(Pieces(model).tokens())
    lexicon = Lexicon.sentencepiece(words, model, tokens)
    if prune > 0:
        pruned = Path(model).with_name(f"{Path(model).stem}-{Path(lm).name.split('.arpa')[0]}-{prune:g}.arpa")
        if not pruned.exists():
            arpa_prune.prune_file(lm, pruned, prune)
        lm = pruned
    return arcbeam.Graph.build(tokens, lexicon, lm, **options)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--text", required=True, help="text that a missing model is trained from, plain or .xz")
    parser.add_argument("--lm", required=True, help="word 3-gram, ARPA, plain or .xz")
    parser.add_argument("--words", required=True, help="the vocabulary, a word a line")
    parser.add_argument("--pieces", type=int, default=512, help="SentencePiece pieces (512)")
    parser.add_argument("--model", help="SentencePiece model (beside OUT)")
    parser.add_argument("--prune", type=float, default=PRUNE_THRESHOLD, help="LM threshold; 0: the whole LM (2e-7)")
    parser.add_argument("--topology", default="compact", help="topology of T (compact)")
    parser.add_argument("--openfst", help="write the graph as an OpenFst file, too")
    parser.add_argument("--out", required=True, type=Path, help="graph to write, arcbeam's own format")
    args = parser.parse_args(argv)

    model = Path(args.model or args.out.with_name(f"spm{args.pieces}.model"))
    if not model.exists():
        train_sentencepiece(workload.read_lines(args.text, workload.TRAINING_LINES), args.pieces, model)
    words = Path(args.words).read_text(encoding="utf-8").split()
    graph = bpe_graph(model, words, args.lm, args.prune, progress=True, topology=args.topology, openfst=args.openfst)
    graph.save(args.out)
    print(graph.info())


if __name__ == "__main__":
    main()
