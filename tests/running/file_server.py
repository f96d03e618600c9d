"""A server of files in this process, with every fault that a download must survive."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest


@dataclass
class FileServer:
    files: dict[str, bytes]
    url: str = ""
    ranges: bool = True
    dies_after: int | None = None
    """Bytes of each answer after which it closes the connection."""
    lengths: bool = True
    asked: list[str] = field(default_factory=list)
    """Path and Range of each request."""


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[FileServer]:
    state = FileServer(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, wanted = self.path.lstrip("/"), self.headers.get("Range", "")
            state.asked.append(f"{path} {wanted}".strip())
            content = state.files.get(path)
            start = int(re.findall(r"\d+", wanted)[0]) if wanted and state.ranges else 0
            if content is None:
                self.send_error(404)
                return
            if start and start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if state.lengths:
                self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = None if state.dies_after is None else start + state.dies_after
            self.wfile.write(content[start:end])
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
                patch.delenv(name, raising=False)
            yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
