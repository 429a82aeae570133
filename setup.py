"""Builds arcbeam's extensions. Two tables and globs: a new stage is found by its place, not listed here.

``pyx/arcbeam/_NAME.pyx`` becomes the extension ``arcbeam._NAME``, compiled with every ``cpu_reference/NAME/*.cpp``.
Environment: ``ARCBEAM_WERROR=1`` turns warnings in our C++ into errors; ``ARCBEAM_SANITIZE=address`` (with
undefined behaviour) or ``thread`` builds an instrumented twin.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Contraction would fuse a product and a sum into one rounding and break the equality of the engines.
COMPILE_FLAGS = {
    "all": ["-std=c++17", "-O3", "-g1", "-ffp-contract=off", "-fno-math-errno", "-pthread"],
    "ours": ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wdouble-promotion"],
    "generated": ["-w"],
}
SANITIZE_FLAGS = {
    "": [],
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"],
    "thread": ["-fsanitize=thread", "-fno-omit-frame-pointer"],
}

ROOT = Path(__file__).resolve().parent
OURS = "cpu_reference" + os.sep
NO_COMPILER = (
    "arcbeam needs a C++17 compiler to build, and running {compiler!r} failed: {error}. "
    "Install one (Debian and Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install) "
    "or name yours in the environment variable CXX."
)


class BuildExt(build_ext):
    """Adds the strict warnings to our own sources only, and says plainly when there is no compiler."""

    def build_extensions(self):
        compile_one = self.compiler._compile
        werror = ["-Werror"] if os.environ.get("ARCBEAM_WERROR") == "1" else []

        def compile_with_warnings(obj, src, ext, cc_args, extra_postargs, pp_opts):
            ours = COMPILE_FLAGS["ours"] + werror if OURS in src else COMPILE_FLAGS["generated"]
            compile_one(obj, src, ext, cc_args, extra_postargs + ours, pp_opts)

        self.compiler._compile = compile_with_warnings
        self._try_compiler()
        super().build_extensions()

    def _try_compiler(self):
        compiler = getattr(self.compiler, "compiler_so_cxx", None) or self.compiler.compiler_so
        try:
            self.compiler.spawn([compiler[0], "--version"])
        except Exception as error:
            raise SystemExit(NO_COMPILER.format(compiler=compiler[0], error=error)) from None


def extensions():
    flags = COMPILE_FLAGS["all"] + SANITIZE_FLAGS[os.environ.get("ARCBEAM_SANITIZE", "")]
    headers = [str(p.relative_to(ROOT)) for d in ("cuda/shared", "cpu_reference") for p in (ROOT / d).rglob("*.hpp")]
    for pyx in sorted((ROOT / "pyx").rglob("_*.pyx")):
        sources = sorted((ROOT / "cpu_reference" / pyx.stem[1:]).glob("*.cpp"))
        yield Extension(
            ".".join(pyx.relative_to(ROOT / "pyx").with_suffix("").parts),
            sources=[str(p.relative_to(ROOT)) for p in [pyx, *sources]],
            include_dirs=["cuda", "cpu_reference"],
            depends=headers,
            language="c++",
            extra_compile_args=flags,
            extra_link_args=[f for f in flags if f.startswith("-fsanitize")] + ["-pthread"],
        )


setup(
    ext_modules=cythonize(
        list(extensions()),
        include_path=["pyx"],
        build_dir="build/cython",
        language_level=3,
        compiler_directives={"boundscheck": False, "wraparound": False, "embedsignature": True},
    ),
    cmdclass={"build_ext": BuildExt},
)
