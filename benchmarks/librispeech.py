"""Writes the manifest of a LibriSpeech folder: ``python -m benchmarks.librispeech PATH/test-other``.

Any folder in LibriSpeech's layout will do. The manifest (JSON lines, as NeMo's) lies beside the audio unless ``--out``
says otherwise; experiments take it, or the folder itself, as ``--set corpus=``.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.data import corpus
from benchmarks.data.datasets import DataMissing


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.librispeech", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("folder", type=Path, help="such as LibriSpeech/test-other")
    parser.add_argument("--out", type=Path, help="the manifest (FOLDER/manifest.jsonl)")
    args = parser.parse_args(argv)
    try:
        found = corpus.librispeech(args.folder)
        path = args.out or args.folder / "manifest.jsonl"
        corpus.write_manifest(found.recordings, path)
    except (DataMissing, OSError, RuntimeError) as error:  # RuntimeError: soundfile's, of a file that is no audio
        print(f"error: {error}", file=sys.stderr)
        return 1
    words = sum(len(r.text.split()) for r in found.recordings)
    print(f"{path}: {len(found.recordings):,} utterances, {found.seconds / 3600:.2f} hours, {words:,} words")
    return 0


if __name__ == "__main__":
    sys.exit(main())
