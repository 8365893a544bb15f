"""Where settings come from, which one wins, and how a wrong one is told."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from perfmon.core.config import Config, NotifyConfig, load_config
from perfmon.core.errors import DataFileError
from perfmon.core.model import Severity


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `perfmon` folder of the user, and an empty folder to work in."""
    folder = tmp_path / "xdg" / "perfmon"
    work = tmp_path / "work"
    folder.mkdir(parents=True)
    work.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.chdir(work)
    return folder


def test_without_files_the_defaults_hold() -> None:
    assert load_config() == Config()


def test_the_folders_beside_config_toml_are_used(home: Path) -> None:
    for name in ("formats", "signatures", "bands", "themes"):
        (home / name).mkdir()
    bands = home / "bands" / "ours.toml"
    bands.write_text("")
    assert load_config() == Config((home / "formats",), (home / "signatures",), (bands,), (home / "themes",))


def test_later_places_override_values_and_add_to_lists(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [home / "config.toml", Path("perfmon.toml"), tmp_path / "env.toml", tmp_path / "explicit.toml"]
    for index, place in enumerate(places):
        (tmp_path / f"packs{index}").mkdir()
        place.write_text(f'format_dirs = ["{tmp_path}/packs{index}"]\nmemory_mb = {100 + index}\n')
    places[1].write_text(places[1].read_text() + "jobs = 3\n")
    monkeypatch.setenv("PERFMON_CONFIG", str(places[2]))
    config = load_config(places[3])
    assert config.format_dirs == tuple(tmp_path / f"packs{index}" for index in range(4))
    assert (config.memory_mb, config.jobs) == (103, 3)


def test_relative_paths_start_at_the_file_that_names_them(home: Path) -> None:
    (home / "mine").mkdir()
    (home / "config.toml").write_text('signature_dirs = ["mine"]')
    assert load_config().signature_dirs == (home / "mine",)


def test_the_last_place_names_the_theme(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text('theme = "daylight"')
    assert load_config().theme == "daylight"
    Path("perfmon.toml").write_text('theme = "mono"')
    assert load_config().theme == "mono"


def test_a_named_folder_is_laid_out_like_the_users(tmp_path: Path) -> None:
    (tmp_path / "team" / "formats").mkdir(parents=True)
    (tmp_path / "team" / "config.toml").write_text("async_level = 0")
    config = load_config(tmp_path / "team")
    assert (config.format_dirs, config.async_level) == ((tmp_path / "team" / "formats",), 0)


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("memory = 3", "memory", "unknown key, expected one of"),
        ('jobs = "all"', "jobs", "expected an integer of at least 1"),
        ("jobs = true", "jobs", "expected an integer"),
        ("memory_mb = 1", "memory_mb", "at least 16"),
        ("format_dirs = 7", "format_dirs", "expected a string or a list of strings"),
        ('format_dirs = ["gone"]', "format_dirs", "gone is not one"),
        ('band_files = ["."]', "band_files", "expected files"),
        ("theme = 7", "theme", "expected a string"),
        ('theme = " "', "theme", "expected a name"),
        ('theme_dirs = ["gone"]', "theme_dirs", "gone is not one"),
        ("jobs = ", "file", "not valid TOML"),
        ("notify = 3", "notify", "expected a table"),
        ("[notify]\nbel = true", "notify.bel", "unknown key"),
        ("[notify]\nbell = 1", "notify.bell", "true or false"),
        ('[notify]\ncommand = "notify-send x"', "notify.command", "expected a list of strings"),
        ('[notify]\ncommand = ["say", "{evidence}"]', "notify.command", "unknown placeholder {evidence}"),
        ('[notify]\ncommand = ["{title}"]', "notify.command", "a program first"),
        ('[notify]\nwebhook = "file:///etc/passwd"', "notify.webhook", "http:// or https://"),
        ('[notify]\nwebhook = "https://me:pw@host/x"', "notify.webhook", "http:// or https://"),
        ('[notify]\nwebhook = "https:///x"', "notify.webhook", "with a host"),
        ('[notify]\nmin_severity = "bad"', "notify.min_severity", "info, warning, critical"),
        ('[notify]\nmin_interval = "soon"', "notify.min_interval", '"0s" to "1d"'),
        ('[notify]\non = ["pending"]', "notify.on", "firing, resolved"),
    ],
)
def test_an_error_names_file_key_and_what_was_expected(home: Path, text: str, key: str, expected: str) -> None:
    (home / "config.toml").write_text(text)
    with pytest.raises(DataFileError) as raised:
        load_config()
    assert (raised.value.file, raised.value.key) == (str(home / "config.toml"), key)
    assert expected in raised.value.expected


def test_later_files_change_single_settings_of_notify(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text(
        '[notify]\nbell = true\ncommand = ["notify-send", "{title}"]\nwebhook = "https://h.example:8443/x?y"\n'
        'min_severity = "critical"\nmin_interval = "5m"\non = "firing"\n'
    )
    (tmp_path / "more.toml").write_text("[notify]\ntitle = true\ncommand = []\nmin_interval = 7\n")
    assert load_config(tmp_path / "more.toml").notify == NotifyConfig(
        True, True, (), "https://h.example:8443/x?y", Severity.CRITICAL, 7.0, ("firing",)
    )


@pytest.mark.parametrize("text", ['command = ["x"]', 'webhook = "https://evil.example/"'])
def test_the_working_folder_starts_no_program_and_sends_nothing(text: str) -> None:
    Path("perfmon.toml").write_text(f"[notify]\n{text}\n")
    with pytest.raises(DataFileError, match="ignored in the working folder"):
        load_config()
    Path("perfmon.toml").write_text("[notify]\nbell = true\n")
    assert load_config().notify.bell


def test_no_error_shows_a_webhook(home: Path) -> None:
    (home / "config.toml").write_text('[notify]\nwebhook = "https://hooks.example/very secret"')
    with pytest.raises(DataFileError) as raised:
        load_config()
    assert "very" not in str(raised.value)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"gone\.toml: file: cannot be read"):
        load_config(tmp_path / "gone.toml")


def _as_nobody(tmp_path: Path, folder_mode: int) -> str:
    """What an ordinary user is told whose configuration folder has this mode; root may read everything."""
    (tmp_path / "perfmon").mkdir()
    code = (
        "import os, sys\n"
        "from perfmon.core.config import load_config\n"
        "os.getuid() or os.setuid(65534)\n"
        "try:\n    load_config(); print('read')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    (tmp_path / "perfmon").chmod(folder_mode)
    tmp_path.chmod(0o755)
    try:
        environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd="/", capture_output=True, text=True, check=True
        )
        return done.stdout.strip()
    finally:
        (tmp_path / "perfmon").chmod(0o755)


def test_a_folder_that_may_not_be_read_is_told_in_one_line() -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = _as_nobody(Path(folder), 0o000)
        assert result.startswith("DataFileError")
        assert "cannot be read" in result


def test_a_folder_that_may_be_read_is() -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert _as_nobody(Path(folder), 0o755) == "read"


def test_a_place_where_nobody_may_look_is_passed_over() -> None:
    with tempfile.TemporaryDirectory() as folder:
        closed = Path(folder) / "closed"
        closed.mkdir(mode=0o700)
        closed.chmod(0o000)
        code = (
            "import os\nfrom perfmon.core.config import Config, load_config\n"
            "os.getuid() or os.setuid(65534)\nassert load_config() == Config()\n"
        )
        Path(folder).chmod(0o755)
        environment = {**os.environ, "XDG_CONFIG_HOME": str(closed)}
        subprocess.run([sys.executable, "-c", code], env=environment, cwd="/", check=True)
