"""Chromium, driven by its own driver over HTTP on loopback; nothing else is reached."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
DRIVER = shutil.which("chromedriver")
needs_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)",
    ),
]

KEYS = {"Home": "\ue011", "End": "\ue010", "Right": "\ue014", "Left": "\ue012", "Up": "\ue00e"}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # how the protocol names an element
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Browser:
    """A session of the browser, spoken to in the WebDriver protocol."""

    def __init__(self, base, session):
        self.base, self.path = base, f"/session/{session}"

    def call(self, method, path, body=None):
        return call(self.base, method, self.path + path, body)

    def open(self, url):
        self.call("POST", "/url", {"url": "about:blank"})  # else a new hash alone loads nothing
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def settle(self):
        """Wait until the page has drawn what was asked for."""
        script = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        self.call("POST", "/execute/async", {"script": script, "args": []})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        # The driver scrolls no further than it must, which may be below the bar that stays on top.
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        self.call("POST", f"/element/{self.find(selector)}/click", {})
        self.settle()

    def keys(self, selector, *names):
        text = "".join(KEYS.get(name, name) for name in names)
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})
        self.settle()

    def drag(self, selector, *places):
        """Press the mouse within an element and drag it; places are shares of its width."""
        width = self.run("return document.querySelector(arguments[0]).offsetWidth", selector)
        origin = {ELEMENT: self.find(selector)}
        moves = [
            {"type": "pointerMove", "origin": origin, "duration": 20, "y": 0,
             "x": round(width * (place - 0.5))}
            for place in places
        ]  # fmt: skip
        press, lift = {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}
        steps = [moves[0], press, *moves[1:], lift]
        source = {"type": "pointer", "id": "mouse", "actions": steps}
        self.call("POST", "/actions", {"actions": [source]})
        self.settle()

    def point(self, selector, place):
        """Move the mouse over an element."""
        width = self.run("return document.querySelector(arguments[0]).offsetWidth", selector)
        move = {"type": "pointerMove", "origin": {ELEMENT: self.find(selector)}, "duration": 0,
                "x": round(width * (place - 0.5)), "y": 0}  # fmt: skip
        source = {"type": "pointer", "id": "mouse", "actions": [move]}
        self.call("POST", "/actions", {"actions": [source]})

    def devtools(self, command, **parameters):
        self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def complaints(self):
        return [each["message"] for each in self.call("POST", "/se/log", {"type": "browser"})]


def call(base, method, path, body=None):
    content = None if body is None else json.dumps(body).encode()
    header = {"Content-Type": "application/json"}
    request = urllib.request.Request(base + path, data=content, headers=header, method=method)
    try:
        with OPENER.open(request, timeout=60) as response:
            return json.load(response)["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(json.load(error)["value"]["message"]) from None


def port_of(log):
    for _ in range(300):
        if found := re.search(r"started successfully on port (\d+)", log.read_text()):
            return int(found[1])
        time.sleep(0.1)
    raise AssertionError(f"chromedriver did not start: {log.read_text()}")


@contextlib.contextmanager
def started(place):
    """A browser whose files are in a folder."""
    log = place / "driver.log"
    with log.open("w") as output:
        driver = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=output, stderr=output, start_new_session=True
        )
    try:
        base = f"http://127.0.0.1:{port_of(log)}"
        flags = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update", "--no-first-run",
            "--no-default-browser-check", "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={place / 'profile'}",
        ]  # fmt: skip
        options = {"binary": CHROMIUM, "args": flags}
        wanted = {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 20_000, "pageLoad": 30_000},
        }  # fmt: skip
        made = call(base, "POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        browser = Browser(base, made["sessionId"])
        yield browser
        browser.call("DELETE", "")
    finally:
        # The driver leads a group of its own, so the browser it started ends with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(timeout=20)
