import numpy as np
import numpy.typing as npt

def aggregated(
    confidences: npt.NDArray[np.float32],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    aggregation: str,
) -> npt.NDArray[np.float32]: ...
