"""Two decodes of one batch on the GPU, for a profiler to look at the second: ``python -m benchmarks.one_decode``.

It begins with so much room that nothing has to grow: each decode is one launch of the search.
"""

import argparse
import dataclasses
import time
from collections.abc import Sequence

from arcbeam.gpu.tuned import search_plan
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_decode", description=__doc__)
    parser.add_argument("--graph", default="spm512-3gram", help="of the benchmarks (spm512-3gram)")
    parser.add_argument("--set", default="workload-512", help="of the benchmarks (workload-512)")
    parser.add_argument("--batch", type=int, default=264, help="utterances (264)")
    parser.add_argument("--beam", type=float, default=17.0, help="natural log (17)")
    parser.add_argument("--max-active", type=int, default=10_000, help="tokens that leave a frame (10 000)")
    args = parser.parse_args(argv)
    gpu.require()
    dataset = gpu.cycled(datasets.load(args.set, args.batch), args.batch)
    arrays = gpu.send(dataset.utterances)
    room = dataclasses.replace(search_plan.first_room(args.max_active), spill_states=1 << 15, log_entries=1 << 21)
    search_plan.first_room = lambda max_active: room
    decoder = gpu.decoder(graphs.get(args.graph).graph, SearchOptions(args.beam, args.max_active))
    decoder.decode(arrays)
    began = time.perf_counter()
    decoder.decode(arrays)
    took, work = time.perf_counter() - began, decoder.stats
    print(
        f"{took * 1e3:.3f} ms, RTFx {dataset.seconds / took:,.0f}; a frame: {1e6 * took / work.frames:.3f} us of the "
        f"device, {work.tokens / work.frames:.1f} tokens, {work.leaving_arcs / work.frames:.0f} arcs leaving, "
        f"{work.admitted / work.frames:.1f} admitted"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
