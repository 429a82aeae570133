"""``python -m benchmarks.pack``: see `benchmarks.pack.packing`."""

import sys

from benchmarks.pack.packing import main

if __name__ == "__main__":
    sys.exit(main())
