# SPDX-License-Identifier: MIT
"""The live page of memctx serve in Chromium: it follows the program, compares two moments, and can
be used by keys alone."""
import contextlib
import os
import signal
import tempfile

import harness
from browser import browsing, has_ink, until
from harness import Target, build_program, check, check_equal, runtime_dir, test
from serving import Server

TOKEN = "0123456789abcdef-0123456789abcdef"
EVERY = ("--every", "100ms")


@contextlib.contextmanager
def growing(name=None):
    """Starts the program growing.c, by a symbolic link if `name` is given."""
    program = build_program("tests/report/growing.c", flags=["-O0"])
    with runtime_dir() as directory, tempfile.TemporaryDirectory(prefix="mctx-",
                                                                 dir="/tmp") as where:
        if name:
            os.symlink(program, os.path.join(where, name))
            program = os.path.join(where, name)
        with Target([program], directory, MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "first line of the target")
            target.wait_socket()
            yield target


def showing(address, scheme="light", complaints=None):
    """Opens a page of the server. Requests to other servers are complaints."""
    return browsing(address, ["/".join(address.split("/")[:3]) + "/"], scheme, 900, complaints)


def ready(page):
    """Waits until the page shows figures for the first time."""
    until(page, "document.documentElement.dataset.drawn")


def axis(page, name):
    """A number that the time axis tells, such as the moment at its cursor."""
    return int(page.get_attribute("#axis", f"data-{name}"))


def a_later_moment(page):
    """Waits until the page shows the figures of another moment."""
    drawn = page.evaluate("document.documentElement.dataset.drawn")
    until(page, f"document.documentElement.dataset.drawn !== '{drawn}'")


def click(page, what):
    """Clicks at once. Playwright would wait until the element stays for a while, which it may not
    do on a busy machine, because new figures replace it."""
    page.evaluate(f"document.querySelector('{what}').click()")


@test
def the_page_grows_with_the_program():
    """The page grows with the program. If two moments are chosen, by keys or mouse, the path that
    grew most is first."""
    with growing() as target, Server(target.runtime, target.pid, *EVERY) as server:
        with showing(f"{server.address}p/{target.pid}/") as page:
            until(page, "document.getElementById('live-state').textContent === 'live'")
            ready(page)
            check("5.0 MiB requested" in page.inner_text("#live-sums"),
                  page.inner_text("#live-sums"))
            target.ask("grow 96")
            until(page, "document.getElementById('live-sums').textContent.includes('11.0 MiB "
                        "requested')")
            check(page.inner_text("#live-top tbody tr:first-child").startswith("grow_cache"),
                  page.inner_text("#live-top"))
            check(has_ink(page, "axis"), "the time axis is blank")
            until(page, "document.getElementById('subtitle').textContent.includes('asked for 11.0 "
                        "MiB')")

            page.keyboard.press("a")
            page.keyboard.press("Home")
            check_equal(axis(page, "cursor"), 1, "the moment at the cursor")
            page.keyboard.press(" ")
            until(page, "document.documentElement.dataset.drawn.endsWith('before=1')")
            check(page.is_visible("#view-changes"), "what changed is not shown")
            first = page.inner_text("#changes tbody tr:first-child")
            check(first.startswith("grow_cache") and "6.0 MiB" in first, f"what grew most: {first}")
            page.keyboard.press("d")
            check_equal(page.get_attribute("#graph", "data-kind"), "change", "the key d")
            page.keyboard.press("a")
            page.keyboard.press("Escape")
            until(page, "!document.documentElement.dataset.drawn.includes('before')")
            check_equal(page.locator("#tab-changes").count(), 0, "a tab for changes without any")

            page.keyboard.press("Home")
            page.keyboard.press("Enter")
            until(page, "document.documentElement.dataset.drawn.endsWith('moment=1')")
            check("5.0 MiB" in page.inner_text("#subtitle"), page.inner_text("#subtitle"))
            page.keyboard.press("ArrowRight")
            check_equal(axis(page, "cursor"), 2, "the key to the right")
            page.keyboard.press("l")
            until(page, "!document.documentElement.dataset.drawn.endsWith('moment=1')")
            check("11.0 MiB" in page.inner_text("#subtitle"), "it follows again")

            box = page.locator("#axis").bounding_box()
            page.mouse.click(box["x"] + 76, box["y"] + 80)
            until(page, "document.documentElement.dataset.drawn.endsWith('moment=1')")
            page.mouse.move(box["x"] + 76, box["y"] + 80)
            check("moment" in page.inner_text("#tip"), "nothing to see under the pointer")
            page.click("#live-follow")
            page.keyboard.down("Shift")
            page.mouse.click(box["x"] + 76, box["y"] + 80)
            page.keyboard.up("Shift")
            until(page, "document.documentElement.dataset.drawn.endsWith('before=1')")
            check(page.inner_text("#changes tbody tr:first-child").startswith("grow_cache"),
                  "compared with the mouse")


@test
def the_verdicts_fit_a_phone_and_a_dark_browser():
    with growing() as target, Server(target.runtime, target.pid, *EVERY) as server:
        with showing(server.address, scheme="dark") as page:
            page.set_viewport_size({"width": 320, "height": 600})
            until(page, "document.documentElement.scrollWidth <= 320")
            check_equal(page.evaluate("getComputedStyle(document.documentElement).colorScheme"),
                        "light dark", "schemes")


@test
def the_live_page_fits_a_phone_and_paper():
    """At 320 pixels no view is wider than the window, and a name has more than a third of its line.
    On paper nothing is cut off, and there are no controls."""
    with growing() as target, Server(target.runtime, target.pid, *EVERY) as server:
        with showing(f"{server.address}p/{target.pid}/") as page:
            page.set_viewport_size({"width": 320, "height": 600})
            ready(page)
            until(page, "document.querySelector('#live-top tbody tr')")
            for tab in page.evaluate("[...document.querySelectorAll('[role=tab]')].map((one) => "
                                     "one.id)"):
                page.click("#" + tab)
                until(page, "document.documentElement.scrollWidth <= 320")
            wide = page.evaluate("document.querySelector('#live-top td').offsetWidth")
            check(wide > 107, f"a name has {wide} of 320 pixels")
            page.click("#tab-table")
            page.emulate_media(media="print")
            check_equal(page.evaluate("getComputedStyle(document.querySelector('#view-table "
                                      ".scroll')).maxHeight"), "none", "the table's height")
            check_equal(page.evaluate("[...document.querySelectorAll('button, select, input, "
                                      "footer')].filter((one) => one.offsetWidth && "
                                      "!one.closest('th')).length"),
                        0, "controls on paper")


@test
def new_figures_leave_the_reader_alone():
    with growing() as target, Server(target.runtime, target.pid, *EVERY) as server:
        with showing(f"{server.address}p/{target.pid}/") as page:
            ready(page)
            page.click("#tab-graph")
            page.select_option("#metric", "chunks")
            page.focus("#graph")
            for _ in range(12):
                page.keyboard.press("ArrowUp")
            page.keyboard.press("Enter")
            root = page.inner_text("#detail").split(" < ")[0].split("·")[0]
            check(page.get_attribute("#graph", "data-root") != "0", "not zoomed")
            target.ask("grow 4")
            a_later_moment(page)
            check(page.is_visible("#view-graph"), "another view")
            check_equal(page.input_value("#metric"), "chunks", "figure")
            check(page.get_attribute("#graph", "data-root") != "0", "the zoom is lost")
            check_equal(page.inner_text("#detail").split(" < ")[0].split("·")[0], root,
                        "what is zoomed to")
            check_equal(page.evaluate("document.activeElement.id"), "graph", "focus")
            page.click("#tab-table")
            page.keyboard.press("/")
            page.keyboard.type("grow_")
            a_later_moment(page)
            page.keyboard.type("cache")
            until(page, "document.querySelectorAll('#table tbody tr').length === 2")
            check_equal(page.input_value("#search"), "grow_cache", "what was typed")
            page.keyboard.press("Escape")
            for name, canvas in (("graph", "graph"), ("treemap", "treemap"),
                                 ("pages", "#page-maps canvas")):
                click(page, f"#tab-{name}")
                check(has_ink(page, canvas), f"{name} is blank")


@test
def the_end_of_the_process_is_told():
    with growing() as target, Server(target.runtime, target.pid, *EVERY) as server:
        # The address has the program's name instead of its pid.
        with showing(f"{server.address}p/growing/", "dark") as page:
            check_equal(page.evaluate("document.documentElement.classList.contains('dark')"), True,
                        "scheme")
            ready(page)
            page.click("#theme")
            check_equal(page.evaluate("document.documentElement.classList.contains('dark')"), False,
                        "switched")
            a_later_moment(page)
            check_equal(page.evaluate("document.documentElement.classList.contains('dark')"), False,
                        "the switch is lost")
            page.click("#theme")
            check(has_ink(page, "axis"), "the time axis is blank")
            os.kill(target.pid, signal.SIGKILL)
            target.process.wait()
            until(page, "document.getElementById('live-state').textContent.startsWith('the process "
                        "has ended')")
            page.keyboard.press("a")
            page.keyboard.press("Home")
            page.keyboard.press("Enter")
            until(page, "document.documentElement.dataset.drawn.endsWith('moment=1')")
            page.reload()
            until(page, "document.getElementById('live-state').textContent.startsWith('the process "
                        "has ended')")
            ready(page)


@test
def names_are_no_markup():
    bad = "<img src=x onerror=alert(1)>"
    with growing(bad) as target, Server(target.runtime, target.pid, *EVERY) as server:
        target.ask("named </script><script>alert(2)</script>" + bad)
        with showing(f"{server.address}p/{target.pid}/") as page:
            ready(page)
            until(page, "document.getElementById('live-top').textContent.includes("
                        "'</script><script>alert(2)')")
            for name in ("graph", "table", "treemap", "pages", "occupancy"):
                page.click(f"#tab-{name}")
            check_equal((page.locator("img").count(), page.locator("script").count()), (0, 2),
                        "markup of a name")


@test
def the_page_asks_for_the_token():
    with growing() as target, tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
        path = os.path.join(where, "token")
        with open(path, "w", encoding="ascii", opener=lambda name,
                  flags: os.open(name, flags, 0o600)) as file:
            file.write(TOKEN)
        with Server(target.runtime, target.pid, "--token-file", path, *EVERY) as server:
            complaints = []
            with contextlib.suppress(harness.Failure), showing(server.address,
                                                                complaints=complaints) as page:
                until(page, "!document.getElementById('login').hidden")
                check(not page.locator("#processes a").count(), "figures without a token")
                page.fill("#token", "x" + TOKEN[1:])
                page.keyboard.press("Enter")
                until(page, "!document.getElementById('login').hidden && document.activeElement.id "
                            "=== 'token'")
                page.fill("#token", TOKEN)
                page.keyboard.press("Enter")
                until(page, "document.querySelectorAll('#processes a').length === 1")
                page.click("#processes a")  # a link: the window still has the token
                ready(page)
                check(TOKEN not in page.url, f"the address has the token: {page.url}")
                check_equal(page.evaluate("document.cookie"), "", "cookies")
                page.evaluate("sessionStorage.clear()")
                page.goto("about:blank")
                page.goto(f"{server.address}p/{target.pid}/#token={TOKEN}")
                ready(page)
                check(TOKEN not in page.url, f"the address has the token: {page.url}")
                complaints.append("done")
            check(complaints[-1:] == ["done"] and all("401" in text for text in complaints[:-1]),
                  f"complaints: {complaints}")
            _, errors = server.end()
            check(TOKEN[1:] not in errors, "the token is told")


@test
def twenty_thousand_contexts_live():
    """The live page works with 20 000 contexts. (The test prints the times, which have no
    limit.)"""
    with runtime_dir() as directory:
        program = build_program("tests/control/control_target.c")
        with Target([program, "contexts", "20000"], directory, MEMCTX_CONTROL="eager",
                    MEMCTX_TABLES="1G") as target:
            target.hear(60)
            target.wait_socket()
            with Server(directory, target.pid) as server, \
                 showing(f"{server.address}p/{target.pid}/") as page:
                until(page, "performance.getEntriesByName('first-contentful-paint').length")
                paint = round(page.evaluate("performance.getEntriesByName("
                                            "'first-contentful-paint')[0].startTime"))
                ready(page)
                drawn = page.evaluate("Number(document.documentElement.dataset.ready)")
                page.click("#tab-table")
                rows = page.inner_text("#table-count").split(" of ")[1].split()[0]
                count = int(rows.replace(",", ""))
                check(count >= 20000, f"{count} contexts in the table")
                size = len(server.get(f"/p/{target.pid}/data.json"))
                check(paint < 60000, f"the first paint took {paint} ms")
        return f"first paint after {paint} ms, all figures ({size} bytes) after {drawn} ms"
