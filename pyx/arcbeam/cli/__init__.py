"""The ``arcbeam`` command. Its packages (extra ``cli``) are imported when it runs, not with arcbeam.

May import: cli/transcribe, core, ctc, files, jobs, report.
"""

import sys
from importlib import import_module

#: Packages that every command needs. The commands that use jiwer or kaldiio check for these themselves.
REQUIRED = ("typer", "rich")
MISSING = "error: the arcbeam command needs the package {package}, which is not installed: pip install typer rich"
INTERRUPTED = 130
ERROR = 1


def main() -> None:
    """Run the command line and exit: 0 for success, 1 for an error reported in one line, 2 usage, 130 interrupted."""
    try:
        for package in REQUIRED:
            try:
                import_module(package)
            except ModuleNotFoundError:
                print(MISSING.format(package=package), file=sys.stderr)
                raise SystemExit(ERROR) from None
        from arcbeam.cli.app import app

        app(prog_name="arcbeam")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
