"""Traces in the shapes of many profilers: every figure is what a plain recomputation of the written events gives."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from traces import kernel, write

from perfmon.core import UsageError
from perfmon.profile import GpuUse, read_profile

KERNELS = (
    "gemm",
    "void at::native::elementwise_kernel<128, 4>(int)",
    "Cijk_Ailk_Bljk_SB_MT128x128",
    "triton_red_fused_3",
)
COLLECTIVES = (
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclKernel_AllGather_RING_LL_Sum_i8",
    "rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", "mscclKernel_Sum_half_Simple",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "multimem_all_reduce_kernel<bf16, 16>",
    "void (anonymous namespace)::two_shot_all_reduce_kernel<float>", "nvshmemi_transfer_kernel",
    "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecQ4<__half, 4>, true>, __half>",
    "void flashinfer::trtllm_moe_allreduce_fusion::moereduce_allreduce_fusion_kernel_oneshot_lamport<__half>",
    "void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<__half>", "mori::moe::EpCombineIntraNodeKernel",
    "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<4>",
)  # fmt: skip


@dataclass(frozen=True)
class Work:
    """What was written about one piece of work of a GPU; nanoseconds."""

    device: int
    stream: int
    start: int
    end: int
    kind: str
    launched: int | None

    @property
    def step(self) -> int:
        """The step in which it was launched; in which it runs, where it names no launch."""
        return (self.start if self.launched is None else self.launched) // STEP


@dataclass(frozen=True)
class Shape:
    """How a profiler writes: names of categories, and the forms of its values."""

    kernel: str = "kernel"
    copy: str = "gpu_memcpy"
    fill: str = "gpu_memset"
    runtime: str = "cuda_runtime"
    to_device: str = "Memcpy HtoD (Pinned -> Device)"
    unit: str = "float"
    """Of times: float (µs with nanoseconds behind the point), whole, text, ns."""
    absent: str = ""
    """The argument that it leaves out."""
    text_args: bool = False


SHAPES = {
    "torch-2": Shape(),
    "torch-1.8": Shape("Kernel", "Memcpy", "Memset", "Runtime", unit="whole"),
    "rocm": Shape(runtime="hip_runtime", to_device="Memcpy HtoD (Host -> Device)"),
    "rocm-earlier": Shape(to_device="CopyHostToDevice"),
    "driver": Shape(runtime="cuda_driver"),
    "xpu": Shape(runtime="xpu_runtime", to_device="Memcpy M2D"),
    "private": Shape(runtime="privateuse1_driver"),
    "mtia": Shape("mtia_ccp_events", runtime="mtia_runtime"),
    "text": Shape(unit="text"),
    "nanoseconds": Shape(unit="ns"),
    "text-arguments": Shape(text_args=True),
    "no-devices": Shape(absent="device"),
    "no-launches": Shape(absent="correlation"),
}
STEP = 4_000_000
_SINCE_1970 = 1_712_195_495_000_000_000


class Writer:
    """Random work of up to three GPUs, on streams of which some have hardly any."""

    def __init__(self, shape: Shape, steps: int, graphs: bool, seed: str) -> None:
        self.shape, self.steps, self.graphs = shape, steps, graphs
        self.events: list[dict[str, Any]] = []
        self.work: list[Work] = []
        self._rng = random.Random(seed)
        self._grain = 1000 if shape.unit == "whole" else 1
        self._launch: tuple[int, int] | None = None

    def write(self) -> None:
        rng = self._rng
        for step in range(self.steps if self.steps > 1 else 0):
            self._add("user_annotation", f"ProfilerStep#{step}", step * STEP, STEP, (7, 7))
        for device in range(1 if self.shape.absent == "device" else rng.randint(1, 3)):
            for stream in rng.sample(range(7, 40), rng.randint(1, 4)):
                self._stream(device, stream, rng.choice((1, 3, 60)))
        rng.shuffle(self.events)

    def _stream(self, device: int, stream: int, count: int) -> None:
        rng, shape, end, starts = self._rng, self.shape, 0, set[int]()
        for _ in range(count):
            wait = rng.choice((0, self._time(20_000), self._time(200_000), -min(end, self._time(10_000))))
            start, length = end + wait, self._time(300_000)
            while start in starts:
                start += self._grain
            starts.add(start)
            kind, name, category = "compute", rng.choice(KERNELS), shape.kernel
            if (drawn := rng.random()) < 0.2:
                kind, name = "communication", rng.choice(COLLECTIVES)
            elif drawn < 0.3:
                kind, name, category = "copy", shape.to_device, shape.copy
            elif drawn < 0.35:
                kind, name, category = "fill", "Memset (Device)", shape.fill
            if self._launch is None or not self.graphs or rng.random() < 0.5:  # else one launch of several
                launched = max(0, start - self._time(200_000))
                self._launch = len(self.events), launched
                self._add(shape.runtime, "launch", launched, 2000, (7, 7), correlation=len(self.events))
            number, launched = self._launch
            args = {"device": device, "stream": stream, "correlation": number, "bytes": 4096}
            self._add(category, name, start, length, (device, stream), **args)
            known = None if shape.absent == "correlation" else launched
            self.work.append(Work(device, stream, start, start + length, kind, known))
            end = start + length

    def _time(self, most: int) -> int:
        return self._rng.randrange(most) // self._grain * self._grain

    def _add(self, category: str, name: str, start: int, length: int, seat: tuple[int, int], **args: Any) -> None:
        shape = self.shape
        kept = {key: str(value) if shape.text_args else value for key, value in args.items() if key != shape.absent}
        times: dict[str, Any] = {"ts": start + (_SINCE_1970 if shape.unit == "ns" else 10**12), "dur": length}
        if shape.unit != "ns":
            times = {key: value // 1000 if shape.unit == "whole" else value / 1000 for key, value in times.items()}
        if shape.unit == "text":
            times = {key: f"{value:.3f}" for key, value in times.items()}
        pid, tid = seat
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times, "args": kept})


def covered(points: Sequence[int], work: Sequence[Work], *kinds: str) -> list[bool]:
    """Of each time between two points, true where such work runs in it."""
    held = [one for one in work if one.kind in kinds or not kinds]
    return [any(one.start <= low and high <= one.end for one in held) for low, high in pairwise(points)]


def expected(work: Sequence[Work]) -> dict[str, Any]:
    """The figures of one GPU, by their definitions."""
    points = sorted({one.start for one in work} | {one.end for one in work})

    def length(held: Sequence[bool]) -> int:
        return sum(high - low for (low, high), inside in zip(pairwise(points), held, strict=True) if inside)

    compute, communication = covered(points, work, "compute"), covered(points, work, "communication")
    streams: dict[int, list[int]] = {}
    for stream in {one.stream for one in work}:
        reasons = streams.setdefault(stream, [0, 0, 0])
        for before, after in pairwise(sorted((w for w in work if w.stream == stream), key=lambda one: one.start)):
            gap = after.start - before.end
            late = after.launched is not None and after.launched > before.end
            reasons[0 if late else 1 if gap < 30_000 else 2] += gap
    return {
        "span": points[-1] - points[0],
        "busy": length(covered(points, work)),
        "compute": length(compute),
        "communication": length(communication),
        "copy": length(covered(points, work, "copy")),
        "overlapped": length([a and b for a, b in zip(compute, communication, strict=True)]),
        "streams": {stream: tuple(reasons) for stream, reasons in streams.items()},
    }


@pytest.mark.parametrize("graphs", [False, True], ids=["kernels", "graphs"])
@pytest.mark.parametrize("steps", [1, 4], ids=["whole", "steps"])
@pytest.mark.parametrize("name", SHAPES)
def test_figures_are_those_of_a_plain_recomputation(tmp_path: Path, name: str, steps: int, graphs: bool) -> None:
    writer = Writer(SHAPES[name], steps, graphs, f"{name} {steps} {graphs}")
    writer.write()
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": writer.events}).encode()))
    by_device: dict[int, list[Work]] = {}
    for one in writer.work:
        if steps == 1 or one.step < steps - 1:  # the profiler cuts the work of the last step off
            by_device.setdefault(one.device, []).append(one)
    found = {use.device: use for use in read_profile([path]).gpus}
    assert found.keys() == by_device.keys()
    for device, work in by_device.items():
        figures = expected(work)
        assert {figure: getattr(found[device], figure) for figure in figures} == figures
        assert (found[device].copied_bytes > 0) == any(one.kind == "copy" for one in work)


def exported(path: Path, writer: Writer, older: bool) -> None:
    """The same work as an export of Nsight Systems, with only the columns that all versions have (`older`)."""
    names: dict[str, int] = {}
    tables: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
        "KERNEL": ("start,end,deviceId,streamId,correlationId,globalPid,shortName", []),
        "MEMCPY": ("start,end,deviceId,streamId,correlationId,globalPid,bytes,copyKind,srcKind", []),
        "MEMSET": ("start,end,deviceId,streamId,correlationId,globalPid", []),
        "RUNTIME": ("start,end,globalTid,correlationId,nameId", []),
    }
    process = 7 << 24

    def text(name: str) -> int:
        return names.setdefault(name, len(names) + 1)

    for number, one in enumerate(writer.work):
        row = (one.start, one.end, one.device, one.stream, number, process)
        if one.kind in ("compute", "communication"):
            name = text("ncclDevKernel_AllReduce_Sum" if one.kind == "communication" else "gemm")
            tables["KERNEL"][1].append((*row, name))
        elif one.kind == "copy":
            tables["MEMCPY"][1].append((*row, 64, 1, 0))
        else:
            tables["MEMSET"][1].append(row)
        launch = (one.launched, (one.launched or 0) + 2000, process | 3, number, text("cudaLaunchKernel_v7000"))
        tables["RUNTIME"][1].append(launch)
    with sqlite3.connect(path) as database:
        database.execute("create table StringIds (id integer, value text)")
        database.executemany("insert into StringIds values (?, ?)", [(number, name) for name, number in names.items()])
        for table, (columns, rows) in tables.items():
            kept = [at for at, column in enumerate(columns.split(",")) if not older or column not in ABSENT]
            if rows:  # a table without rows is not exported
                listed = ",".join(columns.split(",")[at] for at in kept)
                database.execute(f"create table CUPTI_ACTIVITY_KIND_{table} ({listed})")
                places = ",".join("?" * len(kept))
                database.executemany(
                    f"insert into CUPTI_ACTIVITY_KIND_{table} values ({places})",  # noqa: S608 - names of this test
                    [tuple(row[at] for at in kept) for row in rows],
                )


ABSENT = ("globalPid", "globalTid", "srcKind")


@pytest.mark.parametrize("older", [False, True], ids=["now", "older"])
@pytest.mark.parametrize("seed", range(4))
def test_exports_of_nsight_give_the_same_figures(tmp_path: Path, seed: int, older: bool) -> None:
    writer = Writer(Shape(), 1, graphs=False, seed=f"nsys {seed}")
    writer.write()
    exported(tmp_path / "run.sqlite", writer, older)
    found = {use.device: use for use in read_profile([tmp_path / "run.sqlite"]).gpus}
    assert found.keys() == {one.device for one in writer.work}
    for device, use in found.items():
        figures = expected([one for one in writer.work if one.device == device])
        assert {figure: getattr(use, figure) for figure in figures} == figures


@pytest.mark.parametrize("seed", range(12))
def test_damaged_values_of_an_export_cost_their_rows_alone(tmp_path: Path, seed: int) -> None:
    """Any value of any type in any column, and any column missing, is at most one clear line."""
    rng, writer, path = (
        random.Random(seed),
        Writer(Shape(), 1, graphs=False, seed=f"damaged {seed}"),
        tmp_path / "r.sqlite",
    )
    writer.write()
    exported(path, writer, older=False)
    with sqlite3.connect(path) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
            for column in rng.sample(columns, 2):
                value = rng.choice((None, "text", b"\xff", 1.5, 1 << 62, -1 << 62, 0))
                database.execute(f"update {table} set {column} = ? where rowid % 5 = ?", (value, rng.randrange(5)))  # noqa: S608 - names of this test
            if rng.random() < 0.3:
                database.execute(f"alter table {table} drop column {rng.choice(columns)}")
    uses: list[GpuUse] = []
    with suppress(UsageError):  # nothing is left of it
        uses = read_profile([path]).gpus
    assert all(use.busy <= use.span for use in uses)


def test_an_export_of_an_older_profiler_is_named(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "nvprof.sqlite") as database:
        database.execute("create table StringTable (_id_ integer, value text)")
        database.execute(
            "create table CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, streamId, correlationId, bytes)"
        )
    with pytest.raises(UsageError, match="nsys profile instead of nvprof"):
        read_profile([tmp_path / "nvprof.sqlite"])


@pytest.mark.parametrize(
    "name", ["reduce_kernel<512, AllReduce>", "void deep_gemm::dispatch_all", "softmax_all_reduce_free"]
)
def test_kernels_that_only_reduce_do_not_communicate(tmp_path: Path, name: str) -> None:
    (use,) = read_profile([write(tmp_path / "t.json", kernel(1, 0, 10, 100, name))]).gpus
    assert (use.compute, use.communication) == (100_000, 0)
