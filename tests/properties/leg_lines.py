"""Lines of weight updates, most of them of shapes that a scanner learns, many of them odd."""

from __future__ import annotations

from hypothesis import strategies as st

LEGS = {
    "client.send": ("url", "path", "t"),
    "server.recv": ("path", "t"),
    "rpc.start": ("op", "t"),
    "rpc.done": ("op", "t", "rpc_ms"),
    "client.done": ("wall_ms", "rpc_ms", "queue_ms"),
}
VALUES = {"url": "http://10.0.0.5:8000", "path": "/update_weights", "op": "update_weights", "t": "12.5"}
KNOWN = "".join(
    f"10:00:00    INFO [weights][aa] {leg} {' '.join(f'{name}={VALUES.get(name, 7)}' for name in names)}\n"
    for leg, names in LEGS.items()
).encode()

ODD = st.sampled_from(
    [
        "nan",
        "inf",
        "-1",
        "1e300",
        "1e10",
        "1_0",
        "x",
        "1;2",
        "1,5",
        "a=b",
        "é",
        "\x1b[0m",
        "\x00",
        "1\xa02",
        "0x10",
        "9" * 300,
        "w[rollout] trunc_pct=41.5",
        "1[gen]",
    ]
)
NUMBER = st.floats(0, 1e6).map(lambda value: f"{value:.3f}")
HEADS = st.sampled_from(
    ["10:00:01    INFO ", "10:00:59    INFO ", "\x1b[2m10:00:02\x1b[0m \x1b[1m INFO\x1b[0m ", "", "INFO ",
     "10:00:03 x] ",
     "\x1b][1m\x1b[22m10:00:04    INFO ", "10:00:04    INFO \x1b]", "10:00:04    INFO \x1bP\x1b[1m",
     "10:00:04    INFO [gen] batch.start inflight=3 ", "50%|#\r10:00:05    INFO ", '{"message": "',
     '[a0]:{"message": "', '2026-05-11T10:00:03Z {"message": "', "[weights][zz] "]
)  # fmt: skip
TAILS = st.sampled_from(
    [
        "",
        "",
        "",
        "\x1b[0m",
        "[rollout] trunc_pct=41.5 staleness=9",
        "\x1b][0m\x1b[1m",
        "\r",
        " junk",
        " t=3",
        " extra=1",
        ",",
        " [weights][bb] rpc.start t=1",
    ]
)
NOISE = st.sampled_from(
    ["", "plain", "10:00:09    INFO nothing", "10:02:00    INFO later", "[gen] batch.done completions=4 dur_ms=12.5",
     "10:00:10    INFO [ckpt] write.done step=1 write_ms=10", "queue_ms=12 rpc_ms=3",
     "Epoch: [weights][aa] rpc.start t=1", "10:00:11    INFO \x1b[35m[weights]\x1b[0m[aa] rpc.start op=x t=1",
     "10:00:11    INFO [\x1b[35mweights\x1b[0m][aa] rpc.start op=x t=1"]
)  # fmt: skip


@st.composite
def leg_lines(draw: st.DrawFn) -> str:
    leg = draw(st.sampled_from(sorted(LEGS)))
    names = list(LEGS[leg])
    if draw(st.integers(0, 4)) == 0:
        names = draw(st.lists(st.sampled_from([*names, "note"]), max_size=5))
    pairs = [
        f"{name}={draw(ODD) if draw(st.integers(0, 9)) == 0 else VALUES.get(name) or draw(NUMBER)}" for name in names
    ]
    trace = draw(st.sampled_from(["aa", "bb", "cc", "ü", "a b", "x" * 140]))
    return f"{draw(HEADS)}[weights][{trace}] {' '.join([leg, *pairs])}{draw(TAILS)}"
