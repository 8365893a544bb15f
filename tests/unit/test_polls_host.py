"""What hosts are polled for: one parser for this machine and others, with BusyBox, and for what /proc may hold."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from polled import Collected, paced

from perfmon.sources.http_client import Opener, open_here
from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.host.disk import (
    DiskPoller,
    IoCounts,
    counts_of,
    devices_of,
    forecast,
    mounted_counts,
    spaces_of,
    wanted_places,
)
from perfmon.sources.pollers.host.host import (
    SCRIPT,
    CpuTimes,
    HostFacts,
    HostPoller,
    NicCounts,
    NicRates,
    ProcessPoller,
    facts_of,
    host_pollers,
    parsed,
    printed,
    read_here,
    read_psutil,
)
from perfmon.sources.pollers.network import Flow, SocketPoller, holders, sockets_of, verdict
from perfmon.sources.pollers.reading import Area, NotAvailableError, format_reading, parse_reading
from perfmon.sources.shell import LocalRunner, Shell

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
BUSYBOX = shutil.which("busybox")
SHELLS = [
    pytest.param("", id="sh"),
    pytest.param(
        BUSYBOX or "",
        id="busybox",
        marks=[pytest.mark.system, pytest.mark.skipif(BUSYBOX is None, reason="no busybox")],
    ),
]
BOOTSTRAP = """n=;read -r n;eval "$(dd bs=1 count="$n" 2>/dev/null)\""""


def shell_of(busybox: str, folder: Path) -> tuple[str, ...]:
    """A shell, and in what: of BusyBox one that finds its commands first."""
    if not busybox:
        return ("/bin/sh", "-c")
    folder.mkdir()
    subprocess.run([busybox, "--install", "-s", folder], check=True)
    return (busybox, "env", f"PATH={folder}", "sh", "-c")


class Elsewhere:
    """Another machine, as far as pollers can tell: they have nothing but a shell on it."""

    here = False
    name = "elsewhere"
    opener: Opener = staticmethod(open_here)

    def __init__(self, shell: tuple[str, ...] = ("/bin/sh", "-c")) -> None:
        self._shell = shell

    def now(self) -> datetime:
        """That of this one."""
        return datetime.now()

    async def runner(self) -> Shell:
        """Its shell."""
        return await LocalRunner.open(self.name, (*self._shell, BOOTSTRAP))

    def lines(self, command: str) -> AsyncIterator[bytes]:
        """Those of this one."""
        return LocalMachine().lines(command)


@LINUX
@pytest.mark.parametrize("busybox", SHELLS)
def test_a_shell_tells_what_the_files_do(busybox: str, tmp_path: Path) -> None:
    shell = shell_of(busybox, tmp_path / "bin")
    output = subprocess.run((*shell, SCRIPT), text=True, stdout=subprocess.PIPE, check=False).stdout
    there, here = facts_of(printed(output)), read_here()
    assert there.cpus.keys() == here.cpus.keys()
    assert there.levels.keys() == here.levels.keys()
    assert there.nics.keys() == here.nics.keys()
    assert there.speeds == here.speeds
    assert there.levels["mem_total_mb"] == here.levels["mem_total_mb"]
    assert there.cpus["cpu"].total <= here.cpus["cpu"].total


@LINUX
@pytest.mark.parametrize("busybox", SHELLS)
async def test_a_host_elsewhere_is_polled_through_its_shell(busybox: str, tmp_path: Path) -> None:
    machine = Elsewhere(shell_of(busybox, tmp_path / "bin"))
    pollers = host_pollers(machine, lambda: {str(tmp_path): "logs"})
    for poller in pollers:
        poller.every_s = 0.2  # type: ignore[misc]  # of this instance
    result = await paced(
        machine, pollers, lambda result: len(result.readings(Area.HOST)) > 1 and bool(result.readings(Area.DISK))
    )
    values = result.readings(Area.HOST)[-1].values
    assert 0.0 <= values["cpu_pct"] <= values["cpu_max_pct"] <= 100.0
    assert values["iowait_pct"] <= values["iowait_max_pct"] <= 100.0
    assert values["cores"] == os.cpu_count()
    assert len(result.readings(Area.HOST)[-1].words["cores_busy"]) == min(os.cpu_count() or 0, 128)
    assert 0.0 < values["mem_used_mb"] < values["mem_total_mb"]
    disks = {reading.name: reading for reading in result.readings(Area.DISK)}
    held = [name for name, reading in disks.items() if "logs" in reading.words.get("holds", "")]
    space = shutil.disk_usage(tmp_path)
    assert len(held) == 1
    assert disks[held[0]].values["total_gb"] == pytest.approx(space.total / 1e9, rel=1e-3)
    assert {reading.words["state"] for reading in result.readings(Area.POLLER)} <= {"ok", "stale"}


@LINUX
async def test_this_machine_needs_no_shell() -> None:
    class Shellless(LocalMachine):
        async def runner(self) -> Shell:
            raise AssertionError("no shell is needed for this")

    poller = HostPoller(Shellless())
    first = await poller.poll()
    await asyncio.sleep(0.05)
    second = await poller.poll()
    assert "cpu_pct" not in first[0].values
    assert {"mem_used_mb", "load1", "cores"} <= set(second[0].values)
    await poller.close()


def ticks(*busy_and_wait: tuple[int, int], of: int = 100) -> dict[str, CpuTimes]:
    """Counters of cores, each busy and waiting for so many of `of` ticks."""
    cores = {f"cpu{at}": CpuTimes(busy, wait, of) for at, (busy, wait) in enumerate(busy_and_wait)}
    every = [sum(result) for result in zip(*busy_and_wait, strict=True)]
    return {"cpu": CpuTimes(every[0], every[1], of * len(cores)), **cores}


class Ticking(HostPoller):
    """Reads counters that a test gives."""

    def __init__(self, *rounds: dict[str, CpuTimes]) -> None:
        super().__init__(LocalMachine())
        self._rounds = iter(rounds)

    async def _facts(self) -> HostFacts:
        return HostFacts(cpus=next(self._rounds))


async def test_every_core_is_told_and_the_one_that_waits_is_not_lost_among_many() -> None:
    waits = [(0, 100), (100, 0), (55, 5), *[(0, 0)] * 93]
    poller = Ticking(ticks(*[(0, 0)] * 96, of=0), ticks(*waits))
    assert (await poller.poll())[0].words == {}
    [result] = await poller.poll()
    assert result.words["cores_busy"] == "095" + "0" * 93
    assert result.words["cores_iowait"] == "9" + "0" * 95
    assert result.values["iowait_pct"] == pytest.approx(105 / 96)
    assert result.values["iowait_max_pct"] == 100.0
    assert result.values["cpu_max_pct"] == 100.0
    line = format_reading(result, "a", "2026-03-02 08:15:07.118").decode()
    found = parse_reading(line)
    assert found is not None
    assert found[1].words == result.words


async def test_of_more_cores_than_there_are_signs_the_busiest_of_neighbours_is_told() -> None:
    many = [(100 * (at == 200), 0) for at in range(384)]
    poller = Ticking(ticks(*[(0, 0)] * 384, of=0), ticks(*many))
    await poller.poll()
    [result] = await poller.poll()
    assert result.words["cores_busy"] == "0" * 66 + "9" + "0" * 61  # three cores a sign
    assert result.values["cores"] == 384.0


async def test_a_core_that_was_put_to_sleep_is_none() -> None:
    asleep = {**ticks((50, 0), (0, 0), (100, 0)), "cpu1": CpuTimes(0, 0, 0)}
    poller = Ticking(ticks((0, 0), (0, 0), (0, 0), of=0), asleep)
    await poller.poll()
    [result] = await poller.poll()
    assert result.words["cores_busy"] == "5-9"


@LINUX
def test_psutil_tells_the_same_where_there_is_no_proc() -> None:
    there, here = read_psutil(), read_here()
    assert there.cpus.keys() == here.cpus.keys()
    assert there.nics.keys() == here.nics.keys()
    assert there.levels["mem_total_mb"] == pytest.approx(here.levels["mem_total_mb"])
    assert there.levels["mem_used_mb"] == pytest.approx(here.levels["mem_used_mb"], rel=0.2)
    assert there.cpus["cpu"].busy == pytest.approx(here.cpus["cpu"].busy / os.sysconf("SC_CLK_TCK"), rel=0.05)


def test_files_of_a_host_may_hold_anything() -> None:
    text = (
        "/proc/stat:cpu  x y z\n/proc/stat:cpu0 1 2 3\n/proc/meminfo:MemTotal: none kB\n/proc/net/dev: eth0: 1 2\n"
        "/proc/loadavg:\n/sys/class/net/eth0/speed:-1\n/sys/class/net/eth1/speed:10000\nno colon\n"
        "/proc/pressure/io:some avg10=9.9.9\n"
    )
    facts = facts_of(printed(text))
    assert (facts.cpus, facts.nics) == ({}, {})
    assert facts.speeds == {"eth1": 1250.0}


async def test_a_machine_without_proc_is_told_in_a_line() -> None:
    poller = HostPoller(Elsewhere())
    shell = poller._shell
    await shell.run("grep(){ :; }")
    with pytest.raises(NotAvailableError, match="not Linux"):
        await poller.poll()
    await poller.close()


def test_rates_of_interfaces_survive_counters_that_begin_anew() -> None:
    rates = NicRates()
    assert rates.take({"eth0": NicCounts(5e6, 1e6, 0, 0), "lo": NicCounts(9e9, 9e9, 0, 0)}, {"eth0": 1250.0}, 10.0)[
        0
    ].values == {"speed_mb_s": 1250.0}
    second = rates.take({"eth0": NicCounts(15e6, 2e6, 2, 4), "veth1": NicCounts(1, 1, 0, 0)}, {}, 12.0)
    assert [one.name for one in second] == ["eth0"]
    assert second[0].values == {"rx_mb_s": 5.0, "tx_mb_s": 0.5, "errors_per_s": 1.0, "drops_per_s": 2.0}
    assert rates.take({"eth0": NicCounts(2e6, 3e6, 2, 4)}, {}, 13.0)[0].values["rx_mb_s"] == 2.0


# --- disks ------------------------------------------------------------------------------------------------------------
DF = """Filesystem     1024-blocks       Used  Available Capacity Mounted on
/dev/nvme0n1p1  6971436032 4251436032 2720000000      61% /data
//nas/share one  100000000   99000000    1000000      99% /mnt/with blank
proc                     0          0          0        - /proc
"""
MOUNTS = """22 27 0:21 / /proc rw,relatime - proc proc rw
36 27 259:1 / /data rw - ext4 /dev/nvme0n1p1 rw
37 27 0:55 / /mnt/with\\040blank rw - cifs //nas/share rw
"""


def test_df_and_mounts_are_read() -> None:
    spaces = spaces_of(DF)
    assert list(spaces) == ["/data", "/mnt/with blank"]
    assert spaces["/data"].left == 2720000000
    assert devices_of(MOUNTS) == {"/proc": "0:21", "/data": "259:1", "/mnt/with blank": "0:55"}
    stats = counts_of(" 259 1 nvme0n1p1 10 0 2048 3 20 0 4096 5 0 700 8\n 8 0 sda 1 2\nx y z\n")
    assert list(stats) == ["259:1"]
    assert stats["259:1"].busy_ms == 700


MOUNTSTATS = """device proc mounted on /proc with fstype proc
device nas:/export mounted on {mount} with fstype nfs4 statvers=1.1
\tbytes:\t{read} {written} 0 0 {read} {written} 10 20
device nas:/other mounted on /mnt/with\\040blank with fstype nfs statvers=1.1
\tbytes:\t1 2 3 4 5 6 7 8
device nas:/odd mounted on /odd with fstype nfs4 statvers=1.1
\tbytes:\t1 2
"""


def test_what_goes_over_network_file_systems_is_read() -> None:
    counts = mounted_counts(MOUNTSTATS.format(mount="/nas", read=1024, written=2048))
    assert counts == {"/nas": IoCounts(2, 4, None), "/mnt/with blank": IoCounts(5 / 512, 6 / 512, None)}


@LINUX
async def test_a_network_file_system_tells_its_throughput(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, stats = tmp_path / "bin", tmp_path / "stats"
    programs.mkdir()
    df = f"nas:/export 1000000 500000 500000 50% {tmp_path}"
    for name, script in (("df", f"echo '{df}'"), ("grep", f"cat {stats}")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    poller = DiskPoller(LocalMachine(), lambda: {str(tmp_path): "checkpoints"})
    stats.write_text(MOUNTSTATS.format(mount=tmp_path, read=0, written=0))
    await poller.poll()
    stats.write_text(MOUNTSTATS.format(mount=tmp_path, read=0, written=10**9))
    [result] = await poller.poll()
    assert result.name == str(tmp_path)
    assert result.values["read_mb_s"] == 0.0
    assert result.values["write_mb_s"] > 0.0
    assert "busy_pct" not in result.values  # nobody counts that
    await poller.close()


def test_a_forecast_needs_time_and_a_slope() -> None:
    steady = [(10.0 * at, 1e6 - 1000.0 * at) for at in range(40)]
    assert forecast(steady) == pytest.approx(961000 / 100.0, rel=1e-6)
    assert forecast(steady[:20]) is None
    assert forecast([(10.0 * at, 1e6) for at in range(40)]) is None
    assert forecast([(10.0 * at, 1e6 + 5.0 * at) for at in range(40)]) is None
    assert forecast([(10.0 * at, 1e12 - 1.0 * at) for at in range(40)]) is None
    rotated = [(10.0 * at, 1e6 - 50_000.0 * (at % 6)) for at in range(61)]
    assert (forecast(rotated) or 1e9) > 3600.0


def test_places_of_logs_lead_to_those_of_checkpoints() -> None:
    places = wanted_places({"/data/run/logs": "logs", "relative": "logs", "/a\nb": "logs"})
    assert places["/data/run/logs"] == "logs"
    assert places["/data/run/checkpoints"] == "checkpoints"
    assert places["/"] == ""
    assert not any("\n" in path or not path.startswith("/") for path in places)


@LINUX
async def test_no_name_of_a_folder_runs_a_command(tmp_path: Path) -> None:
    evil = tmp_path / "a'; touch owned; $(touch owned) `touch owned`"
    evil.mkdir()
    poller = DiskPoller(LocalMachine(), lambda: {str(evil): "logs"})
    readings = await poller.poll()
    await poller.close()
    assert any("logs" in reading.words["holds"] for reading in readings)
    assert not [name for folder in (tmp_path, evil, Path("/")) for name in os.listdir(folder) if name == "owned"]


# --- processes --------------------------------------------------------------------------------------------------------
@pytest.fixture
def busy() -> Iterator[int]:
    """A process that says that it is vLLM, and works."""
    words = ("-c", "while True: pass", "--", "vllm.entrypoints", "--api-key", "sk-0123456789abcdef01")
    process = subprocess.Popen([sys.executable, *words])
    yield process.pid
    process.kill()
    process.wait()


@LINUX
async def test_processes_of_a_run_are_found_and_measured(busy: int) -> None:
    poller = ProcessPoller(LocalMachine())
    try:
        await asyncio.sleep(0.3)
        await poller.poll()
        await asyncio.sleep(0.5)
        mine = next(one for one in await poller.poll() if one.name == str(busy))
        assert mine.words["role"] == "vLLM"
        assert "0123456789abcdef01" not in mine.words["command"]
        assert mine.words["folder"] == os.getcwd()
        assert mine.values["cpu_pct"] > 1.0
        assert mine.values["rss_mb"] > 1.0
        assert 0.0 <= mine.values["uptime_s"] < 300.0
    finally:
        await poller.close()


def test_a_process_may_call_itself_anything() -> None:
    stat = "12 (a) R (b c) S 1 " + " ".join(str(number) for number in range(5, 53))
    found, uptime, ticks, page = parsed(f"{stat}\nnot a line\nU\n99.5 3\n")
    assert [(one.pid, one.cpu_ticks, one.started_ticks, one.pages) for one in found] == [(12, 14 + 15, 22, 24)]
    assert (uptime, ticks, page) == (99.5, 100.0, 4096.0)
    assert parsed("U\n99.5 3\n250\n16384\n")[1:] == (99.5, 250.0, 16384.0)


# --- sockets ----------------------------------------------------------------------------------------------------------
SS = """ESTAB 3930000 0      10.0.0.2:12321   10.0.0.1:50000
\t skmem:(r4117000,rb4224163,t0,tb87040,f0,w0,o0,bl0,d0) ts sack cubic bytes_received:9000 lastrcv:4
ESTAB 0       3260000 10.0.0.1:50000   10.0.0.2:12321 timer:(on,200ms,0)
\t skmem:(r0,rb131072,t0,tb2626560) bytes_acked:7000 busy:3248ms rwnd_limited:2900ms(89.3%) retrans:0/4
LISTEN 0      128     0.0.0.0:12321     0.0.0.0:*
"""


def flow(**result: float) -> Flow:
    """A connection over one period."""
    values = {"recv_share": 0.0, "recv_q": 0, "send_q": 0, "busy": 0.0, "limited": 0.0, "sent": 0.0, "received": 0.0}
    return Flow(lastrcv_ms=result.pop("lastrcv_ms", None), **{**values, **result})  # type: ignore[arg-type]


def test_ss_is_read() -> None:
    reader, writer = sockets_of(SS)
    assert (reader.recv_q, reader.received, reader.lastrcv_ms) == (3930000, 9000, 4.0)
    assert reader.recv_share == pytest.approx(0.9746, abs=1e-3)
    assert (writer.send_q, writer.busy_ms, writer.rwnd_limited_ms, writer.retrans) == (3260000, 3248, 2900, 4)


@pytest.mark.parametrize(
    ("flows", "says"),
    [
        ([flow(recv_share=0.97, recv_q=3_930_000, received=3.2e6)], "consumer"),
        ([flow(send_q=3_260_000, busy=0.98, limited=0.89, sent=3.2e6)], "consumer"),
        ([flow(send_q=1_300_000, busy=1.0, limited=0.001, sent=12e6)], "network"),
        ([flow(busy=0.001, sent=5.2e6), flow(received=5.2e6, lastrcv_ms=108)], "producer"),
        ([flow(busy=0.036, sent=50e6), flow(received=50e6, lastrcv_ms=0)], "healthy"),
        ([flow(busy=0.5, send_q=100, sent=50e6)], "healthy"),
        ([flow(received=12e6, lastrcv_ms=4)], "upstream"),
        ([flow(sent=3.0)], "idle"),
        ([], "idle"),
    ],
)
def test_the_verdict_is_the_one_of_the_measurements(flows: list[Flow], says: str) -> None:
    assert verdict([flows] * 5) == says


@pytest.mark.parametrize(
    ("flows", "known"),
    [
        ([flow(received=12e6, lastrcv_ms=4)], {"consumer": 0.0, "upstream": 100.0}),
        ([flow(recv_share=0.97, recv_q=3_930_000, received=3.2e6)], {"consumer": 100.0, "upstream": 0.0}),
        ([flow(busy=0.001, sent=5.2e6)], {"consumer": 0.0, "network": 0.0}),
        ([flow(send_q=1_300_000, busy=1.0, sent=12e6)], {"consumer": 0.0, "network": 100.0}),
        (
            [flow(busy=0.001, sent=5.2e6), flow(received=5.2e6, lastrcv_ms=108)],
            {"consumer": 0.0, "network": 0.0, "producer": 100.0},
        ),
        ([], {}),
    ],
)
def test_one_end_alone_shows_nothing_of_the_other(flows: list[Flow], known: dict[str, float]) -> None:
    assert holders([flows] * 5) == {f"{who}_pct": share for who, share in known.items()}


async def test_a_machine_without_ss_is_told_in_a_line() -> None:
    poller = SocketPoller(Elsewhere(), 9)
    await poller._shell.run("ss(){ return 127; }")
    with pytest.raises(NotAvailableError, match="net:9: no ss on elsewhere: install iproute2"):
        await poller.poll()
    await poller.close()


@pytest.mark.system
@pytest.mark.skipif(shutil.which("ss") is None, reason="no ss (iproute2)")
async def test_who_does_not_read_holds_up_who_writes() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    writer = socket.create_connection(("127.0.0.1", port))
    reader, _ = server.accept()
    writer.setblocking(False)
    poller = SocketPoller(LocalMachine(), port)
    poller.every_s = 0.2

    def fill() -> None:
        try:
            while writer.send(b"x" * 65536):
                pass
        except BlockingIOError:
            pass

    try:
        fill()

        def held_up(result: Collected) -> bool:
            fill()
            return any(one.words.get("verdict") == "consumer" for one in result.readings(Area.SOCKET))

        result = await paced(LocalMachine(), [poller], held_up)
        last = result.readings(Area.SOCKET)[-1]
        assert last.values["connections"] == 2
        assert last.values["recv_q_bytes"] > 0
        assert last.values["recv_q_share_pct"] > 50
    finally:
        for one in (reader, writer, server):
            one.close()
