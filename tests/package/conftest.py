"""A repository for tests of what git knows of one."""

import subprocess

import pytest


@pytest.fixture
def git(tmp_path):
    """Runs a command of git in the test's folder."""

    def run(*command):
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *command], cwd=tmp_path, check=True, capture_output=True)

    return run
