"""How many examples a test of hypothesis takes where it says so itself."""

import os

from tests.simt.build import LONG

WITH_EVERY_CHANGE = 20
INSTRUMENTED = 10  # extensions with a sanitizer are many times slower
IS_INSTRUMENTED = os.environ.get("HYPOTHESIS_PROFILE") == "sanitize"


def examples(count: int) -> int:
    """So many before a release; at most 20 with every change, and 10 on instrumented extensions."""
    if IS_INSTRUMENTED:
        return min(count, INSTRUMENTED)
    return count if LONG else min(count, WITH_EVERY_CHANGE)
