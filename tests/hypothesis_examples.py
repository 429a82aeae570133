"""How many examples a test of hypothesis takes where it says so itself."""

import os

from tests.simt.build import LONG


def examples(count: int) -> int:
    """So many before a release; half of them with every change, and a few on instrumented extensions."""
    if os.environ.get("HYPOTHESIS_PROFILE") == "sanitize":
        return min(count, 25)
    return count if LONG else count // 2
