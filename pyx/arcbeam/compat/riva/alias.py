"""The names under which programs import riva-asrlib-decoder."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

NAME = "riva.asrlib.decoder.python_decoder"


def install() -> None:
    """Lets ``import riva.asrlib.decoder.python_decoder`` mean this module, from now on, in this process.

    Other packages below ``riva``, such as ``riva.client``, stay as they are. Where riva-asrlib-decoder is installed,
    this takes its place for what is imported afterwards.
    """
    module = sys.modules["arcbeam.compat.riva"]
    parts = NAME.split(".")
    parent: ModuleType | None = None
    for count in range(1, len(parts)):
        name = ".".join(parts[:count])
        try:
            package = importlib.import_module(name)
        except ModuleNotFoundError:
            package = ModuleType(name)
            package.__path__ = []
            sys.modules[name] = package
        if parent is not None:
            setattr(parent, parts[count - 1], package)
        parent = package
    sys.modules[NAME] = module
    setattr(parent, parts[-1], module)
