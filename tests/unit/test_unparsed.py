"""Samples of lines that nothing recognised come of the scan that was made anyway."""

from __future__ import annotations

from perfmon.core.model import Block
from perfmon.monitor.source_health import UnparsedSamples
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.scan.scanner import Scanner

READ = b"10:00:01 INFO [ckpt] write.done step=1 write_ms=852.3\n"
ACCESS = b'INFO:     10.0.0.4:39830 - "POST /v1/completions HTTP/1.1" 200 OK\n'


def samples(*blocks: bytes, every_s: float = 2.0) -> tuple[str, ...]:
    """What is kept of blocks that come one after the other."""
    scanner, unparsed, line = Scanner(load_packs()), UnparsedSamples(), 1
    for number, data in enumerate(blocks):
        scanned = scanner.scan(data, 0, line)
        unparsed.look(Block(data, 0, line), scanned, every_s * number)
        line += scanned.lines
    return unparsed.lines


def test_the_first_line_of_a_block_that_nothing_recognised_is_kept() -> None:
    assert samples(READ + b"\nsome words\nothers\n", b"10:00:02 more\x1b[0m\n" + READ) == (
        "some words",
        "10:00:02 more",
    )


def test_it_looks_now_and_then_and_at_a_few_lines() -> None:
    assert samples(b"one\n", b"two\n", every_s=1.0) == ("one",)
    assert samples(8 * READ + b"one\n") == ()


def test_lines_that_say_what_others_said_are_no_sample() -> None:
    assert samples(4 * ACCESS + b"words\n", 3 * ACCESS + b"others\n") == ("words", "others")
