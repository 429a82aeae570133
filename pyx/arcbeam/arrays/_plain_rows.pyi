import numpy as np
import numpy.typing as npt

def plain_rows(
    items: list[object] | tuple[object, ...], kind: type, table: npt.NDArray[np.int64], columns: int, exact: bool
) -> int: ...
