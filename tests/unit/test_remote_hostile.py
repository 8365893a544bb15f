"""What a hostile or broken machine answers is told, or passed over; it never ends anything else."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from perfmon.core.model import Block, Notice
from perfmon.sources.remote.copies import file_name
from perfmon.sources.remote.discovery import describe, discover
from perfmon.sources.remote.files import Files
from perfmon.sources.remote.follow import HostLogs
from perfmon.sources.remote.host import ClockProbe
from perfmon.sources.remote.reader import Item
from perfmon.sources.shell import LocalRunner, RunnerError

JUNK = [
    "",
    "1 2 3 4|x|/x.log",
    f"1 2 {'9' * 5000} 4|x|LOG",
    "² ² ² ²|²|LOG",
    "-1 -1 -1 -1|-|LOG",
    "\\033[2J\\007",
    "P 99999999999999999999\\nPRIME-RL::x\\n/\\nN\\n  sl local rem st a b c d e f\\n0: ZZ:ZZ 0 0A 1 1 1 1 1 9\\nT\\n²",
    "N\\n0: 00:FFFFFFFFFFFFFF 0 0A 1 1 1 1 1 9 1\\nT\\n" + "9" * 400,
    "99999999999.999999999 +9999",
    "1e999.5 -0000",
]


@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
async def test_junk_for_answers(tmp_path: Path, junk: str) -> None:
    log = tmp_path / "run.log"
    log.write_text("line\n" * 100)
    runner = await LocalRunner.open()
    came: list[Item] = []

    async def emit(items: list[Item]) -> None:
        came.extend(items)

    try:
        files = await Files.open(runner)
        says = junk.replace("LOG", str(log))
        tools = "stat dd date find tr ls grep gzip"
        await runner.run(f"junk(){{ printf '{says}\\n'; }}; for f in {tools}; do eval \"$f(){{ junk; }}\"; done")
        logs = HostLogs("here", [str(log), str(tmp_path)], None)
        for _ in range(3):
            try:
                await logs.round(files, emit)
            except* RunnerError:
                pass
        echo = ClockProbe()
        await echo.ask(runner)
        echo.now()
        assert "\x1b" not in "\n".join(describe("here", await discover(files)))
    finally:
        await runner.close()
    for shown, item in came:
        assert "\x1b" not in shown.name
        assert not isinstance(item, Notice) or ("\x1b" not in item.text and len(item.text) < 1000)


async def test_a_bomb_is_no_answer(tmp_path: Path) -> None:
    squeezer = zlib.compressobj(wbits=31)
    (tmp_path / "bomb").write_bytes(squeezer.compress(bytes(200 << 20)) + squeezer.flush())
    log = tmp_path / "run.log"
    log.write_text("line\n")
    runner = await LocalRunner.open()
    try:
        files = await Files.open(runner)
        handle = await files.hold(str(log))
        assert handle is not None
        await runner.run(f"g(){{ cat '{tmp_path}/bomb'; }}")
        with pytest.raises(RunnerError, match="unexpected output"):
            await files.read(handle, 0, 5, squeezed=True)
    finally:
        await runner.close()


async def test_more_bytes_than_were_asked_for_are_no_data(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("line\n")
    runner = await LocalRunner.open()
    try:
        files = await Files.open(runner)
        handle = await files.hold(str(log))
        assert handle is not None
        await runner.run('r(){ echo noise; dd bs=65536 iflag=skip_bytes,count_bytes skip="$2" count="$3" <"$1"; }')
        with pytest.raises(RunnerError, match="unexpected output"):
            await files.read(handle, 0, 5)
    finally:
        await runner.close()


@pytest.mark.slow
async def test_too_many_logs_are_not_all_followed(tmp_path: Path) -> None:
    for at in range(1010):
        (tmp_path / f"{at}.log").touch()
    runner = await LocalRunner.open()
    came: list[Item] = []

    async def emit(items: list[Item]) -> None:
        came.extend(items)

    try:
        logs = HostLogs("here", [str(tmp_path)], None)
        await logs.round(await Files.open(runner), emit)
        assert len(logs.tails) == 1000
        assert ["more than 1000 logs" in item.text for _, item in came if not isinstance(item, Block)] == [True]
    finally:
        await runner.close()


@pytest.mark.parametrize(
    ("path", "name"),
    [("/a/b.log", "box/a/b.log"), ("/../../etc/passwd", "box/etc/passwd"), ("//x/./y", "box/x/y"), ("..", "box")],
)
def test_copies_stay_in_their_folder(path: str, name: str) -> None:
    assert file_name("box", path) == name
    assert file_name("../x y", path).partition("/")[0] == "_x_y"
