"""Archives that are met in a folder or in an archive are not read, and that is said in one line."""

from __future__ import annotations

import asyncio
import shutil
import zipfile
from pathlib import Path

import pytest
from following import follow
from handfed import HandFed

from perfmon.core.errors import InputError
from perfmon.core.model import Notice
from perfmon.pipeline.offline import Options, examine
from perfmon.sources.batch import read_blocks
from perfmon.sources.discovery import discover, folder_of_archives, log_file

LOG = "[ckpt] write.done step=42 write_ms=234.5\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a log and an archive, and an archive with both."""
    monkeypatch.chdir(tmp_path)
    Path("logs/of").mkdir(parents=True)
    Path("logs/run.log").write_text(LOG)
    with zipfile.ZipFile("logs/of/old.zip", "w") as archive:
        archive.writestr("run.log", LOG)


def _packed(name: str, *members: str) -> None:
    with zipfile.ZipFile(name, "w") as archive:
        for member in members:
            archive.write(member, Path(member).name)


def _notes(spec: str) -> list[str]:
    return [note for source in examine(Options((spec,)))[0].run.sources for note in source.notes]


def test_in_a_folder() -> None:
    message = (
        "logs: an archive in it (of/old.zip) is not read with the folder: name those that contain logs of this run"
    )
    assert _notes("logs") == [message]
    assert len(examine(Options(("logs",)))[0].run.sources) == 1


def test_in_an_archive() -> None:
    _packed("run.zip", "logs/run.log", "logs/of/old.zip")
    assert _notes("run.zip") == ["run.zip: an archive in it (old.zip) is not read: unpack it and name the logs"]


def test_many_are_counted() -> None:
    for number in range(5):
        _packed(f"logs/{number}.zip", "logs/run.log")
    assert "6 archives in it (0.zip, 1.zip, 2.zip, …) are not read" in _notes("logs")[0]


def test_where_there_is_nothing_else() -> None:
    _packed("run.zip", "logs/of/old.zip")
    for spec, message in [
        ("run.zip", "no logs in this archive; an archive in it"),
        ("logs/of", "no logs below this dir"),
    ]:
        with pytest.raises(InputError, match=message):
            discover([spec])
    with pytest.raises(InputError, match=r"old\.zip"):
        discover(["logs/of"])


@pytest.mark.parametrize("late", [False, True])
async def test_in_a_folder_that_is_watched(late: bool) -> None:
    if late:
        shutil.move("logs/of/old.zip", "old.zip")
    message: list[str] = []
    async with asyncio.timeout(20):
        async for _, item in follow(["logs"], poll_s=0.02):
            if isinstance(item, Notice):
                message.append(item.text)
                break
            if late:
                shutil.move("old.zip", "logs/of/old.zip")
    assert message[0].startswith("logs: an archive in it (of/old.zip) is not read")


def test_the_folder_is_no_log_of_the_run_that_is_watched() -> None:
    fed, folder = HandFed(1e9), folder_of_archives(Path("logs"))
    fed.say(log_file(Path("logs/run.log")), LOG)
    for item in read_blocks(folder):
        fed.watch.take(folder, item)
    picture = fed.look()
    assert [source.name for source in picture.sources] == ["logs/run.log"]
    assert "logs: an archive in it (of/old.zip)" in picture.notices[-1]
