from typing import Self

from arcbeam.gpu._launch import Stream

class DeviceLooks:
    def __new__(cls, stream: Stream) -> Self: ...
