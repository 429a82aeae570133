from typing import Self

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

class MapGuard:
    def __new__(cls, address: int, size: int) -> Self: ...
    @property
    def is_broken(self) -> bool: ...

class FileMap:
    def __new__(cls, file: int, size: int) -> Self: ...
    @property
    def address(self) -> int: ...
    @property
    def is_broken(self) -> bool: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def checksum(data: Buffer | npt.NDArray[np.uint8]) -> int: ...  # before 3.12 an array is no Buffer to mypy
