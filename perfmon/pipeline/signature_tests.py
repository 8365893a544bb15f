"""Runs the examples of signatures through a real session: each must fire, or not, as it states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfmon.core import Block, Config
from perfmon.diagnosis import Diagnosis
from perfmon.rules import START_SPANS, UPDATE, UPDATE_METRICS, Example, Vocabulary, load_signatures
from perfmon.sources.formats import load_packs
from perfmon.sources.scan import Scanner

from .session import Session


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """Result of one example."""

    signature: str
    example: str
    ok: bool
    text: str
    """The signatures that fired, and the expected ones where they differ."""


def run_examples(
    signature_id: str | None = None, signature_dirs: Sequence[Path] = (), format_dirs: Sequence[Path] = ()
) -> list[ExampleResult]:
    """The examples of one signature, or of all, judged by the built-in bands among all signatures."""
    config = Config(format_dirs=tuple(format_dirs), signature_dirs=tuple(signature_dirs))
    scanner = Scanner(load_packs(config.format_dirs))
    return [
        _run(signature.id, example, diagnose_texts(example.logs, config, scanner))
        for signature in load_signatures(config.signature_dirs)
        if signature_id in (None, signature.id)
        for example in signature.examples
    ]


def diagnose_texts(logs: Mapping[str, str], config: Config | None = None, scanner: Scanner | None = None) -> Diagnosis:
    """The diagnosis of logs that are given as texts, by name."""
    session = Session(config or Config(), scanner)
    for name, text in logs.items():
        state = session.add_source(name)
        state.ended = True
        session.feed(state, Block(text.strip("\n").encode() + b"\n", 0, 1))
    return session.snapshot()


def vocabulary(format_dirs: Iterable[Path] = ()) -> Vocabulary:
    """All names that the built-in formats, and those of these folders, can emit."""
    names: dict[str, set[str]] = {"metric": set(UPDATE_METRICS), "span": {UPDATE, *START_SPANS}, "mark": set()}
    kinds = {"metric": "metric", "span": "span", "open": "span", "close": "span", "mark": "mark"}
    for emit in (e for pack in load_packs(format_dirs) for pattern in pack.patterns for e in pattern.emit):
        if emit.kind in kinds:
            names[kinds[emit.kind]].add(emit.name)
            names["metric"] |= {emit.metric} - {""}
    return Vocabulary(*(frozenset(names[kind]) for kind in ("metric", "span", "mark")))


def _run(signature: str, example: Example, snapshot: Diagnosis) -> ExampleResult:
    fired = [f.signature for f in snapshot.findings if f.state != "pending"]
    verdict = snapshot.verdict.signature if snapshot.verdict else None
    ok = (signature in fired) == example.fires and (not example.verdict or verdict == signature)
    found = f"found {', '.join(dict.fromkeys(fired)) or 'nothing'}, verdict {verdict or 'none'}"
    wanted = f"{'' if example.fires else 'not '}{signature}{', as the verdict' if example.verdict else ''}"
    return ExampleResult(signature, example.name, ok, found if ok else f"{found}; expected {wanted}")
