"""Files of a remote machine: what they are, their bytes, and who writes them."""

from __future__ import annotations

import posixpath
import re
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfmon.core import plain

from ..blocks import UNFINISHED_S, LineSplitter
from ..file_tree import holds_logs
from ..follow import EMPTY, Fingerprint, Identity, age_by_name, is_part_of
from ..shell import MAGIC, Output, RunnerError, Shell, literal_base, pattern, quoted, regex
from ..spec import compression_of, is_log_name

# --- The files of a machine behind a runner: what they are now, and their bytes from a place on ---

_STAT = "stat -L -c '%d %i %s %Y|%y|%n'"
PREPARE = """\
r(){ dd bs=65536 iflag=skip_bytes,count_bytes skip="$2" count="$3" <"$1"; }
[ "$(printf abc | dd bs=4 iflag=skip_bytes,count_bytes skip=1 count=1)" = b ] ||
  r(){ tail -c "+$(($2+1))" <"$1" | head -c "$3"; }
g(){ r "$@" | gzip -1c; }
T(){ command -v "$1" >/dev/null; }
T gzip || g(){ false; }
D(){ case $1 in *.[gG][zZ]) gzip -dc;; *.[bB][zZ]2) bzip2 -dc;; *.[xX][zZ]) xz -dc;; *) zstd -dc;; esac <"$1"; }
u(){ D "$1" | tail -c "+$(($2+1))" | head -c "$3"; }
v(){ u "$@" | gzip -1c; }
S(){ :; }
t="timeout 10"; $t true || t=
F(){ $t find -L "$1/." -maxdepth "$2" -type d \\( -name '.?*' -o -name __pycache__ -o -name node_modules \
  -o -name site-packages -o -name 'checkpoint*' -o -name 'ckpt*' -o -name 'global_step*' -o -name 'weights' \\) \
  -prune -o -type f -print0; }
L(){ for f do
  if [ -d "$f" ]; then F "$f" 24; case $? in 124|143) printf '\\0\\0'; F "$f" 4;; esac
  elif [ -e "$f" ]; then printf '%s\\0' "$f"; fi
done; }
s=; stat -L -c %s /proc/self/stat >/dev/null && [ -e "/proc/$$/fd/0" ] && s=1
z=; T gzip && z=1
printf '%s\\n' "${HOME:-/}" "$$" "${BASH_VERSION:+1}" "$z" "$s"
"""
_TOOLS = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}
_FEW, _MANY = range(3, 9), range(30, 200)
"""Descriptors that a shell can hold open: plain ones know but a single digit, and bash keeps its own from 10 on."""
_BRIEF = 9
_BRIEFLY = 100
_NUMBER = re.compile(r"-?[0-9]{1,18}")
"""Whatever else stands where a number should be is no answer of `stat`."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TIMEOUT_S = 60.0
_SLOWEST = 4e6
"""Bytes a second that the slowest disk reads."""
SQUEEZED = 1 << 17
"""What is larger is sent compressed."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of a file."""

    identity: Identity
    size: int
    changed_s: float
    """Time of the last write, by the clock of its host."""
    stamp: str = ""
    """The same, as exactly as the machine prints it."""


@dataclass(frozen=True, slots=True)
class Handle:
    """A file to read: held open under a number, so that it stays readable whatever becomes of its name, or by name."""

    identity: Identity
    path: str
    slot: int | None = None


class UnreadableError(Exception):
    """A file that exists cannot be read."""


class Files:
    """The files that the user of a runner can see."""

    def __init__(self, runner: Shell, prepared: str) -> None:
        home, pid, many, gzip, _ = prepared.split("\n")[:5]
        self.runner = runner
        self.home = home
        self.gzip = bool(gzip)
        self.unnameable: set[str] = set()
        """Names with line breaks that were found and left out: display text."""
        self.unended = False
        """Folders hold more than can be looked through in ten seconds."""
        self._fds = f"/proc/{pid}/fd/"
        self._free = list(_MANY if many else _FEW)
        self._watched: tuple[str, ...] = ()

    @classmethod
    async def open(cls, runner: Shell) -> Files:
        """Prepare the shell. Raises RunnerError where it cannot be done."""
        output = await runner.run(PREPARE)
        lines = output.text.split("\n")
        if len(lines) < 5 or not lines[4]:
            raise RunnerError(f"{runner.name}: no stat and no /proc: logs can only be followed on Linux")
        return cls(runner, output.text)

    async def look(self, paths: Sequence[str]) -> dict[str, State]:
        """The states of those files that exist; cheap when repeated."""
        names = tuple(paths)
        define = ""
        if names != self._watched:
            self._watched = names
            define = f"S(){{ {_STAT} {' '.join(map(quoted, names))}; }};" if names else "S(){ :; };"
        return _states(await self._run(f"{define} S"))

    async def states(self, paths: Sequence[str]) -> dict[str, State]:
        """The states of those files that exist, whose changes are not followed."""
        return _states(await self._run(f"{_STAT} {' '.join(map(quoted, paths))}")) if paths else {}

    async def state(self, handle: Handle) -> State | None:
        """Current state of a file, under any name."""
        where = self._at(handle)
        return _states(await self._run(f"{_STAT} {quoted(where)}")).get(where)

    async def parts(self, log: str) -> list[tuple[str, State]]:
        """The older parts of a log, compressed ones too, the oldest first."""
        found = _states(await self._run(f"{_STAT} {quoted(log)}[.-]*"))
        parts = [part for part in found.items() if is_part_of(Path(part[0]), Path(log))]
        return sorted(parts, key=lambda part: (part[1].changed_s, part[1].stamp, *age_by_name(part[0])))

    async def deleted(self, log: str) -> list[tuple[str, State]]:
        """Deleted files of this name, or of its parts, that some process still holds open: their writer perhaps."""
        name = re.sub(r"([\\*?\[])", r"\\\1", log)
        found = await self._run(
            f"$t find /proc/[0-9]*/fd -maxdepth 1 -lname {quoted(f'{name}* (deleted)')} | head -n 100"
        )
        return list((await self.states(found.text.split())).items())

    async def digest(self, handle: Handle, size: int) -> str | None:
        """SHA-256 of the first bytes of a file, as its machine works it out; None where it cannot."""
        script = f"head -c {size} <{quoted(self._at(handle))} | sha256sum"
        output = await self.runner.run(script, timeout_s=_TIMEOUT_S + size / _SLOWEST)
        word = output.text.partition(" ")[0].lstrip("\\")
        return word if _SHA256.fullmatch(word) else None

    async def damage(self, path: str) -> str:
        """The reason why a compressed file cannot be read to its end; "" if it can."""
        tool = _TOOLS[compression_of(path) or "gz"]
        script = f"if T {tool}; then D {quoted(path)} >/dev/null || echo damaged; else echo no {tool} there; fi"
        return (await self._run(script)).text.strip()[:_BRIEFLY]

    async def unpacked(self, path: str, offset: int, size: int) -> bytes:
        """At most `size` bytes of what a compressed file holds, from `offset` on."""
        squeezed = size > SQUEEZED and self.gzip
        output = await self._run(f"{'v' if squeezed else 'u'} {quoted(path)} {offset} {size}")
        data = _inflated(output.data, size, self.runner.name) if squeezed else output.data
        if len(data) > size:
            raise RunnerError(f"{self.runner.name}: unexpected output in the responses of its shell")
        return data

    async def hold(self, path: str) -> Handle | None:
        """Open a file, to be released; None when it is not there. Raises UnreadableError."""
        slot = self._free.pop(0) if self._free else None
        number, name = slot or _BRIEF, quoted(path)
        output = await self._run(
            f"if ! [ -e {name} ]; then false; elif ! [ -f {name} ]; then echo a folder or device, no log; "
            f"elif ! [ -r {name} ]; then echo permission denied; elif command exec {number}<{name}; then "
            f"stat -L -c '%d %i' {self._fds}{number};{'' if slot else f' exec {number}<&-;'} fi"
        )
        words = output.text[:_BRIEFLY].split()
        if len(words) == 2 and all(map(_NUMBER.fullmatch, words)):
            return Handle((int(words[0]), int(words[1])), path, slot)
        if slot is not None:
            self._free.insert(0, slot)
        if output.data:
            raise UnreadableError(plain(output.text.strip(), _BRIEFLY))
        return None

    async def release(self, handle: Handle | None) -> None:
        """Close a file."""
        if handle is not None and handle.slot is not None:
            await self._run(f"exec {handle.slot}<&-")
            self._free.append(handle.slot)

    async def read(self, handle: Handle, offset: int, size: int, *, squeezed: bool = False) -> bytes | None:
        """At most `size` bytes from `offset` on; fewer only where the file ends. None: another file has its name."""
        how = "g" if squeezed and self.gzip else "r"
        if handle.slot is not None:
            output = await self._run(f"{how} {self._fds}{handle.slot} {offset} {size}")
            data = output.data
        else:
            output = await self._run(
                f"if command exec {_BRIEF}<{quoted(handle.path)}; then stat -L -c '%d %i' {self._fds}{_BRIEF}; "
                f"{how} {self._fds}{_BRIEF} {offset} {size}; exec {_BRIEF}<&-; fi"
            )
            line, _, data = output.data.partition(b"\n")
            if line != b"%d %d" % handle.identity:
                return None
        if how == "g":
            data = _inflated(data, size, self.runner.name)
        if len(data) > size:
            raise RunnerError(f"{self.runner.name}: unexpected output in the responses of its shell")
        return data

    async def listed(self, word: str) -> list[str]:
        """The files that a word of the shell names, those below folders included; names with line breaks left out."""
        output = await self._run(f"L {word} | head -c 4000000")
        names = output.text.split("\0")[:-1]
        if "" in names:
            self.unended = True
            names = _whole(names)
        self.unnameable.update(plain(name, 200) for name in names if "\n" in name)
        return sorted({posixpath.normpath(name) for name in names if "\n" not in name})

    @property
    def left_out(self) -> list[str]:
        """Messages about files that were not found or not followed."""
        slow = ["too many files to search in 10 s: name the log folders"] if self.unended else []
        return [*(f"'{name}': a name with a line break" for name in sorted(self.unnameable)), *slow]

    async def expanded(self, path: str) -> str:
        """A path with what its leading `~` or `~user` stands for."""
        head, slash, rest = path.partition("/")
        if not head.startswith("~"):
            return path
        folder = self.home if head == "~" else (await self._run(f"printf '%s' {pattern(head)}")).text
        return folder.rstrip("/") + slash + rest

    def _at(self, handle: Handle) -> str:
        return handle.path if handle.slot is None else f"{self._fds}{handle.slot}"

    async def _run(self, script: str) -> Output:
        return await self.runner.run(script, timeout_s=_TIMEOUT_S)


def _states(output: Output) -> dict[str, State]:
    states: dict[str, State] = {}
    for line in output.text.split("\n"):
        numbers, _, rest = line.partition("|")
        stamp, _, name = rest.partition("|")
        words = numbers.split(" ")
        if name and len(words) == 4 and all(map(_NUMBER.fullmatch, words)):
            device, inode, size, changed = map(int, words)
            states[name] = State((device, inode), size, float(changed), stamp)
    return states


def _whole(names: list[str]) -> list[str]:
    """Remove the names at which a list was broken off: two empty ones, or a cut one and an empty one."""
    whole: list[str] = []
    empty = 0
    for name in [*names, "-"]:
        if name and empty % 2:
            whole.pop()
        empty = 0 if name else empty + 1
        whole += [name] if name else []
    return whole[:-1]


def _inflated(data: bytes, size: int, name: str) -> bytes:
    """At most one byte more than `size`: that is too much already."""
    try:
        return zlib.decompressobj(31).decompress(data, size + 1)
    except zlib.error:
        raise RunnerError(f"{name}: damaged compressed data") from None


# --- Which text of a machine is read by whom, by device and inode: so that none is read twice under two names ---

_REMEMBERED = 4096
_LOOKS = 3


@dataclass(slots=True)
class Text:
    """One file's text: where reading stands, and whether it is still the same."""

    identity: Identity
    print: Fingerprint = EMPTY
    cutter: LineSplitter = field(default_factory=lambda: LineSplitter(frames=True))
    handle: Handle | None = None
    """The open file; None while there is no connection, or once it was let go."""
    path: str = ""
    """The name under which it was opened first."""
    ignored: bool = False
    """Its contents are no log: read over."""
    owner: object | None = None
    changed_s: float = -1.0
    """Time of the last write to it, as of the last read."""
    stamp: str = ""
    since_s: float | None = None
    """Time since which parts may have been missed: they are looked for as soon as something is read."""
    history: int = 0
    """Up to here it was there when it was found."""
    grown_at: float = 0.0
    """When something was last read of it, by the clock of its reader."""

    def restart(self) -> None:
        """The file holds another text."""
        self.print, self.cutter, self.changed_s, self.stamp = EMPTY, LineSplitter(frames=True), -1.0, ""

    def continue_from(self, old: Text) -> None:
        """The file begins with what was read of another one: reading goes on there."""
        self.print, self.cutter, self.ignored, self.changed_s = old.print, old.cutter, old.ignored, old.changed_s

    def advance(self, data: bytes) -> None:
        """These bytes were read."""
        self.print = self.print.extended(data)

    def unfinished(self, now: float) -> bool:
        """True if its last line has waited for its end for too long."""
        return self.cutter.unfinished and not self.ignored and now - self.grown_at >= UNFINISHED_S


class InodeOwners:
    """The texts of one machine that are read, or were."""

    def __init__(self) -> None:
        self._texts: OrderedDict[Identity, Text] = OrderedDict()

    def known(self, identity: Identity) -> bool:
        """True if it is or was read."""
        return identity in self._texts

    def text(self, identity: Identity) -> Text | None:
        """The text that was read last of the file with this number."""
        return self._texts.get(identity)

    def prints_of_parts(self, log: str) -> list[Fingerprint]:
        """Fingerprints, as far as they were read, of the older parts of a log that are or were logs of their own."""
        return [text.print for text in self._texts.values() if is_part_of(Path(text.path), Path(log))]

    def owner(self, identity: Identity) -> object | None:
        """The reader of a file, if any."""
        text = self._texts.get(identity)
        return None if text is None else text.owner

    def claim(self, identity: Identity, owner: object) -> Text | None:
        """The text of a file, going on where it ended; None while someone else reads it."""
        text = self._texts.get(identity)
        if text is not None and text.owner not in (None, owner):
            return None
        if text is None:
            text = self._texts[identity] = Text(identity)
        text.owner = owner
        return text

    def release(self, text: Text) -> None:
        """It is no longer read; it stays known."""
        text.owner = text.handle = None
        self._texts.move_to_end(text.identity)
        while len(self._texts) > _REMEMBERED:
            oldest = next(iter(self._texts.values()))
            if oldest.owner is not None:
                break
            del self._texts[oldest.identity]


async def held(files: Files, path: str) -> Handle | None:
    """Open a file; None where it is not there or cannot be read."""
    try:
        return await files.hold(path)
    except UnreadableError:
        return None


async def find_renamed(files: Files, log: str, text: Text, state: State | None) -> Handle | None:
    """Open the file of a text, under the name of its log (which had this state) or of an older part."""
    path: str | None = log if state is not None and state.identity == text.identity else None
    for _ in range(_LOOKS):  # it may be renamed between the look at its name and its opening
        if path is None:
            parts = await files.parts(log)
            path = next((path for path, part in parts if part.identity == text.identity), log)
        handle = await held(files, path)
        if handle is not None and handle.identity == text.identity:
            return handle
        await files.release(handle)
        path = None
    return None


async def find_deleted(files: Files, log: str, text: Text) -> Handle | None:
    """Open the file of a text that has no name any more, through a process that holds it open."""
    path = next((path for path, found in await files.deleted(log) if found.identity == text.identity), None)
    return None if path is None else await held(files, path)


# --- The logs that a path or pattern names on a machine ---


@dataclass(frozen=True, slots=True)
class Wanted:
    """Logs to follow on a machine."""

    path: str
    """Absolute; may be a pattern."""
    packed: bool = False
    """Compressed logs below folders count, too."""

    @property
    def literal(self) -> bool:
        """It names one file or folder."""
        return MAGIC.search(self.path) is None


async def list_logs(files: Files, wanted: Wanted) -> list[str]:
    """The logs that exist now, by absolute path; a literal name need not exist, folders stand for logs below.

    Raises RunnerError.
    """
    path = wanted.path.rstrip("/") or "/"
    if wanted.literal:
        found = await files.listed(quoted(path))
        is_file = found == [path] or (not found and not await _is_folder(files, path))
        return [path] if is_file else [name for name in found if _is_below(name, path, wanted.packed)]
    if "**" in path.split("/"):
        whole, bare = regex(path), not posixpath.basename(path).strip("*")
        found = await files.listed(pattern(literal_base(path)))
        return [name for name in found if whole.fullmatch(name) and (not bare or is_log_name(posixpath.basename(name)))]
    found = await files.listed(pattern(path))
    whole = regex(path)
    return [name for name in found if whole.fullmatch(name) or _is_below(name, "", wanted.packed)]


async def _is_folder(files: Files, path: str) -> bool:
    return (await files.runner.run(f"[ -d {quoted(path)} ]")).code == 0


def _is_below(name: str, root: str, packed: bool) -> bool:
    """True if a file below a folder is a log by its name, and its folders may hold logs."""
    *folders, last = name[len(root) :].strip("/").split("/")
    fits = is_log_name(last) and (packed or not compression_of(last))
    return fits and (not root or all(map(holds_logs, folders)))
