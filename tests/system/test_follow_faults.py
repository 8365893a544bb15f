"""Logs whose file system fails for a while, or which are more than a process may have open: the real reader copes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from terminals import wait

from perfmon.core.errors import InputError
from perfmon.core.model import Block
from perfmon.recording.format import open_recording

pytestmark = [pytest.mark.system, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]

_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Calls about the file that is named in SHAKY fail as the control file says: "CALL ERRNO". */
static int fails(const char *call, int fd, const char *path) {
    char link[64], name[4096], word[32];
    int number = 0, kept = errno;
    if (path == NULL) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(link, name, sizeof name - 1);
        name[size < 0 ? 0 : size] = 0;
        path = name;
    }
    const char *shaky = getenv("SHAKY");
    if (shaky == NULL || strcmp(path, shaky) != 0) return 0;
    FILE *control = fopen(getenv("CONTROL"), "re");
    if (control == NULL) { errno = kept; return 0; }
    int found = fscanf(control, "%31s %d", word, &number) == 2 && strcmp(word, call) == 0;
    fclose(control);
    errno = found ? number : kept;
    return found;
}
#define REAL(name) static __typeof__(name) *real; if (real == NULL) real = dlsym(RTLD_NEXT, #name)
ssize_t pread64(int fd, void *to, size_t size, off64_t at) {
    REAL(pread64); return fails("read", fd, NULL) ? -1 : real(fd, to, size, at);
}
ssize_t pread(int fd, void *to, size_t size, off_t at) {
    REAL(pread); return fails("read", fd, NULL) ? -1 : real(fd, to, size, at);
}
int fstat64(int fd, struct stat64 *to) { REAL(fstat64); return fails("fstat", fd, NULL) ? -1 : real(fd, to); }
int fstat(int fd, struct stat *to) { REAL(fstat); return fails("fstat", fd, NULL) ? -1 : real(fd, to); }
int stat64(const char *path, struct stat64 *to) { REAL(stat64); return fails("stat", -1, path) ? -1 : real(path, to); }
int stat(const char *path, struct stat *to) { REAL(stat); return fails("stat", -1, path) ? -1 : real(path, to); }
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that lets calls about one file fail."""
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(_SHIM)
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(folder / "shim.so"), str(folder / "shim.c"), "-ldl"]
    subprocess.run(command, check=True)
    return folder / "shim.so"


class Recorded:
    """A recording that is made by a process of its own."""

    def __init__(self, folder: Path, *logs: Path, limits: tuple[int, int] | None = None, **environment: str) -> None:
        self.file, self._errors = folder / "out.pmrec", folder / "errors"
        limited = [] if limits is None else ["prlimit", "--nofile={}:{}".format(*limits)]
        command = [*limited, sys.executable, "-m", "perfmon", "record", *map(str, logs), "-o", str(self.file)]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stderr=errors,
                env={**os.environ, **environment},
            )

    @property
    def messages(self) -> str:
        """What it shows."""
        return self._errors.read_text()

    @property
    def lines(self) -> list[str]:
        """The lines that are in the file."""
        try:
            blocks = [frame.item for frame in open_recording(self.file).frames()]
        except (InputError, FileNotFoundError):  # nothing is in it yet
            return []
        return [line for item in blocks if isinstance(item, Block) for line in item.data.decode().splitlines()]

    def close(self) -> int:
        """Stop it; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("call", ["read", "fstat", "stat"])
def test_a_file_system_that_fails_for_a_while_loses_and_doubles_nothing(
    shim: Path, tmp_path: Path, call: str, number: int
) -> None:
    log, control = tmp_path / "run.log", tmp_path / "control"
    log.write_text("line 0\n")
    made = Recorded(tmp_path, log, LD_PRELOAD=str(shim), SHAKY=str(log), CONTROL=str(control))
    try:
        wait(lambda: made.lines == ["line 0"], made.messages)
        for at in (1, 2):
            (tmp_path / "new").write_text(f"{call} {number}\n")
            (tmp_path / "new").rename(control)
            with log.open("a") as file:
                file.write(f"line {2 * at - 1}\n")
            wait(lambda at=at: made.messages.count(os.strerror(number)) >= at, made)  # type: ignore[misc]
            assert "Traceback" not in made.messages
            control.unlink()
            with log.open("a") as file:
                file.write(f"line {2 * at}\n")
            wait(lambda at=at: f"line {2 * at}" in made.lines, made)  # type: ignore[misc]
        assert made.close() == 0
        assert made.lines == [f"line {at}" for at in range(5)]
        assert made.messages.count(os.strerror(number)) == 2
    finally:
        made.process.kill()


@pytest.fixture
def many(tmp_path: Path) -> list[Path]:
    """More logs than the usual limit of open files."""
    logs = [tmp_path / "logs" / f"node{at // 50}" / f"rank{at}.log" for at in range(1200)]
    for log in logs:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("line 0\n")
    return logs


def test_more_logs_than_the_usual_limit_of_open_files(many: list[Path], tmp_path: Path) -> None:
    made = Recorded(tmp_path, tmp_path / "logs", limits=(1024, 4096))
    try:
        wait(lambda: len(made.lines) == 1200, made)
        for log in many:
            with log.open("a") as file:
                file.write("line 1\n")
        wait(lambda: len(made.lines) == 2400, made)
        assert made.close() == 0
        assert sorted(made.lines) == ["line 0"] * 1200 + ["line 1"] * 1200
        assert "2,400 lines" in made.messages
    finally:
        made.process.kill()


def test_more_logs_than_may_be_open_are_one_message(many: list[Path], tmp_path: Path) -> None:
    made = Recorded(tmp_path, tmp_path / "logs", limits=(256, 256))
    try:
        wait(lambda: "too many open files" in made.messages, made)
        wait(lambda: len(made.lines) > 100, made)
        assert made.close() == 0
        assert made.messages.count("too many open files") == 1
    finally:
        made.process.kill()
