# SPDX-License-Identifier: MIT
"""Chromium for tests of pages, driven by Playwright."""
import glob
import os
import shutil
import subprocess
import sys

import harness
from harness import ROOT, Skip

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


def until(page, expression):
    harness.wait_until(lambda: page.evaluate(expression), expression, step_s=0.05)


def has_ink(page, canvas):
    """True if the canvas has pixels of more than one colour."""
    return page.evaluate("""(id) => {
        const canvas = document.getElementById(id) || document.querySelector(id);
        const {width, height} = canvas;
        const copy = new OffscreenCanvas(width, height).getContext('2d',
                                                                   {willReadFrequently: true});
        copy.drawImage(canvas, 0, 0);
        const pixels = new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer);
        return new Set(pixels).size > 2; }""", canvas)
