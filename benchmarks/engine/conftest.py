"""After ``pytest benchmarks --benchmark-only``: the times beside the stored ones.

pytest-benchmark compares with runs of one's own: ``--benchmark-autosave``, then ``--benchmark-compare``.
"""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    session = getattr(config, "_benchmarksession", None)
    known = [b for b in getattr(session, "benchmarks", []) if "stored_microseconds" in b.extra_info and b.stats.data]
    if not known:
        return
    terminalreporter.section("beside benchmarks/results, maybe of another machine")
    for b in known:
        now, stored = 1e6 * b.stats.median, b.extra_info["stored_microseconds"]
        terminalreporter.line(f"{b.name:24} {now:9.1f} us now, {stored:9.1f} us stored, ratio {now / stored:5.2f}")
