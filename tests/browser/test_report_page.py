"""The report in a real Chromium: hostile text does nothing, nothing leaves, all of it is seen.

Needs Debian's packages chromium and chromium-driver. Leaves screenshots in build/screenshots.
"""

import base64
import contextlib
import itertools
import json
import random
import shutil
import socket
from pathlib import Path

import pytest

import corpusfit

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed"
    ),
    pytest.mark.slow,
]

BAD = "window.bad = (window.bad || 0) + 1"
ATTACKS = [
    f"<script>{BAD}</script>",
    f'<img src="x" onerror="{BAD}">',
    f"</script><script>{BAD}</script>",
    f"<!--<script>{BAD}</script>-->",
    f'"><svg onload="{BAD}"></svg>',
    f'<iframe srcdoc="<script>parent.{BAD}</script>"></iframe>',
    "<link rel=stylesheet href=http://127.0.0.1:9/x.css><img src=http://127.0.0.1:9/x.png>",
    "{{constructor.constructor('window.bad = 1')()}} ${window.bad = 1}",
    "\u202eesrever si siht\u202c and \u2067isolated\u2069",
    "مرحبا بالعالم هذا نص عربي طويل قليلا",
    "激酶抑制剂与受体结合 kinase 受体 receptor 2",
    "\u0000\u0007\u001b[31mcontrol\u2028\u2029",
    "w" * 10_000_000,
]
NAME = "<img src=x onerror=bad()>&\u202egnp.jsonl"
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
WIDE, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def page(tmp_path_factory, inline):
    """The report of a selection from a corpus that means no good."""
    folder = tmp_path_factory.mktemp("hostile")
    chance = random.Random(0)
    words = {"task": "kinase receptor binds protein", "other": "shares market investors sold"}

    def prose(topic, n):
        return [" ".join(chance.choices(words[topic].split(), k=20)) for _ in range(n)]

    def write(name, texts):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        return path

    task = write("task.jsonl", [*prose("task", 40), *ATTACKS[:7], "抑制剂与受体结合 kinase"])
    write(f"pile/{NAME}", [*ATTACKS, *prose("task", 40)])
    write("pile/other.jsonl", prose("other", 40))
    run = corpusfit.select(
        target=task, corpus=folder / "pile", out=folder / "out", method="moore_lewis",
        segments=39, machine=inline,
    )  # fmt: skip
    return corpusfit.report(run.path)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium without a screen, which logs what it is told and what it asks for."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(DRIVER))
    driver.set_script_timeout(600)
    yield driver
    driver.quit()


@pytest.fixture
def open_page(browser, page):
    """Open the report at some size and in some colors."""

    def show(size=WIDE, scheme="light", media=""):
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        width, height = size
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        emulate = {"media": media, "features": features}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", emulate)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(page.as_uri())
        return browser

    return show


def asked_for(browser):
    """Every address that the page asked for."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    ]


def every(browser, selector):
    from selenium.webdriver.common.by import By

    return browser.find_elements(By.CSS_SELECTOR, selector)


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
def test_nothing_acts_and_nothing_leaves(open_page, page, size, scheme):
    browser = open_page(size, scheme)
    browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = true)")
    shown = browser.execute_script("return document.body.innerText")
    assert ATTACKS[0] in shown
    assert NAME.replace("\u202e", "⟨U+202E⟩") in shown
    assert "\u202e" not in shown
    assert browser.execute_script("return window.bad") is None
    assert not every(browser, "img, iframe, script, link")
    asked = [url for url in asked_for(browser) if not url.startswith("chrome://")]  # its own start
    assert [url for url in asked if url != page.as_uri()] == []
    assert browser.get_log("browser") == []
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= size[0]
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    picture = base64.b64decode(taken["data"])
    (SCREENSHOTS / f"hostile-{scheme}-{size[0]}.png").write_bytes(picture)


@pytest.fixture
def listener():
    """A port of this machine that somebody listens on, without ever answering."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield server


def heard(listener):
    """All that was sent there; for a frame Chromium connects, then refuses, and sends nothing."""
    said = b""
    with contextlib.suppress(TimeoutError):
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(TimeoutError):
                connection.settimeout(0.2)
                said += connection.recv(1_000)
    return said


def test_even_a_script_of_the_page_could_not_reach_out(open_page, listener):
    browser = open_page()
    tried = """
        const done = arguments[0], refused = [];
        const note = (e) => refused.push(e.effectiveDirective);
        document.addEventListener("securitypolicyviolation", note);
        const made = document.createElement("div");
        document.body.append(made);
        made.innerHTML = '<img src="http://127.0.0.1:9/x.png"><i onclick="window.bad = 1"></i>'
          + '<iframe src="http://127.0.0.1:9/"></iframe>';
        made.querySelector("i").click();
        fetch("http://127.0.0.1:9/").catch(() => {});
        const script = document.createElement("script");
        script.textContent = "window.bad = 1";
        document.body.append(script);
        setTimeout(() => {  // later, as a driver's own script may evaluate what a page's may not
          try { window.eval("window.bad = 1"); } catch { refused.push("eval"); }
        });
        const wait = () =>
          setTimeout(() => (new Set(refused).size < 6 ? wait() : done(refused)), 300);
        wait();"""
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    refused = set(browser.execute_async_script(tried.replace("127.0.0.1:9", address)))
    scripts = {"script-src-attr", "script-src-elem", "eval"}
    assert {"img-src", "frame-src", "connect-src", *scripts} <= refused
    assert browser.execute_script("return window.bad") is None
    assert heard(listener) == b""


def test_a_screen_reader_is_told_what_is_what(open_page):
    browser = open_page()
    labels = browser.execute_script(
        "return [...document.querySelectorAll('svg')].map((svg) => svg.ariaLabel)"
    )
    assert len(labels) == 2
    assert all(labels)
    levels = browser.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert browser.execute_script("return document.documentElement.lang") == "en"
    arabic = browser.execute_script(
        "return [...document.querySelectorAll('.text')].every((p) => p.dir === 'auto')"
    )
    assert arabic


def test_it_prints_in_black_on_white(open_page):
    browser = open_page(scheme="dark", media="print")
    style = "return getComputedStyle(document.body)[arguments[0]]"
    assert browser.execute_script(style, "color") == "rgb(0, 0, 0)"
    assert browser.execute_script(style, "backgroundColor") == "rgb(255, 255, 255)"
    made = browser.execute_cdp_cmd("Page.printToPDF", {})
    assert base64.b64decode(made["data"]).startswith(b"%PDF")
