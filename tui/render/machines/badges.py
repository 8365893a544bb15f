"""Badges of hosts and pollers in the header."""

from __future__ import annotations

from perfmon.drawing import cut
from perfmon.picture import Picture
from perfmon.sources.polls.reading import Area
from perfmon.sources.remote.states import Phase
from perfmon.surroundings import Host, Surroundings, state_of
from perfmon.surroundings.wording import age_words

from ...skin import Skin
from ..rows import Run, row_cells

_NAME = 14
_AREAS = (Area.HOST, Area.GPU, Area.PROCESS, Area.QUEUE)
Badge = tuple[str, str, str]
"""Name of the host, name of the sign, what is said beside it."""


def host_runs(picture: Picture, room: int, skin: Skin) -> list[Run]:
    """`a100-0 ✓ 0.3s  a100-1 ? 12 s`; how many, where there is no room for each.

    Nothing for this machine alone, nor where all is well and no room.
    """
    if not picture.links and len({seen.host for seen in picture.seen}) < 2:
        return []
    around = Surroundings.at(picture)
    badges = [_badge(around, host) for host in around.hosts if host.told]
    if not badges or (not picture.links and len(badges) < 2):
        return []
    each = [run for at, badge in enumerate(badges) for run in _runs(badge, skin, first=not at)]
    forms = (each, _counted(badges, skin, " not live"), _counted(badges, skin, ""))
    fitting = next((runs for runs in forms if row_cells(runs) <= room), None)
    well = all(sign == "good" for _, sign, _ in badges)
    return fitting if fitting is not None else [] if well else forms[-1]


def _badge(around: Surroundings, host: Host) -> Badge:
    if host.link is not None:
        sign, words = state_of(host.link)
        if host.link.phase is Phase.LIVE:
            words = "" if host.link.age_s is None else f"{host.link.age_s:.1f}s"
        elif host.link.phase is Phase.STALE and host.link.age_s is not None:
            words = age_words(host.link.age_s)
        return cut(host.short, _NAME), sign, words
    newest = max(host.of(*_AREAS), key=lambda seen: seen.at, default=None)
    if newest is None or not around.stale(newest):
        return cut(host.short, _NAME), "good", ""
    return cut(host.short, _NAME), "stale", age_words(around.age_s(newest))


def _runs(badge: Badge, skin: Skin, *, first: bool) -> list[Run]:
    name, sign, words = badge
    style = skin.style("warning" if sign == "lagging" else sign)
    head = [(f"{'' if first else '  '}{name} ", skin.style("text")), (skin.glyph(sign), style)]
    if sign == "good":
        return [*head, (words, skin.style("faint"))]
    return [*head, (f" {words}" if words else "", style)]


def _counted(badges: list[Badge], skin: Skin, what: str) -> list[Run]:
    """`3 hosts ✓`, `3 hosts ✗ 2 not live`, with the sign of the worst of them."""
    sick = [badge for badge in badges if badge[1] != "good"]
    runs: list[Run] = [(f"{len(badges)} host{'s' * (len(badges) != 1)} ", skin.style("text"))]
    if not sick:
        return [*runs, (skin.glyph("good"), skin.style("good"))]
    worst = max(sick, key=lambda badge: ("lagging", "stale", "critical").index(badge[1]))
    style = skin.style("warning" if worst[1] == "lagging" else worst[1])
    return [*runs, (f"{skin.glyph(worst[1])} {len(sick)}{what}", style)]


def polls_text(picture: Picture) -> str:
    """`3 polls`, "" where nothing is polled."""
    count = sum(
        seen.reading.area is Area.POLLER and seen.reading.words.get("state") != "absent" for seen in picture.seen
    )
    return f"{count} poll{'s' * (count != 1)}" if count else ""
