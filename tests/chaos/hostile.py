"""What a log may hold that was made to harm its reader, and what of it must not get through."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from attacks import SIZE, attacks
from credentials import CREDENTIALS
from markdown_it import MarkdownIt

from perfmon.sources.formats import load_packs

CANARY = "CHAOSCANARY"
OWNED = "chaos-owned"
"""The name of a file that shell words in lines would make."""
ESCAPES = (
    f"\x1b]0;{CANARY}\x07", f"\x1b]2;{CANARY}\x1b\\", f"\x1b]52;c;{CANARY}\x07", f"\x1b]8;;http://{CANARY}.example\x1b\\",
    f"\x1bP{CANARY}\x1b\\", f"\x1b_{CANARY}\x1b\\", f"\x1b^{CANARY}\x1b\\", f"\x1b[2J{CANARY}", f"\x1b[1;1H{CANARY}",
    f"\x1bc{CANARY}", f"\x1b(0{CANARY}", f"\x1b[?1049l{CANARY}", f"\x1b[6n{CANARY}", f"\x1b[201~{CANARY}",
    f"\x1b]11;?\x07{CANARY}", f"\x9b2J{CANARY}", f"\x9d0;{CANARY}\x9c", f"\x90{CANARY}\x9c", f"\x07{CANARY}",
    f"\x08\x08{CANARY}", f"\x0e{CANARY}", f"\x1b[31;5m{CANARY}", f"\x1bX{CANARY}\x1b\\", f"\x1b[8;1;1t{CANARY}",
    f"\u202e{CANARY}\u202c", f"\u2066{CANARY}\u2069", f"\u2028{CANARY}", f"\x85{CANARY}", f"\x7f{CANARY}",
)  # fmt: skip
_MARKUP = (
    f"[/x] [bold red]{CANARY}[/] [@click=app.quit]{CANARY}[/] \\[ $x {{y}}", "[link=http://evil.example]x[/link]",
    f"<script>{CANARY}</script>", f"<img src=x onerror={CANARY}>", f"![{CANARY}](http://evil.example/{CANARY}.png)",
    f"``` {CANARY} ```", f"~~~~\n# {CANARY}", f"| a | {CANARY} |\n|---|---|",
    f"<!-- {CANARY}", f"</pre></code>{CANARY}",
    f"&lt;{CANARY}&#x3c;b>", "{{ $labels.x }} {{ define }}", f"[{CANARY}]: javascript:alert(1)",
)  # fmt: skip
_SHELL = (
    f"$(touch {OWNED})", f"`touch {OWNED}`", f"; touch {OWNED} ;", f"' ; touch {OWNED} ; '", f'" ; touch {OWNED} ; "',
    f"#(touch {OWNED})", f"| tee {OWNED}", f"&& touch {OWNED}", f"\n touch {OWNED}", f"${{IFS}}touch${{IFS}}{OWNED}",
    "%s%s%s%n%x", "--output=/etc/passwd", "../../../../etc/passwd", "!!", "~root", "#{pane_pid}#[fg=red]",
)  # fmt: skip
_NUMBERS = (
    "1e999", "-1e999", "9" * 5000, "0." + "0" * 5000 + "1", "nan", "-inf", "Infinity", "1e-400", "0x" + "f" * 400,
    "٣٤٥", "1_000_000", "1,000,000,000,000", "-0", "18446744073709551616", "1e308", "-9223372036854775809", "1.7e308s",
    "99999999999999999999/1", "1/0", "100000%", "²", "+-5", "1e+", "00000000000000000000000001",
)  # fmt: skip
_VALUED = (
    "step {} loss 2.5", "step 5 loss {}", "step={} step_time={} loss={}", "epoch {}/{} took {}s",
    "[gen] batch.done dur_ms={} completions={}",
    "[weights][a{}] client.done wall_ms={} queue_ms={}", '{{"step": {}, "loss": "{}"}}', "queue_ms={} rpc_ms={}",
    "Train: 10%|# | {}/{} [00:01<{}, {}it/s]", "Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {}%",
    "[poll] gpu host=h name=0 util_pct={} power_w={}", "[poll] queue host=h name={} running={} waiting={}",
    "time={} level=info step={}", "iter {}: loss {}, time {}ms", "rank {} of {}: NCCL timeout after {} ms",
)  # fmt: skip
_JSON = (
    "[" * 20_000, '{"a":' * 5_000 + "1" + "}" * 5_000, '{"step": 1, "step": 2, "loss": NaN}', '{"step": 1e999}',
    '{"step": ' + "9" * 9_000 + "}", '{"loss": "\\ud800"}', '{"\\u0000": 1, "step": 1}', '{"__proto__": {"step": 1}}',
    '{"step": {"step": {"step": 3}}, "loss": [[[[1]]]]}', '{"level": "error", "msg": "\\u001b[2J' + CANARY + '"}',
    '{"a":1}' * 9_000, '{"step": 1, "loss": 2', '{"' + "k" * 60_000 + '": 1}',
    "{" + ",".join(f'"k{n}": {n}' for n in range(6_000)) + "}",
    '{"step": true, "loss": null, "time": []}', '{"ts": "9999-99-99T99:99:99Z", "step": 1}', '{"ts": 1e300, "step": 1}',
)  # fmt: skip
_CONTEXTS = (
    "{}", "2026-03-02 10:00:00 INFO {}", "step 5 {} loss 2.5", "[weights][{}] client.send t=1", "url={} queue_ms=5",
    '{{"msg": "{}"}}',
)  # fmt: skip
_STAMPS = (
    "2026-03-02 10:00:00", "9999-12-31 23:59:59", "0001-01-01 00:00:00", "2026-02-30 10:00:00", "1e300", "-5",
    "2026-03-02T10:00:00+99:99", "2026-03-02 25:61:61", "1700000000.5", "99999999999999", "Mar 99 10:00:00",
)  # fmt: skip
NAMES = (
    "-o", "--help", "a b", "$(touch chaos-owned).log", "x;touch chaos-owned;.log", "bell\x07.log", "esc\x1b[2J.log",
    "rtl\u202egol.log", "new\nline.log", "[red]markup.log", "<script>.log", "n" * 240 + ".log",
    "日本語.log", "*.log",
    "quote'\".log", "back\\slash.log", ".hidden.log", "#{pane_pid}.log", "a:b@c.log", "~root.log", "%s%n.log",
)  # fmt: skip
"""Names of logs."""


@cache
def secrets() -> frozenset[str]:
    """Secrets that are long enough to be found again for sure."""
    found = set()
    for raw, shown in CREDENTIALS:
        kept, _, rest = shown.partition("***")
        secret = raw[len(kept) : len(raw) - len(rest)]
        if len(secret) >= _LONG:
            found.add(secret)
    return frozenset(one for one in found if not any(other != one and other in one for other in found))


_LONG = 12


@cache
def _patterns() -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((one.regex, tuple(one.needles)) for pack in load_packs() for one in pack.patterns)


def _worst(chance: random.Random) -> Iterator[bytes]:
    regex, needles = chance.choice(_patterns())
    lines = list(attacks(regex, needles, SIZE))
    for line in chance.sample(lines, min(3, len(lines))):
        yield line.replace("\n", " ").encode()


def _binary(chance: random.Random) -> Iterator[bytes]:
    yield chance.randbytes(chance.randrange(1, 3000)).replace(b"\n", b"")
    for bad in (b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xe2\x82"):
        yield b"2026-03-02 10:00:00 step " + bad + b"12 loss 2." + bad + b"5"


def _nul(chance: random.Random) -> Iterator[bytes]:
    yield b"\0" * chance.randrange(1, 9000)
    yield b"st\0ep 1\0 loss\0 2.5"
    yield b"\0" * 70 + b"2026-03-02 10:00:00 step 3 loss 1.5"


def _of(texts: tuple[str, ...]) -> Callable[[random.Random], Iterator[bytes]]:
    def lines(chance: random.Random) -> Iterator[bytes]:
        for text in chance.sample(texts, min(5, len(texts))):
            about = chance.choice(_CONTEXTS)
            yield about.format(text).encode("utf-8", "surrogatepass")

    return lines


def _numbers(chance: random.Random) -> Iterator[bytes]:
    for shape in chance.sample(_VALUED, 4):
        stamp = chance.choice(_STAMPS)
        yield f"{stamp} {shape.format(*(chance.choice(_NUMBERS) for _ in range(4)))}".encode()


def _credentials(chance: random.Random) -> Iterator[bytes]:
    for raw, _ in chance.sample(CREDENTIALS, 6):
        yield chance.choice(("{}", "2026-03-02 10:00:00 INFO {}", "\x1b[32mINFO\x1b[0m {}")).format(raw).encode()


def _key(chance: random.Random) -> Iterator[bytes]:
    """A private key over several lines."""
    yield b"-----BEGIN RSA PRIVATE KEY-----"
    for _ in range(4):
        yield "".join(chance.choices("ABCDEFGHabcdefgh0123456789+/", k=51)).encode() + b"CHAOSKEYBODY+"
    yield b"-----END RSA PRIVATE KEY-----"


_KEY_BODY = "CHAOSKEYBODY+"


def _nested(chance: random.Random) -> Iterator[bytes]:
    for text in chance.sample(_JSON, 3):
        yield text.encode()
    yield json.dumps({"step": chance.choice(_NUMBERS), "msg": chance.choice(ESCAPES)}).encode()


def _long(chance: random.Random) -> Iterator[bytes]:
    yield chance.choice((b"x", b"a=1 ", b"step 1 ", b"\x1b[0m", b"\r", b"[", b"\t")) * (SIZE // 3)


def _endless(chance: random.Random) -> Iterator[bytes]:
    yield f"mystep {'a' * chance.randrange(1000, 5000)}!".encode()


KINDS: dict[str, Callable[[random.Random], Iterator[bytes]]] = {
    "escape sequences": _of(ESCAPES),
    "64 KB lines of the worst shapes": _worst,
    "invalid UTF-8": _binary,
    "NUL bytes": _nul,
    "markup and HTML": _of(_MARKUP),
    "shell words": _of(_SHELL),
    "huge numbers and bad times": _numbers,
    "secrets": _credentials,
    "private keys": _key,
    "crafted JSON": _nested,
    "long lines": _long,
    "lines of a pattern that never ends": _endless,
}
LARGE = ("64 KB lines of the worst shapes", "crafted JSON", "long lines")
PATTERN = """schema = 1
id = "mine"
title = "Mine"
rank = 1
[[pattern]]
id = 'endless'
needles = ['mystep']
regex = 'mystep (?:(?:\\w+)?(?:\\w+)?(?:\\w+)?)+ end'
emit = [{ mark = 'endless' }]
"""
"""A user's pattern that never ends on lines of that kind."""


# --- what got through ---
_SGR = re.compile(r"\x1b\[[\d;:]*m")
_SHOWN_CONTROL = frozenset("\n\t")


def escapes_in(text: str) -> list[str]:
    """Characters that a terminal obeys in a text that is shown."""
    return [
        repr(text[max(0, at - 20) : at + 20])
        for at, char in enumerate(text)
        if char not in _SHOWN_CONTROL and unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs")
    ]


def escapes_sent(raw: bytes) -> list[str]:
    """The hostile sequences in what was sent to a terminal."""
    return [repr(escape) for escape in ESCAPES if not _SGR.match(escape) and escape.encode() in raw]


def secrets_in(text: str) -> list[str]:
    """The secrets that a text holds."""
    return sorted({secret for secret in (*secrets(), _KEY_BODY) if secret in text})


def tags_in(page: str) -> list[str]:
    """HTML and pictures of the lines that a reader of a Markdown page would get."""
    shown = MarkdownIt("gfm-like", {"html": True}).render(page)
    return [
        tag
        for tag in (f"<script>{CANARY}", "<img src=x", '<img src="http', "<!-- CHAOS", 'href="javascript:')
        if tag in shown
    ]


def owned(*folders: Path) -> list[str]:
    """Files that shell words have made."""
    return [str(path) for folder in folders for path in folder.rglob(OWNED)]
