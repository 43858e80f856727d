# SPDX-License-Identifier: MIT
"""memctx top on terminals of any size, and with any keys."""
import json
import os
import random
import re

from harness import ROOT, Target, check, check_equal, test
from clitest import succeed
from streamed import many
from top import do, lively, quit_top, top


# Keys of no meaning, halves of escape sequences, a paste, a click, characters of several bytes.
ODD_KEYS = ["\r", "\n", "\x7f", "\x0c", "\x00", "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[5~",
            "\x1b[6~", "\x1b[H", "\x1b[F", "\x1bOP", "\x1b[15~", "\x1b[M !!", "\x1b[<0;10;10M",
            "\x1b[200~x\x1b[201~", "\x1b[", "\x1b\x1b", "\u00e4", "\u20ac\u00e9\U0001d11e"]


SIZES = ((25, 80), (61, 200), (1, 1), (3, 10), (5, 30))


@test
def top_takes_any_keys_on_terminals_of_any_size():
    """All keys but q, each once and then in random order, on small and large terminals that change
    their sizes, while the program allocates, neither end nor hang top, for one process and for
    two. Afterwards top shows its first and its last line at both sizes."""
    keys = [chr(code) for code in range(32, 127) if chr(code) != "q"] + ODD_KEYS
    chance = random.Random(28)
    with lively() as live, Target([live.process.args[0]], live.runtime,
                                  MEMCTX_CONTROL="eager") as other:
        check_equal(other.hear(), "ready", "the second program")
        other.wait_socket()
        for words in ((live.pid,), (live.pid, other.pid)):
            with top(live, *words, interval=0.1) as screen:
                screen.wait("memctx top", "the first look")
                for number, key in enumerate(keys + chance.choices(keys, k=400)):
                    screen.press(key)
                    screen.read(0.01 if number % 10 == 0 else 0)
                    if number % 40 == 0:
                        do(live, "load")
                        screen.resize(*chance.choice(SIZES))
                    check(screen.process.poll() is None,
                          f"top ended with {screen.process.returncode} at the key {key!r}:\n"
                          f"{screen.text()}")
                screen.press("\x1b")  # a half sequence waits for its rest
                screen.read(1)
                for rows, columns in ((24, 80), (60, 200)):
                    screen.resize(rows, columns)
                    # the help is closed by a key; a search or a line of threads by Escape
                    screen.press("b")
                    screen.wait(r"^\? keys +q quit|there is only this process", "the last line",
                                timeout_s=20)
                    screen.wait(r"\Amemctx top: ", "the first line", timeout_s=20)
                    check_equal(len(screen.screen.lines()), rows, "lines")
                quit_top(screen)


@test
def top_has_the_size_of_the_terminal():
    """COLUMNS and LINES in the environment do not count: a shell may have exported old ones."""
    with lively() as live:
        for size in ("999999999", "3", "wide"):
            with top(live, COLUMNS=size, LINES=size) as screen:
                screen.wait("load_chunk", f"the first look with COLUMNS={size}")
                quit_top(screen)


@test
def top_explains_its_keys_on_80_columns():
    """On a terminal of 24 lines and 80 columns no line of the help is cut off."""
    with open(os.path.join(ROOT, "tools/memctx/live/draw.c"), encoding="utf-8") as file:
        lines = re.findall('^    "(.*)",$', re.search(r"help_lines\[\] = {\n(.*?)\n};", file.read(),
                                                     re.S).group(1), re.M)
    check(len(lines) > 15, f"only {len(lines)} lines of help")
    with lively() as live, top(live) as screen:
        screen.wait("load_chunk", "the first look")
        screen.press("?")
        screen.wait("any key goes back", "the help")
        shown = [line.rstrip() for line in screen.text().split("\n")]
        check_equal(shown[:len(lines)], lines, "the help")
        screen.press("x")
        screen.wait("load_chunk", "the list")
        quit_top(screen)


@test
def top_begins_with_all_contexts():
    """One look reads at most 110 000 contexts. The first frame has the figures of all contexts
    nevertheless, so its tree adds up to the process."""
    with many(130000) as live:
        frame = json.loads(succeed("top", live.pid, "--batch", "1", "--tree", "--json",
                                   env=live.cli_env))
    root, process = frame["tree"][0], frame["process"]
    check(process["contexts"] > 1000000, f"contexts: {process}")
    check_equal(*[(one["requested_bytes"], one["live_chunks"]) for one in (root, process)],
                "live bytes and chunks of the tree")
