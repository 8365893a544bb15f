"""A format that is learned from a log reads it, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.commands.setup import Formats
from perfmon.core.errors import ExitCode
from perfmon.core.model import PROGRESS, SAMPLE, STEP
from perfmon.sources.formats.learning import NothingLearnedError, propose, sample_problems
from perfmon.sources.formats.loader import load_pack, load_packs
from perfmon.sources.formats.schema import Pack
from perfmon.sources.scan.scanner import Scanner

PACKS = load_packs()
_rng = random.Random(4)
_LOGS = {
    "pairs": [
        f"<2026.11.20 10:{n // 60:02}:{n % 60:02}> zug {n * 10}/9000 :: loss={5 / (n + 1):.4f} lr={1e-5 * n:.1e} "
        f"gnorm={_rng.random():.3f} | {0.8 + _rng.random():.2f} s/it | elapsed 0:{n:02}:11 eta 3:0{n % 9}:22"
        for n in range(40)
    ],
    "json": [
        f'{{"updates": {n}, "max_updates": 900, "train_loss": "{3 - n / 50:.3f}", "wps": {900 + n}}}' for n in range(40)
    ],
    "words": [
        f"[worker] finished iteration {n} of 200 with loss {4 - n / 20:.3f} at 812.{n} tokens/s" for n in range(40)
    ],
    "short": [
        f"at {n}: it {n}/9000 | nll={4 - n / 30:.3f} | {81 + n / 7:.1f} kTok/s | gn {_rng.random():.2f} "
        f"| dt {1250 + n}ms | data {9 + n % 5}ms"
        for n in range(40)
    ],
    "coloured": [f"\x1b[32mIter\x1b[0m: {n}K  step_time: {_rng.random():.3f}  mfu: 0.4{n % 10}" for n in range(40)],
}  # fmt: skip
_EXPECTED = {
    "pairs": {"loss", "lr", "grad_norm", "step_s", "step"},
    "json": {"loss", "throughput_tps", "step"},
    "words": {"loss", "throughput_tps", "step"},
    "short": {"loss", "throughput_tps", "grad_norm", "step_s", "data_wait_s", "step"},
    "coloured": {"step_s", "mfu_pct", "step"},
}
_PROSE = [
    "The loss of step 3 was higher than that of iteration 2 of 200, which is odd.",
    "finished iteration of the plan", "updates: none, train_loss: none", "zug 4 leaves at 10:00:03",
    "parser.add_argument('--lr', type=float, default=1e-5)",
]  # fmt: skip


def _learned(lines: list[str], tmp_path: Path, name: str = "mine") -> Pack:
    proposal = propose(lines, name, PACKS, lambda _: False)
    file = tmp_path / f"{name}.toml"
    file.write_text(proposal.toml)
    return load_pack(file)


@pytest.mark.parametrize("kind", _LOGS)
def test_what_is_learned_reads_its_log(kind: str, tmp_path: Path) -> None:
    lines = _LOGS[kind]
    bare = [line.replace("\x1b[32m", "").replace("\x1b[0m", "") for line in lines]
    proposal = propose(bare, "mine", PACKS, lambda _: False)
    assert set(proposal.found) == _EXPECTED[kind]
    pack = _learned(bare, tmp_path)
    assert sample_problems(pack, PACKS) == []
    scanner = Scanner([pack, *(other for other in PACKS if not other.generic)])
    scanned = scanner.scan("".join(f"{line}\n" for line in lines).encode())
    result = [observation for record in scanned.records for observation in record[5] if record[0] >= 0]
    names = {observation[1] for observation in result if observation[0] == SAMPLE}
    assert names == _EXPECTED[kind] - {"step"}
    steps = [observation[2] for observation in result if observation[0] == PROGRESS]
    assert len(steps) == len(set(steps)) == len(lines)
    assert (STEP in {observation[0] for observation in result}) == (kind != "pairs")  # what `zug` counts nobody knows
    assert scanner.scan("".join(f"{line}\n" for line in _PROSE).encode()).recognised == {}


def test_lines_with_an_identifier_of_their_own_have_one_shape(tmp_path: Path) -> None:
    lines = [f"=> job{n:03x} (lane {n % 5}) ok // dt~{1 + _rng.random():.2f}" for n in range(40)]
    pack = _learned(lines, tmp_path)
    assert sample_problems(pack, PACKS) == []
    assert Scanner([pack]).scan("".join(f"{line}\n" for line in lines).encode()).recognised == {0: 40}


def test_a_number_without_end_is_read_and_no_counter(tmp_path: Path) -> None:
    lines = [line.replace(" lr=", f" seen={'9' * 400 if n == 7 else n} lr=") for n, line in enumerate(_LOGS["pairs"])]
    assert "loss" in {emit.name for emit in _learned(lines, tmp_path).patterns[0].emit}


def test_the_clock_is_learned(tmp_path: Path) -> None:
    pack = _learned(_LOGS["pairs"], tmp_path)
    (header,) = pack.headers
    assert (header.regex, header.time) == ("<{time}>", "%Y.%m.%d %H:%M:%S%f")
    scanned = Scanner([pack]).scan(f"{_LOGS['pairs'][7]}\n".encode())
    stamp = next(record[3] for record in scanned.records if record[0] >= 0)
    assert stamp is not None
    assert stamp[1] % 3600 == 7


def test_a_total_and_the_time_that_remains_are_learned(tmp_path: Path) -> None:
    pack = _learned(_LOGS["pairs"], tmp_path)
    scanned = Scanner([pack]).scan(f"{_LOGS['pairs'][7]}\n".encode())
    result = next(result for record in scanned.records for result in record[5] if result[0] == PROGRESS)
    assert result[1:6] == ("step", 70.0, 9000.0, 431.0, 10 * 3600 + 42 * 60.0 + 22 - 7 * 3600 - 35 * 60)


def test_a_counter_behind_a_letter_is_learned_with_its_total(tmp_path: Path) -> None:
    lines = [f"{n // 60:02}:{n % 60:02}:03 > e1 b{n}/36000 > zeta=2.5 > dt {1990 + n % 9}ms" for n in range(1, 90)]
    pack = _learned(lines, tmp_path)
    scanned = Scanner([pack, *PACKS]).scan(f"{lines[6]}\n".encode())
    result = next(result for record in scanned.records for result in record[5] if result[0] == PROGRESS)
    assert result[1:4] == ("step", 7.0, 36000.0)


def test_credentials_stay_out_of_the_samples() -> None:
    key = "sk-abcdefghijklmnopqrstuvwx"
    lines = [f"step={n} loss=0.{n + 10} token={key}" for n in range(9)]
    toml = propose(lines, "mine", PACKS, lambda _: False).toml
    assert "loss" in toml
    assert key not in toml


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "no lines of text"),
        (["", "  "], "no lines of text"),
        (["step 1 loss 2.0"], "none of its 1 lines repeats a shape"),
        (["hello world", "hello again"], "none of its 2 lines repeats a shape"),
        ([f"port {n} is open" for n in range(9)], "no repeated lines with a step counter"),
    ],
)
def test_where_there_is_nothing_to_learn_a_line_says_so(lines: list[str], why: str) -> None:
    with pytest.raises(NothingLearnedError, match=why):
        propose(lines, "mine", PACKS, lambda _: False)


def test_what_is_read_already_is_not_learned_again() -> None:
    with pytest.raises(NothingLearnedError):
        propose(_LOGS["pairs"], "mine", PACKS, lambda _: True)


# --- the command ---------------------------------------------------------------------------------------------------
@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "My Trainer.log"
    path.write_text("\n".join(_LOGS["pairs"]) + "\n")
    return path


def test_an_installed_format_is_used_from_then_on(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats", "learn", str(log), "--all", "--install"]) == ExitCode.DONE
    file = log.parent / "config" / "perfmon" / "formats" / "my-trainer.toml"
    assert file.is_file()
    assert str(file) in capsys.readouterr().out
    assert main(["formats", "check", str(file)]) == ExitCode.DONE
    assert main(["formats", "list"]) == ExitCode.DONE
    assert "my-trainer" in capsys.readouterr().out
    assert main(["formats", "learn", str(log), "--all"]) == ExitCode.DONE
    assert 'id = "my-trainer"' in capsys.readouterr().out


def test_a_check_names_what_is_wrong(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats", "learn", str(log), "--all", "-o", "mine.toml"]) == ExitCode.DONE
    text = Path("mine.toml").read_text()
    Path("mine.toml").write_text(text.replace("gives = { loss = 5.0", "gives = { loss = 6.0"))
    capsys.readouterr()
    assert main(["formats", "check", "mine.toml"]) == ExitCode.FOUND
    assert "loss is 5.0 in its sample" in capsys.readouterr().out
    Path("mine.toml").write_text("schema = 2\n")
    assert main(["formats", "check", "mine.toml"]) == ExitCode.FOUND


@pytest.mark.parametrize(("content", "why"), [(b"", "no lines of text"), (bytes(range(256)) * 40, "binary")])
def test_a_log_that_is_none_is_told_in_one_line(
    content: bytes, why: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.log").write_bytes(content)
    assert main(["formats", "learn", "bad.log"]) == ExitCode.USAGE
    result = capsys.readouterr().err
    assert why in result
    assert result.count("\n") == 1


def test_a_built_in_format_is_not_replaced(log: Path) -> None:
    assert main(["formats", "learn", str(log), "--all", "--id", "vllm", "--install"]) == ExitCode.USAGE
    assert main(["formats", "learn", str(log), "--id", "My Trainer"]) == ExitCode.USAGE
    assert Formats.DESCRIPTION
