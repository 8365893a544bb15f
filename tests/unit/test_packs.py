"""Every pack recognises its own samples among all packs, and nothing else: the examples in the data are the tests."""

from __future__ import annotations

import json
from collections import Counter
from math import isnan

import pytest
from failures import failures_of

from perfmon.core import model
from perfmon.core.model import (
    CLOSE,
    COUNTED,
    DETAIL,
    EPOCH,
    FAILURE,
    LOCAL,
    MARK,
    MEANS,
    OPEN,
    PROGRESS,
    RUN,
    SAMPLE,
    SPAN,
    STEP,
    TABLE,
    TAIL,
    Observation,
    Record,
)
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.formats.schema import Header, Pack, Pattern, Sample
from perfmon.sources.formats.timestamps import HeaderReader
from perfmon.sources.scan.scanner import Scanner, ScanResult
from perfmon.sources.scan.search import CompiledSearch

PACKS = load_packs()
SCANNER = Scanner(PACKS)
HEADERS = HeaderReader(PACKS)
BAR = "Generating rollouts:  50%|█████     | 64/128 [00:00<00:00, 344.21it/s]"
BAR_FRAMES = " 10%|█         | 1/10 [00:01<00:09]\r 20%|██        | 2/10 [00:02<00:08]\r"

CASES = [
    (f"{pattern.name}-{number}", pattern, sample)
    for pack in PACKS
    for pattern in pack.patterns
    for number, sample in enumerate(pattern.samples)
]
ONE_LINE = [case for case in CASES if "\n" not in case[2].text.strip("\n")]
PATTERNS = [(pattern.name, pattern) for pack in PACKS for pattern in pack.patterns]
REJECTS = [
    (f"{pattern.name}-{number}", pattern, text)
    for pack in PACKS
    for pattern in pack.patterns
    for number, text in enumerate(pattern.rejects)
]
HEADER_SAMPLES = [
    (f"{pack.id}-{header.id}-{number}", pack, header, text)
    for pack in PACKS
    for header in pack.headers
    for number, text in enumerate(header.samples)
]
SYSTEMS = [(pack.id, pack) for pack in PACKS if any(pattern.meaning != "failure" for pattern in pack.patterns)]
HEALTHY = [(f"{pack.id}-{number}", line) for pack in PACKS for number, line in enumerate(pack.healthy)]


def scan(text: str) -> ScanResult:
    """What the scanner with all packs finds in `text`."""
    return SCANNER.scan((text + "\n").encode())


def recognised(scanned: ScanResult) -> list[Record]:
    """The records that a pattern made, without those that only tell the time."""
    return [record for record in scanned.records if record[0] >= 0]


def names(scanned: ScanResult) -> list[str]:
    """`pack/pattern` of every recognised line."""
    return [SCANNER.pattern_names[record[0]] for record in recognised(scanned)]


def without_bars(scanned: ScanResult) -> list[str]:
    """The same without progress bars, which a record may be glued to."""
    return [name for name in names(scanned) if not name.startswith("bars/")]


def result_of(scanned: ScanResult, pattern: str) -> list[Observation]:
    """What the lines of one pattern say, and the tables that they head."""
    found: list[Observation] = []
    rows: list[float] = []
    for record in reversed(recognised(scanned)):
        rows += [observation[1] for observation in record[5] if observation[0] == model.ROW]
        for observation in record[5] if SCANNER.pattern_names[record[0]] == pattern else ():
            if observation[0] != TABLE:
                found.append(observation)
            elif rows:
                found += SCANNER.patterns[observation[1]].of_table(observation[2], min(rows), max(rows))
    return found


def metrics(scanned: ScanResult, pattern: str) -> dict[str, float]:
    """Metric to value of the lines of one pattern; `metric{group}` where a metric comes in several groups."""
    samples = [
        (observation[1], observation[3], observation[2])
        for observation in result_of(scanned, pattern)
        if observation[0] == SAMPLE
    ]
    often = Counter(name for name, _, _ in samples)
    values = {name if often[name] == 1 else f"{name}{{{group}}}": value for name, group, value in samples}
    assert len(values) == len(samples), f"{pattern} gives the same metric twice"
    return values


def check(pattern: Pattern, sample: Sample, text: str) -> None:
    """The line belongs to `pattern` and gives exactly what the sample promises."""
    scanned = scan(text)
    assert {*without_bars(scanned), pattern.name} == {pattern.name}
    assert pattern.name in names(scanned)
    assert metrics(scanned, pattern.name) == pytest.approx(dict(sample.gives), nan_ok=True)
    assert scanned.problems == []


def _is_recognised(pattern: Pattern, sample: Sample) -> None:
    scanned = scan(sample.text)
    found = names(scanned)
    assert pattern.name in found
    assert {name.partition("/")[0] for name in found} - {"bars"} == {pattern.pack} - {"bars"}
    assert metrics(scanned, pattern.name) == pytest.approx(dict(sample.gives), nan_ok=True)
    assert scanned.problems == []


def test_a_sample_is_recognised_by_its_own_pattern() -> None:
    assert failures_of(_is_recognised, CASES) == []


def _has_samples(pattern: Pattern) -> None:
    assert pattern.samples
    shown: set[tuple[str, str]] = set()
    codes = {
        SAMPLE: "metric", COUNTED: "metric", MEANS: "metric", SPAN: "span", OPEN: "open",
        CLOSE: "close", STEP: "step", MARK: "mark", PROGRESS: "progress",
        FAILURE: "failure", DETAIL: "detail", RUN: "run",
    }  # fmt: skip
    for sample in pattern.samples:
        shown |= {(codes[o[0]], o[1]) for o in result_of(scan(sample.text), pattern.name) if o[0] in codes}
    wanted = {(emit.kind, emit.name) for emit in pattern.emit if emit.kind not in ("leg", "row")}
    assert wanted <= shown, "an emit that no sample shows"


def test_a_pattern_has_samples_for_what_it_emits() -> None:
    assert failures_of(_has_samples, PATTERNS) == []


def _is_no_match(pattern: Pattern, text: str) -> None:
    assert pattern.name not in names(scan(text))


def test_a_near_miss_is_not_recognised() -> None:
    assert failures_of(_is_no_match, REJECTS) == []


def _has_other_line_ends(pattern: Pattern, sample: Sample) -> None:
    check(pattern, sample, sample.text + "\r")
    check(pattern, sample, BAR_FRAMES + sample.text)


def test_line_ends_and_bars_change_nothing() -> None:
    assert failures_of(_has_other_line_ends, ONE_LINE) == []


def _is_dated_alike(pack: Pack, header: Header, text: str) -> None:
    only = Pack(pack.id, "", "", 1, idle_silence=False, generic=False, headers=(header,), patterns=())
    alone = HeaderReader([only]).read(text)
    assert alone is not None
    assert HEADERS.read(text) == alone


def test_a_header_is_dated_whatever_other_packs_are_there() -> None:
    assert failures_of(_is_dated_alike, HEADER_SAMPLES) == []


def _is_healthy(pack: Pack) -> None:
    assert len(pack.healthy) >= 10, "a built-in pack has ten or more lines of a healthy run"
    scanned = scan("\n".join(pack.healthy))
    found = [name for name in names(scanned) if name.startswith(f"{pack.id}/")]
    assert len(found) >= len(pack.healthy) // 2, "its own patterns recognise less than half of its healthy lines"
    assert scanned.problems == []
    stamps = [record[3] for record in recognised(scanned) if record[3] is not None]
    for kind in {stamp[0] for stamp in stamps}:
        seconds = [stamp[1] for stamp in stamps if stamp[0] == kind]
        assert seconds == sorted(seconds)


def test_the_healthy_run_is_recognised() -> None:
    assert failures_of(_is_healthy, SYSTEMS) == []


def _tells_of_no_failure(line: str) -> None:
    assert not [seen for record in recognised(scan(line)) for seen in record[5] if seen[0] == FAILURE]


def test_no_line_of_a_healthy_run_is_a_failure() -> None:
    assert failures_of(_tells_of_no_failure, HEALTHY) == []


RL_STEP = "Step 12 |   42.3s | Reward 0.4812 | Turns 3.2 | Max Off-Policy 2 | Error 1.6% | Truncation 4.7%"
RL_LINE = f"09:21:32 SUCCESS {RL_STEP}"
STATS = (
    "INFO 11-20 09:12:22 [loggers.py:336] Engine 000: Avg prompt throughput: 8.4 tokens/s, "
    "Avg generation throughput: 23.9 tokens/s, Running: 12 reqs, Waiting: 6 reqs, GPU KV cache usage: 9.2%"
)
AT_STEP = (2, 9 * 3600 + 21 * 60 + 32.0)
AT_STATS = (1, (305 + 19) * 86400 + 9 * 3600 + 12 * 60 + 22.0)


@pytest.mark.parametrize(
    ("text", "pattern", "stamp"),
    [
        (RL_LINE, "prime-rl/orchestrator-step", AT_STEP),
        (f"{BAR}{RL_LINE}", "prime-rl/orchestrator-step", AT_STEP),
        (f"[trainer0]:{BAR}{RL_LINE}", "prime-rl/orchestrator-step", AT_STEP),
        (f"{BAR_FRAMES}{BAR}{RL_LINE}\r", "prime-rl/orchestrator-step", AT_STEP),
        (f"3: [trainer0]:{RL_LINE}", "prime-rl/orchestrator-step", AT_STEP),
        (f"  3: [trainer0]:{RL_LINE}", "prime-rl/orchestrator-step", AT_STEP),  # of a hundred tasks or more
        (f"orchestrator-1  | 12: {RL_LINE}", "prime-rl/orchestrator-step", AT_STEP),
        (
            f"(TaskRunner pid=7, ip=10.0.0.1) {RL_LINE} [repeated 21x across cluster]",
            "prime-rl/orchestrator-step",
            AT_STEP,
        ),
        (f"\x1b[36m(RolloutActor pid=7)\x1b[0m {RL_LINE}", "prime-rl/orchestrator-step", AT_STEP),
        (
            f"\x1b[2m09:21:32\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m \x1b[32m\x1b[1m\x1b[22m{RL_STEP}\x1b[0m",
            "prime-rl/orchestrator-step",
            AT_STEP,
        ),
        (f"(APIServer pid=412) {STATS}", "vllm/statistics", AT_STATS),
        (f"vllm-1  | (APIServer pid=412) {STATS}", "vllm/statistics", AT_STATS),
        (f"\x1b[1;36m(EngineCore_DP0 pid=2)\x1b[0;0m {STATS}", "vllm/statistics", AT_STATS),
        (f"(Worker pid=9) 0: \x1b[1;36m(APIServer pid=2)\x1b[0;0m {STATS}", "vllm/statistics", AT_STATS),
    ],
)
def test_a_record_is_found_and_dated_behind_what_launchers_print(
    text: str, pattern: str, stamp: tuple[int, float]
) -> None:
    scanned = scan(text)
    assert without_bars(scanned) == [pattern]
    assert recognised(scanned)[-1][3] == stamp


JSON_MODE = [
    case
    for case in CASES
    if case[1].pack in {"engines", "http", "prime-rl", "vllm"} and not case[2].text.startswith(("{", "\x1b", BAR[:9]))
]


def _is_opened(pattern: Pattern, sample: Sample) -> None:
    record = {"timestamp": "2026-08-21T10:00:03.500+00:00", "level": "INFO", "message": sample.text, "line": 5}
    text = json.dumps(record, ensure_ascii=False)
    check(pattern, sample, text)
    assert recognised(scan(text))[0][3] == (0, 1787306403.5)


def test_json_log_mode_is_opened() -> None:
    assert failures_of(_is_opened, JSON_MODE) == []


LAUNCHED = [
    "[trainer0]:",
    "[rank0]: ",
    "trainer-1  | ",
    "0: ",
    "node01: ",
    "node01\t",
    "(X pid=9) ",
    "trainer-1  | [trainer0]:",
    "\x1b[36m(X pid=9)\x1b[0m ",
]
ROW = '{"step": 3, "time": 1787306403.5, "time/step": 50.0, "time/wait_for_batch": 3.5}'


@pytest.mark.parametrize("prefix", LAUNCHED)
def test_json_is_opened_behind_what_launchers_print(prefix: str) -> None:
    record = {"timestamp": "2026-08-21T10:00:03.500+00:00", "level": "INFO", "message": RL_STEP, "line": 5}
    for text, pattern in ((json.dumps(record), "prime-rl/orchestrator-step"), (ROW, "prime-rl/trainer-row")):
        scanned = scan(prefix + text)
        assert names(scanned) == [pattern]
        assert recognised(scanned)[0][3] == (0, 1787306403.5)
    quiet = json.dumps({**record, "timestamp": "2026-08-21T10:01:00.000+00:00", "message": "quiet"})
    assert [(r[0], r[3]) for r in scan(f"{prefix}{json.dumps(record)}\n{prefix}{quiet}").records if r[0] == TAIL] == [
        (TAIL, (0, 1787306460.0))
    ]


ENVELOPES = [
    {"asctime": "2026-08-21 10:00:03,500", "levelname": "INFO", "message": RL_STEP},
    {"@timestamp": "2026-08-21T10:00:03.500Z", "log.level": "info", "message": RL_STEP},
    {"level": 30, "time": 1787306403500, "pid": 1, "msg": RL_STEP},
    {"textPayload": RL_STEP, "timestamp": "2026-08-21T10:00:03.500000000Z", "severity": "INFO"},
    {"text": f"x | INFO | {RL_STEP}\n", "record": {"time": {"timestamp": 1787306403.5}, "message": RL_STEP}},
    {"level": "info", "ts": 1787306403.5, "msg": RL_STEP},
    {"log": f"{RL_STEP}\n", "stream": "stdout", "time": "2026-08-21T10:00:03.500Z"},
]


@pytest.mark.parametrize("record", ENVELOPES)
def test_what_loggers_and_collectors_wrap_records_in_is_opened(record: dict[str, object]) -> None:
    scanned = scan(json.dumps(record))
    assert names(scanned) == ["prime-rl/orchestrator-step"]
    assert recognised(scanned)[0][3] in {(EPOCH, 1787306403.5), (LOCAL, 1787306403.5)}
    assert {r[3] for r in scanned.records} == {recognised(scanned)[0][3]}


@pytest.mark.parametrize("time", ["soon", "2026-08-21 12:00:03"])
def test_a_record_is_dated_by_the_stamp_before_it_as_the_lines_around_it_are(time: str) -> None:
    scanned = scan(f'2026-08-21T10:00:03.5Z {{"timestamp": "{time}", "message": "{RL_STEP}"}}')
    assert [r[3] for r in recognised(scanned)] == [(0, 1787306403.5)]


def test_text_within_json_dates_no_line() -> None:
    quiet = '{"completion": "[user]2031-01-01 00:00:00 x"}'
    assert scan(quiet).records == []


def test_a_multi_environment_step_counts_once() -> None:
    child = "\t\t ╰─ math | Ratio 50.0% | Reward 0.5 | Turns 2.9 | Max Off-Policy 9 | Error 0.0% | Truncation 90.0%"
    scanned = scan(f"{RL_LINE}\n{child}")
    assert metrics(scanned, "prime-rl/orchestrator-step")["trunc_pct"] == 4.7


def test_an_absurd_value_costs_only_itself() -> None:
    scanned = scan(RL_LINE.replace("Truncation 4.7%", "Truncation 470%"))
    assert scanned.problems == [(1, "Truncation=470")]
    assert metrics(scanned, "prime-rl/orchestrator-step")["off_policy"] == 2


def test_a_run_that_diverges_means_its_nan() -> None:
    scanned = scan(RL_LINE.replace("Reward 0.4812", "Reward nan"))
    assert scanned.problems == []
    assert isnan(metrics(scanned, "prime-rl/orchestrator-step")["reward"])


def test_a_rate_below_zero_is_told_as_a_problem() -> None:
    scanned = scan("2026-03-02 08:15:00.118 [poll] queue host=h name=g running=9 waiting=0 gen_tps=-1 kind=vllm")
    assert scanned.problems == [(1, "gen_tps=-1")]
    assert "gen_tps" not in metrics(scanned, "queues/queue") | metrics(scanned, names(scanned)[0])


@pytest.mark.parametrize("tag", ["\x1b[35m[weights]\x1b[0m", "[\x1b[35mweights\x1b[0m]"])
def test_a_coloured_tag_does_not_keep_plain_lines_from_being_learned(tag: str) -> None:
    line = "12:00:01    INFO {tag}[{trace}] client.send url=http://h:8000 path=/m t=12.5\n"
    scanner = Scanner(PACKS)
    if not isinstance(scanner.search, CompiledSearch):
        pytest.skip("only the compiled search has templates")
    scanner.scan(line.format(tag=tag, trace="a1").encode())
    assert not scanner.search.templates.lines
    scanner.scan(line.format(tag="[weights]", trace="a1").encode())
    assert scanner.search.templates.lines
    assert recognised(scanner.scan(line.format(tag=tag, trace="b2").encode()))


def test_needles_stay_few_and_distinctive() -> None:
    needles = {needle for pack in PACKS for pattern in pack.patterns for needle in pattern.needles}
    assert len(needles) <= 1100, (
        "each needle makes the search of every log slower: use one that exists, or raise this limit in a "
        "change of its own, with the figures of bench/analyze_vs_grep.py"
    )
    short = [needle for needle in needles if len(needle.encode()) < 4]
    assert short == [], "needles of less than 4 bytes are in too many lines"
