"""Signatures prove themselves: their examples hold, their files pass the lint, and each lint can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

import perfmon.rules
from perfmon.commands.rules import explain
from perfmon.pipeline.offline import ExampleResult, run_examples, vocabulary
from perfmon.rules.lint import check_files
from perfmon.rules.signatures import BUILTIN, Signature, load_signatures

RESULTS = [pytest.param(result, id=f"{result.signature}: {result.example}") for result in run_examples()]
SIGNATURES = [pytest.param(signature, id=signature.id) for signature in load_signatures()]
WORDS = vocabulary()
BASE = (BUILTIN / "checkpoint-stall.toml").read_text()


@pytest.mark.parametrize("result", RESULTS)
def test_an_example_holds(result: ExampleResult) -> None:
    assert result.ok, result.text


def test_the_built_in_files_pass_the_lint() -> None:
    folder = Path(perfmon.rules.__path__[0])
    assert check_files([*folder.glob("signatures/*.toml"), *folder.glob("bands/*.toml")], WORDS) == []


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('type = "compare"', 'type = "compare" =', "file: not valid TOML"),
        ('rank = 53', 'rank = "first"', "rank: expected a number"),
        ('metric = "wait_ms"\nband', 'metric = "wait_mss"\nabove', "condition[0].above: expected a number"),
        ('metric = "wait_ms"\n\n', 'metric = "wait_mss"\n\n', "on[1].metric: wait_mss: no format reads it"),
        ('band = "critical"', 'band = "critical"\nwithin_s = 0\n[[condition]]\ntype = "compare"\nmetric = "loss"\n'
         'band = "good"', "condition[1].band: loss: has no thresholds"),
        ('beyond = "wait_ms"', 'beyond = "loss"', "lost.beyond: loss: has no thresholds"),
        ('leg = "whole"\nbeyond = "wait_ms"', "", "lost: missing, expected leg"),
        ('signature = "slow-checkpoint-write"', 'signature = "gone"', "cause[0].signature: gone: no such signature"),
        ('signature = "slow-checkpoint-write"', 'signature = "checkpoint-stall"', "a signature cannot explain itself"),
        ('"async-barrier: the', '"async-barier: the', "confused_with[0]: async-barier: no such signature"),
        ("took {wait_ms.p50}", "took {wait_ms.p51}", "sentence: {wait_ms.p51} can never be filled"),
        ("took {wait_ms.p50}", "took {write_ms.p50}", "sentence: {write_ms.p50} may be empty, expected it in [...]"),
        ("took {wait_ms.p50}", "took {times}", "sentence: {times} may be empty"),
        ("fires = true", "fires = false", "example: no positive example"),
        ("fires = false", "fires = true", "example: no negative example"),
        ('band = "critical"', 'metric2 = "x"\nband = "critical"', "condition[0].metric2: unknown key"),
        ('band = "critical"', "above = 9\nbelow = 8", "can never be met: above is not smaller than below"),
        ('metric = "wait_ms"\nband = "critical"', 'metric = "kv_usage"\nabove = 100', "a percentage lies between"),
        ('metric = "wait_ms"\nband = "critical"', 'metric = "running"\nabove = 1\nwithin_s = 0', "subject has running"),
        ('band = "critical"', 'band = "critical"\nrole = "supporting"', "condition: none is required"),
        ('metric = "wait_ms"\nband = "critical"', 'metric = "wait_ms"\nabove = 1\n[[condition]]\ntype = "compare"\n'
         'metric = "wait_ms"\nstat = "max"\nwindow_n = 3\nleast = 4\nabove = 1', "least is more than window_n"),
        ('metric = "wait_ms"\n\n', 'absence = "wait_ms"\n\n', "on[1].absence: wait_ms: expected a span"),
        ('missing = "checkpoint-write"', 'missing = "gone"', "unseen: gone: no format reads it"),
        ('log = """\n[ckpt] wait.start target_step=43', 'logs = {"../x" = "a"}\nfires2 = """', "unknown key"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_and_key(tmp_path: Path, old: str, new: str, line: str) -> None:
    assert old in BASE
    mine = tmp_path / "mine.toml"
    mine.write_text(BASE.replace(old, new))
    problems = check_files([mine], WORDS)
    assert all(problem.startswith(f"{mine}: ") and "\n" not in problem for problem in problems)
    assert any(line in problem for problem in problems), problems


def test_band_files_are_checked_and_known_to_signatures(tmp_path: Path) -> None:
    bands, mine = tmp_path / "bands.toml", tmp_path / "mine.toml"
    mine.write_text(BASE.replace('beyond = "wait_ms"', 'beyond = "loss"'))
    bands.write_text("schema = 1\n[band.loss]\ngood = 1\ncritical = 2\n")
    assert check_files([mine, bands], WORDS) == []
    bands.write_text("schema = 1\n[band.loss]\ngood = 3\ncritical = 2\n")
    assert [problem.split(": ")[1] for problem in check_files([bands], WORDS)] == ["band.loss.critical"]


def test_an_example_that_does_not_hold_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(BASE.replace("wait_ms=5432.1", "wait_ms=2.1"))
    failed = [result for result in run_examples("checkpoint-stall", [tmp_path]) if not result.ok]
    assert [result.example for result in failed] == ["5.4 s wait"]
    assert failed[0].text == "found nothing, verdict none; expected checkpoint-stall, as the verdict"


@pytest.mark.parametrize("signature", SIGNATURES)
def test_an_explanation_says_all_that_the_signature_holds(signature: Signature) -> None:
    text = explain(signature)
    flat = " ".join(text.split())
    for part in (signature.title, signature.meaning, *signature.advice, *signature.confused_with):
        assert " ".join(part.split()) in flat
    for section in ("Subjects", "Fires when", "Fix", "Precedence", "Examples"):
        assert f"\n{section}\n" in text
    assert max(map(len, text.splitlines())) <= 100
