"""Names are masked wherever they stand, everywhere alike, and ordinary words stay."""

from __future__ import annotations

import getpass
import socket

import pytest

from perfmon.reports.anonymize import Redactor, map_texts, texts


def result_of(*lines: str, logs: tuple[str, ...] = ()) -> list[str]:
    """The lines of one report, masked."""
    redactor = Redactor()
    for log in logs:
        redactor.log(log)
    for line in lines:
        redactor.learn(line)
    return [redactor.text(line) for line in lines]


@pytest.mark.parametrize(
    "text",
    [
        "http://jdoe:pw@a100-0.acme.com:8000/v1/x?y=1",
        "ssh jdoe@a100-0:/home/jdoe/x.log",
        "s3://acme-bucket/runs/a.pt",
        "host=a100-0",
        "Aug 21 10:00:00 a100-0 sshd[12]: hi",
        "'hostname': 'a100-0.acme.com'",
        "/home/jdoe/acme/x",
        "~/acme/x and ../acme",
        "outputs/acme/x.log",
        "10.0.0.5 fe80::1 2001:db8::ff",
        "user=jdoe",
    ],
)
def test_names_are_masked(text: str) -> None:
    [masked] = result_of(text)
    for name in ("jdoe", "acme", "a100", "10.0.0", "fe80", "db8", "pw@", "home"):
        assert name not in masked, masked


@pytest.mark.parametrize(
    "text",
    [
        "12:00:01.250 tokens/s 12 samples/sec N/A and/or 3.5 it/s",
        "torch.nn.Module vllm.engine.async_llm",
        "queue_ms above 1000: queue_ms 13.4 s",
        "t=1240.123456 step 3/10 2026-08-21T14:00:00",
        "http://localhost:8000 on stdin",
        "inference log: the server side is inferred",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert result_of(text) == [text]


def test_a_name_has_the_same_mask_everywhere_even_before_it_was_known() -> None:
    lines = result_of(
        "a100-0 died", "jdoe slept", "host=a100-0 ip=10.0.0.5", "/home/jdoe/x", "10.0.0.5 again, 10.0.0.6 too"
    )
    assert lines[0].split()[0] == lines[2].split()[0].removeprefix("host=")
    assert lines[1].startswith("user-")
    assert lines[2].endswith("ip=ip-1")
    assert lines[4] == "ip-1 again, ip-2 too"


def test_a_service_that_is_called_like_a_thing_is_masked_in_its_place_only() -> None:
    url, words = result_of("http://inference:8000/update_weights", "no inference log")
    assert "inference" not in url
    assert words == "no inference log"


def test_logs_have_the_masks_of_paths_by_name_and_by_base_name() -> None:
    lines = result_of(
        "runs/7/trainer.log: cut",
        "trainer.log stopped",
        "my-trainer.log stays",
        logs=("runs/7/trainer.log", "stdin"),
    )
    assert lines == ["path-1: cut", "path-1 stopped", "my-trainer.log stays"]


def test_this_machine_and_user_are_known() -> None:
    host, user = socket.gethostname(), getpass.getuser()
    masked = result_of(f"({host}) ({user})")[0]
    assert host not in masked or len(host) < 3
    assert user not in masked or len(user) < 3 or user in ("root", "user", "ubuntu", "nobody")


def test_a_long_line_is_no_burden() -> None:
    for part in ("a.", "a/", "1:", "a@", "://", "host=", "a-"):
        assert len(result_of(part * 100_000)[0]) < 40_000


def test_values_of_any_shape_are_changed() -> None:
    value = {"a": ("a", 1, ("a",)), "b": ((1.0, 2.0),)}
    assert map_texts(value, str.upper) == {"A": ("A", 1, ("A",)), "B": ((1.0, 2.0),)}
    assert list(texts(value)) == ["a", "a", "a", "b"]
