"""Whether servers answer: asked for again and again, and told as the lines of a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from ..blocks import Cutter, Notice
from ..files import LogFile
from .following import Emit
from .http import ForbiddenError, Opener, ReplyError, Url, get

EVERY_S = 5.0
_TIMEOUT_S = 4.0


class HealthCheck:
    """One URL, asked for through an opener.

    Its lines say `[check] url=... failed=0 status=200 check_ms=12.3`, or why not: so a check is seen, judged, recorded
    and replayed like every other log.
    """

    def __init__(self, url: Url, seen_from: str, emit: Emit, now: Callable[[], datetime] = datetime.now) -> None:
        """`seen_from` is the host from which it is asked for, "" for this one; `now` is what a clock shows there."""
        self.url = url
        where = f"{seen_from}:" if seen_from else ""
        self.log = LogFile(f"{where}{url.shown}", Path("check:/", seen_from), url.shown)
        self._emit, self._now = emit, now
        self._cutter = Cutter()
        self._told = False

    async def ask(self, opener: Opener) -> bool:
        """Asks once and tells; whether all is well."""
        began = time.monotonic()
        status = 0
        try:
            reply = await get(opener, self.url, timeout_s=_TIMEOUT_S)
            status = reply.status
            well = status == 0 or 200 <= status < 400
            why = f"status={status}" if status else "status=open"
        except ForbiddenError as error:
            await self._forbidden(str(error))
            return False
        except ReplyError as error:
            well, why = False, "why=" + "-".join(str(error).split())
        took_ms = 1e3 * (time.monotonic() - began)
        stamp = self._now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        line = f"{stamp} [check] url={self.url.shown} failed={int(not well)} {why} check_ms={took_ms:.1f}\n"
        await self._emit([(self.log, block) for block in self._cutter.feed(line.encode())])
        self._told = False
        return well

    async def _forbidden(self, why: str) -> None:
        """Nothing is known of the server then: that is no bad answer of it."""
        if not self._told:
            self._told = True
            await self._emit([(self.log, Notice(f"{self.log.name}: cannot be checked from there: {why}", "lost"))])
