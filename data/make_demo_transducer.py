"""Makes the transducer of the demo, and its encoder output for the demo's recordings, of weights that were trained.

    python -m data.train_transducer --data DATA --lines 400000 --size demo --tdt --minutes 6.5 \\
        --tokenizer pieces.model --out tdt.npz
    python -m data.make_demo_transducer tdt.npz --tokenizer pieces.model --folder data/demo

transducer.npz holds the weights of prediction and joint network as float16, and the options of a decoder, as
`arcbeam.TransducerDecoder.from_arrays` reads them. encoder_output.npz holds one array for each recording, float16
[frames of 80 ms, features]. The encoder itself is not among the files: its input is the output of a CTC model
(log_probs.npz), so it decodes nothing without that model.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data import speech_transducer


def options_of(arrays: Mapping[str, Any], tokenizer: str) -> dict[str, Any]:
    """What a decoder needs besides the weights; a TDT has more outputs than pieces and the blank."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=tokenizer)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    options = {
        "blank_id": len(pieces),
        "activation": "relu",
        "frame_shift": speech_transducer.FRAME_SHIFT,
        "tokenizer": np.array(pieces),
    }
    if len(arrays["output_weight"]) > len(pieces) + 1:
        options["durations"] = np.array(speech_transducer.DURATIONS)
    return options


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("weights", type=Path, help="of data.train_transducer")
    parser.add_argument("--tokenizer", type=Path, required=True, help="SentencePiece model that it was trained with")
    parser.add_argument("--folder", type=Path, required=True, help="of the demo, which holds log_probs.npz")
    args = parser.parse_args(argv)
    with np.load(args.weights) as file:
        arrays = {name: file[name] for name in file}
    ours = {name: value for name, value in arrays.items() if not name.startswith("light.")}
    np.savez_compressed(args.folder / "transducer.npz", **ours, **options_of(arrays, str(args.tokenizer)))
    with np.load(args.folder / "log_probs.npz") as file:
        log_probs = np.split(file["log_probs"], np.cumsum(file["lengths"])[:-1])
        ids = file["ids"].tolist()
    encoded = speech_transducer.encode(speech_transducer.load_light(arrays), log_probs)
    halves = {name: rows.astype(np.float16) for name, rows in zip(ids, encoded, strict=True)}
    np.savez_compressed(args.folder / "encoder_output.npz", **halves)
    for name in ("transducer.npz", "encoder_output.npz"):
        print(f"{name}: {(args.folder / name).stat().st_size / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
