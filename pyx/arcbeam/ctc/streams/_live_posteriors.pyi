import numpy as np
import numpy.typing as npt

from arcbeam.ctc.boost._boost import BoostList
from arcbeam.ctc.streams.sentences import SavedSearch
from arcbeam.graph._words import WordReader

def word_posteriors(
    reader: WordReader,
    boost: BoostList | None,
    search: SavedSearch,
    unsettled: npt.NDArray[np.uint32],
    num_stable: int,
    scale: float,
) -> npt.NDArray[np.float64]: ...
