"""Serve the built book: `python -m book.tools.serve`.

PORT=8000 asks for that port (without it a free one is taken) and OPEN=0 keeps the browser closed.
BIND=0.0.0.0 lets other machines read it, as a container needs. Ctrl-C stops it.
"""

from __future__ import annotations

import functools
import http.server
import os
import sys
import threading
import webbrowser
from pathlib import Path

SITE = Path(__file__).resolve().parents[2] / "_build" / "html"


class Handler(http.server.SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")  # a rebuilt page shows at once
        super().end_headers()

    def log_message(self, *args: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a reader who left is no error
            super().handle_error(request, client_address)


def main() -> int:
    if not (SITE / "index.html").exists():
        print(f"There is no built book in {SITE}; build it with: make html", file=sys.stderr)
        return 1
    given = os.environ.get("PORT") or "0"
    if not given.isdigit() or int(given) > 65535:
        print(f"PORT must be a number from 0 to 65535, not {given!r}", file=sys.stderr)
        return 1
    handler = functools.partial(Handler, directory=SITE)
    try:
        server = Server((os.environ.get("BIND", "127.0.0.1"), int(given)), handler)
    except OSError as error:
        print(f"Port {given} cannot be used: {error.strerror}. Try another PORT.", file=sys.stderr)
        return 1
    address = f"http://127.0.0.1:{server.server_port}/"
    print(f"The book is at {address} (Ctrl-C stops it)", flush=True)
    if os.environ.get("OPEN", "1") != "0":
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nStopped.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
