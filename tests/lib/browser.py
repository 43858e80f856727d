# SPDX-License-Identifier: MIT
"""Chromium for tests of pages, driven by Playwright."""
import contextlib
import glob
import os
import shutil
import subprocess
import sys

import harness
from harness import ROOT, Skip, check_equal

PLAYWRIGHT = "1.49.1"
ENVIRONMENT = os.path.join(ROOT, "out/test/browser")


def playwright():
    """Returns the module playwright, installed from PyPI into a virtual environment. The browser is
    Debian's."""
    chromium = shutil.which("chromium")
    if not chromium:
        raise Skip("chromium is not installed")
    stamp = os.path.join(ENVIRONMENT, f"playwright-{PLAYWRIGHT}")
    if not os.path.exists(stamp):
        for words in ([sys.executable, "-m", "venv", ENVIRONMENT],
                      [os.path.join(ENVIRONMENT, "bin/pip"), "install", "-q",
                       f"playwright=={PLAYWRIGHT}"]):
            done = subprocess.run(words, capture_output=True, text=True, timeout=300)
            if done.returncode:
                raise Skip(f"playwright cannot be had: {(done.stderr or done.stdout)[-200:]}")
        with open(stamp, "w", encoding="ascii"):
            pass
    sys.path += glob.glob(os.path.join(ENVIRONMENT, "lib/python3*/site-packages"))
    from playwright import sync_api
    return sync_api, chromium


@contextlib.contextmanager
def browsing(address, own, scheme="light", height=800, complaints=None):
    """Opens a page. Checks at the end that the page made no error, no message, and no request but
    GET to addresses that begin with one of `own`. `complaints`: a list to fill."""
    sync_api, chromium = playwright()
    complaints = [] if complaints is None else complaints
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": height}, color_scheme=scheme)
        page.set_default_timeout(1000 * harness.PATIENCE_S)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: request.url.startswith((*own, "data:")) or
                complaints.append(request.url))
        page.on("request", lambda request: request.method == "GET" or
                complaints.append(request.method))
        page.goto(address)
        yield page
        browser.close()
    check_equal(complaints, [], "what the browser complained of")


def until(page, expression):
    """Waits until the expression is true in the page."""
    harness.wait_until(lambda: page.evaluate(expression), expression, step_s=0.05)


def has_ink(page, canvas):
    """True if the canvas has pixels of more than two colours: there is more on it than a frame on a
    background."""
    return page.evaluate("""(id) => {
        const canvas = document.getElementById(id) || document.querySelector(id);
        const {width, height} = canvas;
        const copy = new OffscreenCanvas(width, height).getContext('2d',
                                                                   {willReadFrequently: true});
        copy.drawImage(canvas, 0, 0);
        const pixels = new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer);
        return new Set(pixels).size > 2; }""", canvas)
