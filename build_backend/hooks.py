"""The build backend that pip calls: setuptools', which on a machine with a GPU also needs nvcc and the like."""

import cuda_build
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  the hooks that stay as they are


def get_requires_for_build_wheel(config_settings=None):
    return build_meta.get_requires_for_build_wheel(config_settings) + cuda_build.requirements()


def get_requires_for_build_editable(config_settings=None):
    return build_meta.get_requires_for_build_editable(config_settings) + cuda_build.requirements()
