# SPDX-License-Identifier: Apache-2.0
"""The page of runs in a real browser: what it shows, how it is used, and that nothing in a record runs."""

import base64
import html
import json
import os
import struct
import subprocess
import time
import zlib
from collections.abc import Iterator

import pytest

import trajectories
from browser import Browser, Page
from lib import Json, Sandbox, some

CANARY = "(top.fired=top.fired||[]).push(NUMBER)"  # NUMBER: which of them it is

# Each runs CANARY in a page that takes it for markup.
MARKUP = [
    f"<img src=x onerror='{CANARY}'>",
    f"<svg onload='{CANARY}'></svg>",
    f"<details open ontoggle='{CANARY}'>",
    f"<input autofocus onfocus='{CANARY}'>",
    f"<video><source onerror='{CANARY}'></video>",
    f"<audio src=x onerror='{CANARY}'>",
    f"<iframe srcdoc=\"<script>{CANARY}</script>\"></iframe>",
    f"<style>@keyframes k{{}}</style><b style='animation:k 1s' onanimationstart='{CANARY}'>b</b>",
    f"<math><mtext></mtext><img src=x onerror='{CANARY}'></math>",
    f"<iframe src=\"javascript:{CANARY}\"></iframe>",
    f"\"'><img src=x onerror='{CANARY}'>",
    f"]]><img src=x onerror='{CANARY}'>",
    f"</pre></div></main><img src=x onerror='{CANARY}'>",
]
# Each runs it where it stands in a script element, unescaped.
BREAKERS = [
    f"</script><script>{CANARY}</script>",
    f"</SCRIPT ><img src=x onerror='{CANARY}'>",
    f"<!--<script></script><script>-->{CANARY}</script><script>{CANARY}</script>",
]
# What else might do something somewhere.
OTHERS = [
    f"javascript:{CANARY}", f"data:text/html,<script>{CANARY}</script>", f"${{{CANARY}}}", f"{{{{{CANARY}}}}}",
    f"');{CANARY};//", f"\u2028{CANARY}\u2029", "__proto__", "constructor", "\U0001f600 \u202eevil\u202c \x1b[31m \x00",
    "<base href='http://canary.invalid/'>", "<meta http-equiv=refresh content='0;url=http://canary.invalid/'>",
    "<link rel=stylesheet href='http://canary.invalid/x.css'>", "<img src='http://canary.invalid/x.png'>",
    "<form action='http://canary.invalid/'><input name=a></form>", "url(http://canary.invalid/)",
]
CORPUS = [text.replace("NUMBER", str(n)) for n, text in enumerate(MARKUP + BREAKERS + OTHERS)]
MARKUP, BREAKERS = CORPUS[:len(MARKUP)], CORPUS[len(MARKUP):len(MARKUP) + len(BREAKERS)]


def png(width: int = 6, height: int = 4) -> dict[str, str]:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x20\x60\xc0" * width for _ in range(height))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return {"type": "image/png", "data": base64.b64encode(data).decode()}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    yield chromium
    chromium.close_pages()


class Pages:
    """A folder of records, and pages of them."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.folder = box.make_folder(f"pages{time.monotonic_ns()}")
        self.logs = os.path.join(self.folder, "logs")
        self.count = 0

    def file(self, name: str, text: str) -> str:
        return "file://" + self.box.make_file(os.path.join(self.folder, name), text)

    def page(self, *args: str) -> str:
        self.count += 1
        path = os.path.join(self.folder, f"page{self.count}.html")
        done = self.box.cli("visualize", "--dir", self.logs, "--out", path, *args)
        assert done.returncode == 0, done.stderr
        return "file://" + path

    def add(self, *records: Json, ident: str | None = None) -> str:
        return trajectories.write(self.logs, trajectories.chained(records), ident)


@pytest.fixture
def pages(box: Sandbox) -> Pages:
    return Pages(box)


TABS = ["overview", "tree", "details", "cells", "raw"]


def open_all(page: Page) -> None:
    page.value("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    page.until("[...document.querySelectorAll('details[open] > .body')].every(each => each.childNodes.length > 0)")


def look_at_all(page: Page) -> None:
    """Everything a person can open, in each tab, also what a search finds."""
    for tab in TABS:
        page.value(f"document.getElementById('tab-{tab}').click()")
        open_all(page)
        page.value("document.querySelectorAll('.more[aria-expanded=false]').forEach(each => each.click())")
        page.value("for (let i = 0; i < 200; i += 3) { const row = document.getElementById('row' + i); if (row) "
                   "row.click(); }")
    page.value("document.getElementById('search').value = '<'; search()")
    page.value("document.getElementById('search').value = ''; search()")


# Nothing in a record runs -------------------------------------------------------------------------


def everywhere(text: str, n: int = 0) -> list[Json]:
    """Records with a text in every place that has one, and in places that should have something else."""
    image = {"type": text, "data": text}
    wild = list(trajectories.turn(n, text, (text, {"code": text, text: text}, trajectories.cell(text, text), True),
                                  (text, {text: [text]}, text, False), prompt=text, error=text,
                                  images=[image, png(), {"type": "image/svg+xml", "data": "PHN2Zy8+"},
                                          {"type": "image/png", "data": text},
                                          {"type": "image/png", "data": "iVBORw0KGgo\" onerror=\"" + text}]))
    for record in wild:
        for name in ("timestamp", "model", "provider", "state", "status"):
            if name in record:
                record[name] = text
        record[text] = {text: text}
    files = {"created": [text], "modified": text, "deleted": {text: text}}
    odd = {"_type": "step", "step": text, "content": text, "call_id": 7, "elapsed_ms": text}
    return [trajectories.head(text, model=text, kind=text, session=text, environment=text,
                              budget={"token_budget": text}), *wild, odd,
            {"_type": text, "call_id": text},
            {"call_id": text, "tool_calls": text, "tool_results": {text: text}, "prompt": [text]},
            {"_type": "step", "step": "message", "content": text, "why": text},
            {"_type": "step", "step": "resume", "process": text},
            {"_type": "step", "step": "ask", "call_id": "sub" + text, "parent_call_id": f"call-{n}",
             "tool_call_id": f"tool-{n}-0", "estimate": text},
            trajectories.end(text, 1, 5, success=False, stopped_by=text, error=text, partial=text, files=files)]


def is_quiet(page: Page, frames: int = 0) -> None:
    for _ in range(5):  # what would fire by itself has had its turn
        page.value("new Promise(done => { const image = new Image(); image.onerror = done; image.src = "
                   "'data:image/png;base64,AA=='; })")
    assert page.value("window.fired") is None
    assert page.value("location.href").startswith(("file:", "http://127.0.0.1"))
    assert page.value("frames.length") == 0 or frames > 0
    assert [each
            for each in page.requests if not each.startswith(("file:", "data:image/png", "http://127.0.0.1"))] == []


def test_the_corpus_does_run_in_a_page_without_protection(browser: Browser, pages: Pages) -> None:
    begin = "<!doctype html><meta charset=utf-8><body>"
    page = browser.open(pages.file("bare.html", begin + "\n".join(f"<p>{text}</p>" for text in MARKUP)))
    page.until(f"new Set(window.fired).size === {len(MARKUP)}")
    for n, text in enumerate(BREAKERS, len(MARKUP)):
        page.go(pages.file("bare.html", f'{begin}<script type="application/json">["{text}"]</script>'))
        page.until(f"(window.fired || []).includes({n})")


def test_nothing_in_a_record_runs(browser: Browser, pages: Pages) -> None:
    for text in CORPUS:
        pages.add(*everywhere(text))
    pages.add(*(record for n, text in enumerate(CORPUS) for record in everywhere(text, n)), ident="all")
    page = browser.open(pages.page())
    count = page.value("runs.length")
    assert count == len(CORPUS) + 1 and page.value("view.model.calls.length") > 2 * len(CORPUS)
    look_at_all(page)
    for i in range(count):
        page.value(f"document.getElementById('runs').value = '{i}'; document.getElementById('runs').dispatchEvent(new "
                   f"Event('change'))")
        assert page.value("document.querySelectorAll('script:not([type]), iframe, form, base, link, video, object, "
                          "embed').length") == 1
    is_quiet(page)
    assert page.said == []
    assert page.value("[...document.querySelectorAll('img')].every(each => "
                      "/^data:image\\/png;base64,[A-Za-z0-9+/=]+$/.test(each.src))")


def test_the_policy_alone_would_do(browser: Browser, pages: Pages) -> None:
    """The same with records that are not escaped, and a script that makes markup of text."""
    pages.add(*three_calls(), *everywhere("".join(MARKUP))[:1], *everywhere("".join(BREAKERS))[-1:])
    with open(pages.page()[len("file://"):]) as file:
        text = file.read().replace("\\u003c", "<")
    page = browser.open(pages.file("raw.html", text))
    is_quiet(page, frames=1)
    assert any("Content Security Policy" in each for each in page.said)
    page = browser.open(pages.page())
    told = page.value(f"(() => {{ try {{ document.body.innerHTML = {json.dumps(MARKUP[0])}; return 'done'; }} catch "
                      f"(e) {{ return e.name; }} }})()")
    assert told == "TypeError"
    is_quiet(page)


# What it shows ------------------------------------------------------------------------------------


def three_calls() -> list[Json]:
    long_text = "word " * 400
    return [trajectories.head("Count the <words>", kind="agent"),
            *trajectories.turn(0, "first", ("execute_code", {"code": "print(1)"}, trajectories.cell("needle\n"), False),
                               prompt=long_text, tokens=(1000, 50), images=[png()], iteration=1),
            *trajectories.turn(1, "second",
                               ("execute_code", {"code": "1/0"}, trajectories.cell("", "ZeroDivisionError"), True),
                               ("file_read", {"path": "a"}, '{"content": "x"}', False), clock=600, tokens=(2000, 60),
                               iteration=1),
            *trajectories.turn(2, "third", clock=1200, tokens=(3000, 70), iteration=2),
            trajectories.end("forty-two", 3, 6180, 1700)]


def texts(page: Page, selector: str) -> list[str]:
    return list(page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(each => each.textContent)"))


def test_metrics_tabs_and_details(browser: Browser, pages: Pages) -> None:
    pages.add(*three_calls())
    page = browser.open(pages.page())
    assert page.value("document.title") == "Count the <words> - snipara-sandbox"
    tiles = dict(zip(texts(page, ".tile dt"), texts(page, ".tile dd")))
    assert tiles == {"Total calls": "3", "Total tokens": "6,1806,000 in, 180 out", "Total duration": "1.70 s",
                     "Errors": "01 tool error", "Tool calls": "33 cells", "Cost": "$0.0300"}
    assert "forty-two" in texts(page, "#summary .answer")[0] and "hash chain intact" in texts(page, ".facts")[0]
    assert texts(page, "[role=tab]") == ["Overview", "Execution tree", "Calls", "Cells", "Raw JSON"]
    # bars: input and output of three calls, the highest is the last
    heights = page.value("[...document.querySelector('.plot').querySelectorAll('.k-in')].map(each => "
                         "Number(each.getAttribute('height')))")
    assert [round(each, 1) for each in heights] == [round(100 * n / 3070, 1) for n in (1000, 2000, 3000)]
    rows = [row.split("\t")
            for row in page.value("[...document.querySelectorAll('.card')].find(each => "
                                  "each.textContent.startsWith('Tool calls')).innerText").splitlines()]
    assert [row[:2]
            for row in rows if row[0] in ("execute_code", "file_read")] == [["execute_code", "2"], ["file_read", "1"]]
    page.value("show('details')")
    page.value("document.querySelector('details.item summary').click()")
    page.until("document.querySelectorAll('details.item[open] pre').length > 3")
    prompt = page.value("document.querySelector('details.item[open] pre').textContent")
    assert prompt.startswith("word word") and len(prompt) == 501
    assert page.value("document.querySelector('.more').textContent") == "Show full (2,000 characters)"
    page.value("document.querySelector('.more').click()")
    assert len(page.value("document.querySelector('details.item[open] pre').textContent")) == 2000
    assert page.value("(async () => { const image = document.querySelector('img'); await image.decode(); return "
                      "image.naturalWidth; })()") == 6
    page.value("show('cells')")
    assert texts(page, ".tag:not(.out)") == ["In [1]", "In [2]", "In [2]"]
    page.value("show('raw')")
    assert len(texts(page, "details.item")) == len(three_calls())
    assert page.said == []


def test_cells_of_a_session(browser: Browser, pages: Pages) -> None:
    html_shown = "class H:\n def __init__(self, text): self.text = text\n def _repr_html_(self): return self.text\n"
    cells = ["print('needle')", html_shown + f"H({''.join(CORPUS)!r})", f"print({''.join(CORPUS)!r})\n1 / 0",
             f"import base64\nclass P:\n def _repr_png_(self): return base64.b64decode({png()['data']!r})\nP()"]
    for code in cells:
        pages.box.cli("exec", "--session", "cells", code)
    try:
        page = browser.open(pages.page("cells"))
    finally:
        pages.box.cli("sessions", "destroy", "cells")
    assert texts(page, "[role=tab]") == ["Cells", "Raw JSON"] and "Session cells" in texts(page, "h1")[0]
    assert [*zip(texts(page, ".tile dt"), texts(page, ".tile dd"))][::2] == [("Cells", "4"), ("Errors", "1")]
    assert texts(page, ".tag:not(.out)") == ["In [1]", "In [2]", "In [3]", "In [4]"]
    assert [each for each in texts(page, ".toolhead .badge") if each in ("success", "error")] == [
        "success", "success", "error", "success"]
    for tab in ("cells", "raw"):
        page.value(f"show('{tab}')")
        open_all(page)
        page.value("document.querySelectorAll('.more[aria-expanded=false]').forEach(each => each.click())")
        is_quiet(page)
    page.value("show('cells')")
    text = page.value("document.querySelector('main').textContent")
    assert "ZeroDivisionError: division by zero" in text and "<svg onload=" in text and "needle" in text
    assert page.value("(async () => { const image = document.querySelector('img'); await image.decode(); return "
                      "image.naturalWidth; })()") == 6
    page.value("document.getElementById('search').value = 'needle'; search()")
    assert texts(page, "#found") == ["Found in 1 cell."]
    assert page.said == []


def test_search_finds_and_marks(browser: Browser, pages: Pages) -> None:
    pages.add(*three_calls())
    page = browser.open(pages.page())
    page.value("document.getElementById('search').focus()")
    page.call("Input.insertText", text="NEEDLE")
    page.until("document.getElementById('found').textContent !== ''")
    assert texts(page, "#found") == ["Found in 1 call and 1 cell."]
    assert len(texts(page, "details.item")) == 1 and page.value("view.tab") == "details"
    page.value("show('cells')")
    assert texts(page, "mark") == ["needle"]


def test_the_tree_is_used_by_keyboard(browser: Browser, pages: Pages) -> None:
    pages.add(*three_calls())
    page = browser.open(pages.page())
    page.value("document.getElementById('tab-overview').focus()")
    page.key("ArrowRight", 39)
    assert page.value("document.activeElement.id") == "tab-tree"
    rows = texts(page, "[role=treeitem] strong")
    assert rows == ["Iteration 1", "Call 1", "execute_code", "Call 2", "execute_code", "file_read", "Iteration 2",
                    "Call 3"]
    levels = "[...document.querySelectorAll('[role=treeitem]')].map(each => each.getAttribute('aria-level'))"
    assert page.value(levels) == list("12323312")
    page.value("document.querySelector('[role=tree]').focus()")
    for name, code in (("ArrowDown", 40), ("ArrowDown", 40), ("ArrowDown", 40), ("Enter", 13)):
        page.key(name, code)
    active = "document.querySelector('[role=tree]').getAttribute('aria-activedescendant')"
    assert page.value(f"document.getElementById({active}).textContent").count("Call 2") == 1
    assert "ZeroDivisionError" in page.value("document.querySelector('.side').textContent")
    page.key("ArrowLeft", 37)
    assert len(texts(page, "[role=treeitem]")) == 6
    page.key("ArrowLeft", 37)
    page.key("ArrowLeft", 37)
    assert texts(page, "[role=treeitem] strong") == ["Iteration 1", "Iteration 2", "Call 3"]
    assert page.value("document.querySelector('.bad, .k-bad') !== null")


def test_sub_calls_are_below_what_asked_for_them(browser: Browser, pages: Pages) -> None:
    tool = {"_type": "step", "call_id": "call-0", "tool_call_id": "tool-0-0"}
    first = list(trajectories.turn(0, "first", ("snipara_sub_complete", {"query": "x"}, '{"response": "y"}', False),
                                   ("snipara_batch_complete", {"queries": ["a"]}, "[]", False)))
    below = [{**record, "call_id": record["call_id"] + "-below"} for n in range(2)
             for record in trajectories.turn(n, "from below", clock=420)]
    for record in first:
        if record.get("tool_call_id") == "tool-0-0" and record["step"] == "tool_result":
            record["ends_sub"] = True
    query: list[Json] = [{**tool, "step": "sub_ask", "call_id": "query", "parent_call_id": "call-0",
                          "tool_call_id": "tool-0-1",
                          "elapsed_ms": 450},
                         {**list(trajectories.turn(7, "a query"))[-1], "call_id": "query", "parent_call_id": "call-0",
                          "sub_call_type": "batch", "tool_call_id": "tool-0-1"}]
    pages.add(trajectories.head("sub-calls"), *first[:3], {**tool, "step": "sub"}, *below, *first[3:5],
              {**tool, "tool_call_id": "tool-0-1", "step": "batch"},
              *query, *first[5:], *trajectories.turn(1, "second", clock=900), trajectories.end("x", 5, 9))
    page = browser.open(pages.page())
    page.value("show('tree')")
    assert texts(page, "[role=treeitem] strong") == ["Call 1", "snipara_sub_complete", "Sub-call 2", "Sub-call 3",
                                                     "snipara_batch_complete", "Sub-call 4", "Call 5"]
    assert page.value("[...document.querySelectorAll('[role=treeitem]')].map(each => "
                      "each.getAttribute('aria-level')).join('')") == "1233231"
    assert "3 of them sub-calls" in texts(page, ".tile dd")[0]
    page.value("document.getElementById('search').value = 'from below'; search()")
    assert texts(page, "[role=treeitem] strong") == ["Call 1", "snipara_sub_complete", "Sub-call 2", "Sub-call 3"]


def test_records_of_the_product_before_ours_and_unfinished_ones(browser: Browser, pages: Pages) -> None:
    trajectories.write(pages.logs, trajectories.old_lines("add one and one", "two"), "older")
    page = browser.open(pages.page("older"))
    tiles = dict(zip(texts(page, ".tile dt"), texts(page, ".tile dd")))
    assert tiles["Total tokens"] == "4240 in, 2 out" and tiles["Cost"] == "unknown1 call without a price"
    assert tiles["Total duration"] == "1.23 s"
    page.value("show('details')")
    assert "{'output': '2'}" in page.value("document.querySelector('details.item').textContent")
    records = three_calls()[:4]
    ident = pages.add(*records)
    page = browser.open(pages.page(ident))
    assert "interrupted" in texts(page, "h1")[0] and "snipara-sandbox resume " + ident[:8] in texts(page, ".notice")[0]
    page.value("show('details')")
    assert "It began; no result is on record." in page.value("document.querySelector('details.item').textContent")
    page = browser.open(pages.page(pages.add(records[0])))
    assert "No model call is on record yet." in page.value("document.body.textContent")
    for tab in TABS:
        page.value(f"show('{tab}')")
    assert page.said == []


@pytest.mark.parametrize("width, is_dark", [(360, False), (1280, True)])
def test_nothing_is_wider_than_the_screen_and_all_can_be_read(browser: Browser, pages: Pages, width: int,
                                                              is_dark: bool) -> None:
    wide = "x" * 3000
    pages.add(trajectories.head(wide, model=wide[:200]),
              *trajectories.turn(0, wide, (wide[:300], {"code": wide}, trajectories.cell(wide, wide), True),
                                 prompt=wide),
              trajectories.end(wide, 1, 1))
    page = browser.open(pages.page(), width=width, is_dark=is_dark)
    for tab in TABS:
        page.value(f"show('{tab}')")
        open_all(page)
        assert page.value("document.documentElement.scrollWidth") <= width, tab
    # contrast of texts with what is behind them: 4.5 (WCAG AA)
    page.value("show('details')")
    low = page.value("""(() => {
      const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
      const behind = (node) => {
        for (; node; node = node.parentElement) {
          const c = parse(getComputedStyle(node).backgroundColor);
          if (c.length === 3 || c[3] === 1) return c;
        }
        return [255, 255, 255];
      };
      const low = [];
      for (const node of document.querySelectorAll('body *')) {
        if (![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim() !== '') ||
            node.checkVisibility && !node.checkVisibility() ||
            ['SCRIPT', 'NOSCRIPT', 'OPTION'].includes(node.tagName)) continue;
        const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
        if ((Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5)
          low.push(node.tagName + '.' + node.className + ': ' + node.textContent.slice(0, 20));
      }
      return low;
    })()""")
    assert low == []
    nameless = page.value("[...document.querySelectorAll('button, input, select, "
                          "[tabindex=\"0\"]:not([role=tabpanel])')].filter(each => !(each.textContent.trim() || "
                          "each.getAttribute('aria-label') || each.labels && each.labels.length)).length")
    assert nameless == 0 and page.said == []


def test_ten_thousand_records_stay_usable(browser: Browser, pages: Pages) -> None:
    records = [trajectories.head("long")]
    for i in range(2000):
        records += trajectories.turn(i, f"step {i}",
                                     ("execute_code", {"code": f"x = {i}"}, trajectories.cell("y"), False),
                                     clock=i * 600)
    trajectories.write(pages.logs, trajectories.chained(records), "long")
    page = browser.open(pages.page())
    for tab in TABS:
        page.value(f"show('{tab}')")
        assert page.value("document.querySelectorAll('body *').length") < 4000, tab
    page.value("show('tree')")
    page.value("document.querySelector('[role=tree]').focus()")
    page.key("End", 35)
    assert texts(page, "[role=treeitem].active strong") == ["execute_code"]
    assert page.value("document.querySelector('.active').id") == "row3999"
    page.value("document.getElementById('search').value = 'step 1999'; search()")
    assert texts(page, "#found") == ["Found in 1 call and 0 cells."]
    assert page.said == []


# Served -------------------------------------------------------------------------------------------


def test_served_pages_lead_to_each_other(browser: Browser, pages: Pages) -> None:
    for i in range(2):
        ident = pages.add(*three_calls()[:1], *trajectories.turn(0, f"run {i}"), trajectories.end(f"answer {i}", 1, 1))
        os.utime(os.path.join(pages.logs, ident + ".jsonl"), (1000 + i, 1000 + i))
    process = subprocess.Popen([os.path.join(pages.box.bin, "snipara-sandbox"), "visualize", "--dir", pages.logs,
                                "--port", "0"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=pages.box.env, text=True,
                               **pages.box.identity())
    try:
        page = browser.open(some(process.stdout).readline().strip())
        assert "answer 1" in texts(page, ".answer")[0]
        page.value("document.getElementById('runs').value = '1'; document.getElementById('runs').dispatchEvent(new "
                   "Event('change'))")
        page.until("document.readyState === 'complete' && (document.querySelector('.answer') || {textContent: "
                   "''}).textContent.includes('answer 0')")
        pages.add(*three_calls())
        page.go(page.value("location.href.replace(/[^/]*$/, '')"))
        assert page.value("runs.length") == 3 and "forty-two" in texts(page, ".answer")[0]
        is_quiet(page)
        assert [each for each in page.said if "favicon" not in each] == []
    finally:
        process.kill()
        process.wait()
        some(process.stdout).close()


def test_without_scripts_it_says_what_to_do(pages: Pages) -> None:
    pages.add(*three_calls())
    with open(pages.page()[len("file://"):]) as file:
        assert "logs export ID --format md" in html.unescape(file.read().split("<noscript>")[1].split("</noscript>")[0])
