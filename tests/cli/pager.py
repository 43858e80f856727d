# SPDX-License-Identifier: MIT
"""The pager: it gets long output for a terminal, and no other output."""
import os

import harness
from harness import Target, build_program, check, check_equal, test
from clitest import cli, scratch, succeed, target
from terminal import on_terminal, plain

# A pager that stores its input in a file, prints $LESS, and exits with a code that memctx must
# ignore.
KEEP = """#!/bin/sh
echo "LESS=$LESS"
cat > "$KEPT"
exit 9
"""


def script(directory, text):
    path = os.path.join(directory, "pager")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


@test
def pager_gets_the_output():
    """Verbs that print long text on a terminal send the pager the text that --no-pager prints."""
    with target([build_program("tests/cli/programs/allocate.c")]) as live, scratch() as directory:
        env, pager = live.cli_env, script(directory, KEEP)
        kept, file = os.path.join(directory, "kept"), os.path.join(directory, "snapshot")
        succeed("mark", live.pid, "one", env=env)
        succeed("dump", live.pid, "-o", file, env=env)
        for words in (["dump", file], ["dump", file, "--flat"], ["frag", file], ["doctor", file],
                      ["diff", file, "one"], ["verify", file]):
            direct = on_terminal(*words, "--no-pager", env=env, columns=100, PAGER=pager, KEPT=kept)
            check(not os.path.exists(kept) and "LESS=" not in direct,
                  f"{words} --no-pager: {direct[:200]}")
            shown = on_terminal(*words, env=env, columns=100, PAGER=pager, KEPT=kept)
            check_equal(shown, "LESS=FRX\n", f"{words}: what the terminal gets")
            with open(kept, encoding="utf-8") as text:
                check_equal(text.read(), direct, f"{words}: what the pager gets")
            os.remove(kept)
        check_equal(on_terminal("rules", live.pid, env=env, PAGER=pager, KEPT=kept), "LESS=FRX\n",
                    "rules")
        check("no rules" in on_terminal("rules", live.pid, "--no-pager", env=env, PAGER=pager,
                                        KEPT=kept), "rules --no-pager")
        shown = on_terminal("dump", file, env=env, PAGER=pager, KEPT=kept, LESS="-S")
        check_equal(shown, "LESS=-S\n", "LESS of the user's")
        os.remove(kept)
        for words in (["dump", file, "--json"], ["doctor", file, "--json"], ["ps", "--json"],
                      ["mark", "--list", file]):
            check("LESS=" not in on_terminal(*words, env=env, PAGER=pager, KEPT=kept), f"{words}")
        for words in (["dump", file], ["frag", file]):  # standard output is no terminal
            check("LESS=" not in cli(*words, env={**env, "PAGER": pager, "KEPT": kept,
                                                  "TERM": "xterm"}).stdout, f"{words}")
        check(not os.path.exists(kept), "a pager ran")


@test
@harness.in_tries  # ps prints a line when it removes a socket that a process outside the test left
def ps_uses_the_pager():
    with target([build_program("tests/cli/programs/allocate.c")]) as live, scratch() as directory:
        env, pager, kept = live.cli_env, script(directory, KEEP), os.path.join(directory, "kept")
        direct = on_terminal("ps", "--no-pager", env=env, PAGER=pager, KEPT=kept)
        check("LESS=" not in direct and str(live.pid) in direct, f"ps --no-pager: {direct}")
        check_equal(on_terminal("ps", env=env, PAGER=pager, KEPT=kept), "LESS=FRX\n",
                    "what the terminal gets")
        with open(kept, encoding="utf-8") as text:
            check(str(live.pid) in text.read(), "what the pager gets")


@test
def pager_that_is_missing_or_leaves():
    """If the pager is missing, the output is complete. If it ends early, the exit code is still the
    verb's."""
    with harness.runtime_dir() as runtime, scratch() as directory:
        file = os.path.join(directory, "snapshot")
        with Target([harness.build_planted(), "survivors"], runtime,
                    MEMCTX_CONTROL="eager") as live:
            check_equal(live.hear(60), "look", "what the program says")
            live.wait_socket()
            succeed("dump", live.pid, "-o", file, env=live.cli_env)
        want = plain(on_terminal("dump", file, "--min", "0"))
        for name, extra in (("empty", {"PAGER": ""}), ("dumb", {"PAGER": "false", "TERM": "dumb"})):
            check_equal(plain(on_terminal("dump", file, "--min", "0", **extra)), want, name)
        missing = on_terminal("dump", file, "--min", "0", PAGER="/no/such/pager -x",
                              warned='"/no/such/pager -x" (PAGER) was not found')
        check_equal(plain(missing), want, "a missing pager")
        leaves = script(directory, "#!/bin/sh\nexit 3\n")
        with Target([build_program("tests/control/many_contexts.c"), "500"], runtime,
                    MEMCTX_CONTROL="eager", MEMCTX_FOLD="off") as live:
            live.hear()
            live.wait_socket()
            check(len(succeed("dump", live.pid, "--min", "0", env=live.cli_env)) > 1 << 18,
                  "a pipe holds less")
            check_equal(on_terminal("dump", live.pid, "--min", "0", env=live.cli_env, PAGER=leaves),
                        "", "a pager that reads nothing")
        for pager in (leaves, "cat >/dev/null"):
            check_equal(on_terminal("doctor", file, "--fail-on", "critical", PAGER=pager, code=5),
                        "", f"doctor through {pager}")
