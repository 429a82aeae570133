from typing import Self

from arcbeam.gpu._cuda import Context

LARGEST: int

class DeviceMemory:
    def __new__(cls, context: Context) -> Self: ...
    @property
    def ordinal(self) -> int: ...
    def why_not(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], value_bytes: int
    ) -> tuple[str, str] | None: ...
