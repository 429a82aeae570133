"""A few frames through every loop of transducers, for compute-sanitizer; --grow and --share as in sanitized.py."""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from arcbeam import BoostingTree, TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from arcbeam.transducer.decoder import FrameLoopingDecoder
from tests.gpu.sanitized import SHARE, step
from tests.transducer.arpas import random_arpa
from tests.transducer.beam_streams import Streams, check_chunks
from tests.transducer.equality import lattices_as_bytes, lists_as_bytes, same
from tests.transducer.networks import random_arrays, random_frames

KEPT = transducer_plan.LoopShape("kept", 128, 8, 2, 4)
SHAPES = (KEPT, replace(KEPT, teams=2), replace(KEPT, joins_alone=True), replace(KEPT, kernel="many"))
TREES = [BoostingTree([(1 + i, 2, 3), (4,), (2, 5 + i)], vocab_size=13) if i != 3 else None for i in range(5)]
NETWORKS = ({"layers": 2}, {"layers": 1, "durations": 4}, {"layers": 0, "context": 2})


def lists(arrays, batch, boost=None, **options):
    """What a beam finds, as bytes."""
    decoder = TransducerDecoder.from_arrays(arrays, 0, beam=4.0, **options)
    return lists_as_bytes(decoder.decode(batch, nbest=8, boost=boost))


def lattices(arrays, batch, boost=None, **options):
    """What a beam keeps for lattices where histories with the same two last tokens merge, and its lists, as bytes."""
    decoder = TransducerDecoder.from_arrays(arrays, 0, beam=4.0, merge_context=2, **options)
    found = decoder.decode(batch, nbest=8, boost=boost, lattice=True)
    return lists_as_bytes(found), lattices_as_bytes(found)


def chunks(arrays, batch, boost=None, **options):
    """Streams with a beam, whose states are those of the CPU."""
    both = [
        Streams(TransducerDecoder.from_arrays(arrays, 0, beam=4.0, device=device, **options), len(batch), boost)
        for device in ("cpu", "cuda")
    ]
    check_chunks(*both, batch, 1)


def models(folder):
    """Options of a beam with an n-gram model, LODR and the internal language model."""
    ngram, lodr = (random_arpa(Path(folder, f"{order}.arpa"), range(1, 13), order) for order in (3, 2))
    scales = {"ngram_lm_alpha": 0.4, "lodr_scale": -0.2, "ilm_scale": 0.15}
    return {"ngram_lm_model": ngram, "lodr_model": lodr, **scales}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        decode_all(models(folder))


def decode_all(fused) -> None:
    """`fused`: the options of :func:`models`."""
    if "--grow" in sys.argv:
        transducer_plan.first_room = lambda frames: 1
        transducer_plan.beam_rooms = lambda frames, most: (8 * most, 64, 2 * most, most)
        transducer_plan.lattice_rooms = lambda frames, most: (2 * most, 8 * most)
    batch = [random_frames(seed, frames) for seed, frames in enumerate((9, 0, 17, 1, 12))]
    batch[2] = batch[2].astype(np.float16)
    for network in NETWORKS:
        arrays = random_arrays(8, units=50, joint=70, **network)
        options = {"durations": [0, 1, 2, 5] if "durations" in network else None, "confidence": "entropy"}
        wanted = TransducerDecoder.from_arrays(arrays, 0, device="cpu", **options).decode(batch)
        searched = lists(arrays, batch, device="cpu", **options)
        with_models = lists(arrays, batch, TREES, device="cpu", **options, **fused)
        merged = lattices(arrays, batch, TREES, device="cpu", **options, **fused)
        for precision in ("float32", "bfloat16"):
            for number, shape in enumerate(SHAPES):
                transducer_plan.loop_shapes = transducer_plan.beam_shapes = lambda *_, shape=shape: (shape,)
                transducer_plan.STAGED_GROUPS = 1 if number % 2 else transducer_plan.ANY
                if not step(f"{network}, {precision}, {shape}"):
                    continue
                decoder = TransducerDecoder.from_arrays(arrays, 0, device="cuda", precision=precision, **options)
                found = decoder.decode(batch)
                if precision == "float32":
                    same(found, wanted)
                    assert lists(arrays, batch, device="cuda", **options) == searched
                    assert lists(arrays, batch, TREES, device="cuda", **options, **fused) == with_models
                    assert lattices(arrays, batch, TREES, device="cuda", **options, **fused) == merged
                    chunks(arrays, batch, settle_frames=4, **options)
                    chunks(arrays, batch, TREES, **options, **fused)
                else:
                    lists(arrays, batch, device="cuda", precision=precision, **options)
                    lattices(arrays, batch, TREES, device="cuda", precision=precision, **options, **fused)
                decoder.decode(batch, state=[one.state for one in found])
                boosted = decoder.decode(batch, boost=TREES)
                if precision == "float32":
                    twin = TransducerDecoder.from_arrays(arrays, 0, device="cpu", **options)
                    same(boosted, twin.decode(batch, boost=TREES))
                if number in (0, len(SHAPES) - 1):  # the other loop, in either kernel
                    other = {"device": "cuda", "precision": precision, **options}
                    framewise = FrameLoopingDecoder.from_arrays(arrays, 0, **other).decode(batch)
                    if precision == "float32":
                        same(framewise, wanted)
    print(f"decoded {len(batch)} utterances with {len(NETWORKS)} networks in {len(SHAPES)} shapes; share {SHARE}")


if __name__ == "__main__":
    main()
