"""The live monitor in real terminals: sizes, keys, signals, poor terminals, pipes, troubled logs and disks."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminals import PERFMON, Server, Window, children, wait

from perfmon.core.model import Block
from perfmon.core.text import format_seconds
from perfmon.demo.output import write_demo
from perfmon.pipeline.offline import Options, examine
from perfmon.recording.format import open_recording
from perfmon.reports.json_report import document
from perfmon.sources.pollers.reading import is_poll

pytestmark = [pytest.mark.system, pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")]
DEMO = f"{PERFMON} demo --seed 1 --speed 1"
PANES = ("1 TIMELINE", "2 ALERTS", "3 HOSTS/GPUS", "4 LOG")
FULL = [(200, 50), (120, 30), (80, 24)]
STRIPS = [(60, 10), (40, 4), (20, 5)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Windows of all sizes."""
    made = Server(tmp_path_factory.mktemp("tmux"))
    yield made
    made("kill-server")


@pytest.fixture(scope="module")
def demo(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Window:
    """The built-in run; tests leave it as they found it, at any size."""
    window = server.open(tmp_path_factory.mktemp("demo"), DEMO, COLUMNS="200", LINES="50")  # left by some shell
    window.shows("● CRIT")
    return window


def answered(window: Window, rows: int = 50) -> None:
    """Waits for the answers, wherever they stand; a window of very few rows has no room for where the time went."""
    window.shows("FRONT-END QUEUE")
    window.shows("running")
    window.shows("▸ Use a")
    if rows > 6:
        wait(lambda: any(re.match(r"\s*(last )?10m █", line) for line in window.lines), window)


def sized(window: Window, size: tuple[int, int]) -> None:
    """Gives a window a size, and waits until it is painted."""
    window.resize(*size)
    window.shows("? help" if size[1] >= 10 else "FRONT-END")


# --- sizes ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", FULL + STRIPS)
def test_every_size_answers_and_shows_what_fits(demo: Window, size: tuple[int, int]) -> None:
    sized(demo, size)
    answered(demo, size[1])
    for pane in PANES:
        if size in FULL:
            demo.shows(pane)
        else:
            demo.hides(pane)
    if size == (60, 10):
        demo.shows("queue time")
    assert len(demo.lines) <= size[1]


def test_a_storm_of_sizes_leaves_the_screen_of_the_last_one(demo: Window) -> None:
    sized(demo, (120, 30))
    for at in range(50):
        demo.resize(20 + at * 37 % 180, 5 + at * 13 % 45)
    sized(demo, (120, 30))
    answered(demo)
    for pane in PANES:
        demo.shows(pane)


# --- keys -------------------------------------------------------------------------------------------------------------
def test_from_an_alert_to_its_line_and_to_the_trace(demo: Window) -> None:
    sized(demo, (120, 30))
    demo.press("Tab", "Enter")
    demo.shows("frontend-queue")
    demo.shows("as of ")
    demo.press("Enter")
    demo.hides("as of ")
    demo.shows("not following")
    demo.press("Enter")
    demo.shows("weight update ▸")
    demo.press("Escape")
    demo.hides("weight update ▸")
    demo.press("L", "Tab")


def test_what_opens_and_closes(demo: Window) -> None:
    sized(demo, (120, 30))
    demo.press("z")
    demo.hides("2 ALERTS")
    demo.press("Escape")
    demo.shows("2 ALERTS")
    demo.press("?")
    demo.shows("every key and command")
    demo.press("Escape")
    demo.shows("1 TIMELINE")
    demo.press("w")
    demo.shows("weight update ▸")
    demo.press("Escape")
    demo.shows("1 TIMELINE")
    demo.press(":")
    demo.shows("esc close")
    demo.type("queue_ms")
    demo.shows("chart ▸ queue_ms")
    demo.press("Escape")
    demo.shows("1 TIMELINE")
    demo.press("Left", "Left")
    demo.shows("PAUSED ‖")
    demo.press("L")
    demo.hides("PAUSED ‖")
    demo.press("Space")
    demo.shows("PAUSED ‖")
    demo.press("Space")
    demo.shows("REPLAY ▷")


def test_a_page_is_written_and_a_theme_remembered(server: Server, demo: Window) -> None:
    sized(demo, (120, 30))
    demo.press("s")
    demo.shows("save this page as")
    demo.press("Enter")
    demo.shows("written: perfmon_")
    (page,) = demo.folder.glob("perfmon_*.md")
    assert "frontend-queue" in page.read_text()
    demo.press("T")
    demo.shows("theme: ")
    (name,) = re.findall(r"theme: ([\w-]+)", demo.text)
    wait(lambda: json.loads((server.folder / "state/perfmon/remembered.json").read_text())["theme"] == name)


def recorded(path: Path) -> bytes:
    """All lines of logs that a recording holds."""
    frames = [frame for frame in open_recording(path).frames() if not is_poll(frame.log)]
    return b"".join(frame.item.data for frame in frames if isinstance(frame.item, Block))


# --- leaving ----------------------------------------------------------------------------------------------------------
def settings(window: Window) -> str:
    """What `stty -a` says there."""
    tty = window.state("pane_tty")
    return subprocess.run(["stty", "-a", "-F", tty], capture_output=True, text=True, check=True).stdout


def test_stopping_going_on_and_leaving_give_the_terminal_back(server: Server, tmp_path: Path) -> None:
    window = server.open(tmp_path, "true", (80, 24))
    window.shows("left: 0")
    before = settings(window)
    window.type(f"clear; {DEMO}")
    window.shows("? help")
    assert not window.sane
    assert settings(window) != before
    window.press("C-z")
    window.shows("Stopped")
    wait(lambda: window.sane)
    assert settings(window) == before
    window.type("fg")
    for pane in PANES:
        window.shows(pane)
    answered(window)
    window.press("q")
    window.hides("4 LOG")
    wait(lambda: window.sane and not window.processes)
    assert settings(window) == before


@pytest.mark.parametrize(("number", "code"), [("TERM", 143), ("HUP", 129), ("INT", 130), ("QUIT", 131)])
def test_signals_end_it_and_give_the_terminal_back(server: Server, tmp_path: Path, number: str, code: int) -> None:
    (tmp_path / "a.log").write_text("kept\n")
    window = server.open(tmp_path, f"{PERFMON} watch a.log", (80, 24))
    window.shows("kept")
    window.press("R")
    window.shows("recording to")
    window.signal(signal.Signals[f"SIG{number}"])
    window.shows(f"left: {code}")
    wait(lambda: window.sane)
    assert "Traceback" not in window.text
    assert open_recording(next(tmp_path.glob("*.pmrec"))).note is None


def test_it_ends_with_the_script_that_started_it(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("kept\n")
    window = server.open(tmp_path, f"bash -c '{PERFMON} watch a.log; true'", (80, 24))
    window.shows("kept")
    (script,) = window.processes
    (monitor,) = children(script)
    os.kill(script, signal.SIGKILL)
    wait(lambda: not Path(f"/proc/{monitor}").exists())
    wait(lambda: window.sane)
    window.type("echo $((6 * 7))")
    window.shows("42")


def test_a_fault_is_one_line_and_gives_the_terminal_back(server: Server, tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(
        "import sys\n"
        "from perfmon.cli import main\n"
        "from perfmon.tui.app import PerfmonApp\n"
        "def do_help(self):\n    raise ValueError('broken here')\n"
        "PerfmonApp.do_help = do_help\n"
        "sys.exit(main(['demo', '--speed', '1']))\n"
    )
    window = server.open(tmp_path, f"{sys.executable} faulty.py", (80, 24))
    window.shows("4 LOG")
    window.press("?")
    window.shows("left: 2")
    window.shows("perfmon: unexpected ValueError: broken here (a bug in perfmon")
    assert "Traceback" not in window.text
    assert window.sane


def test_ctrl_c_leaves_at_once_even_where_one_types(server: Server, tmp_path: Path) -> None:
    window = server.open(tmp_path, DEMO, (80, 24))
    window.shows("4 LOG")
    window.press(":", "x", "C-c")
    window.shows("left: ")
    assert window.sane


def gone(process: int) -> bool:
    """It has ended, whether or not somebody has asked how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


def test_a_pane_that_is_closed_leaves_nothing_behind_but_its_recording(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("old\n")
    window = server.open(tmp_path, f"{PERFMON} watch a.log", (80, 24))
    window.shows("old")
    window.press("R")
    window.shows("recording to")
    with (tmp_path / "a.log").open("a") as log:
        log.write("a second line\n")
    window.shows("a second line")
    processes = window.processes
    assert processes
    server("kill-session", "-t", window.name)
    wait(lambda: all(map(gone, processes)))
    (recording,) = tmp_path.glob("*.pmrec")
    assert open_recording(recording).note is None
    assert b"a second line\n" in recorded(recording)


def test_panes_that_are_closed_while_much_is_painted_leave_nothing_behind(server: Server, tmp_path: Path) -> None:
    windows = [server.open(tmp_path, f"{PERFMON} demo --speed 100", (200, 50)) for _ in range(3)]
    for window in windows:
        window.shows("4 LOG")
    processes = [process for window in windows for process in window.processes]
    assert len(processes) == 3
    for window in windows:
        server("kill-session", "-t", window.name)
    wait(lambda: all(map(gone, processes)))


def test_after_being_killed_stty_sane_is_enough(server: Server, tmp_path: Path) -> None:
    window = server.open(tmp_path, DEMO, (80, 24))
    window.shows("4 LOG")
    window.signal(signal.SIGKILL)
    wait(lambda: not window.processes)
    window.press("Enter")
    window.type("stty sane; printf '\\033[?1049l\\033[?25h\\033[?1000;1003;1006l'; echo here; date")
    window.shows("here")


# --- poor terminals ---------------------------------------------------------------------------------------------------
def written(window: Window) -> bytes:
    """All that the monitor wrote; it is left for that."""
    window.shows("4 LOG")
    window.shows("FRONT-END QUEUE")
    window.press("?")
    window.shows("every key")
    window.press("q", "q")
    window.shows("left: 0")
    assert window.sane
    return window.raw.read_bytes()


def test_without_utf8_everything_is_ascii(server: Server, tmp_path: Path) -> None:
    window = server.open(tmp_path, DEMO, (80, 24), LC_ALL="C")
    raw = written(window)
    assert raw.isascii()


def test_log_text_is_ascii_without_utf8_as_well(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("über 漢字 done\n")
    window = server.open(tmp_path, f"{PERFMON} watch a.log", (80, 24), LC_ALL="POSIX")
    window.shows("?ber ???? done")
    window.press("q")
    window.shows("left: 0")
    assert window.raw.read_bytes().isascii()


def test_no_color_means_none(server: Server, tmp_path: Path) -> None:
    raw = written(server.open(tmp_path, DEMO, (80, 24), NO_COLOR="1"))
    result = {int(code or 0) for found in re.findall(rb"\x1b\[([\d;]*)m", raw) for code in found.split(b";")}
    assert result <= {0, 1, 2, 3, 4, 7, 22, 23, 24, 27}


@pytest.mark.parametrize("term", ["screen", "linux", "xterm-256color", "dumb"])
def test_every_kind_of_terminal_will_do(server: Server, tmp_path: Path, term: str) -> None:
    raw = written(server.open(tmp_path, DEMO, (80, 24), TERM=term))
    if term == "linux":
        assert not re.search(rb"\x1b\[[\d;]*[34]8;[25]", raw)


# --- pipes and no terminal --------------------------------------------------------------------------------------------
def test_a_pipe_is_watched_while_keys_come_from_the_terminal(server: Server, tmp_path: Path) -> None:
    window = server.open(tmp_path, f"sh -c 'yes | {PERFMON} watch -'", (80, 24))
    window.shows("✓ stdin")
    window.press("?")
    window.shows("every key")
    window.press("q")
    window.shows("1 TIMELINE")
    window.press("q")
    window.shows("left: 0")
    assert window.sane


@pytest.mark.parametrize("command", ["demo", "watch a.log", "replay a.pmrec", "a.log"])
def test_without_a_terminal_one_line_says_so(tmp_path: Path, command: str) -> None:
    (tmp_path / "a.log").write_text("line\n")
    shutil.copy(_recording(tmp_path), tmp_path / "a.pmrec")
    done = subprocess.run(
        [sys.executable, "-m", "perfmon", *command.split()],
        cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("perfmon: the live monitor needs a terminal")
    assert done.stderr.count("\n") == 1


def _recording(folder: Path) -> Path:
    command = [sys.executable, "-m", "perfmon", "record", "a.log", "--for", "0.2s", "-o", "made.pmrec"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return folder / "made.pmrec"


def test_a_theme_that_is_wrong_is_told_where_one_looks(server: Server, tmp_path: Path) -> None:
    themes = tmp_path / "config/perfmon/themes"
    themes.mkdir(parents=True)
    (themes / "mine.toml").write_text('schema = 1\ntitle = "Mine"\n[styles]\ntext = "puce"\n')
    window = server.open(tmp_path, DEMO, (200, 24), XDG_CONFIG_HOME=str(tmp_path / "config"))
    result = ("1 TIMELINE", "mine.toml: styles.text: expected a colour")
    wait(lambda: (text := window.text) and all(words in text for words in result), window)
    window.press("q")
    window.shows("left: 0")


def test_what_is_missing_of_a_recording_is_told_in_its_replay(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("2026-03-02 10:00:00 INFO kept\n")
    whole = _recording(tmp_path).read_bytes()
    (tmp_path / "cut.pmrec").write_bytes(whole[:-9])
    window = server.open(tmp_path, f"{PERFMON} replay cut.pmrec --speed 9", (120, 24))
    window.shows("cut.pmrec: cut off after")
    window.shows("kept")
    window.press("q")
    window.shows("left: 0")
    (tmp_path / "none.pmrec").write_bytes(whole[:60])
    window.type(f"clear; {PERFMON} replay none.pmrec; echo left: $?")
    window.shows("left: 2")
    assert window.lines[0].startswith("perfmon: none.pmrec: cut off ")


# --- logs that grow, and their recording ------------------------------------------------------------------------------
def test_a_recording_of_growing_logs_replays_to_the_same_findings(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    window = server.open(tmp_path, f"{PERFMON} watch --window 2h logs", (120, 30))
    window.shows("no logs yet")
    window.press("R")
    window.shows("recording to")
    write_demo(tmp_path / "made", "slow-weight-load")
    for log in sorted((tmp_path / "made").iterdir()):
        half = log.read_bytes()[: log.stat().st_size // 2]
        (logs / log.name).write_bytes(half)
    window.shows("3 logs")
    for log in sorted((tmp_path / "made").iterdir()):
        with (logs / log.name).open("ab") as grown:
            grown.write(log.read_bytes()[log.stat().st_size // 2 :] + f"all of {log.name}\n".encode())
        window.shows(f"all of {log.name}")
    monkeypatch.chdir(tmp_path)
    of_logs = examine(Options(("logs",)))[0]
    assert of_logs.verdict is not None
    answers = ("SLOW WEIGHT LOAD", f"({format_seconds(of_logs.verdict.lost_s)})")
    for words in answers:
        window.shows(words)
    window.press("R")
    window.shows("recorded ")
    window.press("q")
    window.shows("left: 0")
    (recording,) = tmp_path.glob("*.pmrec")
    assert document(examine(Options((recording.name,)))[0])["findings"] == document(of_logs)["findings"]
    window.type(f"clear; {PERFMON} replay {recording.name} --speed 100 --window 2h")
    for words in ("ENDED", *answers):
        window.shows(words)
    window.press("q")
    wait(lambda: window.sane)


# --- trouble ----------------------------------------------------------------------------------------------------------
def test_logs_come_go_turn_and_shrink_while_they_are_watched(server: Server, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    window = server.open(tmp_path, f"{PERFMON} watch logs", (120, 30))
    window.shows("no logs yet")
    log = logs / "a.log"
    log.write_text("the first line\n")
    window.shows("the first line")
    log.rename(logs / "a.log.1")
    log.write_text("after rotation\n")
    window.shows("after rotation")
    log.write_text("short\n")
    window.shows("short")
    log.unlink()
    (logs / "b.log").symlink_to("b.log")
    (logs / "c.log").write_text("still here\n")
    window.shows("still here")
    log.write_text("back again\n")
    window.shows("back again")
    window.press("q")
    window.shows("left: 0")
    assert "Traceback" not in window.text


def test_a_log_that_may_not_be_read_is_told_and_others_are_watched(server: Server, tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_text("x\n")
    (tmp_path / "secret.log").chmod(0)
    (tmp_path / "open.log").write_text("readable\n")
    # Root may read everything, unless it gives that up.
    lesser = "setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search "
    window = server.open(tmp_path, f"{lesser if os.geteuid() == 0 else ''}{PERFMON} watch .", (120, 30))
    window.shows("readable")
    window.shows("secret.log")
    window.press("q")
    window.shows("left: 0")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with next to no room."""
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs root, to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_recording_on_a_full_disk_is_told_and_stays_readable(server: Server, tmp_path: Path, full_disk: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("begin\n")
    window = server.open(full_disk, f"{PERFMON} watch {log}", (120, 30))
    window.shows("begin")
    window.press("R")
    window.shows("recording to")
    (recording,) = full_disk.glob("*.pmrec")
    with log.open("a") as grown:
        grown.write("kept\n")
    wait(lambda: b"kept" in recorded(recording))
    with log.open("a") as grown:
        for at in range(3000):
            grown.write(f"{at} {os.urandom(40).hex()}\n")
        grown.write("the end\n")
    window.shows("the end")
    window.shows("recording stopped")
    subprocess.run(["dd", "if=/dev/zero", f"of={full_disk}/filler", "bs=512"], capture_output=True, check=False)
    window.press("s")
    window.shows("save this page as")
    window.press("Enter")
    window.shows("cannot be written")
    window.press("q")
    window.shows("left: 0")
    assert recorded(recording).startswith(b"begin\nkept\n")


def test_the_children_of_no_window_outlive_it(server: Server, tmp_path: Path) -> None:
    window = server.open(tmp_path, DEMO, (80, 24))
    window.shows("4 LOG")
    (process,) = window.processes
    assert children(process) == []
    window.press("q")
    wait(lambda: gone(process))
