import numpy as np
import numpy.typing as npt

def log_softmax(logits: npt.NDArray[np.int64], columns: int) -> npt.NDArray[np.float32]: ...
