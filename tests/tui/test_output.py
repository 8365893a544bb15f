"""What reaches the terminal: at once where it reads, all of it and in order where it does not."""

from __future__ import annotations

import os
import pty
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

import pytest

from perfmon.tui.output import Output

Ends = tuple[int, TextIO]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A terminal's own side, and the file that programs write to."""
    terminal, program = pty.openpty()
    tty.setraw(program)
    with os.fdopen(program, "w", encoding="utf-8") as file:
        yield terminal, file
    os.close(terminal)


def read(terminal: int, size: int) -> str:
    told = b""
    while len(told) < size:
        told += os.read(terminal, size - len(told))
    return told.decode()


def test_what_a_terminal_takes_is_there_at_once_and_without_another_thread(ends: Ends) -> None:
    terminal, file = ends
    before = threading.active_count()
    output = Output(file)
    output.write("a line, ")
    output.write("and ● one more")
    assert threading.active_count() == before
    assert read(terminal, len("a line, and ● one more".encode())) == "a line, and ● one more"
    output.stop()


def test_a_terminal_that_does_not_read_holds_up_nobody_and_loses_nothing(ends: Ends) -> None:
    terminal, file = ends
    output = Output(file)
    texts = [f"{at:06d}●".ljust(9_000, ".") + "\n" for at in range(20)]  # more than it holds without being read
    for text in texts:
        output.write(text)
    whole = "".join(texts)
    assert read(terminal, len(whole.encode())) == whole
    output.write("after that")
    assert read(terminal, len("after that")) == "after that"
    output.stop()


def test_the_others_who_have_the_terminal_are_blocked_by_it_as_ever(ends: Ends) -> None:
    _, file = ends
    output = Output(file)
    output.write("x")
    assert os.get_blocking(file.fileno())
    output.stop()


def test_a_file_that_is_no_terminal_is_written_by_the_thread() -> None:
    end, begin = os.pipe()
    with os.fdopen(begin, "w", encoding="utf-8") as file:
        output = Output(file)
        output.write("told ")
        output.write("all the same")
        output.stop()
    assert os.read(end, 100) == b"told all the same"
    os.close(end)


def test_a_terminal_that_hangs_up_is_no_error() -> None:
    terminal, program = pty.openpty()
    with os.fdopen(program, "w", encoding="utf-8") as file:
        output = Output(file)
        os.close(terminal)
        output.write("nobody reads this")
        output.stop()


def test_a_signal_in_the_middle_of_a_text_may_write_too(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, file = ends
    output = Output(file)
    write, done = os.write, False

    def interrupted(descriptor: int, data: bytes) -> int:
        nonlocal done
        if not done:
            done = True
            output.write("suspended ")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", interrupted)
    told: list[bool] = []

    def tell() -> None:
        output.write("and on")
        told.append(True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    thread.join(20.0)
    assert told
    assert read(terminal, len("suspended and on")) == "suspended and on"
    with suppress(OSError):
        output.stop()


def test_it_ends_once_all_is_written(ends: Ends) -> None:
    terminal, file = ends
    output = Output(file)
    text = "y" * 200_000
    output.write(text)
    heard: list[str] = []

    def slow() -> None:
        time.sleep(0.05)
        heard.append(read(terminal, len(text)))

    reader = threading.Thread(target=slow)
    reader.start()
    output.stop()
    reader.join()
    assert heard == [text]
