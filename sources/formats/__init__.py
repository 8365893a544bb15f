"""Format packs: what real systems print, as data (`*.toml`), and the code that loads and compiles it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .learning import NothingLearnedError, Proposal, format_name, installed, keep, learn, propose, sample_problems
    from .loader import glossary, in_words, load_pack, load_packs, meaning_of, short_names
    from .schema import Pack
    from .timestamps import HeaderReader

__getattr__ = lazy_face(__name__)
