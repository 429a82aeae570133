"""One decode on both engines: the CPU's bytes on a GPU, which is emulated, under a schedule of its threads."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from arcbeam import CtcDecoder
from tests.decode.emulated_gpu import EmulatedGpu, Shape, scheduled
from tests.decode.equality import same
from tests.decode.lattices import lattices, packed

WORK = ("frames", "tokens", "leaving_arcs", "admitted")


class Seen(NamedTuple):
    """What a decode on the GPU took: its launches, its statistics, and bytes of the token log."""

    launches: int
    stats: Any
    token_log: int


def check(
    graph: Any,
    batch: Sequence[Any],
    *,
    boost: Any = None,
    where: dict[str, Any] | None = None,
    room: Any = None,
    shape: Shape | None = None,
    schedule: dict[str, Any] | None = None,
    arrivals: Sequence[int] = (),
    parts: tuple[int, ...] = (),
    figures: dict[str, Any] | None = None,
    prepare: Any = None,
    **options: Any,
) -> Seen:
    """Decodes on both, and compares hypotheses, lattices where there is a `lattice_beam`, and the work.

    Parameters
    ----------
    where
        Options of the decoder on the GPU alone.
    room, shape, schedule, figures
        See `tests.decode.emulated_gpu.scheduled`.
    parts, arrivals
        Bytes of parts, see `EmulatedGpu.send_in_parts`; and after how many scheduling points they arrive.
    prepare
        Called with the GPU and its decoder before it decodes.
    """
    requested = {} if boost is None else {"boost": boost}
    options = {name: value for name, value in options.items() if (name, value) != ("lattice_beam", None)}
    cpu = CtcDecoder(graph, device="cpu", threads=1, **options)
    wanted, stats = cpu.decode(batch, **requested), cpu.stats
    of_cpu = _lattices(cpu, batch, **requested) if "lattice_beam" in options else None
    with scheduled(schedule, room=room, shape=shape, **figures or {}) as gpu:
        if parts:
            gpu.send_in_parts(*parts)
        seen = _on_gpu(gpu, graph, options | (where or {}), batch, list(arrivals), prepare, requested, wanted, of_cpu)
    for name in WORK:
        assert getattr(seen.stats, name) == getattr(stats, name), name
    if options.get("language_model") is not None and of_cpu is None:
        assert seen.stats.lookups == stats.lookups
    return seen


def _lattices(decoder: CtcDecoder, batch: Sequence[Any], **requested: Any) -> list[bytes]:
    return [packed(lattice) for lattice in lattices(decoder, batch, **requested)]


def _on_gpu(
    gpu: EmulatedGpu, graph: Any, options: dict[str, Any], batch: Any, arrivals: list[int], prepare: Any,
    requested: Any, wanted: Any, of_cpu: Any,
) -> Seen:  # fmt: skip
    decoder = CtcDecoder(graph, device="cuda", **options)
    if prepare is not None:
        prepare(gpu, decoder)
    if arrivals:
        gpu.send_while_kernels_run(arrivals)
    if of_cpu is None:
        found = decoder.decode(batch, **requested)
        same(found, wanted)
        assert [(h.rescoring_score, h.boosts) for h in found] == [(h.rescoring_score, h.boosts) for h in wanted]
    else:
        assert _lattices(decoder, batch, **requested) == of_cpu
    return Seen(len(gpu.launches), decoder.stats, decoder.memory().token_log)
