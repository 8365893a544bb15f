"""Runs the tests of the compiled search with a build that stops at any access out of bounds and any undefined step.

    python tests/sanitized.py [PYTEST-ARGUMENTS]

Needs gcc and its libasan and libubsan.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("tests/properties/test_native.py", "tests/properties/test_scan.py", "tests/unit/test_packs.py")
FLAGS = ("-g", "-O1", "-fPIC", "-shared", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all")


def build(folder: str) -> None:
    """Compiles the search with sanitizers."""
    include = sysconfig.get_path("include")
    source, target = ROOT / "sources" / "_scanning.c", f"{folder}/_scanning.abi3.so"
    result = ["gcc", *FLAGS, "-fsanitize=address,undefined", f"-I{include}", str(source), "-o", target]
    subprocess.run(result, check=True)


def library(name: str) -> str:
    """Path of a runtime library of the compiler."""
    return subprocess.run(
        ["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True
    ).stdout.strip()


def run_with(folder: str, arguments: list[str]) -> int:
    """Runs pytest in this process, with the module from `folder` in place of the installed one."""
    import pytest

    spec = importlib.util.spec_from_file_location("perfmon.sources._scanning", f"{folder}/_scanning.abi3.so")
    if spec is None or spec.loader is None:
        return 2
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[spec.name] = module
    return int(pytest.main(["-q", "-p", "no:cacheprovider", *(arguments or TESTS)]))


def main() -> int:
    """Builds, then starts itself anew under the sanitizer's runtime."""
    folder = os.environ.get("SANITIZED")
    if folder:
        return run_with(folder, sys.argv[1:])
    with tempfile.TemporaryDirectory() as made:
        build(made)
        sanitizers = {
            "SANITIZED": made,
            "PERFMON_NATIVE": "1",
            "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
            "ASAN_OPTIONS": "detect_leaks=0",  # an interpreter never gives all back
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": str(ROOT),
        }
        return subprocess.run(
            [sys.executable, __file__, *sys.argv[1:]], env=os.environ | sanitizers, cwd=ROOT, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
