"""Findings over time become alerts, and alerts notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .alerts import AlertManager, alert_key, of_pollers
    from .notifications import Notifier

__getattr__ = lazy_face(__name__)
