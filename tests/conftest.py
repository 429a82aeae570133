"""What every test may use: the folder of the larger speech sets, one way to run hypothesis, and the layers of tests.

Without options the tests of every change run; ``-m "kernels and not long"`` those of them that run kernels in the
emulator, which compiles these first. ``-m "data and not long"`` runs those that read the larger speech sets.
``--long`` runs all that there is: also every schedule of a kernel, every mutant, all architectures.
"""

import gc
import os
import re
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest

try:
    from hypothesis import settings
except ModuleNotFoundError:  # tests on a GPU get by without it
    settings = None

from tests.hypothesis_examples import INSTRUMENTED, WITH_EVERY_CHANGE

ROOT = Path(__file__).resolve().parent.parent


def why_no_gpu() -> str | None:
    """Why no device can be used here. Kernels of arcbeam's own need not have been built."""
    try:
        from arcbeam.core.errors import CudaError, MissingDependencyError
        from arcbeam.gpu import _cuda
    except ImportError as error:
        return str(error)
    try:
        return None if _cuda.device_count() else "the driver shows no device"
    except (CudaError, MissingDependencyError) as error:
        return str(error)


def why_no_nemo() -> str | None:
    missing = [name for name in ("torch", "omegaconf", "nemo") if find_spec(name) is None]
    return f"missing packages: {', '.join(missing)}" if missing else None


# Files that could only skip here, and why.
NOT_COLLECTED = {
    files: reason for files, reason in [("gpu/test_*", why_no_gpu()), ("peers/test_nemo_*", why_no_nemo())] if reason
}
collect_ignore_glob = [str(ROOT / "tests" / files) for files in NOT_COLLECTED]


def pytest_report_header() -> list[str]:
    return [f"not collected: tests/{files}: {reason}" for files, reason in NOT_COLLECTED.items()]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", action="store_true", help="the tests of a release: nothing is left out, an hour and more"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--long"):
        os.environ["ARCBEAM_LONG_TESTS"] = "1"
        if config.option.markexpr == "not long and not data":
            config.option.markexpr = ""
        if settings is not None and "HYPOTHESIS_PROFILE" not in os.environ:
            settings.load_profile("release")


def pytest_itemcollected(item: pytest.Item) -> None:
    fixtures = getattr(item, "fixturenames", ())
    if "arcbeam_data" in fixtures:
        item.add_marker("data")
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if (
        "fake_library" in fixtures
        or any(isinstance(value, str) and value == "cuda" for value in params)
        or re.search(r"/tests/(simt|rescore)/|_(nvcc|emulated|cuda_engine\w*)\.py$", item.path.as_posix())
    ):
        item.add_marker("kernels")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is there once all tests are known stays: a collection of garbage, which tests make, passes it over."""
    gc.collect()
    gc.freeze()


# A shell starts its background jobs deaf to SIGINT, and children inherit that; tests interrupt decodes and commands.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test times anything, so no example has a deadline; the same examples in every run, so that a red run stays red.
# --long takes more of them. HYPOTHESIS_PROFILE=explore looks for new ones; =sanitize is for instrumented extensions.
if settings is not None:
    settings.register_profile("release", deadline=None, derandomize=True, print_blob=True)
    settings.register_profile("repeatable", settings.get_profile("release"), max_examples=WITH_EVERY_CHANGE)
    settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
    settings.register_profile("sanitize", deadline=None, derandomize=True, max_examples=INSTRUMENTED)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(scope="session")
def arcbeam_data() -> Path:
    """Folder of the larger speech sets, named by the environment variable ARCBEAM_DATA; the test skips without it."""
    folder = os.environ.get("ARCBEAM_DATA")
    if not folder:
        pytest.skip("ARCBEAM_DATA is not set: it names the folder of the larger speech sets")
    if not Path(folder).is_dir():
        pytest.skip(f"ARCBEAM_DATA={folder} is not a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def demo_data() -> Path:
    """Folder of the real recordings that come with the source."""
    return ROOT / "data" / "demo"


@pytest.fixture
def kept_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """No array may be copied from the GPU."""

    def refuse(*_: object) -> None:
        raise AssertionError("an array was copied to the host")

    monkeypatch.setattr("arcbeam.arrays.batches.read_ranges", refuse)
