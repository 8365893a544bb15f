"""Work on the nodes of a cluster: an existing Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .ray_cluster import RayCluster, Workers, check_visible

__getattr__ = lazy_face(__name__)
