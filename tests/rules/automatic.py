# SPDX-License-Identifier: MIT
"""MEMCTX_AUTO: placements that the library chooses by itself."""
import re

import harness
from harness import (Target, build_program, check, check_equal, dump_json, run_cli, runtime_dir,
                     test, wait_until)


@test
def automatic_choices():
    """MEMCTX_AUTO gives padded chunks policy slab and a queue policy generation; for chunks freed
    at random it tries generation and takes that back."""
    binary = build_program("tests/rules/lifetimes.c", "rules-lifetimes")
    with runtime_dir() as directory, Target([binary], directory, MEMCTX_CONTROL="eager",
                                            MEMCTX_AUTO="1") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()

        def found():
            return {context["frame"]["function"]: (context.get("placement"), context.get("why", ""))
                    for context in dump_json(process.pid, env=process.cli_env)["contexts"]
                    if context["self"]["requested_bytes"] > 1 << 18}

        def is_judged():
            now = found()
            return ("% of the bytes in its blocks" in now["padded"][1] and
                    "since then" in now["queued"][1] and "it was undone" in now["random_one"][1])
        wait_until(is_judged, "all three choices", timeout_s=180, step_s=0.5)
        now = found()
        check_equal({name: place for name, (place, _) in now.items()},
                    {"padded": "slab", "queued": "generation", "random_one": None}, "placements")
        before, after = map(int, re.search(r"(\d+) % of the bytes in its pages.*since then (\d+) %",
                                           now["queued"][1]).groups())
        check(after < before, now["queued"][1])
        text = run_cli("dump", "--flat", process.pid, env=process.cli_env).stdout
        check("    placed by automatic: slab, because the program did not request" in text, text)
        process.say("")
        check_equal(process.process.wait(timeout=harness.PATIENCE_S), 0, "at the end")
    return "; ".join(f"{name}: {why}" for name, (_, why) in sorted(now.items()))


@test
def automatic_trials_end_when_it_is_switched_off():
    """memctx set auto=0 ends the trials of policies; their contexts get back what they had."""
    binary = build_program("tests/rules/lifetimes.c", "rules-lifetimes")
    with runtime_dir() as directory, Target([binary], directory, MEMCTX_CONTROL="eager",
                                            MEMCTX_AUTO="1") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()

        def reason():
            return next((context.get("why", "")
                         for context in dump_json(process.pid, env=process.cli_env)["contexts"]
                         if context["frame"] and context["frame"]["function"] == "random_one"), "")
        wait_until(lambda: reason().startswith("automatic: generation, because"), "the trial",
                   timeout_s=120, step_s=0.1)
        check_equal(run_cli("set", process.pid, "auto=0", env=process.cli_env).returncode, 0,
                    "memctx set")
        wait_until(lambda: "it was undone" in reason(), "the end of the trial", timeout_s=120,
                   step_s=0.5)
        process.say("")
        check_equal(process.process.wait(timeout=harness.PATIENCE_S), 0, "at the end")


@test
def automatic_is_not_asked_for():
    """Without MEMCTX_AUTO no context gets another policy."""
    binary = build_program("tests/rules/lifetimes.c", "rules-lifetimes")
    with runtime_dir() as directory, Target([binary], directory, MEMCTX_CONTROL="eager") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()
        wait_until(lambda: float(dump_json(process.pid, env=process.cli_env)["uptime_s"]) > 5,
                   "five seconds", step_s=0.5)
        check_equal([context for context in dump_json(process.pid, env=process.cli_env)["contexts"]
                     if context.get("why")], [],
                    "contexts with a reason")
        process.say("")
