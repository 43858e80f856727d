# SPDX-License-Identifier: MIT
"""The live page while its server is started again, or says nothing."""
import contextlib
import os
import signal

from browser import until
from harness import check, check_equal, test, wait_until
from live import EVERY, axis, growing, ready, showing
from serving import Server, free_port

LIVE = "document.getElementById('live-state').textContent === 'live'"


@test
def the_page_follows_a_server_that_is_started_again():
    """The page connects to the next server on the address. The numbers of its moments begin anew,
    so the page leaves the moment that it showed, and shows the last one."""
    port, complaints = free_port(), []
    with growing() as target, contextlib.ExitStack() as servers:
        def start():
            return servers.enter_context(Server(target.runtime, target.pid, *EVERY,
                                                listen=f"127.0.0.1:{port}"))

        server = start()
        with showing(f"{server.address}p/{target.pid}/", complaints=complaints) as page:
            ready(page)
            until(page, "document.getElementById('axis').dataset.moments > 1")
            page.keyboard.press("a")
            page.keyboard.press("Home")
            page.keyboard.press("Enter")
            until(page, "document.documentElement.dataset.drawn.endsWith('moment=1')")
            check("asked for 5.0 MiB" in page.inner_text("#subtitle"), page.inner_text("#subtitle"))
            page.context.set_offline(True)
            server.end()
            until(page, "document.getElementById('live-state').className === 'bad'")
            target.ask("grow 96")
            server = start()
            wait_until(lambda: server.ask(f"/p/{target.pid}/data.json")[0] == 200,
                       "the first moment of the next server")
            page.context.set_offline(False)
            until(page, LIVE)
            until(page, "document.getElementById('subtitle').textContent.includes('asked for 11.0 "
                        "MiB')")
            check_equal(axis(page, "shown"), 0, "the moment that was chosen")
            # Chromium tells each request that fails. A server that ends answers the requests that
            # wait by 503.
            complaints[:] = [text for text in complaints
                             if "ERR_" not in text and "503" not in text]


@test
def a_server_that_says_nothing_is_told():
    """If no event comes for 15 s although the connection is open, the page says so, and connects
    again."""
    with growing() as target, Server(target.runtime, target.pid, *EVERY) as server:
        with showing(f"{server.address}p/{target.pid}/") as page:
            ready(page)
            until(page, LIVE)
            os.kill(server.process.pid, signal.SIGSTOP)
            try:
                until(page, "document.getElementById('live-state').textContent.includes("
                            "'nothing was heard for 15 s; trying again')")
            finally:
                os.kill(server.process.pid, signal.SIGCONT)
            until(page, LIVE)
