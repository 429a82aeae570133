from typing import Self

from arcbeam.ctc.gpu.searches._search import SearchKind
from arcbeam.gpu._cuda import Context

class Launches:
    def __new__(cls, context: Context, kind: SearchKind) -> Self: ...
