"""`perfmon nccl --upload` against a real HTTP server: documents, ids, retries, refusals, credentials, TLS."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from pathlib import Path

import pytest
from certificates import Authority
from elasticsearch_server import Server, basic, running

from lab.nccl_logs import Faults, Plan, write
from perfmon.cli import main
from perfmon.core import ConnectError, InputError, MissingExtraError
from perfmon.exporters import JobDocuments, Patience, Uploaded, Uploader, kibana_dashboard
from perfmon.exporters.nccl_documents import FIELDS, KINDS, document_id
from perfmon.nccl import Job

pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")
pytest.importorskip("elasticsearch", reason="needs its client (pip install 'perfmon-tui[elasticsearch]')")

PLAN = Plan(nodes=2, gpus=4, steps=6, layers=2, faults=Faults(slow_rank=6))
SECRET = "s3cr3t-of-a-test"  # noqa: S105
QUICK = Patience(retries=3, first_s=0.001)


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of the test."""
    for name in ("ELASTIC_API_KEY", "ELASTIC_USERNAME", "ELASTIC_PASSWORD", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The logs of a job with a slow rank."""
    write(tmp_path / "nccl-inspector-12345", PLAN)
    return tmp_path / "nccl-inspector-12345"


def send(folder: Path, server: Server, patience: Patience = QUICK, **environment: str) -> Uploaded:
    """Upload what is in a folder."""
    with Job([folder]) as job:
        documents = JobDocuments(job, job.analyze(), "12345")
        assert documents.count() == len(list(documents))
        return Uploader(server.url, environment=environment).send(documents, patience)


def test_every_record_is_in_one_document_and_a_repetition_changes_nothing(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running() as server:
        assert main(["nccl", str(logs), "--upload", server.url]) == 0
        out, err = capsys.readouterr()
        assert "Slow rank in collectives: rank 6 on node-" in out
        count = len(server.documents)
        assert err == f"perfmon: {server.url}/perfmon-nccl: {count} documents uploaded ({count} new, 0 replaced)\n"
        first = json.dumps(server.documents, sort_keys=True)
        assert main(["nccl", str(logs), "--upload", server.url]) == 0
        assert f"(0 new, {count} replaced)" in capsys.readouterr().err
        assert json.dumps(server.documents, sort_keys=True) == first
        assert set(server.encodings) == {"gzip"}
        kinds = Counter(body["kind"] for body in server.documents.values())
        assert set(kinds) == set(KINDS)
        lines = sum(len(path.read_text().splitlines()) for path in logs.iterdir())
        for kind in ("operation", "rank"):
            assert sum(body["records"] for body in server.documents.values() if body["kind"] == kind) == lines
        assert {name for body in server.documents.values() for name in body} <= set(FIELDS)
        assert server.types() == FIELDS
        (job,) = (body for body in server.documents.values() if body["kind"] == "job")
        assert (job["job.id"], job["findings.id"]) == ("12345", ["nccl-slow-rank"])
        worst = max(
            (body for body in server.documents.values() if body["kind"] == "wait"),
            key=lambda body: float(body["caused_wait_share"]),
        )
        assert worst["rank"] == 6


def test_documents_of_two_jobs_with_one_name_do_not_meet(logs: Path, tmp_path: Path) -> None:
    """Nor do those of two communicators: the ids of one job differ from those of the other in all kinds."""
    write(tmp_path / "other", Plan(nodes=2, gpus=4, steps=6, layers=2, seed=2))
    with running() as server:
        first = send(logs, server)
        second = send(tmp_path / "other", server)
        assert (first.replaced, second.replaced) == (0, 0)
        assert len(server.documents) == first.created + second.created
        assert len({name.partition("/")[0] for name in server.documents}) == 2


def test_a_job_that_goes_on_keeps_its_documents(logs: Path) -> None:
    with running() as server:
        texts = {path: path.read_text() for path in logs.iterdir()}
        for path, text in texts.items():
            path.write_text("".join(text.splitlines(keepends=True)[:20]))
        send(logs, server)
        early = set(server.documents)
        for path, text in texts.items():
            path.write_text(text)
        send(logs, server)
        assert early < set(server.documents)
        whole = dict(server.documents)
        server.documents.clear()
        send(logs, server)
        assert server.documents == whole


@pytest.mark.parametrize(
    ("faults", "repeated"),
    [(["429", "429"], 0), (["503"], 0), (["busy", "busy"], 0), (["cut"], 1), (["mute", "cut"], 2)],
)
def test_what_fails_for_a_while_is_repeated(logs: Path, faults: list[str], repeated: int) -> None:
    with running(faults=faults) as server:
        done = send(logs, server)
        assert not server.faults
        assert (done.taken, done.retried) == (len(server.documents), repeated)
        assert not done.refused


@pytest.mark.parametrize(
    ("fault", "message"),
    [("429", "HTTP 429 "), ("503", "HTTP 503 "), ("cut", "the connection was cut"), ("mute", "the connection was cut")],
)
def test_what_keeps_failing_is_one_line(logs: Path, fault: str, message: str) -> None:
    with running(every=fault) as server, pytest.raises(ConnectError, match=re.escape(server.url)) as caught:
        send(logs, server)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    requests = [path for path in server.requests if path == "/_bulk"]
    assert len(requests) == QUICK.retries + 1


def test_an_upload_that_breaks_off_says_how_far_it_came(logs: Path) -> None:
    many = Plan(nodes=2, gpus=4, steps=60, layers=2)
    write(logs, many)
    with running(faults=["", "503", "503", "503", "503"]) as server, pytest.raises(ConnectError) as caught:
        send(logs, server)
    assert "(1000 documents uploaded (1000 new, 0 replaced) before that; repeat the command" in str(caught.value)


def test_a_refused_document_is_counted_by_reason_and_the_others_arrive(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = min(logs.iterdir())
    line = file.read_text().splitlines()[0]
    file.write_text(file.read_text() + re.sub(r'"coll_sn":\d+', f'"coll_sn":{2**63}', line) + "\n")
    with running() as server:
        assert main(["nccl", str(logs), "--upload", server.url, "--json"]) == 2
        out, err = capsys.readouterr()
        assert json.loads(out)["schema"] == 1
        assert err.count("\n") == 1
        assert "1 refused (document_parsing_exception: 1; first: failed to parse field [sn] of type [long])" in err
        assert f"{len(server.documents)} documents uploaded" in err


@pytest.mark.parametrize(
    ("environment", "header"),
    [
        ({"ELASTIC_API_KEY": SECRET}, f"ApiKey {SECRET}"),
        ({"ELASTIC_API_KEY": f"id:{SECRET}"}, basic("id", SECRET).replace("Basic", "ApiKey")),
        ({"ELASTIC_USERNAME": "me", "ELASTIC_PASSWORD": SECRET}, basic("me", SECRET)),
    ],
)
def test_credentials_come_from_the_environment_and_get_nowhere_else(
    environment: dict[str, str],
    header: str,
    logs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with running(authorization=header) as server:
        assert main(["nccl", str(logs), "--upload", server.url]) == 0
        assert server.documents
        server.authorization = "ApiKey other"
        assert main(["nccl", str(logs), "--upload", server.url]) == 3
        stored = json.dumps(server.documents)
    out, err = capsys.readouterr()
    assert err.splitlines()[-1] == (
        f"perfmon: {server.url}: credentials refused (set ELASTIC_API_KEY, or ELASTIC_USERNAME and ELASTIC_PASSWORD)"
    )
    assert SECRET not in out + err + caplog.text + stored
    assert header.split()[1] not in out + err + caplog.text + stored


def test_a_server_that_wants_credentials_says_which(logs: Path) -> None:
    with running(authorization="ApiKey x") as server, pytest.raises(ConnectError, match=r"credentials needed \(set "):
        send(logs, server)


def test_without_the_privilege_for_templates_the_index_has_to_exist(logs: Path) -> None:
    with running(may_put_template=False) as server:
        with pytest.raises(ConnectError, match=r"not permitted .*manage_index_templates"):
            send(logs, server)
        assert not server.documents
        server.templates["made-by-others"] = {"template": {"mappings": {"properties": {}}}}
        server.index_exists = True
        assert send(logs, server).created == len(server.documents) > 0


def test_tls_is_verified(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path)
    with running(authority.server("127.0.0.1")) as server:
        assert main(["nccl", str(logs), "--upload", server.url, "--ca-file", str(authority.file)]) == 0
        assert server.documents
        capsys.readouterr()
        assert main(["nccl", str(logs), "--upload", server.url]) == 3
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert f"{server.url}: certificate not trusted: " in err
        assert "--ca-file FILE" in err
        plain = server.url.replace("https", "http")
        assert main(["nccl", str(logs), "--upload", plain]) == 3
        assert capsys.readouterr().err.count("\n") == 1
    with running(authority.server("elsewhere.example")) as server:
        assert main(["nccl", str(logs), "--upload", server.url, "--ca-file", str(authority.file)]) == 3
        assert "mismatch" in capsys.readouterr().err
    with running() as server:
        assert main(["nccl", str(logs), "--upload", server.url.replace("http", "https")]) == 3
        assert "no TLS connection (is it an http:// address?)" in capsys.readouterr().err


def test_what_is_no_elasticsearch_is_one_line(logs: Path) -> None:
    with running(product="") as server, pytest.raises(InputError, match="not Elasticsearch"):
        send(logs, server)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ConnectError, match=f"http://127.0.0.1:{port}: cannot be reached: Connection refused"):
            Uploader(f"http://127.0.0.1:{port}", environment={}).send([], QUICK)
    with pytest.raises(ConnectError, match="cannot be reached"):
        Uploader("http://no.such.host.invalid", environment={}).send([], QUICK)


@pytest.mark.parametrize(
    ("words", "environment", "message"),
    [
        (["--upload", f"https://me:{SECRET}@host"], {}, "must not contain credentials"),
        (["--upload", "host:9200"], {}, "expected a URL"),
        (["--upload", "http://host:99999"], {}, "expected a URL"),
        (["--upload", "http://host"], {"ELASTIC_API_KEY": SECRET}, "readable on the way (use https://)"),
        (["--upload", "https://host"], {"ELASTIC_API_KEY": f"{SECRET}\r\nX: y"}, "ELASTIC_API_KEY contains"),
        (["--upload", "https://host"], {"ELASTIC_PASSWORD": SECRET}, "ELASTIC_USERNAME is not set"),
        (["--upload", "https://host", "--index", "../Other"], {}, "expected lower-case letters"),
        (["--upload", "https://host", "--ca-file", "{tmp}/none"], {}, "No such file"),
        (["--upload", "https://host", "--ca-file", "{tmp}/key"], {}, "contains no certificate"),
        (["--upload", "http://host", "--ca-file", "{tmp}/key"], {}, "--ca-file is for https://"),
        (["--no-operations"], {}, "are for --upload URL"),
        (["--hang", "{tmp}", "--upload", "http://host"], {}, "--hang reads its own"),
    ],
)
def test_wrong_usage_is_one_line_without_secrets_before_any_work(
    words: list[str],
    environment: dict[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "key").write_text("no certificate")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    given = [word.format(tmp=tmp_path) for word in words]
    assert main(["nccl", *([] if "--hang" in words else [str(tmp_path / "nowhere")]), *given]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert SECRET not in err


def test_without_the_client_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmon.exporters.elastic.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'perfmon-tui\[elasticsearch\]'"):
        Uploader("https://host", environment={})


def test_operations_can_be_left_out(logs: Path) -> None:
    with running() as server:
        assert main(["nccl", str(logs), "--upload", server.url, "--no-operations", "--index", "mine"]) == 0
        assert {body["kind"] for body in server.documents.values()} == set(KINDS) - {"operation"}
        assert server.templates["mine"]["index_patterns"] == ["mine"]


def test_ids_are_injective_whatever_logs_contain() -> None:
    parts = ["", "%", "/", "a/b", "a", "b", "%2F", "\ud800", "\x00", "x" * 600, "x" * 601]
    made = {document_id(*pair) for first in [*parts, None] for pair in [(first, other) for other in [*parts, None]]}
    assert len(made) == (len(parts) + 1) ** 2
    assert all(len(name.encode()) <= 512 for name in made)
    assert document_id("a", 1) != document_id("a1")


def test_hostile_names_are_stored_as_text(logs: Path) -> None:
    for path in logs.iterdir():
        text = path.read_text().replace('"hostname":"node-', '"hostname":"\\u001b[31m\\n{\\"index\\":{}}\\n')
        path.write_text(text.replace('"coll":"AllGather"', '"coll":"../_all?x"'))
    with running() as server:
        done = send(logs, server)
        assert done.created == len(server.documents)
        assert "\\u001b" not in json.dumps(server.documents)


def test_the_dashboard_uses_fields_that_the_documents_have(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running() as server:
        send(logs, server)
    held = {(body["kind"], name) for body in server.documents.values() for name in body}
    file = tmp_path / "dashboard.ndjson"
    assert main(["nccl", "--kibana", str(file), "--index", "mine"]) == 0
    assert capsys.readouterr().out == ""
    assert file.read_text() == kibana_dashboard("mine")
    objects = [json.loads(line) for line in file.read_text().splitlines()]
    known = {(made["type"], made["id"]) for made in objects}
    assert len(known) == len(objects)
    for made in objects:
        assert {(link["type"], link["id"]) for link in made["references"]} <= known
    (dashboard,) = (made for made in objects if made["type"] == "dashboard")
    panels = json.loads(dashboard["attributes"]["panelsJSON"])
    assert {panel["panelRefName"] for panel in panels} == {link["name"] for link in dashboard["references"]}
    cells = Counter(
        (x, y)
        for place in (panel["gridData"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )
    assert max(cells.values()) == 1
    assert max(x for x, _ in cells) < 48
    numbers = {"long", "double"}
    for made in objects:
        if made["type"] != "visualization":
            continue
        query = json.loads(made["attributes"]["kibanaSavedObjectMeta"]["searchSourceJSON"])["query"]["query"]
        for aggregation in json.loads(made["attributes"]["visState"])["aggs"]:
            name = aggregation["params"]["field"]
            assert (query.removeprefix("kind: "), name) in held
            kind = FIELDS[name]
            wanted = {"terms": numbers | {"keyword"}, "date_histogram": {"date"}}.get(aggregation["type"], numbers)
            assert kind in wanted
