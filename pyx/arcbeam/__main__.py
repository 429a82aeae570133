"""``python -m arcbeam`` is ``arcbeam``."""

from arcbeam.cli import main

if __name__ == "__main__":
    main()
