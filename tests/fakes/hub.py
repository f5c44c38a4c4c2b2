"""A loopback stand-in for the Hugging Face hub: one gated repository, one open, one folder behind.

Speaks just the part of the protocol that `snapshot_download` uses.
"""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote

GATED, OPEN = "nvidia/personaplex-7b-v1", "open/model"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """Serves the files of `folder`; the gated repository asks for `token`."""

    def __init__(self, folder: Path, token: str) -> None:
        self.folder, self.token = folder, token
        self.paths: list[str] = []
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> FakeHub:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked_for(self, name: str) -> bool:
        return any(path.endswith(name) for path in self.paths)

    def names(self) -> list[str]:
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return [str(path.relative_to(self.folder)) for path in files] + ["README.md"]


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(self.path)
        self.hub.paths.append(path)
        parts = path.removeprefix("/api/models").strip("/").split("/")
        repo, verb, revision, name = (
            "/".join(parts[:2]),
            parts[2:3],
            parts[3:4],
            "/".join(parts[4:]),
        )
        if repo not in (GATED, OPEN):
            self._answer(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif repo == GATED and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            self._answer(401, b"", {"X-Error-Code": "GatedRepo"})
        elif revision[:1] not in ([], ["main"], [COMMIT]):
            self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        elif verb == ["resolve"]:
            self._file(self.hub.folder / name)
        else:
            listed = [{"rfilename": name} for name in self.hub.names()]
            body = json.dumps({"id": repo, "sha": COMMIT, "siblings": listed, "private": False})
            self._answer(200, body.encode(), {"Content-Type": "application/json"})

    def _file(self, path: Path) -> None:
        if not path.is_file():
            self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        body = path.read_bytes()
        etag = hashlib.sha256(body).hexdigest()
        self._answer(200, body, {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
