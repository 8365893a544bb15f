"""What the shell is told: exit codes, one line on stderr, data on stdout."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perfmon import __version__
from perfmon.cli import main
from perfmon.commands import COMMANDS, build_parser, load_command
from perfmon.core.errors import ConnectError, ExitCode
from perfmon.demo import SCENARIOS
from perfmon.demo.output import write_demo
from perfmon.sources.blocks import in_use

PERFMON = [sys.executable, "-m", "perfmon"]


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not read the settings of whoever runs them, nor open the screen there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.delenv("PERFMON_DEBUG", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())  # no terminal, wherever they are run


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the `completion` command end with `error`."""

    def run(_args: object) -> int:
        raise error

    monkeypatch.setattr(load_command("completion"), "run", run)


@pytest.mark.parametrize("wanted", ["0", "1"])
def test_version_is_data(wanted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PERFMON_NATIVE", wanted)
    assert main(["--version"]) == ExitCode.DONE
    scanner = "native" if in_use() else "plain"
    assert capsys.readouterr() == (f"perfmon {__version__} ({scanner} scanner)\n", "")
    assert wanted == "1" or scanner == "plain"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == ExitCode.DONE
    listed = re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE)
    assert listed == ["COMMAND", *COMMANDS] or listed[-len(COMMANDS) :] == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == ExitCode.DONE
    assert "example: " in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_each_command_can_be_typed(command: str) -> None:
    typed = re.findall(rf"perfmon ({command}\b[^|)\"]*)", load_command(command).EXAMPLE)
    assert typed
    for line in typed:
        assert build_parser((command,)).parse_args(shlex.split(line)).command == command


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (
            ("run.log",),
            "the live monitor needs a terminal (without one: perfmon snapshot SOURCE, perfmon status SOURCE)",
        ),
    ],
)
def test_without_arguments_this_folder_is_watched(
    names: tuple[str, ...],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in names:
        (tmp_path / name).write_text("a line\n")
    monkeypatch.chdir(tmp_path)
    assert main([]) == ExitCode.USAGE
    assert capsys.readouterr() == ("", f"perfmon: {line}\n")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["frobnicate"], "perfmon: frobnicate: no such command, file or folder (see perfmon --help)"),
        (["--frobnicate"], "--frobnicate: no such option (see perfmon watch --help)"),
        (["analyze"], "required: SOURCE (see perfmon analyze --help)"),
        (["analyze", "x.log", "--jobs", "0"], "expected an integer of at least 1, not '0'"),
        (["analyze", "x.log", "--js"], "--js: no such option, did you mean --json?"),
        (["analyze", "x.log", "--json", "--explain-formats"], "not allowed with argument --json"),
        (["analyze", "x.log", "--fail-on", "info"], "invalid choice: 'info'"),
        (["analyze", "x.log", "--formats", "gone"], "perfmon: gone: not a folder"),
        (["analyze", "x.log", "--config", "gone.toml"], "perfmon: gone.toml: file: cannot be read"),
        (["completion", "tcsh"], "invalid choice: 'tcsh'"),
        (["rules", "frob"], "invalid choice: 'frob'"),
        (["demo", "--ahead", "nan"], "--ahead nan: expected 0 or more seconds"),
    ],
)
def test_wrong_usage_is_one_line(
    argv: list[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert line in err
    assert err.startswith("perfmon: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("spec", ["run", "run/a.log", "run/*.log"])
def test_what_is_no_command_is_watched(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/a.log").write_text("a line\n")
    monkeypatch.chdir(tmp_path)
    assert main([spec]) == main(["watch", spec]) == ExitCode.USAGE
    first, second = capsys.readouterr().err.splitlines()
    assert first == second
    assert "terminal" in first


def test_control_characters_of_an_argument_are_not_sent_to_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["\x1b]0;owned\x07ls\x1bc"])
    assert capsys.readouterr().err == "perfmon: ls: no such command, file or folder (see perfmon --help)\n"


def test_errors_carry_their_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail_with(ConnectError("host: refused"), monkeypatch)
    assert main(["completion", "bash"]) == ExitCode.CONNECT
    assert capsys.readouterr().err == "perfmon: host: refused\n"


def test_an_interrupt_is_told_to_the_shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail_with(KeyboardInterrupt(), monkeypatch)
    assert main(["completion", "bash"]) == ExitCode.INTERRUPTED
    assert "Traceback" not in capsys.readouterr().err


def test_a_fault_is_one_line_that_says_how_to_see_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(ZeroDivisionError("by\nzero"), monkeypatch)
    assert main(["completion", "bash"]) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert err.startswith("perfmon: unexpected ZeroDivisionError: byzero (")
    assert "PERFMON_DEBUG=1" in err
    assert err.count("\n") == 1
    monkeypatch.setenv("PERFMON_DEBUG", "1")
    main(["completion", "bash"])
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        done = subprocess.run([*PERFMON, "completion", "bash"], stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("words", [["rules", "list"], ["--help"], ["analyze", "--help"], ["--version"]])
def test_a_full_disk_under_the_output_is_named_in_one_line(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PERFMON, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == (
        "perfmon: standard output cannot be written: No space left on device (redirect it elsewhere)\n"
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(("words", "code"), [(["analyze", "nope.log"], ExitCode.USAGE), (["rules", "list"], 0)])
def test_a_full_disk_under_what_is_said_changes_nothing(words: list[str], code: int) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PERFMON, *words], stdout=subprocess.DEVNULL, stderr=full, check=False)
    assert done.returncode == code


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(
    "words", [["status", "logs"], ["snapshot", "logs", "--for", "0.1"], ["snapshot", "logs", "-o", "page.md"]]
)
def test_data_come_whatever_happens_to_what_is_said(words: list[str], tmp_path: Path) -> None:
    write_demo(tmp_path / "logs", minutes=2)
    env = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PERFMON, *words], stdout=subprocess.PIPE, stderr=full, text=True, check=False, cwd=tmp_path, env=env
        )
    page = tmp_path / "page.md"
    assert done.returncode == 0
    assert page.exists() or done.stdout


@pytest.mark.parametrize("words", [["demo"], ["watch", "logs"]])
@pytest.mark.parametrize("closed", ["<&-", "<&- >&-"])
def test_a_closed_keyboard_is_no_terminal(words: list[str], closed: str, tmp_path: Path) -> None:
    write_demo(tmp_path / "logs", minutes=2)
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *PERFMON, *words],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.startswith("perfmon: the live monitor needs a terminal")


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (["status", "logs"], "perfmon: logs: the current folder was deleted (cd to another one)\n"),
        (["snapshot", "logs"], "perfmon: logs: the current folder was deleted (cd to another one)\n"),
        (["record", "logs"], "perfmon: logs: the current folder was deleted (cd to another one)\n"),
        (["watch", "logs"], "perfmon: logs: the current folder was deleted (cd to another one)\n"),
    ],
)
def test_in_a_folder_that_is_gone_names_mean_nothing(words: list[str], result: str, tmp_path: Path) -> None:
    (here := tmp_path / "here").mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir ../here; exec "$@"', "sh", *PERFMON, *words],
        capture_output=True, text=True, check=False, cwd=here,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.USAGE, "", result)


def test_a_closed_output_is_no_fault() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *PERFMON, "rules", "list"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def completion(shell: str) -> str:
    return subprocess.run([*PERFMON, "completion", shell], capture_output=True, text=True, check=True).stdout


def test_bash_completes_commands_and_options() -> None:
    ask = 'source /dev/stdin; COMP_WORDS=(perfmon analyze --expl); COMP_CWORD=2; _shtab_perfmon; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", ask], input=completion("bash"), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["--explain-formats"]


def test_bash_completes_scenarios() -> None:
    ask = 'source /dev/stdin; COMP_WORDS=(perfmon demo slow); COMP_CWORD=2; _shtab_perfmon; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", ask], input=completion("bash"), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["slow-checkpoint-write", "slow-weight-load"]


@pytest.mark.parametrize("action", ["explain", "test"])
def test_bash_completes_signatures(action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "perfmon/signatures").mkdir(parents=True)
    (tmp_path / "perfmon/signatures/mine.toml").write_text('schema = 1\nid = "frontend-mine"\n')
    (tmp_path / "perfmon/signatures/evil.toml").write_text('schema = 1\nid = "front$(touch evil)"\n')
    words = f"COMP_WORDS=(perfmon rules {action} front); COMP_CWORD=3"
    ask = f'source /dev/stdin; {words}; _shtab_perfmon; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", ask], input=completion("bash"), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["frontend-mine", "frontend-queue"]


def test_a_signature_that_is_none_is_said_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "explain", "frontend-quue"]) == ExitCode.USAGE
    assert "did you mean frontend-queue?" in capsys.readouterr().err


@pytest.mark.system
@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh")
def test_zsh_accepts_its_script() -> None:
    done = subprocess.run(["zsh", "-n"], input=completion("zsh"), capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.system
@pytest.mark.skipif(not shutil.which("fish"), reason="no fish")
def test_fish_completes_commands_and_options() -> None:
    ask = "\ncomplete -C 'perfmon analyze --expl'\n"
    done = subprocess.run(
        ["fish", "--no-config"], input=completion("fish") + ask, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\t")[0] == "--explain-formats"


@pytest.mark.system
@pytest.mark.skipif(not shutil.which("fish"), reason="no fish")
def test_fish_completes_signatures() -> None:
    ask = "\ncomplete -C 'perfmon rules explain frontend-q'\n"
    done = subprocess.run(
        ["fish", "--no-config"], input=completion("fish") + ask, capture_output=True, text=True, check=True
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["frontend-queue"]


@pytest.mark.system
@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh")
@pytest.mark.parametrize("how", ["source {}", "source <(cat {})", 'eval "$(cat {})"'])
def test_zsh_takes_its_script_however_it_is_read(how: str, tmp_path: Path) -> None:
    script = tmp_path / "perfmon.zsh"
    script.write_text(completion("zsh"))
    words = f"autoload -U compinit; compinit -u -D; {how.format(script)}; print $_comps[perfmon]"
    done = subprocess.run(["zsh", "-f", "-c", words], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("_shtab_perfmon\n", "")


@pytest.mark.system
@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh")
def test_zsh_is_offered_signatures() -> None:
    result = completion("zsh")
    for action in ("signature id, as in", "signature id (default"):
        assert re.search(rf"{re.escape(action)}.*:\(async-barrier .*frontend-queue.*\)", result)


def test_options_of_the_monitor_may_come_before_what_it_watches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.log").write_text("step=1 loss=2.0\n")
    assert main(["--theme", "midnight", str(tmp_path)]) == 2
    assert "needs a terminal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["analyse", "logs"], "analyse: no such command, file or folder (did you mean perfmon analyze?)"),
        (["analyze", "--jsn", "x"], "--jsn: no such option, did you mean --json? (see perfmon analyze --help)"),
        (["soon/logs"], "soon/logs: no such file or folder (to wait until it is there: perfmon watch soon/logs)"),
        (["qqqqq"], "qqqqq: no such command, file or folder (see perfmon --help)"),
    ],
)
def test_a_wrong_word_is_answered_with_what_was_meant(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == ExitCode.USAGE
    assert capsys.readouterr().err == f"perfmon: {message}\n"


def test_a_wrong_theme_is_named_even_without_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--theme", "nope", str(tmp_path)]) == ExitCode.USAGE
    assert "no such theme: 'nope'" in capsys.readouterr().err


def test_the_simulated_runs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--list"]) == ExitCode.DONE
    listed = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert listed["kv-cache-pressure"] == "the KV cache is full"
    assert list(listed) == list(SCENARIOS)
