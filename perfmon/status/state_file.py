"""What a running monitor leaves for status lines: a small file that says how the run stands, refreshed all the time.

It lies in `$XDG_RUNTIME_DIR/perfmon`, else `$XDG_STATE_HOME/perfmon` (`~/.local/state/perfmon`), for its owner alone.
One file a monitor: its name holds a number made from the SPECs, and the process. A file whose process is gone is no
news. Reading one loads next to nothing: a status line is printed every few seconds.
"""

from __future__ import annotations

import json
import os
import stat
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from .errors import PerfmonError
from .runstate import State, firing_of, state_of_picture

if TYPE_CHECKING:
    from .picture import Picture

SCHEMA = 1
EVERY_S = 3.0
"""The shortest time between two writes, unless the verdict or the number of alerts that fire is another one."""
_LARGEST = 65536


class Refused(Exception):
    """A folder that is not the user's alone."""


def absolute(specs: Sequence[str]) -> tuple[str, ...]:
    """SPECs as they are wherever one stands; sorted, because their order means nothing."""
    return tuple(sorted({spec if _everywhere(spec) else _absolute(spec) for spec in specs}))


def _absolute(spec: str) -> str:
    try:
        return os.path.abspath(spec)
    except OSError:  # where one stands is gone
        return spec


def _everywhere(spec: str) -> bool:
    """It means the same wherever one stands."""
    if spec == "-" or "://" in spec:
        return True
    from perfmon.sources.polls.asked import parse_asked

    try:
        return not os.path.lexists(spec) and parse_asked(spec) is not None
    except PerfmonError:
        return False


def folder() -> str:
    """Where state files lie."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):
        return os.path.join(runtime, "perfmon")
    home = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.local/state"), "perfmon")


# --- writing ----------------------------------------------------------------------------------------------------------
class StateFile:
    """The file of this monitor; `write` it with every picture, `remove` it at the end. Neither ever raises.

    `problem` says in one line why nothing could be written, "" while all is well.
    """

    def __init__(self, specs: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.problem = ""
        self._specs = absolute(specs)
        self._clock = clock
        self._next = float("-inf")
        self._path = os.path.join(folder(), f"{_key(self._specs)}.{os.getpid()}.json")
        self._written = False
        self._said: tuple[object, ...] = ()

    def write(self, picture: Picture) -> None:
        """Tells how the picture stands, at most once every EVERY_S seconds while that is the same."""
        now, gist = self._clock(), _gist(picture)
        if now < self._next and gist == self._said:
            return
        self._next, self._said = now + EVERY_S, gist
        try:
            _own_folder(os.path.dirname(self._path))
            if not self._written:
                _sweep(os.path.dirname(self._path))
            document = {
                "schema": SCHEMA,
                **_owner(),
                "written": time.time(),
                **state_of_picture(self._specs, picture)._asdict(),
            }
            _replace(self._path, json.dumps(document, allow_nan=False))
            self._written, self.problem = True, ""
        except (OSError, ValueError, Refused) as error:
            said = getattr(error, "strerror", None) or error
            self.problem = f"{self._path}: cannot be written: {said} (perfmon status cannot see this monitor)"

    def remove(self) -> None:
        """Nothing is observed any more."""
        if self._written:
            with suppress(OSError):
                os.unlink(self._path)


def _own_folder(path: str) -> None:
    """Makes the folder where it is not there, and raises Refused when it is somebody else's or a link."""
    try:
        found = _check_owner(path)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mkdir(path, 0o700)
        found = _check_owner(path)
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(path, 0o700)


def _check_owner(path: str) -> os.stat_result:
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise Refused(f"{path} is not a folder that you own")
    return found


def _sweep(where: str) -> None:
    """Removes what monitors of this host left that were killed."""
    for name in os.listdir(where):
        path = os.path.join(where, name)
        document = _document(path) if name.endswith(".json") else None
        if document is not None and document.get("host") == os.uname().nodename and not _alive(document):
            with suppress(OSError):
                os.unlink(path)


def _replace(path: str, text: str) -> None:
    fresh = f"{path}.new"
    try:
        handle = _created(fresh)
    except FileExistsError:  # whatever it is, it is none that somebody still writes
        os.unlink(fresh)
        handle = _created(fresh)
    try:
        with open(handle, "wb") as out:
            out.write(text.encode())
        os.replace(fresh, path)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)
        raise


def _created(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _key(specs: Sequence[str]) -> str:
    whole = "\0".join(specs)
    return f"{zlib.crc32(whole.encode(errors='surrogateescape')):08x}"


# --- who wrote it -----------------------------------------------------------------------------------------------------
@cache
def _owner() -> dict[str, Any]:
    """This process: it stays what it is."""
    return {"pid": os.getpid(), "host": os.uname().nodename, "boot": _boot(), "started": _started(os.getpid())}


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began, in the kernel's ticks since boot; "" where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[19].decode("ascii")
    except (OSError, IndexError, ValueError):
        return ""


def _alive(document: dict[str, Any]) -> bool:
    """Whether the monitor still runs; one of another host (homes may be shared) is believed by its age alone."""
    if document.get("host") != os.uname().nodename:
        return True
    if document.get("boot") != _boot():
        return False
    pid = document.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return False
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return document.get("started") == _started(pid)


# --- reading ----------------------------------------------------------------------------------------------------------
def read_state(specs: Sequence[str]) -> State | None:
    """How the run stands that a running monitor observes under the same SPECs; the newest, when there are several."""
    wanted = absolute(specs)
    found = [state for state in read_states(_key(wanted)) if state.specs == wanted]
    return min(found, key=lambda state: state.age_s, default=None)


def read_states(key: str = "") -> list[State]:
    """The states of all monitors of this user that run, by what they observe."""
    where = folder()
    try:
        _check_owner(where)
        names = sorted(name for name in os.listdir(where) if name.startswith(key) and name.endswith(".json"))
    except (OSError, Refused):
        return []
    states = [state for name in names if (state := _read(os.path.join(where, name))) is not None]
    return sorted(states, key=lambda state: (state.specs, state.age_s))


def _read(path: str) -> State | None:
    """The state in a file; None for one that is broken, somebody else's, or of a monitor that is gone."""
    document = _document(path)
    if document is None or document.get("schema") != SCHEMA or not _alive(document):
        return None
    try:
        age = max(0.0, time.time() - float(document["written"]))
        told = {name: document[name] for name in State._fields if name in document}
        told |= {"age_s": age, "specs": tuple(map(str, told["specs"])), "values": tuple(told["values"])}
        return State(**told)
    except (ValueError, KeyError, TypeError):
        return None


def _document(path: str) -> dict[str, Any] | None:
    """What a file of this user holds; None where that is no table."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, encoding="utf-8") as file:
            own = os.fstat(handle).st_uid == os.geteuid()
            document = json.loads(file.read(_LARGEST)) if own else None
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


# --- what it says -----------------------------------------------------------------------------------------------------
def _gist(picture: Picture) -> tuple[object, ...]:
    """What nobody should learn late."""
    verdict = picture.snapshot.verdict if picture.snapshot else None
    told = (verdict.signature, verdict.severity) if verdict else ()
    return picture.state, firing_of(picture), *told
