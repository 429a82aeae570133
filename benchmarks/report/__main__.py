"""``python -m benchmarks.report``: see `benchmarks.report.report`."""

import sys

from benchmarks.report.report import main

if __name__ == "__main__":
    sys.exit(main())
