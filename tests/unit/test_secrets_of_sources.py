"""A secret in a SOURCE, in what a poller answers or in a log reaches no error, state file, recording or snapshot."""

from __future__ import annotations

from pathlib import Path

import pictures
import pytest

from perfmon.cli import main
from perfmon.core import UsageError
from perfmon.recording import open_recording
from perfmon.sources.pollers import parse_request
from perfmon.status.state_file import StateFile

POLLED = (
    "command:echo last api_key=hunter22xy; exit 3 # Authorization: Bearer hunter22xy",
    f"command:{'true; ' * 8} curl http://ops:hunter22xy@127.0.0.1:9/",
    "vllm=http://127.0.0.1:9/metrics?token=hunter22xy",
    "prometheus=http://127.0.0.1:9/metrics?api_key=hunter22xy#depth",
    "ray=/tmp/token=hunter22xy/ray",
)
REFUSED = (
    "vllm=http://ops:hun/ter22@h:1",
    "prometheus=http://ops:hunter22@h:1#depth",
    "prometheus=http://h:1#api_key=hunter22xy",
    "ray=http://ops:hun/ter22@h:8265",
    "ray=h:1#token=hunter22xy",
    f"command:curl -H 'Authorization: Bearer hunter22xy' {'x' * 4000}",
)


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def hidden(text: str) -> bool:
    """Report whether no part of the secret is in a text."""
    return not any(part in text for part in ("hunter", "ter22", "22xy"))


@pytest.mark.parametrize("spec", POLLED)
def test_it_is_neither_displayed_nor_in_the_state_file(spec: str, tmp_path: Path) -> None:
    request = parse_request(spec)
    assert request is not None
    assert hidden(request.shown)
    file = StateFile([spec])
    file.write(pictures.picture())
    [path] = (tmp_path / "perfmon").iterdir()
    assert hidden(path.read_text())


@pytest.mark.parametrize("spec", REFUSED)
@pytest.mark.parametrize("argv", [["watch"], ["record"], ["snapshot", "--for", "1s"], ["ssh", "host", "--poll"]])
def test_errors_do_not_repeat_it(spec: str, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_request(spec)
    assert hidden(str(caught.value))
    assert main([*argv, spec]) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert hidden(shown.out + shown.err)


def test_a_recording_and_a_snapshot_do_not_contain_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "run.log"
    log.write_text("2026-03-02 12:00:00.118 ERROR failed: postgres://ops:hun/ter22xy@db/runs is lost\n")
    sources = [str(log), *POLLED]
    assert main(["record", "-o", "run.pmrec", "--for", "1s", *sources]) == 0
    recording = open_recording(tmp_path / "run.pmrec")
    blocks = [str(frame.item) for frame in recording.frames()]
    assert any("status_3" in block for block in blocks)
    assert hidden("\n".join((*recording.logs, *recording.header.specs, *blocks)))
    for argv in (["snapshot", *sources, "--for", "1s"], ["snapshot", "run.pmrec", "--json"], ["analyze", "run.pmrec"]):
        assert main(argv) == 0
        shown = capsys.readouterr()
        assert len(shown.out) > 100
        assert hidden(shown.out + shown.err)
