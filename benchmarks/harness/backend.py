"""Modules of the folder build_backend, which is no package: pip looks for the build there."""

import importlib
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "build_backend"


def load(name: str) -> Any:
    """The module ``build_backend/NAME.py``."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
