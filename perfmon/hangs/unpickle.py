"""A closed reader of pickles: plain data only, no class is ever looked up, and a torn file gives what came before.

Flight-recorder dumps hold dictionaries, lists, tuples, strings, numbers, booleans and None, and nothing else. The
opcodes that make these are interpreted here; any other is refused, with the name of what it would have called. So
nothing of a file can run, an index of the memo cannot reserve memory, and a dump whose end is missing still gives the
entries that were written: its lists are filled in place where `pickle` would have filled them at their end.
"""

from __future__ import annotations

import struct
from typing import Any

MOST_BYTES = 64 << 20
"""Largest file that is read: 20,000 entries with stacks take 3.3 MB."""
_MOST_STEPS = 10_000_000
"""A byte can make an empty dictionary of 64; dumps have eight bytes for each value."""
_LONGEST_INT = 16
"""Bytes: more than any counter or clock has."""
_CALLS = {
    ord("R"): "REDUCE", ord("b"): "BUILD", ord("o"): "OBJ", ord("P"): "PERSID", ord("Q"): "BINPERSID",
    0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
}  # fmt: skip
"""Opcodes that make objects: these follow a lookup, which is refused before them, except in files made by hand."""


class RefusedPickleError(ValueError):
    """The pickle would look up a class or call something; the text names it."""


class BrokenPickleError(ValueError):
    """The bytes are no pickle of plain data."""


def load_plain(data: bytes) -> tuple[Any, bool]:
    """The value of a pickle, and whether its end is missing: then the value is what came before.

    Raises RefusedPickleError for a pickle that is more than data, BrokenPickleError for what is none at all.
    """
    reader = _Reader(data)
    try:
        return reader.run(), False
    except BrokenPickleError:
        called = _first_call(data)  # older protocols write data in other opcodes; what they call counts as well
        if called:
            raise RefusedPickleError(called) from None
        raise
    except KeyError as error:
        raise BrokenPickleError(f"entry {error.args[0]} of the memo is missing") from None
    except (IndexError, struct.error, UnicodeDecodeError):
        value = reader.salvaged()
        if value is None:
            raise BrokenPickleError("not a pickle, or torn before the first value") from None
        return value, True


def _first_call(data: bytes) -> str:
    """The name in the first lookup of a pickle of any protocol; "" if there is none. Nothing is interpreted."""
    import pickletools

    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in ("GLOBAL", "INST"):
                return str(argument).replace(" ", ".")
            if opcode.name == "STACK_GLOBAL":
                return "a class"
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error):
        return ""
    return ""


class _Reader:
    """The stack machine of the few opcodes that data needs.

    The frequent ones are interpreted where they are met: a call for each would take most of the time.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._levels: list[list[Any]] = []
        """The stacks below the open marks, outermost first."""
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:  # noqa: PLR0915 - one branch an opcode
        """Interprets all opcodes up to STOP."""
        data, stack, levels, memo = self._data, self._stack, self._levels, self._memo
        at = 0
        for _ in range(_MOST_STEPS):
            code = data[at]
            at += 1
            if code == 0x68:  # BINGET
                stack.append(memo[data[at]])
                at += 1
            elif code == 0x6A:  # LONG_BINGET
                stack.append(memo[_U4(data, at)[0]])
                at += 4
            elif code == 0x4D:  # BININT2
                stack.append(_U2(data, at)[0])
                at += 2
            elif code == 0x4B:  # BININT1
                stack.append(data[at])
                at += 1
            elif code == 0x5D:  # EMPTY_LIST
                stack.append([])
            elif code == 0x28:  # MARK
                levels.append(stack)
                self._stack = stack = []
            elif code == 0x65:  # APPENDS
                items, self._stack = stack, levels.pop()
                stack = self._stack
                _filled(stack, list).extend(items)
            elif code == 0x4E:  # NONE
                stack.append(None)
            elif code == 0x4A:  # BININT
                stack.append(_I4(data, at)[0])
                at += 4
            elif code == 0x58:  # BINUNICODE
                end = at + 4 + _U4(data, at)[0]
                stack.append(_text(data, at + 4, end))
                at = end
            elif code == 0x71:  # BINPUT
                memo[data[at]] = stack[-1]
                at += 1
            elif code == 0x72:  # LONG_BINPUT
                memo[_U4(data, at)[0]] = stack[-1]
                at += 4
            elif code == 0x7D:  # EMPTY_DICT
                stack.append({})
            elif code == 0x75:  # SETITEMS
                items, self._stack = stack, levels.pop()
                stack = self._stack
                _fill(_filled(stack, dict), items)
            elif code == 0x8A:  # LONG1
                end = at + 1 + data[at]
                stack.append(_long(data, at + 1, end))
                at = end
            elif code == 0x2E:  # STOP
                return stack.pop()
            else:
                self._at = at
                self._rare(code)
                at, stack = self._at, self._stack
        raise BrokenPickleError(f"more than {_MOST_STEPS} values")

    def _rare(self, code: int) -> None:
        """Interprets one opcode of those that dumps have rarely, or that only other protocols have."""
        data, stack, memo, at = self._data, self._stack, self._memo, self._at
        match code:
            case 0x88 | 0x89:  # NEWTRUE, NEWFALSE
                stack.append(code == 0x88)
            case 0x85 | 0x86 | 0x87:  # TUPLE1, TUPLE2, TUPLE3
                count = code - 0x84
                if len(stack) < count:
                    raise BrokenPickleError("a tuple without its items")
                stack[-count:] = [tuple(stack[-count:])]
            case 0x74:  # TUPLE
                self._stack = self._levels.pop()
                self._stack.append(tuple(stack))
            case 0x61:  # APPEND
                item = stack.pop()
                _filled(stack, list).append(item)
            case 0x73:  # SETITEM
                pair = stack[-2:]
                del stack[-2:]
                _fill(_filled(stack, dict), pair)
            case 0x47:  # BINFLOAT
                stack.append(_F8(data, at)[0])
                self._at += 8
            case 0x94:  # MEMOIZE
                memo[len(memo)] = stack[-1]
            case 0x8C | 0x8D:  # SHORT_BINUNICODE, BINUNICODE8
                begin = at + (1 if code == 0x8C else 8)
                self._at = begin + (data[at] if code == 0x8C else _U8(data, at)[0])
                stack.append(_text(data, begin, self._at))
            case 0x8B:  # LONG4
                self._at += 4 + _I4(data, at)[0]
                stack.append(_long(data, at + 4, self._at))
            case 0x29:  # EMPTY_TUPLE
                stack.append(())
            case 0x30:  # POP
                stack.pop()
            case 0x80:  # PROTO
                self._at += 1
            case 0x95:  # FRAME
                self._at += 8
            case _:
                self._refuse(code)

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise IndexError
        text = self._data[self._at : end].decode("utf-8", "replace")
        self._at = end + 1
        return text

    def _refuse(self, code: int) -> None:
        """Raises: this opcode is no data."""
        if code in (0x63, 0x69):  # GLOBAL, INST
            raise RefusedPickleError(f"{self._line()}.{self._line()}")
        if code == 0x93:  # STACK_GLOBAL
            raise RefusedPickleError(".".join(part for part in self._stack[-2:] if isinstance(part, str)))
        if code in _CALLS:
            raise RefusedPickleError(_CALLS[code])
        raise BrokenPickleError(f"opcode {code:#04x} at byte {self._at - 1}")

    def salvaged(self) -> Any | None:
        """The outermost value with what had been read into it; None where there is none.

        Items of a list or dictionary stand above a mark until all of them are read, so each level is closed here.
        """
        levels = [*self._levels, self._stack]
        while len(levels) > 1:
            items = levels.pop()
            target = levels[-1][-1] if levels[-1] else None
            if isinstance(target, list):
                target.extend(items)
            elif isinstance(target, dict):
                target.update(
                    (key, value) for key, value in zip(items[::2], items[1::2], strict=False) if isinstance(key, str)
                )
        return next((item for item in levels[0] if isinstance(item, dict)), None)


_U2, _U4, _U8 = (struct.Struct(code).unpack_from for code in ("<H", "<I", "<Q"))
_I4, _F8 = struct.Struct("<i").unpack_from, struct.Struct(">d").unpack_from
_KEYS = {str, int, bool}


def _text(data: bytes, begin: int, end: int) -> str:
    if end > len(data):
        raise IndexError
    return data[begin:end].decode("utf-8", "surrogatepass")


def _long(data: bytes, begin: int, end: int) -> int:
    if not 0 <= end - begin <= _LONGEST_INT:
        raise BrokenPickleError(f"an integer of {end - begin} bytes")
    if end > len(data):
        raise IndexError
    return int.from_bytes(data[begin:end], "little", signed=True)


def _filled(stack: list[Any], kind: type) -> Any:
    """The container that stands on the stack."""
    if not isinstance(stack[-1], kind):
        raise BrokenPickleError(f"no {kind.__name__} to fill")
    return stack[-1]


def _fill(table: dict[Any, Any], items: list[Any]) -> None:
    """Set keys and values, which follow each other."""
    keys = items[::2]
    kinds = set(map(type, keys))
    if not kinds <= _KEYS:
        raise BrokenPickleError(f"a key of type {next(kind.__name__ for kind in kinds - _KEYS)}")
    table.update(zip(keys, items[1::2], strict=False))
