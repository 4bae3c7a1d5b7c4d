# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium, without a window, asked over its DevTools protocol through two pipes.

    with Browser() as browser:
        page = browser.open("http://127.0.0.1:8501/...", width=360, is_dark=True)
        page.value("document.title")
        page.png()
        page.said            # messages of its console, errors and refusals among them
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any, Self

from lib import PATIENCE, Json, need

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
SECONDS = 2 * PATIENCE  # for anything


def find() -> str:
    found = next((path for path in (shutil.which(name) for name in NAMES) if path), None)
    need("chromium", found is not None, "there is no chromium")
    assert found is not None
    return found


class Browser:
    def __init__(self) -> None:
        program = find()
        self.folder = tempfile.mkdtemp(prefix="snp-chromium-", dir="/tmp")
        ours, theirs = os.pipe(), os.pipe()  # we write ours[1], read theirs[0]

        def place() -> None:
            """The program reads descriptor 3 and writes 4."""
            into, out = os.dup(ours[0]), os.dup(theirs[1])
            os.dup2(into, 3)
            os.dup2(out, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "HOME": self.folder, "LANG": "C.UTF-8"},
            preexec_fn=place, pass_fds=[3, 4], start_new_session=True)
        os.close(ours[0])
        os.close(theirs[1])
        self.out, self.into = ours[1], theirs[0]
        self.buffer = b""
        self.last = 0
        self.pages: dict[str, Page] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, until: float) -> Json:
        while b"\0" not in self.buffer:
            if not select.select([self.into], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.into, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        message: Json = json.loads(text)
        return message

    def take(self, until: float) -> Json:
        """One message: an event goes to its page, an answer is returned."""
        message = self.message(until)
        page = self.pages.get(message.get("sessionId", ""))
        if "id" not in message and page is not None:
            page.event(message["method"], message["params"])
        return message

    def call(self, method: str, session: str | None = None, **params: Any) -> Any:
        self.last += 1
        request: Json = {"id": self.last, "method": method, "params": params}
        if session is not None:
            request["sessionId"] = session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        until = time.monotonic() + SECONDS
        while True:
            answer = self.take(until)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def close_pages(self) -> None:
        for page in list(self.pages.values()):
            self.call("Target.closeTarget", targetId=page.target)
        self.pages.clear()

    def open(self, url: str, width: int = 1280, height: int = 900, is_dark: bool = False) -> "Page":
        return Page(self, url, width, height, is_dark)


class Page:
    def __init__(self, browser: Browser, url: str, width: int, height: int, is_dark: bool) -> None:
        self.browser = browser
        self.said: list[str] = []
        self.requests: list[str] = []
        self.is_loaded = False
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])
        self.go(url)

    def call(self, method: str, **params: Any) -> Any:
        return self.browser.call(method, self.session, **params)

    def event(self, method: str, params: Json) -> None:
        if method == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(each.get("value")) for each in params["args"]))
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.said.append(details["text"] + " " + details.get("exception", {}).get("description", ""))
        elif method == "Log.entryAdded":
            self.said.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self.is_loaded = True
        elif method == "Page.javascriptDialogOpening":
            self.said.append("dialog: " + params["message"])
            self.browser.last += 1
            answer = {"id": self.browser.last, "sessionId": self.session, "method": "Page.handleJavaScriptDialog",
                      "params": {"accept": True}}
            os.write(self.browser.out, json.dumps(answer).encode() + b"\0")

    def go(self, url: str) -> None:
        self.is_loaded = False
        answer = self.call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        until = time.monotonic() + SECONDS
        while not self.is_loaded:
            self.browser.take(until)

    def value(self, script: str) -> Any:
        """What an expression is, after its promise if it is one."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str, seconds: float = SECONDS) -> None:
        """Wait until an expression is true. While a page goes and another comes there may be nothing to ask."""
        end = time.monotonic() + seconds
        while True:
            try:
                if self.value(script):
                    return
                why = "it is false"
            except (AssertionError, RuntimeError) as error:
                why = str(error)
            assert time.monotonic() < end, f"never true: {script}: {why}"
            time.sleep(0.02)

    def key(self, name: str, code: int = 0) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def png(self, path: str, is_whole: bool = False) -> None:
        """A screenshot into a file; of what is in sight, or of all."""
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=is_whole)["data"]))
