"""The pane of machines: what is told of GPUs, hosts and queues in every room, and where nothing is observed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hosts import SIZES, SKIN, Host, paged, screen_text
from machines import LINKS, gpu, reading, readings, seen
from pictures import START, picture, source
from rich.cells import cell_len
from snapshots import HOSTILE, finding, metric, snapshot

from perfmon.sources.pollers.reading import Area, Reading
from perfmon.sources.remote.model import HostState, Phase
from perfmon.store.latest_readings import LatestReadings, Seen
from perfmon.textgraphics.cells import ASCII
from perfmon.tui.panes.lists import SourcesPane
from perfmon.tui.render.hosts.layout import ORDERS, VIEWS, View, lines_of
from perfmon.tui.render.hosts.sections import host_runs, polls_text, reasons
from perfmon.tui.render.hosts.table import RenderContext
from perfmon.tui.render.rows import row_cells
from perfmon.tui.theme import ThemeStyles
from perfmon.viewmodel import Freshness, HostOverview, MonitorState

NOW = START + 600.0
LOGS = (source(), source(index=1, name="inference.log"), source(index=2, name="trainer.log"))
SKINS = [SKIN, ThemeStyles(SKIN.theme, glyphs=ASCII)]


def observed(**changes: object) -> MonitorState:
    """Two hosts, four GPUs, an engine."""
    return replace(picture(now=NOW, sources=LOGS, seen=seen(NOW)), **changes)  # type: ignore[arg-type]


def result_of(
    shown: MonitorState, view: str = "auto", width: int = 100, room: int = 40, **changes: object
) -> list[str]:
    """The lines of the pane."""
    requests = replace(View(view, width, room), **changes)  # type: ignore[arg-type]
    lines = lines_of(RenderContext.at(shown, SKIN), requests, shown.sources, lambda log: ((log.name, "text"),))
    return ["".join(text for text, _ in line.draw()) for line in lines]


def pane(shown: MonitorState, view: str = "auto", skin: ThemeStyles = SKIN) -> Host:
    def make() -> SourcesPane:
        made = SourcesPane(skin)
        made.view = view
        made.show(shown)
        return made

    return Host(make)


# --- what is told -----------------------------------------------------------------------------------------------------
def test_a_gpu_tells_its_use_memory_power_heat_and_what_slows_it_down() -> None:
    lines = result_of(observed(), "gpus", 110)
    assert lines[0].split() == ["GPUS", "util", "lately", "memory", "power", "temp", "slowed", "by", "processes"]
    assert lines[1].split()[:2] == ["▌", "a100-0:0•"]
    for words in ("31%", "70/80G", "183/400W", "61C", "inference 48123", "▇▃"):
        assert words in lines[1], words
    assert "power cap" in lines[3]
    assert lines[4].startswith(" ✗ a100-1:1 ")  # 91 C, and the run was not given it: no dot
    assert "91C" in lines[4]


def test_what_is_critical_is_told_in_a_narrow_pane_sooner_than_what_is_well() -> None:
    lines = result_of(observed(), room=3, width=32)
    assert any(line.startswith(" ✗ a100-1") and line.rstrip().endswith("91C") for line in lines), lines
    assert any(line.startswith(" ✗ vllm") and "kv 91%" in line for line in lines), lines


def test_a_lost_gpu_and_what_is_not_supported_are_values() -> None:
    lost = seen(NOW, 1, [gpu(0, 0, 0.0, state="lost"), reading("a100-0", Area.GPU, "1", state="unsupported")])
    lines = result_of(observed(seen=lost), "gpus", 80)
    assert lines[1].startswith(" ✗ gpu 0")
    assert " lost " in lines[1]
    assert lines[2].split() == ["✓", "gpu", "1", "-"]


def test_a_host_tells_how_it_is_reached_and_how_busy_it_is() -> None:
    lines = result_of(observed(links=LINKS), "hosts", 190)
    assert [word for word in lines[1].split() if word[0] not in "━·▁▃"][:5] == ["!", "a100-0", "cpu", "31%", "live"]
    for words in ("mem 22% 109/500G", "disk /scratch/ckpt 92% 812 GB free", "net 1.1 GB/s", "load 12.3", "+3 ms ± 1"):
        assert words in lines[1], words
    assert "stale 12 s" in lines[2]
    assert lines[3] == " ✗ login reconnecting 3 connection refused"
    text = "\n".join(lines)
    for words in ("DISKS", "full in 1h 30m", "NETWORK", "rx 1.1 GB/s", "PROCESSES", "inference vllm", "up 2h 13m"):
        assert words in text, words


def test_a_host_tells_each_of_its_cores() -> None:
    cores = {"cores_busy": "09" + "0" * 94, "cores_iowait": "90" + "0" * 94}
    polled = [
        reading("a100-0", Area.HOST, "all", cpu_pct=1.0, cores=96.0, iowait_pct=1.0, iowait_max_pct=99.0, **cores)
    ]
    lines = result_of(observed(seen=seen(NOW, 1, polled)), "hosts", 160, opened={("a100-0", "host", "all")})
    text = "\n".join(lines)
    assert "io 1% max 99%" in lines[1]  # one core that waits all the time is one of 96
    assert " cores ▇▁▁" in lines[1]  # three neighbours a sign, the busiest of them
    busy, waits = (next(line for line in lines if name in line) for name in ("cores busy", "cores wait"))
    assert busy.rstrip().endswith("▁█" + "▁" * 94)
    assert waits.rstrip().endswith("█" + "▁" * 95)
    assert "cores_busy" not in text


def test_queues_tell_what_waits_and_sockets_who_is_slow() -> None:
    ray = reading(
        "a100-0", Area.QUEUE, "Q1", kind="ray", depth=11, capacity=50, put_per_s=41, get_per_s=63, empty_pct=31
    )
    lines = result_of(observed(seen=seen(NOW, 12, [*readings(2), ray])), "queues", 120)
    text = "\n".join(lines)
    for words in ("vllm 8000", "run 236", "wait 71", "kv 91%", "5200 tok/s", "ttft 0.31 s", "ray Q1", "11/50", "22%",
                  "put 41/s", "get 63/s", "empty 31%", "port 12321", "consumer too slow",
                  "job 123456 running", "bottleneck_test"):  # fmt: skip
        assert words in text, words


@pytest.mark.parametrize(("good", "critical"), [(None, None), (60.0, 90.0)])
def test_a_queue_of_a_metric_without_limits_has_a_strip(good: float | None, critical: float | None) -> None:
    queue = Seen("here", Reading(Area.QUEUE, "q", {"fill_pct": 0.0}, {}), 0.0, {"fill_pct": (0.0, 95.0)})
    fill = metric("queue_fill", (0.0, 95.0), "%", good=good, critical=critical)
    look = RenderContext.at(observed(snapshot=replace(snapshot(), metrics={"queue_fill": fill})), SKIN)
    drawn = look.strip(queue, "fill_pct", "queue_fill", 2)
    assert [SKIN.style(style) for _, style in drawn]
    assert [style for _, style in drawn] == (["queue", "queue"] if good is None else ["good", "critical"])


def test_what_has_no_column_is_told_by_its_name() -> None:
    trainer = reading("a100-0", Area.QUEUE, "head:8009", kind="prime-rl", step=42, loss=0.31, mfu_pct=25)
    text = "\n".join(result_of(observed(seen=seen(NOW, 1, [trainer])), "queues", 80))
    assert "prime-rl head:8009" in text
    assert "step 42  loss 0.31  mfu_pct 25" in text


def test_engines_of_one_name_say_whose_they_are() -> None:
    twins = [reading(host, Area.QUEUE, "8000", kind="vllm", running=3, waiting=0) for host in ("a100-0", "a100-1")]
    lines = result_of(observed(seen=seen(NOW, 1, twins)), "queues", 80)
    assert [line.split()[1] for line in lines[1:]] == ["a100-0:vllm", "a100-1:vllm"]


def test_what_polls_is_listed_with_its_troubles() -> None:
    failed = [
        *readings(),
        reading("a100-0", Area.POLLER, "gpu", state="failed", why="nvidia-smi:_no_answer"),
        reading("a100-0", Area.POLLER, "slurm", state="absent", why="no_squeue"),
        reading("a100-0", Area.POLLER, "vllm", state="stale", age_s=12.6),
    ]
    shown = observed(seen=seen(NOW, 3, failed))
    alone = "\n".join(result_of(shown, "auto"))
    assert "nvidia-smi: no answer" in alone
    assert "stale 12 s" in alone
    assert "slurm" not in alone  # what is not there is nobody's trouble
    assert "no squeue" in "\n".join(result_of(shown, "sources"))
    later = "\n".join(result_of(replace(shown, now=NOW + 600.0), "auto"))
    assert "slurm" not in later  # however long ago that was told
    assert "nvidia-smi: no answer" in later


def test_old_answers_say_how_old_they_are() -> None:
    lines = result_of(observed(now=NOW + 12.4), "gpus", 60)
    assert all(line.startswith(" ? ") for line in lines[1:])
    assert all("? 12 s" in line for line in lines[1:])
    assert not any("31%" in line for line in lines)
    assert "? 12 s" not in "".join(result_of(observed(now=NOW + 2.0), "gpus", 60))


def test_one_reading_a_minute_is_not_late_after_half_of_one() -> None:
    slow: list[Seen] = [replace(one, every_s=60.0) for one in seen(NOW)]
    assert not RenderContext.at(observed(seen=tuple(slow), now=NOW + 100), SKIN).around.stale(slow[0])
    assert RenderContext.at(observed(seen=tuple(slow), now=NOW + 200), SKIN).around.stale(slow[0])


def test_every_value_of_what_was_opened() -> None:
    lines = result_of(observed(), "gpus", 90, opened={("a100-0", "gpu", "0")})
    at = next(at for at, line in enumerate(lines) if "model NVIDIA_A100" in line or "model NVIDIA A100" in line)
    text = "\n".join(lines[at:])
    for words in ("every 1 s", "  util ", "31 .. 96", "sm max", "1410 MHz", "mem total", " GB"):
        assert words in text, words


# --- which of it ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("room", "has", "has_not"),
    [
        (18, ("GPUS", "HOSTS", "ENGINES", "LOGS", "a100-1:1"), ()),
        (14, ("a100-1:1", "trainer.log", "cpu 31%"), ("GPUS", "LOGS")),
        (10, ("a100-1:1", "cpu 31%", "job"), ("trainer.log",)),
        (8, ("a100-1:1", "cpu 31%"), ("job",)),
        (6, ("▃▃", "cpu 12%", "mem 22%", "vllm"), ("a100-1:1", "trainer.log")),
        (4, ("▃▃", "cpu 31%", "vllm", "port"), ("a100-1:1", "disk")),
        (1, ("▃▃", "vllm"), ("a100-1:1",)),
    ],
)
def test_the_less_room_the_fewer_words(room: int, has: tuple[str, ...], has_not: tuple[str, ...]) -> None:
    lines = result_of(observed(), "auto", 100, room)
    text = "\n".join(lines)
    assert len(lines) <= max(room, 4)
    assert [words for words in has if words not in text] == []
    assert [words for words in has_not if words in text] == []


def test_what_is_opened_changes_nothing_around_it() -> None:
    closed, opened = (result_of(observed(), "auto", 100, 10, opened=keys) for keys in ((), {("a100-0", "gpu", "0")}))
    assert [line for line in opened if line in closed] == closed
    assert "  util " in "\n".join(opened)


def test_logs_in_trouble_are_always_told() -> None:
    sick = observed(sources=(*LOGS, source(index=3, name="silent.log", freshness=Freshness.STALE)))
    lines = result_of(sick, "auto", 60, 4)
    assert lines[-1] == "silent.log"
    assert "trainer.log" not in lines


def test_logs_fill_the_rows_that_are_left_and_the_others_are_counted() -> None:
    many = observed(sources=tuple(source(index=at, name=f"worker-{at}.log") for at in range(7)))
    headings = 5
    rows = len(result_of(observed(sources=()), "auto", 100, 40)) - headings
    for room, last in ((rows + 7, "worker-6.log"), (rows + 5, "3 more logs"), (rows + 1, "7 more logs")):
        lines = result_of(many, "auto", 100, room)
        assert len(lines) == room
        assert lines[-1].strip() == last
    assert result_of(many, "auto", 100, rows + 5)[-2] == "worker-3.log"


def test_a_disk_is_called_one() -> None:
    polled = [reading("vm", Area.HOST, "all", cpu_pct=1.0), reading("vm", Area.DISK, "/", used_pct=43, free_gb=9)]
    (line,) = (line for line in result_of(observed(seen=seen(NOW, 1, polled))) if " vm " in line)
    assert "disk / 43%" in line


def test_maximised_it_shows_everything() -> None:
    text = "\n".join(result_of(observed(links=LINKS), "auto", 200, 10, everything=True))
    for words in ("GPUS", "HOSTS", "DISKS", "NETWORK", "PROCESSES", "ENGINES", "SOCKETS", "JOBS", "POLLERS", "LOGS"):
        assert words in text, words


@pytest.mark.parametrize(
    ("view", "advice"), [("gpus", "perfmon doctor"), ("hosts", "perfmon ssh"), ("queues", "vllm=http")]
)
def test_where_nothing_is_observed_it_says_how_to_have_it(view: str, advice: str) -> None:
    why = reading("a100-0", Area.POLLER, "gpu nvml", state="absent", why="no_driver")
    text = " ".join(result_of(observed(seen=seen(NOW, 1, [why])), view, 60))
    assert "is monitored" in text
    assert advice in text
    assert ("no driver" in text) == (view == "gpus")


def test_a_view_gives_the_reasons_of_its_own_pollers() -> None:
    names = ("gpu", "host'", "disks", "vllm http://gpu-1:8000", "prometheus http://localhost:9090", "net:12321")
    whys = [reading("a100-0", Area.POLLER, name, state="failed", why="no_answer") for name in (*names, "command x gpu")]
    overview = HostOverview.at(observed(seen=seen(NOW, 1, whys)))
    shown = {
        view: [reason.split(": ")[1] for reason in reasons(view, overview)] for view in ("gpus", "hosts", "queues")
    }
    assert shown == {
        "gpus": ["gpu"],
        "hosts": ["disks", "host'"],
        "queues": sorted(name.replace(" ", "_") for name in (*names[3:], "command x gpu")),
    }


# --- the header -------------------------------------------------------------------------------------------------------
def test_the_header_tells_how_hosts_are_reached() -> None:
    def text(room: int, **changes: object) -> str:
        runs = host_runs(observed(**changes), room, SKIN)
        assert row_cells(runs) <= max(room, 11)
        return "".join(text for text, _ in runs)

    assert text(60, links=LINKS) == "a100-0 ✓0.3s  a100-1 ? 12 s  login ✗ reconnecting 3"
    assert text(30, links=LINKS) == "3 hosts ✗ 2 not live"
    assert text(12, links=LINKS) == "3 hosts ✗ 2"
    assert text(12, links=LINKS[:1], seen=()) == "a100-0 ✓0.3s"
    assert text(60) == "a100-0 ✓  a100-1 ✓"  # of a recording nobody knows how it was reached
    assert text(60, now=NOW + 30) == "a100-0 ? 30 s  a100-1 ? 30 s"
    assert text(60, seen=seen(NOW, 1, [gpu(0, 0, 9.0)])) == ""
    assert polls_text(observed()) == "4 pollers"
    assert polls_text(picture()) == ""


# --- the pane ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", SIZES)
async def test_it_opens_what_is_under_the_cursor(size: tuple[int, int]) -> None:
    app = pane(observed(), "gpus")
    async with app.run_test(size=size) as pilot:
        await pilot.press("enter")
        assert "model NVIDIA" in "".join(screen_text(app))
        await pilot.press("enter")
        assert "model NVIDIA" not in "".join(screen_text(app))
        await pilot.press("down", "i")
        assert "48123" in "".join(screen_text(app))


async def test_the_cursor_stays_on_its_gpu() -> None:
    app = pane(observed(), "gpus")
    async with app.run_test(size=(100, 12)) as pilot:
        await pilot.press("down", "down")
        shown = app.query_one(SourcesPane)
        line = shown._lines[shown.cursor or 0]
        assert line.key == ("a100-1", "gpu", "0")
        shown.show(observed(seen=seen(NOW, 2, [gpu(1, 0, 50.0), gpu(1, 1, 1.0)])))
        assert shown._lines[shown.cursor or 0].key == ("a100-1", "gpu", "0")


def evil(text: str) -> tuple[Seen, ...]:
    """That text wherever a machine can put some."""
    shown = seen(NOW, 2)
    return tuple(
        replace(
            one,
            host=text,
            reading=Reading(one.reading.area, text, one.reading.values, dict.fromkeys(one.reading.words, text)),
        )
        for one in shown
    )


@pytest.mark.parametrize("size", [(120, 30), (60, 10)])
@pytest.mark.parametrize("skin", SKINS, ids=["colours", "ascii"])
@pytest.mark.parametrize("view", VIEWS)
async def test_hostile_words_stay_words(view: str, size: tuple[int, int], skin: ThemeStyles) -> None:
    link = HostState(HOSTILE, Phase.RECONNECTING, None, 1, 2, HOSTILE, 0, None)
    app = pane(observed(seen=evil(HOSTILE), links=(link,)), view, skin)
    async with app.run_test(size=size) as pilot:
        await pilot.press("down", "enter", "i")
        text = "".join(await paged(app, pilot))
    assert not set(text) & set("\x1b\x07\n\r\u202e\x00")


async def test_a_row_with_names_of_other_characters_is_painted_as_a_whole() -> None:
    from perfmon.tui.render.rows import Fitted

    made = SourcesPane(SKIN)
    app = Host(lambda: made)
    async with app.run_test(size=(80, 12)):
        made.show(observed(seen=tuple(replace(one, host="日本") for one in seen(NOW, 1))))
        rows = made.rows(80, 12)
        assert isinstance(rows[2], Fitted)
        made.show(observed())
        assert not isinstance(made.rows(80, 12)[2], Fitted)


def test_many_machines_are_soon_drawn() -> None:
    """64 hosts of 8 GPUs: what is not in sight is not drawn."""
    park = seen(NOW, 1, [reading(f"n{h}", Area.GPU, str(g), util_pct=g) for h in range(64) for g in range(8)])
    drawn: list[Callable[[], object]] = []
    lines = lines_of(RenderContext.at(observed(seen=park), SKIN), View("gpus", 100, 9), (), lambda log: ())
    drawn += [line.draw for line in lines]
    assert len(drawn) == 513 - 1  # a heading would not fit
    assert len(lines_of(RenderContext.at(observed(seen=park), SKIN), View("auto", 100, 9), (), lambda log: ())) == 64


async def test_there_is_no_room_too_small() -> None:
    app = pane(observed(links=LINKS))
    async with app.run_test(size=(9, 3)) as pilot:
        await pilot.press("down", "enter", "i")
        assert {cell_len(line) for line in screen_text(app)} == {9}


def test_the_queue_that_the_verdict_is_about_is_marked() -> None:
    names = ("gpu-1:8000/0", "gpu-1:8000/1")
    engines = seen(NOW, 1, [reading("head", Area.QUEUE, name, running=9.0, waiting=4.0) for name in names])
    for identity, marked in (({"group": "gpu-1:8000/1"}, ["gpu-1:8000/1"]), ({}, [])):
        found = finding(proof=("kv_usage", "waiting"), identity=identity)
        look = RenderContext.at(observed(seen=engines, snapshot=snapshot(findings=(found,))), SKIN)
        marks = {thing.reading.name: look.mark((look.around.hosts[0], thing))[0] for thing in engines}
        assert [name for name, mark in marks.items() if "✗" in mark] == marked
    alone = snapshot(findings=(finding(proof=("waiting",)),))
    look = RenderContext.at(observed(seen=engines[:1], snapshot=alone), SKIN)
    assert look.mark((look.around.hosts[0], engines[0])) == (" ✗", "critical"), "the only one there is"
    other = snapshot(findings=(finding(proof=("queue_ms",)),))
    assert RenderContext.at(observed(seen=engines[:1], snapshot=other), SKIN).blamed == {}


def test_the_gpu_and_the_host_that_the_verdict_rests_on_are_marked() -> None:
    idle = seen(NOW, 1, [gpu(0, 0, 5.0), gpu(0, 1, 96.0), reading("a100-0", Area.HOST, "all", cpu_pct=31.0)])

    def marked(group: str, *proof: str) -> list[str]:
        made = snapshot(findings=(finding(proof=proof, identity={"group": group} if group else {}),))
        look = RenderContext.at(observed(seen=idle, snapshot=made), SKIN)
        things = [(host, one) for host in look.around.hosts for one in host.of(Area.GPU, Area.HOST)]
        return [
            f"{one.reading.area} {one.reading.name}" for host, one in things if look.mark((host, one))[1] == "critical"
        ]

    assert marked("a100-0:0", "gpu_busy") == ["gpu 0"]
    assert marked("a100-0", "host_cpu_pct") == ["host all"]
    assert marked("", "gpu_busy") == []  # two of them, and it names none
    assert marked("", "iowait_pct") == ["host all"]
    assert marked("a100-0:0", "queue_ms") == []


@pytest.mark.parametrize("width", [80, 120, 200])
def test_what_gpus_hosts_and_engines_begin_with_stands_below_each_other(width: int) -> None:
    lines = [line for line in result_of(observed(), "auto", width) if re.match(r"(?: [✓✗!?▌]) (a100|vllm)", line)]
    assert len(lines) == 7
    assert len({re.search(r"\d+%", line).end() for line in lines}) == 1  # type: ignore[union-attr]
    if width >= 120:
        assert len({re.search(r" ━", line).start() for line in lines}) == 1  # type: ignore[union-attr]


def test_memory_is_a_bar_and_rows_are_sorted_by_use_or_memory() -> None:
    pane_lines = result_of(observed(), "gpus", 120)
    assert re.search(r"▃ ━{5}[╸·] +70/80G", pane_lines[1])

    def names(order: str) -> list[str]:
        return [line.split()[1].rstrip("•") for line in result_of(observed(), "gpus", 120, order=order)[1:5]]

    assert ORDERS[0] == ""
    assert names("") == ["a100-0:0", "a100-0:1", "a100-1:0", "a100-1:1"]
    assert names("busiest first") == ["a100-1:1", "a100-1:0", "a100-0:0", "a100-0:1"]
    assert names("most memory first") == ["a100-0:0", "a100-1:0", "a100-0:1", "a100-1:1"]


async def test_o_sorts_the_pane_and_its_title_states_the_order() -> None:
    app = pane(observed(), "gpus")
    async with app.run_test(size=(120, 12)) as pilot:
        for title in ("GPUS, busiest first", "GPUS, most memory first", "3 GPUS "):
            app.screen.query_one(SourcesPane).do_sort()
            await pilot.pause()
            assert title in screen_text(app)[0]


def test_gpus_that_idle_while_the_verdict_costs_time_show_it_and_are_not_good() -> None:
    things = seen(NOW, 1, [gpu(0, 0, 5.0), gpu(0, 1, 96.0)])

    def marks(lost_s: float) -> list[str]:
        made = snapshot(findings=(finding(proof=("queue_ms",), lost_s=lost_s),))
        look = RenderContext.at(observed(seen=things, snapshot=made), SKIN)
        return [look.mark((host, one))[0] for host in look.around.hosts for one in host.of(Area.GPU)]

    assert marks(200.0) == [f" {SKIN.glyph('edge')}", " ✓"]
    assert marks(0.0) == [" ✓", " ✓"], "nothing is lost: what idles proves nothing"


def test_gpus_that_take_turns_are_marked_whichever_of_them_works_now() -> None:
    made = snapshot(findings=(finding(proof=("queue_ms",), lost_s=200.0),))
    for used, mark in (
        ([5.0, 96.0, 96.0], SKIN.glyph("edge")),
        ([96.0, 5.0, 5.0], SKIN.glyph("edge")),
        ([96.0] * 8 + [5.0, 96.0], "✓"),
    ):
        machines = LatestReadings()
        for at, share in enumerate(used):
            host, one = gpu(0, 0, share)
            machines.take(host, one, NOW - len(used) + 1 + at)
        look = RenderContext.at(observed(seen=machines.seen(), snapshot=made), SKIN)
        assert [look.mark((host, one))[0] for host in look.around.hosts for one in host.of(Area.GPU)] == [f" {mark}"]
