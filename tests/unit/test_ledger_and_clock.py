"""The time breakdown of logs whose clock covers a part of them only."""

from __future__ import annotations

from perfmon.pipeline.offline import diagnose_texts

_HEAD = (
    "2026-03-02 10:00:00,100 WARNING library.py:20 -- deprecated\n2026-03-02 10:00:02,100 INFO library.py:30 -- ready\n"
)


def _ledger(text: str) -> dict[str, float]:
    return {entry.cause: entry.lost_s for entry in diagnose_texts({"train.log": text}).ledger if entry.lost_s > 0}


def _steps(count: int, seconds: str) -> str:
    return "".join(
        f"Global Step: {n:6d}, loss = {2 / n:.4f} (611.1 examples/sec, {seconds})\n" for n in range(10, count, 10)
    )


def test_a_clock_that_ends_before_the_steps_begin_proves_no_startup() -> None:
    assert list(_ledger(_HEAD + _steps(2000, "0.21 sec/batch"))) == ["unaccounted"]
    assert list(_ledger(_HEAD + _steps(2000, "0.21 s/step"))) == ["unaccounted"]


def test_steps_that_fit_into_what_is_dated_leave_the_startup_as_it_is() -> None:
    assert "startup" in _ledger(_HEAD + _steps(50, "0.01 s/step"))


def test_steps_between_dated_lines_leave_the_startup_as_it_is() -> None:
    dated = "".join(
        f"2026-03-02 10:{n:02d}:00,000 INFO train.py:1 -- step {n * 10} loss {2 / n:.4f} 9.0 s/step\n"
        for n in range(10, 40)
    )
    assert _ledger(_HEAD + dated)["startup"] > 400


def test_a_bar_that_is_seen_empty_and_next_full_was_no_startup() -> None:
    ledger = _ledger("  0%|      | 0/760 [00:00<?, ?it/s]\n100%|######| 760/760 [26:32<00:00,  2.09s/it]\nsaved\n")
    assert ledger["productive"] > 1500
    assert ledger.get("startup", 0.0) < 10


def test_a_download_that_is_seen_empty_and_next_full_is_no_work() -> None:
    ledger = _ledger(
        "Downloading: 0%|      | 0/760 [00:00<?, ?it/s]\nDownloading: 100%|##| 760/760 [26:32<00:00,  2.09s/it]\n"
    )
    assert "productive" not in ledger
