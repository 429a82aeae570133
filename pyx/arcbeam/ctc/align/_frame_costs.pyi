import numpy as np
import numpy.typing as npt

def smallest_sums(
    log_probs: npt.NDArray[np.int64],
    reads: npt.NDArray[np.uint8],
    star: npt.NDArray[np.float32],
    scale: float,
    penalty: float,
    blank: int,
) -> npt.NDArray[np.float64]: ...
def log_probs_along(
    log_probs: npt.NDArray[np.int64], num_columns: int, columns: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]: ...
