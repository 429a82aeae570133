"""Builds arcbeam's extensions: ``ROOM/_NAME.pyx`` with the C++ of ``ROOM/_NAME`` and of ``cpu_reference/NAME``.

``docs/design/build.md`` lists the environment variables of CUDA.
"""

import multiprocessing
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

# CXX: the compiler. ARCBEAM_WERROR=1: warnings of our C++ are errors. ARCBEAM_SANITIZE=address or thread:
# an instrumented build. ARCBEAM_STAGES=1: also `_stages`, the stages of the search one by one, and the engines of a GPU
# where no driver can be called.
sys.path.insert(0, str(Path(__file__).resolve().parent / "build_backend"))
import cuda_build
import objects

# Contraction would fuse a product and a sum into one rounding and break the equality of the engines. Generated code
# takes half as long to compile at -O1; a .pyx that includes a header with loops of ours sets -O3 in its first line.
COMPILE_FLAGS = {
    "all": ["-std=c++17", "-g1", "-ffp-contract=off", "-fno-math-errno", "-pthread"],
    "ours": ["-O3", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wdouble-promotion"],
    "generated": ["-O1", "-w"],
}
# Undefined behaviour only in expressions of ours: generated code takes four times as long to compile with it.
SANITIZE_FLAGS = {
    "": {"ours": [], "generated": [], "linked": []},
    "address": {
        "ours": ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"],
        "generated": ["-O0", "-fsanitize=address", "-fno-omit-frame-pointer"],
        "linked": ["-fsanitize=address,undefined"],
    },
    "thread": {
        "ours": ["-O1", "-fsanitize=thread", "-fno-omit-frame-pointer"],
        "generated": ["-O1", "-fsanitize=thread", "-fno-omit-frame-pointer"],
        "linked": ["-fsanitize=thread"],
    },
}[os.environ.get("ARCBEAM_SANITIZE", "")]

# The stable ABI of the oldest Python that is supported: a build runs on that one and on all that come after. Python
# without the GIL has another ABI.
STABLE_ABI = None if sysconfig.get_config_var("Py_GIL_DISABLED") else "cp311"
STABLE_ABI_MACROS = [("Py_LIMITED_API", "0x030B0000"), ("CYTHON_LIMITED_API", "1")] if STABLE_ABI else []

# Of a function of Cython that makes tuples.
UNCHECKED = """        Py_INCREF(src[i]);
        if (unlikely(__Pyx_PyTuple_SET_ITEM(res, i, src[i]) < (0))) {"""
CHECKED = """        PyObject *one = src[i] ? src[i] : Py_None;
        Py_INCREF(one);
        if (unlikely(__Pyx_PyTuple_SET_ITEM(res, i, one) < (0))) {"""

ROOT = Path(__file__).resolve().parent
GENERATED = os.path.join("build", "cython")
SHARED = "arcbeam._cyutility"
HOW_TO_INSTALL = (
    "Debian and Ubuntu: apt-get install g++ python3-dev; Fedora: dnf install gcc-c++ python3-devel; "
    "macOS: xcode-select --install"
)
NO_COMPILER = (
    "arcbeam needs a C++17 compiler to build, and {command!r} does not work: {error}\n"
    "Install one (" + HOW_TO_INSTALL + ") or name yours in the environment variable CXX."
)
NO_HEADERS = (
    "arcbeam needs Python's C headers to build, and there is no {path}.\nInstall them (" + HOW_TO_INSTALL + ")."
)
TRIAL = "#include <string_view>\nstatic_assert(__cplusplus >= 201703L);\nstd::string_view trial() { return {}; }\n"


class BuildExt(build_ext):
    """Builds on all cores, adds the strict warnings to our own sources only, and says plainly what is missing."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or True

    def run(self):
        super().run()
        # A module that was renamed must not reach the wheel from an earlier build, nor be imported instead of one for
        # the stable ABI, whose ending Python tries last.
        package = Path("pyx" if self.inplace else self.build_lib, "arcbeam")
        outputs = self.get_output_mapping().values() if self.inplace else self.get_outputs()
        made = {Path(path).resolve() for path in outputs}
        for old in package.rglob("*.so"):
            if old.resolve() not in made:
                old.unlink()
        cuda_build.build_kernels(package / "kernels")

    def build_extensions(self):
        self._require_compiler_and_headers()
        self._compile, self.compiler._compile = self.compiler._compile, self._compile_unless_fresh
        self._link, self.compiler.link_shared_object = self.compiler.link_shared_object, self._link_ours_first
        # The largest first, so that no core waits for one at the end; of ours, what a file includes is not known.
        files = [(source, ext) for ext in self.extensions for source in ext.sources]
        files.sort(key=lambda file: (_is_generated(file[0]), -os.stat(file[0]).st_size))
        owners = dict(files)
        objects.compile_all(owners, lambda source: self._compile_one(source, owners[source]), _cores())
        for ext in self.extensions:
            ext.depends = self.compiler.object_filenames(ext.sources, output_dir=self.build_temp)
        super().build_extensions()  # links what has a newer object

    def _compile_one(self, source, ext):
        """As setuptools compiles the files of an extension, one after the other."""
        self.compiler.compile(
            [source],
            output_dir=self.build_temp,
            macros=ext.define_macros,
            include_dirs=ext.include_dirs,
            debug=self.debug,
            extra_postargs=ext.extra_compile_args,
        )

    def _compile_unless_fresh(self, obj, src, ext, cc_args, extra_postargs, pp_opts):
        flags = COMPILE_FLAGS["generated" if _is_generated(src) else "ours"]
        compiler = getattr(self.compiler, "compiler_so_cxx", None) or self.compiler.compiler_so
        has_ours = "-O3" in [*flags, *extra_postargs]
        extra_postargs = [*extra_postargs, *SANITIZE_FLAGS["ours" if has_ours else "generated"]]
        werror = ["-Werror"] if os.environ.get("ARCBEAM_WERROR") == "1" and not _is_generated(src) else []

        def compile_it(more):
            self._compile(obj, src, ext, cc_args, [*flags, *extra_postargs, *werror, *more], pp_opts)

        objects.compile_unless_fresh(obj, [*compiler, src, *cc_args, *flags, *extra_postargs, *pp_opts], compile_it)

    def _link_ours_first(self, made, *args, **options):
        """Of a function that several objects have from one header, the linker takes the first: ours is at -O3."""
        return self._link(sorted(made, key=lambda name: GENERATED in name), *args, **options)

    def _require_compiler_and_headers(self):
        compiler = getattr(self.compiler, "compiler_so_cxx", None) or self.compiler.compiler_so
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "trial.cpp")
            source.write_text(TRIAL)
            command = [*compiler, "-std=c++17", "-c", str(source), "-o", str(source.with_suffix(".o"))]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except OSError as error:
                raise SystemExit(NO_COMPILER.format(command=compiler[0], error=error.strerror)) from None
            except subprocess.CalledProcessError as error:
                raise SystemExit(NO_COMPILER.format(command=" ".join(command), error=error.stderr)) from None
        header = Path(sysconfig.get_path("include"), "Python.h")
        if not header.exists():
            raise SystemExit(NO_HEADERS.format(path=header))


def _is_generated(source):
    return source.startswith(GENERATED)


def extensions():
    flags = COMPILE_FLAGS["all"]
    no_driver_calls = cuda_build.why_no_driver_calls()
    yield Extension(
        SHARED,
        sources=[os.path.join("pyx", *SHARED.split(".")) + ".c"],
        define_macros=STABLE_ABI_MACROS,
        py_limited_api=bool(STABLE_ABI),
    )
    with_stages = os.environ.get("ARCBEAM_STAGES") == "1"
    if with_stages:
        yield _extension("arcbeam._stages", ROOT / "tests" / "stages" / "_stages.pyx", [], flags, ["."])
    for pyx in sorted((ROOT / "pyx").rglob("_*.pyx")):
        place = pyx.relative_to(ROOT / "pyx").with_suffix("").parts
        needs_cuda = pyx.stem == "_cydriver"
        is_engine = "gpu" in place[2:]
        if no_driver_calls and (needs_cuda or (is_engine and not with_stages)):
            continue  # cuda_build says so
        beside, twin = pyx.with_suffix(""), ROOT / "cpu_reference" / pyx.stem[1:]
        sources = [*sorted(beside.glob("*.cpp")), *sorted(twin.rglob("*.cpp"))]
        yield _extension(".".join(place), pyx, sources, flags, [cuda_build.find_header()] if needs_cuda else [])


def _extension(name, pyx, sources, flags, include_dirs=()):
    return Extension(
        name,
        sources=[str(p.relative_to(ROOT)) for p in [pyx, *sources]],
        include_dirs=["cuda", "cpu_reference", "pyx", *include_dirs],
        define_macros=STABLE_ABI_MACROS,
        py_limited_api=bool(STABLE_ABI),
        language="c++",
        extra_compile_args=flags,
        extra_link_args=[*SANITIZE_FLAGS["linked"], "-pthread"],
    )


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cython_jobs():
    """Processes that translate in parallel; 0 where they cannot be forked, or have no semaphores."""
    if _cores() == 1 or multiprocessing.get_all_start_methods()[0] != "fork":
        return 0
    try:
        multiprocessing.get_context("fork").Queue().close()
    except (ImportError, OSError):
        return 0
    return _cores()


def translated():
    """The extensions in C++, which `with` cannot crash: Cython passes a null to it where no traceback can be made.

    That happens in the stable ABI when there is no memory for one; `with` then gets None, as from Python.
    """
    made = cythonize(
        list(extensions()),
        include_path=["pyx"],
        build_dir="build/cython",
        nthreads=cython_jobs(),
        language_level=3,
        shared_utility_qualified_name=SHARED,
        compiler_directives={"boundscheck": False, "wraparound": False, "embedsignature": True},
    )
    for source in {source for extension in made for source in extension.sources if _is_generated(source)}:
        text = Path(source).read_text(encoding="utf-8")
        whole = text.replace(UNCHECKED, CHECKED)
        if whole != text:
            Path(source).write_text(whole, encoding="utf-8")
    return made


setup(
    packages=[*find_packages("pyx"), "arcbeam.demo_data"],
    package_dir={"": "pyx", "arcbeam.demo_data": "data/demo"},
    package_data={"": ["*.pyi", "page.*"], "arcbeam": ["py.typed"], "arcbeam.demo_data": ["*"]},
    exclude_package_data={
        "arcbeam.demo_data": ["*.flac"],  # decoding the demo needs its log-probs only
    },
    include_package_data=False,
    ext_modules=translated(),
    options={"bdist_wheel": {"py_limited_api": STABLE_ABI}} if STABLE_ABI else {},
    cmdclass={"build_ext": BuildExt},
)
