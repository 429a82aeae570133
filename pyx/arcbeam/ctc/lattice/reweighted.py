"""A lattice with other costs: all its paths stay, and another one may be the best."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.ctc.lattice._lattices import LINK, Lattices
from arcbeam.ctc.lattice.best_paths import best_path, best_to_states
from arcbeam.ctc.lattice.lattice import Lattice

Floats = npt.NDArray[np.float64]


def reweighted(lattice: Lattice, link_costs: Floats, end_costs: Floats) -> Lattice:
    """The lattice with these costs of links and of ending in each token, +inf where no path ends.

    Its `scores` are minus these costs; their parts, such as `graph_scores`, are those of before. Probabilities are of
    the costs themselves: its `posterior_scale` is 1.
    """
    if not lattice.num_tokens:
        return lattice
    links = np.empty(lattice.num_links, LINK)
    for name in ("source", "target", "arc"):
        links[name] = lattice.links[name]
    sources, targets = links["source"].astype(np.int64), links["target"].astype(np.int64)
    best = best_to_states(0, sources, targets, link_costs, lattice.num_tokens)
    links["slack"] = (best[sources] + link_costs) - best[targets]
    arrays: dict[str, Any] = dict(lattice._arrays)
    ends = (best + end_costs)[lattice.num_tokens - len(arrays["end_extras"]) :]
    total = float(ends.min())
    end = lattice.num_tokens - len(ends) + int(np.argmin(ends))
    arrays |= {"costs": best, "links": links, "end_extras": ends - total, "total_cost": total}
    arrays["best"] = best_path(links, end)
    batch = replace(
        lattice._whole_batch("reweighted"),
        lattices=Lattices.of_arrays([arrays]),
        posterior_scale=1.0,
        lattice_beam=math.inf,
        **lattice._of_its_own,
    )
    return Lattice(batch, 0)
