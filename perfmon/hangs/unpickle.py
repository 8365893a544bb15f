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
_MARK = object()
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
    """The stack machine of the few opcodes that data needs."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def _bytes(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) < count:
            raise IndexError
        self._at += count
        return piece

    def _number(self, code: str) -> Any:
        value = struct.unpack_from(code, self._data, self._at)[0]
        self._at += struct.calcsize(code)
        return value

    def _text(self, count: int) -> str:
        return self._bytes(count).decode("utf-8", "surrogatepass")

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise IndexError
        text = self._data[self._at : end].decode("utf-8", "replace")
        self._at = end + 1
        return text

    def _to_mark(self) -> list[Any]:
        """Remove the last mark and return the items above it."""
        stack = self._stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise BrokenPickleError("a mark is missing")
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def _long(self, count: int) -> int:
        if not 0 <= count <= _LONGEST_INT:
            raise BrokenPickleError(f"an integer of {count} bytes")
        return int.from_bytes(self._bytes(count), "little", signed=True)

    def run(self) -> Any:
        """Interprets all opcodes up to STOP."""
        data, stack = self._data, self._stack
        for _ in range(_MOST_STEPS):
            code = data[self._at]
            self._at += 1
            if code == 0x2E:  # STOP
                return stack.pop()
            self._one(code)
        raise BrokenPickleError(f"more than {_MOST_STEPS} values")

    def _one(self, code: int) -> None:  # noqa: PLR0915 - a table of functions reads no better and takes longer
        stack, memo = self._stack, self._memo
        match code:
            case 0x71:  # BINPUT
                memo[self._data[self._at]] = stack[-1]
                self._at += 1
            case 0x68:  # BINGET
                stack.append(self._known(self._data[self._at]))
                self._at += 1
            case 0x72:  # LONG_BINPUT
                memo[self._number("<I")] = stack[-1]
            case 0x6A:  # LONG_BINGET
                stack.append(self._known(self._number("<I")))
            case 0x94:  # MEMOIZE
                memo[len(memo)] = stack[-1]
            case 0x58:  # BINUNICODE
                stack.append(self._text(self._number("<I")))
            case 0x8C:  # SHORT_BINUNICODE
                stack.append(self._text(self._number("<B")))
            case 0x8D:  # BINUNICODE8
                stack.append(self._text(self._number("<Q")))
            case 0x4B:  # BININT1
                stack.append(self._number("<B"))
            case 0x4D:  # BININT2
                stack.append(self._number("<H"))
            case 0x4A:  # BININT
                stack.append(self._number("<i"))
            case 0x8A:  # LONG1
                stack.append(self._long(self._number("<B")))
            case 0x8B:  # LONG4
                stack.append(self._long(self._number("<i")))
            case 0x47:  # BINFLOAT
                stack.append(self._number(">d"))
            case 0x88 | 0x89:  # NEWTRUE, NEWFALSE
                stack.append(code == 0x88)
            case 0x4E:  # NONE
                stack.append(None)
            case 0x28:  # MARK
                stack.append(_MARK)
            case 0x7D:  # EMPTY_DICT
                stack.append({})
            case 0x5D:  # EMPTY_LIST
                stack.append([])
            case 0x29:  # EMPTY_TUPLE
                stack.append(())
            case 0x85 | 0x86 | 0x87:  # TUPLE1, TUPLE2, TUPLE3
                count = code - 0x84
                items = stack[-count:]
                if len(items) < count or _MARK in items:
                    raise BrokenPickleError("a tuple without its items")
                del stack[-count:]
                stack.append(tuple(items))
            case 0x74:  # TUPLE
                stack.append(tuple(self._to_mark()))
            case 0x65 | 0x61:  # APPENDS, APPEND
                items = self._to_mark() if code == 0x65 else [stack.pop()]
                self._top(list).extend(items)
            case 0x75:  # SETITEMS
                self._set(self._to_mark())
            case 0x73:  # SETITEM
                value, key = stack.pop(), stack.pop()
                self._set([key, value])
            case 0x30:  # POP
                stack.pop()
            case 0x80:  # PROTO
                self._at += 1
            case 0x95:  # FRAME
                self._at += 8
            case _:
                self._refuse(code)

    def _known(self, index: int) -> Any:
        if index not in self._memo:
            raise BrokenPickleError(f"entry {index} of the memo is missing")
        return self._memo[index]

    def _top(self, kind: type) -> Any:
        if not isinstance(self._stack[-1], kind):
            raise BrokenPickleError(f"no {kind.__name__} to fill")
        return self._stack[-1]

    def _set(self, pairs: list[Any]) -> None:
        table = self._top(dict)
        for key, value in zip(pairs[::2], pairs[1::2], strict=False):
            if not isinstance(key, (str, int)):
                raise BrokenPickleError(f"a key of type {type(key).__name__}")
            table[key] = value

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
        levels: list[list[Any]] = [[]]
        for item in self._stack:
            if item is _MARK:
                levels.append([])
            else:
                levels[-1].append(item)
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
