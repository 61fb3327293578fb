"""A page on this computer, to read answers in words and give points by keyboard.

It serves the pages that `grade` has written, each answer with a field for points and one for a
comment, and writes every entry into `written.csv` at once. Nobody else reaches it: it listens on
this computer alone, answers under an address with a key, which others who work on this computer do
not know, and takes no entry that another site's page has sent.
"""

from __future__ import annotations

import html
import json
import secrets
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from unrolled_book.coursework import written
from unrolled_book.coursework.feedback import page
from unrolled_book.coursework.syllabus import Syllabus, Week, plain

_MOST = 100_000  # bytes of an entry
_SCRIPT = Path(__file__).with_name("reading.js")


class Reading(ThreadingHTTPServer):
    """Serves a week's answers in words from the folder that `grade` has written."""

    daemon_threads = True

    def __init__(self, out: Path, syllabus: Syllabus, week: Week, port: int = 0):
        self.folder, self.syllabus = out / "written", replace(syllabus, weeks=(week,))
        self.tasks, self.table = written.tasks(self.syllabus), self.folder / written.TABLE
        if not self.tasks:
            raise ValueError(f"{week.name} has nothing that a person reads")
        if not self.table.exists():
            raise ValueError(f"{self.table} is not there; expected the folder that `grade` wrote")
        self.lock, self.key = threading.Lock(), secrets.token_urlsafe(16)
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.key}/"

    def door(self) -> Path:
        """A file that leads to the page: the arguments of a browser can be seen, and the key so."""
        path = self.folder / "to-read.html"
        path.unlink(missing_ok=True)
        path.touch(0o600)
        path.write_text(f'<meta http-equiv="refresh" content="0; url={self.address}">', "utf8")
        return path.absolute()

    def start(self) -> str:
        """The page with the week's tasks."""
        given = written.read_points(self.table, self.syllabus)
        items = []
        for name, task in self.tasks.items():
            read = sum(said.points is not None for (_, of), said in given.items() if of == name)
            title = html.escape(task.title)
            items.append(f'<li><a href="{name}.html">{title}</a>: {read} with points</li>')
        title = f"{self.syllabus.title}: what a person reads"
        return page(title, f"<h1>{html.escape(title)}</h1><ul>{''.join(items)}</ul>")

    def answers(self, name: str) -> str:
        """The page of a task, with what was given so far and the script of the fields."""
        text = (self.folder / f"{name}.html").read_text("utf8")
        rows = [row for row in written.entries(self.table) if row["task"] == name]
        given = {row["student"]: [row["points"], row["comment"]] for row in rows}
        about = {"task": name, "most": self.tasks[name].points, "given": given}
        data = json.dumps(about).replace("<", "\\u003c")
        both = f'<script type="application/json" id="about">{data}</script>'
        return text.replace("</body>", f'{both}<script src="reading.js"></script></body>')


class _Handler(BaseHTTPRequestHandler):
    server: Reading

    def do_GET(self) -> None:
        """A page, or the script."""
        name = self.path.partition("?")[0].strip("/").partition("/")[2]
        if not self._is_ours():
            self._answer(403, "text/plain", "this page is for this computer alone")
        elif not name:
            self._answer(200, "text/html", self.server.start())
        elif name == _SCRIPT.name:
            self._answer(200, "text/javascript", _SCRIPT.read_text("utf8"))
        elif name.removesuffix(".html") in self.server.tasks:
            self._answer(200, "text/html", self.server.answers(name.removesuffix(".html")))
        else:
            self._answer(404, "text/plain", f"there is no page {name!r}")

    def do_POST(self) -> None:
        """Points and a comment for one answer: JSON, which no form of another site can send."""
        size = int(self.headers.get("Content-Length") or 0)
        is_json = self.headers.get("Content-Type") == "application/json"
        if not (self._is_ours() and is_json and size <= _MOST):
            self._answer(403, "text/plain", "expected an entry of this page")
            return
        try:
            said = json.loads(self.rfile.read(size))
            with self.server.lock:
                table, syllabus = self.server.table, self.server.syllabus
                written.give(table, syllabus, said["student"], said["task"], said)
                given = written.read_points(table, syllabus).get(
                    (plain(said["student"]), said["task"])
                )
        except (KeyError, TypeError, AttributeError, ValueError, OSError) as error:
            self._answer(400, "text/plain", str(error))
            return
        points = given.points if given else None
        self._answer(200, "application/json", json.dumps({"points": points}))

    def _is_ours(self) -> bool:
        """Whether the request has the key and names this computer: another name may have been bent
        to lead here.
        """
        port, key = self.server.server_port, self.path.strip("/").partition("/")[0]
        host = self.headers.get("Host") in (f"127.0.0.1:{port}", f"localhost:{port}")
        return host and secrets.compare_digest(key.encode(), self.server.key.encode())

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the points are in the table."""
