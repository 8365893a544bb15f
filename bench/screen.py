"""What a terminal would show: just as much of one as perfmon writes to (cursor addressing, new lines, text)."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder

_PARTS = re.compile(
    r"\x1b\[([0-9;?<>=]*)[ -/]*([@-~])"  # control sequences
    r"|\x1b[\]P_^X][^\x1b\x07]*(?:\x07|\x1b\\)"  # strings
    r"|\x1b[()][0-9A-Za-z]|\x1b[=>78cDEHMNOZ]"
    r"|([\r\n\b])"
    r"|([^\x1b\r\n\b]+)"
)


class Screen:
    """Characters of one cell each on rows and columns; colours are left out."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.painted = 0
        """Characters that were painted so far."""
        self._cells = [[" "] * columns for _ in range(rows)]
        self._x = self._y = 0
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def feed(self, data: bytes) -> None:
        """What a program wrote."""
        text = self._rest + self._decode(data)
        cut = text.rfind("\x1b", max(0, len(text) - 64))
        whole = len(text) if cut < 0 or _PARTS.match(text, cut) else cut
        self._rest = text[whole:]
        for part in _PARTS.finditer(text, 0, whole):
            numbers, final, control, plain = part.groups()
            if plain:
                self._put(plain)
            elif control:
                self._control(control)
            elif final:
                self._sequence(numbers, final)

    def row(self, y: int) -> str:
        """The text of a row."""
        return "".join(self._cells[y])

    def text(self) -> str:
        """All rows."""
        return "\n".join(map(self.row, range(self.rows)))

    def _put(self, plain: str) -> None:
        self.painted += len(plain)
        row = self._cells[self._y]
        end = min(self._x + len(plain), self.columns)
        row[self._x : end] = plain[: end - self._x]
        self._x = end

    def _control(self, control: str) -> None:
        if control == "\r":
            self._x = 0
        elif control == "\n":
            self._y = min(self._y + 1, self.rows - 1)
        else:
            self._x = max(0, self._x - 1)

    def _sequence(self, numbers: str, final: str) -> None:
        if final in "Hf":
            y, _, x = numbers.partition(";")
            self._y = min(max(int(y or 1) - 1, 0), self.rows - 1)
            self._x = min(max(int(x or 1) - 1, 0), self.columns - 1)
        elif final == "J" and numbers in ("2", "3"):
            self._cells = [[" "] * self.columns for _ in range(self.rows)]
        elif final == "K":
            self._cells[self._y][self._x :] = [" "] * (self.columns - self._x)
