"""Upload to Elasticsearch by the bulk helper of its official client, with retries and counts by reason."""

from __future__ import annotations

import os
import re
import ssl
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from perfmon.core import ConnectError, InputError, MissingExtraError, UsageError, counted, plain

from .nccl_documents import Document, template

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

T = TypeVar("T")
INDEX = "perfmon-nccl"
_INDEX = re.compile(r"[a-z0-9][a-z0-9._-]{0,200}")
_KEY, _USER, _PASSWORD = "ELASTIC_API_KEY", "ELASTIC_USERNAME", "ELASTIC_PASSWORD"
_NAMES = f"{_KEY}, or {_USER} and {_PASSWORD}"
_CHUNK = 1000
_CHUNK_BYTES = 8 << 20
_TIMEOUT_S = 60
_PASSING = (429, 500, 502, 503, 504)
"""HTTP statuses of a server that is busy or starts."""
_LONGEST_REASON = 160
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Patience:
    """Retries of what fails for a while; the pause doubles after each."""

    retries: int = 6
    first_s: float = 1.0
    longest_s: float = 30.0

    def pause(self, attempt: int) -> None:
        """Wait before retry `attempt`, from 0."""
        time.sleep(min(self.longest_s, self.first_s * 2**attempt))


@dataclass(slots=True)
class Uploaded:
    """Outcome of an upload."""

    created: int = 0
    replaced: int = 0
    retried: int = 0
    """Requests that were repeated because the connection failed; the bulk helper repeats others itself."""
    refused: Counter[str] = field(default_factory=Counter)
    """Documents that the server did not take, by reason."""
    example: str = ""
    """The first refusal in the words of the server."""

    @property
    def taken(self) -> int:
        """Documents that the server has."""
        return self.created + self.replaced

    def add(self, ok: bool, result: Mapping[str, Any]) -> None:
        """Count the result of one document."""
        if ok:
            self.created += result.get("result") == "created"
            self.replaced += result.get("result") != "created"
            return
        error = result.get("error")
        reason, text = (error.get("type"), error.get("reason")) if isinstance(error, dict) else (None, error)
        status = result.get("status")
        self.refused[plain(str(reason), 80) if reason else f"HTTP {status}"] += 1
        self.example = self.example or plain(str(text or ""), _LONGEST_REASON)

    @property
    def before(self) -> str:
        """Part of a message about an upload that was cut off."""
        if not (self.taken or self.refused):
            return ""
        return f" ({self.summary} before that; repeat the command: documents replace themselves)"

    @property
    def summary(self) -> str:
        """Counts in one line."""
        parts = [f"{counted(self.taken, 'document')} uploaded ({self.created} new, {self.replaced} replaced)"]
        if self.refused:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in self.refused.most_common())
            parts.append(f"{self.refused.total()} refused ({reasons}; first: {self.example})")
        return ", ".join(parts)


class Uploader:
    """A server, an index, and the credentials of the environment, all checked before any work is done.

    Raises UsageError for an address, index or credentials that cannot be used, InputError for a CA file that cannot be
    read, and MissingExtraError without the client. No message contains a credential.
    """

    def __init__(
        self, url: str, index: str = INDEX, ca_file: Path | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        if not _INDEX.fullmatch(index):
            expected = f"expected lower-case letters, digits, '.', '_' and '-', such as {INDEX}"
            raise UsageError(f"--index {plain(index, 80)}: {expected}")
        self.index = index
        self.url, host = _address(url)
        self._credentials = _credentials(environment)
        is_encrypted = self.url.startswith("https:")
        if self._credentials and not is_encrypted and host not in _LOOPBACK:
            raise UsageError(f"{self.url}: credentials would be readable on the way (use https://)")
        if ca_file is not None and not is_encrypted:
            raise UsageError("--ca-file is for https:// addresses")
        if find_spec("elasticsearch") is None:
            raise MissingExtraError("--upload", "elasticsearch")
        self._trust: dict[str, Any] = {"ssl_context": _context(ca_file)} if is_encrypted else {}

    def send(
        self,
        documents: Iterable[Document],
        patience: Patience = Patience(),
        advance: Callable[[int], None] | None = None,
    ) -> Uploaded:
        """Upload documents; `advance` is called with the number that is done.

        Raises InputError for a server that refuses, and ConnectError for one that cannot be reached, does not let in,
        or stays unavailable.
        """
        from elasticsearch import Elasticsearch

        done = Uploaded()
        with (
            warnings.catch_warnings(action="ignore"),  # those of the server are for its administrator
            # Retries are those of this module and the helper: the client's own have no pause.
            Elasticsearch(
                self.url, http_compress=True, request_timeout=_TIMEOUT_S, max_retries=0, retry_on_timeout=False,
                **self._credentials, **self._trust,
            ) as client,
            self._explained(done),
        ):  # fmt: skip
            _prepare(client, self.index, patience)
            for chunk in _chunks(documents):
                _send(client, self.index, chunk, patience, done)
                if advance is not None:
                    advance(done.taken + done.refused.total())
        return done

    @contextmanager
    def _explained(self, done: Uploaded) -> Iterator[None]:
        """Errors of the client in one line. Those about credentials contain no words of the server."""
        from elasticsearch import (
            ApiError,
            AuthenticationException,
            AuthorizationException,
            ConnectionTimeout,
            NotFoundError,
            SSLError,
            TransportError,
            UnsupportedProductError,
        )

        url = self.url
        try:
            yield
        except UnsupportedProductError:
            raise InputError(f"{url}: not Elasticsearch (its answers have no X-Elastic-Product header)") from None
        except AuthenticationException:
            reason = "credentials refused" if self._credentials else "credentials needed"
            raise ConnectError(f"{url}: {reason} (set {_NAMES})") from None
        except AuthorizationException:
            raise ConnectError(
                f"{url}: not permitted (needs the privileges create_index, index and read of {self.index}, and "
                "manage_index_templates of the cluster unless the index exists)"
            ) from None
        except NotFoundError:
            raise InputError(f"{url}: no Elasticsearch at this address (HTTP 404)") from None
        except ApiError as error:
            text = f"{url}: HTTP {error.status_code} {plain(str(error.message), 80)}".rstrip()
            if error.status_code in _PASSING:
                raise ConnectError(f"{text}, also after all retries{done.before}") from None
            raise InputError(f"{text}{done.before}") from None
        except SSLError as error:
            raise ConnectError(f"{url}: {_tls_reason(error)}") from None
        except ConnectionTimeout:
            raise ConnectError(f"{url}: no answer within {_TIMEOUT_S} s{done.before}") from None
        except TransportError as error:
            raise ConnectError(f"{url}: {_reason(error)}{done.before}") from None


def _address(text: str) -> tuple[str, str]:
    """(URL with its port, host)."""
    if any(sign in text for sign in "@?#"):
        raise UsageError(f"--upload: the URL must not contain credentials or parameters (set {_NAMES})")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host or not text.isprintable() or " " in text:
        raise UsageError(f"--upload {plain(text, 120)}: expected a URL such as https://elastic.example.org:9200")
    port = port if port is not None else 443 if parts.scheme == "https" else 80
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}{parts.path.rstrip('/')}", host


def _credentials(environment: Mapping[str, str]) -> dict[str, Any]:
    """Arguments for the client. No message contains a value."""
    key, user, password = (environment.get(name, "").strip() for name in (_KEY, _USER, _PASSWORD))
    for name, value in ((_KEY, key), (_USER, user)):
        if not (value.isascii() and value.isprintable()) or (name == _KEY and " " in value):
            raise UsageError(f"{name} contains characters that cannot be part of it (copied in full, on one line?)")
    if key:
        name, colon, secret = key.partition(":")  # an id and a key, or both encoded as one word
        return {"api_key": (name, secret) if colon else key}
    if bool(user) != bool(password):
        missing = _PASSWORD if user else _USER
        raise UsageError(f"{missing} is not set, but {_USER if user else _PASSWORD} is (set {_NAMES})")
    return {"basic_auth": (user, password)} if user else {}


def _context(ca_file: Path | None) -> ssl.SSLContext:
    """Verification by the certificates of a file, or else those of this host."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise InputError(f"--ca-file {ca_file}: contains no certificate in PEM form") from None
    except OSError as error:
        raise InputError(f"--ca-file {ca_file}: {error.strerror or error}") from None


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    iterator = iter(documents)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


def _prepare(client: Elasticsearch, index: str, patience: Patience) -> None:
    """Put the index template. Where that is not permitted, the index has to exist."""
    from elasticsearch import AuthorizationException

    body = template(index)
    try:
        _patiently(lambda: client.indices.put_index_template(name=index, **_arguments(body)), patience)
    except AuthorizationException:
        try:
            exists = bool(_patiently(lambda: client.indices.exists(index=index), patience))
        except AuthorizationException:
            exists = True  # whether it does, the documents will show
        if not exists:
            raise


def _arguments(body: Mapping[str, Any]) -> dict[str, Any]:
    return {("meta" if name == "_meta" else name): value for name, value in body.items()}


def _patiently(call: Callable[[], T], patience: Patience) -> T:
    from elasticsearch import ApiError

    for attempt in range(patience.retries):
        try:
            return call()
        except ApiError as error:
            if error.status_code not in _PASSING:
                raise
        patience.pause(attempt)
    return call()


def _send(client: Elasticsearch, index: str, chunk: list[Document], patience: Patience, done: Uploaded) -> None:
    """Send one chunk. After a cut connection all of it is sent again: documents replace themselves."""
    from elasticsearch import ConnectionError as Unreachable
    from elasticsearch import SSLError
    from elasticsearch.helpers import streaming_bulk

    for attempt in range(patience.retries + 1):
        try:
            results = list(
                streaming_bulk(
                    client,
                    ({"_op_type": "index", "_index": index, "_id": name, "_source": body} for name, body in chunk),
                    chunk_size=_CHUNK,
                    max_chunk_bytes=_CHUNK_BYTES,
                    raise_on_error=False,
                    max_retries=patience.retries,
                    initial_backoff=patience.first_s,
                    max_backoff=patience.longest_s,
                    retry_on_status=_PASSING,
                )
            )
        except SSLError:
            raise
        except Unreachable:
            if attempt == patience.retries:
                raise
            done.retried += 1
            patience.pause(attempt)
            continue
        for ok, result in results:
            done.add(ok, next(iter(result.values())))
        return


# --- What failed, in one line ---


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was made of, the outermost first."""
    yield error
    inner = [*getattr(error, "errors", ()), *error.args, getattr(error, "reason", None), error.__cause__]
    for cause in inner:
        if isinstance(cause, BaseException):
            yield from _causes(cause)


def _tls_reason(error: Exception) -> str:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = plain(cause.verify_message, _LONGEST_REASON)
            fix = "" if "mismatch" in why or "expired" in why else " (--ca-file FILE: certificate of its authority)"
            return f"certificate not trusted: {why}{fix}"
    return "no TLS connection (is it an http:// address?)"


def _reason(error: Exception) -> str:
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror:
            return f"cannot be reached: {plain(cause.strerror, _LONGEST_REASON)}"
    return "the connection was cut"
