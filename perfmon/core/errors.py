"""Everything perfmon raises on purpose.

```
PerfmonError                one clear line for the user: what, where, the fix
├── UsageError              the command line or a SOURCE is wrong               exit 2
├── InputError              an input cannot be read                             exit 2
├── DataFileError           a TOML file (format, signature, band) is wrong      exit 2
├── MissingExtraError       an optional dependency is not installed             exit 2
└── ConnectError            a host cannot be reached                            exit 3
```
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of `perfmon`."""

    DONE = 0
    FOUND = 1
    """`--fail-on` matched."""
    USAGE = 2
    CONNECT = 3
    INTERRUPTED = 130


class PerfmonError(Exception):
    """Base of all; its text is one line fit for stderr."""

    exit_code = ExitCode.USAGE


class UsageError(PerfmonError):
    """The command line or a SOURCE is wrong."""


class InputError(PerfmonError):
    """An input cannot be read; the text names it and the fix."""


class DataFileError(PerfmonError):
    """A TOML data file is wrong; the text names file, key and what was expected."""

    def __init__(self, file: str, key: str, expected: str) -> None:
        super().__init__(f"{file}: {key}: {expected}")
        self.file = file
        self.key = key
        self.expected = expected


class MissingExtraError(PerfmonError):
    """An optional dependency is not installed; the text contains the command that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the '{extra}' extra: pip install 'perfmon-tui[{extra}]'")


class ConnectError(PerfmonError):
    """A host cannot be reached."""

    exit_code = ExitCode.CONNECT
