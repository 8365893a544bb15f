"""Logs of NCCL Inspector: every format and kind of file, damaged input, and a plain computation of the same sums."""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.nccl_logs import Plan, Writer, write
from perfmon.cli import main
from perfmon.core import InputError, MissingExtraError
from perfmon.nccl import Job, JobAnalysis, LiveJob, connect, find_files, load_tables, merge, partial
from perfmon.nccl import aggregate as aggregation
from perfmon.reports import nccl_document, nccl_markdown, nccl_text

pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")

SMALL = Plan(nodes=2, gpus=2, steps=3, layers=2)
LINE = (
    '{"header":{"id":"0xabc","rank":%d,"n_ranks":2,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0",'
    '"git_rev":"","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":1772439307118000,"hostname":"gpu-1",'
    '"pid":%d},"coll_perf":{"coll":"AllReduce","coll_sn":%d,"coll_msg_size_bytes":%d,"coll_exec_time_us":%d,'
    '"coll_timing_source":"kernel_gpu","coll_algobw_gbs":%s,"coll_busbw_gbs":%s}}'
)


def line(rank: int = 0, sn: int = 0, size: int = 1 << 20, us: int = 100, bw: str = "10.485760") -> str:
    """One record."""
    return LINE % (rank, 4700 + rank, sn, size, us, bw, bw)


def lines(count: int = 22) -> list[str]:
    """Records of two ranks."""
    return [line(at % 2, at // 2, us=100 + at) for at in range(count)]


def analyzed(*paths: Path) -> JobAnalysis:
    """The analysis of some files or folders."""
    with Job(paths) as job:
        return job.analyze()


def folder_of(tmp_path: Path, *files: tuple[str, bytes]) -> Path:
    """A folder with these files."""
    for name, data in files:
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "logs"


def text_of(records: Sequence[str]) -> bytes:
    """Lines as a file has them."""
    return "".join(f"{record}\n" for record in records).encode()


def records_of(writer: Writer, folder: Path) -> list[dict[str, Any]]:
    """The records of a job, read by the standard library."""
    found = []
    for path in folder.iterdir():
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        found += [json.loads(text) for text in data.splitlines()]
    assert writer.records == sum("coll_perf" in record for record in found)
    return found


@pytest.mark.parametrize("ending", ["log", "log.gz", "jsonl", "jsonl.gz"])
def test_sums_are_those_of_a_plain_computation(ending: str, tmp_path: Path) -> None:
    writer = write(tmp_path, Plan(nodes=2, gpus=2, steps=3, layers=2, ending=ending))
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for record in records_of(writer, tmp_path):
        coll = record["coll_perf"]
        groups[record["header"]["id"], coll["coll"], coll["coll_sn"], coll["coll_msg_size_bytes"]].append(record)
    with Job([tmp_path]) as job:
        found = job.analyze()
        rows = job.connection.execute(
            "SELECT id, coll, sn, bytes, busbw, records, first_us, last_us, transfer_us, last_rank, caused_us FROM ops"
        ).fetchall()
    assert found.groups == len(rows) == len(groups)
    for comm, coll, sn, size, busbw, count, first, last, transfer, last_rank, caused in rows:
        mine = groups[comm, coll, sn, size]
        times = [record["coll_perf"]["coll_exec_time_us"] for record in mine]
        stamps = [record["metadata"]["dump_timestamp_us"] for record in mine]
        ranks = [record["header"]["rank"] for record in mine if record["coll_perf"]["coll_exec_time_us"] == min(times)]
        bandwidths = [record["coll_perf"]["coll_busbw_gbs"] for record in mine]
        assert busbw == pytest.approx(sum(bandwidths) / len(mine), rel=1e-12)
        assert (count, first, last, transfer) == (len(mine), min(stamps), max(stamps), min(times))
        assert last_rank == min(ranks)
        assert caused == sum(times) - len(times) * min(times)


def test_waiting_that_is_not_known_is_no_figure(tmp_path: Path) -> None:
    """Of sends, and of collectives that lack a rank everywhere; sends are counted one by one."""
    writer = write(tmp_path, Plan(nodes=2, gpus=2, steps=3, layers=2, microbatches=2))
    lacking = writer.comms[0]
    (tmp_path / f"{writer.hosts[0]}-pid{writer.pids[0]}.log").unlink()
    (tmp_path / f"{writer.hosts[1]}-pid{writer.pids[2]}.log").unlink()
    with Job([tmp_path]) as job:
        by = {(stats.collective, stats.comm_type): stats for stats in job.analyze().by}
    assert lacking.kind == "nvlink-only"
    assert (by["AllGather", "nvlink-only"].transfer_p50_us, by["AllGather", "nvlink-only"].wait_share) == (None, None)
    assert by["Send", "mixed"].ops == by["Send", "mixed"].records == 12
    assert by["Send", "mixed"].wait_share is None
    assert by["ReduceScatter", "hca-only"].wait_share is not None


@pytest.mark.parametrize("form", ["2.28", "2.30", "4.1", "4.2", "4.3"])
def test_every_format_gives_the_same(form: str, tmp_path: Path) -> None:
    write(tmp_path / "a", SMALL)
    write(tmp_path / "b", Plan(nodes=2, gpus=2, steps=3, layers=2, form=form))
    expected, found = analyzed(tmp_path / "a"), analyzed(tmp_path / "b")
    assert found.by == expected.by
    assert [wait.caused_us for wait in found.ranks] == [wait.caused_us for wait in expected.ranks]
    assert (found.records, found.skipped) == (expected.records, 0)


def test_ranks_may_have_different_formats(tmp_path: Path) -> None:
    write(tmp_path / "a", SMALL)
    write(tmp_path / "b", Plan(nodes=2, gpus=2, steps=3, layers=2, form="2.28"))
    expected = analyzed(tmp_path / "a")
    for path in sorted((tmp_path / "a").iterdir())[:2]:
        path.write_bytes((tmp_path / "b" / path.name).read_bytes())
    found = analyzed(tmp_path / "a")
    assert (found.records, found.skipped, found.by) == (expected.records, 0, expected.by)


def test_exit_codes_tell_damaged_from_unreadable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path, ("x.log", text_of(CUT)[:-80]))
    assert main(["nccl", str(folder)]) == 0
    assert "1 line skipped: 1 not a record" in capsys.readouterr().out
    (folder / "x.log").write_bytes(b"Epoch 1\n")
    assert main(["nccl", str(folder)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_kinds_of_files_may_be_mixed_and_nested(tmp_path: Path) -> None:
    data = lines(4)
    folder = folder_of(
        tmp_path,
        ("a/x.log", text_of(data[:1])),
        ("b/x.log", text_of(data[1:2])),  # the same name in another folder
        ("b/c/y.jsonl.gz", gzip.compress(text_of(data[2:3]))),
        ("z.log.gz", gzip.compress(text_of(data[3:]))),
        ("notes.txt", b"no log"),
    )
    assert analyzed(folder).records == 4


def test_a_compressed_copy_is_read_once(tmp_path: Path) -> None:
    data = text_of(lines(4))
    folder = folder_of(tmp_path, ("x.log", data), ("x.log.gz", gzip.compress(data)))
    assert analyzed(folder).records == 4


@pytest.mark.parametrize("ending", [".log", ".log.gz"])
def test_a_folder_that_was_copied_is_read_once(ending: str, tmp_path: Path) -> None:
    """A copy of a log that has grown since is its beginning."""
    data = text_of(lines(40))
    cut = data[: data.index(b"\n", len(data) // 2) + 1]
    first, second = (data, data) if ending == ".log.gz" else (cut, data)
    texts = [gzip.compress(text) if ending == ".log.gz" else text for text in (first, second)]
    found = analyzed(folder_of(tmp_path, (f"a/x{ending}", texts[0]), (f"b/x{ending}", texts[1]), ("c/x.log", data)))
    assert found.records == 40
    assert "2 files left out: the same text as another one of that name" in found.notes


def test_logs_of_one_name_from_different_times_are_all_read(tmp_path: Path) -> None:
    data = lines(8)
    found = analyzed(folder_of(tmp_path, ("a/x.log", text_of(data[:4])), ("b/x.log", text_of(data[4:]))))
    assert (found.records, found.notes) == (8, ())


def test_logs_that_are_there_twice_under_different_names_are_noted(tmp_path: Path) -> None:
    found = analyzed(folder_of(tmp_path, ("x.log", text_of(lines(40))), ("x.jsonl", text_of(lines(40)))))
    assert any("with more records than ranks" in note for note in found.notes)


def test_names_with_signs_of_patterns_are_names(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, ("a[1]*.log", text_of(lines(4))), ("it's {x}.log", text_of(lines(6)[4:])))
    assert analyzed(folder).records == 6


def test_a_name_may_have_bytes_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path, ("a.log", text_of(lines())))
    (folder / "a.log").rename(os.fsdecode(bytes(folder) + b"/b\xff'.log"))
    assert main(["nccl", str(folder), "-o", str(tmp_path / "out"), "--parquet"]) == 0
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["records"] == 22
    assert [path.suffix for path in (tmp_path / "out" / "parquet_files").iterdir()] == [".parquet"]
    capsys.readouterr()


def test_any_division_merges_to_the_same(tmp_path: Path) -> None:
    write(tmp_path, Plan(nodes=2, gpus=4, steps=3, layers=2, form="4.2"))
    files = find_files([tmp_path])
    whole = partial(files)
    parts = merge([partial(files[:3]), merge([partial(files[3:4]), partial(files[4:])])])
    tables = []
    for part in (whole, parts):
        with connect() as connection:
            load_tables(connection, [part])
            tables.append([connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in aggregation.TABLES])
    assert tables[0] == tables[1]
    assert sum(len(rows) for rows in tables[0]) > 100


def test_batches_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, SMALL)
    expected = analyzed(tmp_path)
    monkeypatch.setattr(aggregation, "BATCH_BYTES", 1000)
    monkeypatch.setattr(aggregation, "_COMPACT_ROWS", 10)
    assert analyzed(tmp_path) == expected


def test_what_does_not_fit_into_the_limit_of_memory_is_read_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, SMALL)
    expected = analyzed(tmp_path)
    monkeypatch.setattr(aggregation, "_MEMORY_MB", 1)
    monkeypatch.setattr(aggregation, "_MEMORY_MB_PER_CORE", 0)
    assert analyzed(tmp_path) == expected
    query = "CREATE TEMP TABLE made AS SELECT range, count(*) FROM range(100000) GROUP BY range"
    with connect() as connection:
        connection.execute("SET memory_limit = '2MB'")
        with pytest.raises(Exception, match="Out of Memory"):
            connection.execute(query)
        aggregation.execute_freely(connection, query)
        assert connection.execute("SELECT count(*) FROM made").fetchone() == (100_000,)


CUT = lines(22)
CASES: dict[str, tuple[bytes, int, int]] = {
    "the last line is cut": (text_of(CUT)[:-80], 21, 1),
    "a byte that is no UTF-8": (text_of(CUT[:21]) + text_of(CUT[21:]).replace(b"gpu-1", b"gp\xff-1"), 22, 0),
    "output of the job": (text_of(["Epoch 1: loss 0.5", *CUT, "", "Traceback (most recent call last):"]), 22, 2),
    "bare values": (text_of(["null", "17", "[]", '"x"', *CUT]), 22, 4),
    "a bandwidth that is nan": (text_of([*CUT[:21], line(1, 10, bw='"nan"')]), 22, 0),
    "a header without its rank": (text_of([*CUT[:21], line(1, 10).replace('"rank":1,', "")]), 21, 1),
    "a header that is no object": (text_of([*CUT[:21], '{"header":5,"coll_perf":{}}']), 21, 1),
    "a rank beyond the last one": (text_of([*CUT, line(9, 11)]), 22, 1),
    "a negative time": (text_of([*CUT, line(0, 11, us=-5)]), 22, 1),
    "a line without an end": (text_of(CUT) + b"{" * 100_000, 22, 1),
    "the hole of a log that was emptied in use": (b"\0" * 4096 + text_of(CUT), 22, 0),
    "null bytes": (text_of(CUT) + b"\0" * 4096 + b"\n", 22, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_damaged_lines_are_counted_and_the_others_kept(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, records, skipped = CASES[name]
    assert main(["nccl", str(folder_of(tmp_path, ("x.log", data))), "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document["records"], document["skipped"], err) == (records, skipped, "")
    assert sum(document["lost"].values()) == skipped


UNREADABLE: dict[str, tuple[str, bytes]] = {
    "an empty file": ("x.log", b""),
    "other text": ("x.log", b"Epoch 1: loss 0.5\n"),
    "bytes of any kind": ("x.log", bytes(range(256)) * 400),
    "a gzip without its content": ("x.log.gz", gzip.compress(text_of(CUT))[:12]),
    "no file of a log": ("notes.txt", text_of(CUT)),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_nothing_readable_has_an_exit_code_of_its_own(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["nccl", str(folder_of(tmp_path, UNREADABLE[name]))]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_a_bandwidth_that_is_missing_follows_from_size_and_time(tmp_path: Path) -> None:
    data = text_of([line(0, us=1000, bw='"nan"'), line(1, us=1000, bw="1.048576")])
    found = analyzed(folder_of(tmp_path, ("x.log", data)))
    assert found.by[0].busbw_mean == pytest.approx(1.048576)


def test_sizes_that_wrapped_around_are_restored(tmp_path: Path) -> None:
    data = text_of([line(rank, size=(1 << 64) - (1 << 20), us=1000, bw="18446744073.709551") for rank in (0, 1)])
    found = analyzed(folder_of(tmp_path, ("x.log", data)))
    assert found.by[0].size == 1 << 20
    assert found.by[0].busbw_max == pytest.approx(1.048576)
    assert any("uint8" in note for note in found.notes)


def test_a_short_gzip_with_a_wrong_bit_gives_nearly_all_and_is_noted(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(text_of(lines(400)), 6))
    packed[len(packed) // 2] ^= 0x10
    found = analyzed(folder_of(tmp_path, ("x.log.gz", bytes(packed)), ("y.log", text_of([line(1, 9000)]))))
    assert found.records > 150
    assert any("cut or damaged" in note for note in found.notes)


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_a_damaged_gzip_gives_what_is_before_the_damage(damage: str, tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(text_of(lines(4000)), 6))
    if damage == "cut":
        del packed[len(packed) // 2 :]
    else:
        packed[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)
    found = analyzed(folder_of(tmp_path, ("x.log.gz", bytes(packed)), ("y.log", text_of([line(1, 9000)]))))
    assert 1000 < found.records < 4000
    assert any("cut or damaged" in note for note in found.notes)


def test_members_of_an_appended_gzip_are_all_read(tmp_path: Path) -> None:
    data = lines(20)
    packed = gzip.compress(text_of(data[:10])) + gzip.compress(text_of(data[10:]))
    assert analyzed(folder_of(tmp_path, ("x.log.gz", packed[:-3]))).records >= 10
    assert analyzed(folder_of(tmp_path, ("x.log.gz", packed))).records == 20


def test_an_ending_need_not_be_right(tmp_path: Path) -> None:
    data = lines(4)
    folder = folder_of(tmp_path, ("x.log.gz", text_of(data[:2])), ("y.log", gzip.compress(text_of(data[2:]))))
    assert analyzed(folder).records == 4


def test_lines_of_4_3_belong_to_the_header_before_them(tmp_path: Path) -> None:
    head, _, record = line().partition(',"coll_perf"')
    stats = f'{head},"dump_stats":{{"coll_records":2,"coll_dropped_total":7,"p2p_dropped_total":0}}}}'
    alone = f'{{"coll_perf"{record}'
    # It begins in the middle: those before the first header cannot be placed.
    found = analyzed(folder_of(tmp_path, ("x.log", text_of([alone, stats, alone, alone.replace('n":0', 'n":1')]))))
    assert (found.records, found.skipped) == (2, 1)
    assert found.coverage.dropped == 7
    assert found.lost == {"no header before it": 1}


def test_a_file_that_changes_its_format_is_read(tmp_path: Path) -> None:
    head, _, record = line().partition(',"coll_perf"')
    stats = f'{head},"dump_stats":{{"coll_records":1,"coll_dropped_total":0,"p2p_dropped_total":0}}}}'
    many = [line(0, at) for at in range(400)]  # longer than what is looked at to find out
    data = text_of([*many, stats, f'{{"coll_perf"{record}'.replace('"coll_sn":0', '"coll_sn":400')])
    assert analyzed(folder_of(tmp_path, ("x.log", data))).records == 401


def test_sends_and_verbose_traces_and_proxy_lines_are_known(tmp_path: Path) -> None:
    head = line().partition(',"coll_perf"')[0]
    p2p = (
        ',"p2p_perf":{"p2p":"Send","p2p_sn":3,"p2p_peer":1,"p2p_msg_size_bytes":4096,"p2p_exec_time_us":10,'
        '"p2p_timing_source":"kernel_gpu","p2p_algobw_gbs":0.409600,"p2p_busbw_gbs":0.409600}}'
    )
    trace = ',"event_trace_sn":{"coll_start_sn":1,"kernel_events":[{"channel_id":0,"kernel_start_sn":3}]}}}'
    proxy = f'{head},"proxy_trace":{{"record_type":"proxy_op","total_us":5}}}}'
    found = analyzed(folder_of(tmp_path, ("x.log", text_of([head + p2p, line()[:-2] + trace, proxy]))))
    assert (found.records, found.skipped) == (2, 0)
    assert {stats.collective: stats.busbw_mean for stats in found.by}["Send"] == pytest.approx(0.4096)


def test_proxy_lines_of_4_4_are_known_in_any_shape(tmp_path: Path) -> None:
    """They belong to the header before them; which of them are nested is not settled."""
    head, _, record = line().replace("v4.0", "v4.4").partition(',"coll_perf"')
    stats = (
        f'{head},"dump_stats":{{"coll_records":1,"coll_dropped_total":0,"proxy_records":4,"proxy_dropped_total":2}}}}'
    )
    operation = '{"record_type":"proxy_op","peer":1,"direction":"send","n_steps":2,"total_us":50,"op_bw_gbs":10.5}'
    shapes = (
        operation,
        f'{{"op":{operation},"segments":[{{"steps":[{{"step":0,"wire_us":9}}]}}]}}',
        f"[{operation},{operation}]",
    )
    proxies = [f'{{"proxy_trace":{shape}}}' for shape in shapes]
    data = text_of([stats, f'{{"coll_perf"{record}', *proxies, f'{head},"proxy_trace":{operation}}}'])
    found = analyzed(folder_of(tmp_path, ("x.log", data)))
    assert (found.records, found.skipped, found.lost) == (1, 0, {})
    job = LiveJob()
    job.feed("x", data)
    assert (job.counts.lines, job.counts.skipped) == (6, 0)


def test_proxy_traces_show_what_sends_waited_for(tmp_path: Path) -> None:
    """Steps in lines of their own, or nested in operations, with or without a header of their own."""
    head, _, record = line().replace("v4.0", "v4.4").partition(',"coll_perf"')
    stats = f'{head},"dump_stats":{{"coll_records":1,"coll_dropped_total":0,"proxy_records":3}}}}'
    waits = '"gpu_produce_us":60,"peer_credit_us":10,"wire_us":30'
    steps = [
        f'{{"proxy_trace":{{"record_type":"proxy_step","peer":1,"direction":"send",{waits}}}}}',
        f'{{"proxy_trace":{{"record_type":"proxy_op","peer":1,"direction":"send",{waits},'
        f'"segments":[{{"steps":[{{{waits}}},{{{waits}}}]}}]}}}}',
        f'{head},"proxy_trace":{{"peer":1,"direction":"recv","wire_us":5.4,"flush_us":7,"gpu_consume_us":true}}}}',
        '{"proxy_trace":{"peer":"1","direction":"send","wire_us":9}}',
        '{"proxy_trace":{"peer":1,"direction":"send","wire_us":NaN}}',
        '{"proxy_trace":{"peer":1,"direction":"send","wire_us":',
    ]
    data = text_of([stats, f'{{"coll_perf"{record}', *steps])
    found = analyzed(folder_of(tmp_path, ("x.log", data)))
    send, receive = found.proxies
    assert (send.rank, send.peer, send.direction, send.steps) == (0, 1, "send", 3)
    assert list(send.waits.values()) == [180, 30, 90, 0, 0]
    assert (receive.direction, receive.steps, receive.total_us) == ("recv", 1, 12)
    sentence = "waited 60 % for their GPU, 10 % for room at the peer and 30 % for the wire"
    assert sentence in " ".join(nccl_text(found).split())
    assert sentence in nccl_markdown(found)
    assert [one["steps"] for one in nccl_document(found)["proxies"]] == [3, 1]


def test_types_of_communicators() -> None:
    kinds = {comm.name: comm.kind for comm in Writer(Plan(nodes=2, gpus=2)).comms}
    assert kinds == {"tensor": "nvlink-only", "data": "hca-only", "world": "mixed"}


def test_types_come_from_ranks_and_domains(tmp_path: Path) -> None:
    write(tmp_path, SMALL)
    assert {stats.comm_type for stats in analyzed(tmp_path).by} == {"nvlink-only", "hca-only", "mixed"}
    single = folder_of(tmp_path, ("s.log", text_of([line().replace('"n_ranks":2', '"n_ranks":1')])))
    assert analyzed(single).by[0].comm_type == "single-rank"


def test_ranks_without_a_log_are_counted(tmp_path: Path) -> None:
    writer = write(tmp_path, SMALL)
    next(tmp_path.glob(f"*-pid{writer.pids[3]}.log")).unlink()
    found = analyzed(tmp_path)
    assert sum(found.coverage.missing_ranks.values()) == 3  # of tensor, data and world
    assert found.coverage.complete_ops < found.coverage.ops


def test_nothing_readable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        analyzed(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no log files"):
        analyzed(tmp_path / "empty")
    with pytest.raises(InputError, match="no record of NCCL Inspector"):
        analyzed(folder_of(tmp_path, ("x.log", b"Epoch 1\n"), ("y.log", b"")))


def test_without_duckdb_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation, "available", lambda: False)
    with pytest.raises(MissingExtraError, match=r"pip install 'perfmon-tui\[nccl\]'"):
        analyzed(folder_of(tmp_path, ("x.log", text_of(lines()))))
