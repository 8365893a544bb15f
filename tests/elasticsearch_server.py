"""Elasticsearch for tests: an HTTP server with the bulk protocol, field types, credentials, and faults in order."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TYPE = "application/vnd.elasticsearch+json;compatible-with=8"


@dataclass
class Server:
    """Contents and behaviour. `faults` are consumed by bulk requests, one each:

    `429`, `503`: the status of the whole request; `busy`: 429 for the first document alone; `cut`: the connection ends
    in the middle of the request; `mute`: documents are stored, but the connection ends before the answer.
    """

    authorization: str | None = None
    product: str = "Elasticsearch"
    may_put_template: bool = True
    index_exists: bool = False
    faults: list[str] = field(default_factory=list)
    every: str | None = None
    """Fault of all bulk requests."""
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    templates: dict[str, Any] = field(default_factory=dict)
    encodings: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def types(self) -> dict[str, str]:
        """Field types by name, of the template."""
        (template,) = self.templates.values()
        properties = template["template"]["mappings"]["properties"]
        return {name: mapping["type"] for name, mapping in properties.items()}

    def store(self, action: Mapping[str, Any], source: dict[str, Any], *, busy: bool) -> dict[str, Any]:
        """The result of one document."""
        ((operation, where),) = action.items()
        assert operation == "index"
        made = {"_index": where["_index"], "_id": where["_id"]}
        if busy:
            error = {"type": "es_rejected_execution_exception", "reason": "queue is full"}
            return {"index": {**made, "status": 429, "error": error}}
        for name, value in source.items():
            if self.types().get(name) == "long" and not -(2**63) <= value < 2**63:
                reason = f"failed to parse field [{name}] of type [long]"
                error = {"type": "document_parsing_exception", "reason": reason}
                return {"index": {**made, "status": 400, "error": error}}
        is_new = where["_id"] not in self.documents
        self.documents[where["_id"]] = source
        status = (201, "created") if is_new else (200, "updated")
        return {"index": {**made, "status": status[0], "result": status[1]}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_PUT(self) -> None:
        server, body = self.server.state, self._body()
        server.requests.append(self.path)
        if not self._is_permitted():
            return
        if self.path == "/_bulk":
            self._bulk(body)
            return
        kind, _, name = self.path.lstrip("/").partition("/")
        assert kind == "_index_template"
        if server.may_put_template:
            server.templates[name] = json.loads(body)
            self._reply(200, {"acknowledged": True})
        else:
            self._refuse(403, "security_exception", "action [indices:admin/index_template/put] is unauthorized")

    do_POST = do_PUT

    def do_HEAD(self) -> None:
        self._reply(200 if self.server.state.index_exists else 404, None)

    def _body(self) -> bytes:
        if self.path == "/_bulk" and "cut" in self.server.state.faults[:1]:
            self.rfile.read(10)
            return b""
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.state.encodings.append(self.headers.get("content-encoding", ""))
        return gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body

    def _is_permitted(self) -> bool:
        wanted = self.server.state.authorization
        if wanted is None or self.headers.get("authorization") == wanted:
            return True
        self._refuse(401, "security_exception", f"unable to authenticate {self.headers.get('authorization')}")
        return False

    def _bulk(self, body: bytes) -> None:
        server = self.server.state
        fault = server.every or (server.faults.pop(0) if server.faults else "")
        if fault == "cut":
            self._hang_up()
            return
        if fault in ("429", "503"):
            self._refuse(int(fault), "es_rejected_execution_exception", "not now")
            return
        lines = [json.loads(line) for line in body.splitlines()]
        pairs = zip(lines[::2], lines[1::2], strict=True)
        items = [
            server.store(action, source, busy=fault == "busy" and at == 0) for at, (action, source) in enumerate(pairs)
        ]
        if fault == "mute":
            self._hang_up()
            return
        self._reply(200, {"took": 1, "errors": any("error" in item["index"] for item in items), "items": items})

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _refuse(self, status: int, kind: str, reason: str) -> None:
        cause = {"type": kind, "reason": reason}
        self._reply(status, {"error": {"root_cause": [cause], **cause}, "status": status})

    def _reply(self, status: int, made: object) -> None:
        body = b"" if made is None else json.dumps(made).encode()
        self.send_response(status)
        if self.server.state.product:
            self.send_header("X-Elastic-Product", self.server.state.product)
        self.send_header("Content-Type", TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    state: Server

    def handle_error(self, *_: object) -> None:
        """Clients that go away are a part of the tests."""


@contextmanager
def running(tls: ssl.SSLContext | None = None, **state: Any) -> Iterator[Server]:
    """A server on a free port, with TLS if a context is given."""
    http = _Http(("127.0.0.1", 0), _Handler)
    http.state = Server(port=http.server_address[1], scheme="https" if tls else "http", **state)
    if tls is not None:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield http.state
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def basic(user: str, password: str) -> str:
    """Header of basic authentication."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
