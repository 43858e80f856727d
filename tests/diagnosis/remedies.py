# SPDX-License-Identifier: MIT
"""trim, isolate, merge, policies and rules save what they predict; ages of chunks."""
import json
import os
import re
import subprocess
import time

import harness
from harness import Target, check, check_equal, in_tries, run_cli, runtime_dir, test, wait_until
from planted import planted, command, pinner, check_near


@test
@in_tries  # a trim waits 1/4 s for the threads, which may be too short on a busy machine
def trim_gives_back_what_it_says():
    """A trim of a running program gives back the predicted bytes, and the program later uses that
    memory again."""
    with runtime_dir() as directory, planted(directory, "sparse") as target:
        target.hear()
        target.wait_socket()
        held = pinner(target, "session_open")
        before = harness.rss_kib(target.pid) << 10
        trimmed = command(target, "trim", target.pid, held["context"])
        after = harness.rss_kib(target.pid) << 10
        check_equal(trimmed["threads_waiting"], 0, "threads that did not come by")
        check_near("of the context's pages", held["what_if"]["trim_bytes"],
                   trimmed["punched_bytes"])
        check_near("the resident set", trimmed["predicted_bytes"], before - after)
        check_near("by its own account", trimmed["predicted_bytes"],
                   trimmed["rss_before_bytes"] - trimmed["rss_after_bytes"])
        check(pinner(target, "session_open")["what_if"]["trim_bytes"] <
              held["what_if"]["trim_bytes"] / 20, "it is still there")
        actions = command(target, "verify", target.pid)["actions"]
        check_equal([action["action"] for action in actions], ["trim"], "actions")
        check(0.8 < actions[0]["ratio"] < 1.2, f"verify: {actions}")
        target.say("")
        target.hear()
        left = sum(one["alone_free_bytes"]
                   for one in command(target, "frag", target.pid)["pinners"])
        check(left < held["alone_free_bytes"] / 5,
              f"its free blocks are in use again, but for {left} bytes")
        target.say("")
        target.hear()
        target.finish()
        return (f"predicted {trimmed['predicted_bytes'] >> 10} KiB, {before - after >> 10} KiB "
                "came back")


@test
@in_tries
def trim_of_partly_resident_pages():
    """The prediction of a trim counts only resident bytes, in pages of which a part is not
    resident."""
    program = harness.build_program("tests/diagnosis/partly.c")
    with runtime_dir() as directory, Target([program], directory, MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "look", "what the program says")
        target.wait_socket()
        held = pinner(target, "buffer_open")
        before = harness.rss_kib(target.pid) << 10
        trimmed = command(target, "trim", target.pid, held["context"])
        after = harness.rss_kib(target.pid) << 10
        check_equal(trimmed["threads_waiting"], 0, "threads that did not come by")
        check(before - after > 5 << 20, f"hardly anything came back: {before - after}")
        check_near("the resident set", trimmed["predicted_bytes"], before - after)
        check_near("what frag predicts of the pages", held["what_if"]["trim_bytes"], before - after)
        return (f"predicted {trimmed['predicted_bytes'] >> 10} KiB, {before - after >> 10} KiB "
                "came back")


@test
def isolate_saves_what_it_says():
    with runtime_dir() as directory, planted(directory, "among") as target:
        target.hear()
        target.wait_socket()
        held = pinner(target, "handler_state")
        check_equal((held["context"], held["contexts"]), (None, 1000), "who it is")
        rss = harness.rss_kib(target.pid) << 10
        placed = command(target, "isolate", target.pid, "--site", "handler_state")
        check_equal(placed["contexts"], 1000, "contexts")
        check_equal(placed["predicted_bytes"], held["what_if"]["isolate_bytes"],
                    "what frag predicts")
        action = command(target, "verify", target.pid)["actions"][0]
        check(action["saved_bytes"] <= placed["predicted_bytes"] / 2,
              f"it is saved before anything was freed: {action}")
        target.say("")  # the program frees all chunks and allocates them again
        target.hear()
        outcome = command(target, "verify", target.pid)["actions"][0]
        check_near("what was free around them", outcome["predicted_bytes"], outcome["saved_bytes"])
        command(target, "trim", target.pid)
        now = harness.rss_kib(target.pid) << 10
        check_near("the resident set", outcome["predicted_bytes"], rss - now)
        by_id = {context["id"]: context for context in target.dump()["contexts"]}
        check_equal(sum(context.get("placement") == "apart" for context in by_id.values()), 1000,
                    "contexts apart")
        target.finish()
        return (f"predicted {outcome['predicted_bytes'] >> 10} KiB, saved "
                f"{outcome['saved_bytes'] >> 10} KiB")


@test
def policies_of_a_context():
    with runtime_dir() as directory, planted(directory, "sparse") as target:
        target.hear()
        target.wait_socket()
        held = pinner(target, "session_open")["context"]

        def placement():
            return next(context.get("placement")
                        for context in target.dump()["contexts"] if context["id"] == held)
        merged = command(target, "merge", target.pid, held)
        check(merged["predicted_bytes"] > 10 << 20,
              f"what is free in its pages serves others: {merged}")
        check_equal(placement(), "shared", "after merge")
        pages = next(context for context in target.dump()["contexts"]
                     if context["id"] == held)["self"]["pages"]
        target.say("")  # the program allocates its chunks again, which must not get own pages
        target.hear()
        now = next(context for context in target.dump()["contexts"]
                   if context["id"] == held)["self"]["pages"]
        check(now <= pages, f"{now} pages of its own, before {pages}")
        for policy, word in (("aset", "apart"), ("mixed", "shared"), ("default", None)):
            done = run_cli("set", target.pid, str(held), f"policy={policy}", env=target.cli_env)
            check_equal((done.returncode, done.stderr, placement()), (0, "", word),
                        f"policy={policy}")
        for words, status in (((str(held), "policy=best"), 2), ((str(held), "depth=3"), 2),
                              (("99999999", "policy=aset"), 1)):
            check_equal(run_cli("set", target.pid, *words, env=target.cli_env).returncode, status,
                        f"set {words}")
        for verb in ("isolate", "merge"):
            check_equal(run_cli(verb, target.pid, env=target.cli_env).returncode, 2,
                        f"{verb} of nothing")
            check_equal(run_cli(verb, target.pid, "--site", "no_such_function",
                                env=target.cli_env).returncode, 1, verb)
        # verify compares only the contexts of each action, and only while they have its policy
        first, second = [one["id"] for one in command(target, "frag", target.pid)["contexts"][:2]]
        for context in (first, second):
            command(target, "set", target.pid, context, "policy=slab")
        actions = command(target, "verify", target.pid)["actions"][-2:]
        check_equal([one["first_context"] for one in actions], [first, second],
                    "contexts of the actions")
        for action in actions:
            check(abs(action["saved_bytes"]) < actions[0]["before_bytes"] / 2,
                  f"nothing was freed, but: {action}")
        command(target, "set", target.pid, second, "policy=generation")
        changed = command(target, "verify", target.pid)["actions"][-2]
        check_equal((changed["now_bytes"], changed["saved_bytes"], changed["ratio"]),
                    (None, None, None), "another policy since")
        said = run_cli("verify", target.pid, env=target.cli_env).stdout
        check(": ? before" not in said and " before, ? now; saved ? (" in said, said)


def keep_policy(policy, case, function):
    """A policy set for a context in use saves what frag predicts, once the program has replaced its
    chunks."""
    def runs():
        with runtime_dir() as directory, planted(directory, case) as target:
            target.hear()
            target.wait_socket()
            held = next(one for one in command(target, "frag", target.pid, "--site",
                                               function)["contexts"])
            command(target, "trim", target.pid)
            rss = harness.rss_kib(target.pid) << 10
            placed = command(target, "set", target.pid, held["id"], f"policy={policy}")
            check_equal((placed["policy"], placed["contexts"], placed["released_bytes"]),
                        (policy, 1, 0), "what was done")
            target.say("")
            target.hear()
            outcome = command(target, "verify", target.pid)["actions"][0]
            check_near("rounding and holes", outcome["predicted_bytes"], outcome["saved_bytes"])
            check_equal(outcome["predicted_bytes"], placed["predicted_bytes"], "what was predicted")
            command(target, "trim", target.pid)
            now = harness.rss_kib(target.pid) << 10
            check(abs(rss - now - outcome["predicted_bytes"]) <= rss / 20 and rss > now,
                  f"the resident set: predicted {outcome['predicted_bytes']} less than {rss}, but "
                  f"it was {rss - now}")
            dump = target.dump()
            context = next(one for one in dump["contexts"] if one["id"] == held["id"])
            check_equal((context["policy"], context.get("placement")), (policy, policy),
                        "in the dump")
            own = context["self"]
            check_equal((own["live_chunks"], own["requested_bytes"]),
                        (held["live_chunks"], held["requested_bytes"]), "what is alive")
            check(own["reserved_bytes"] >= own["block_bytes"] >= own["requested_bytes"],
                  f"the books: {own}")
            check_equal(dump["exact"], True, "exact")
            target.say("")  # the program goes on; then the policy becomes the default again
            target.hear()
            command(target, "set", target.pid, held["id"], "policy=default")
            target.say("")
            target.hear()
            back = next(one for one in target.dump()["contexts"] if one["id"] == held["id"])
            check_equal((back["policy"], back.get("placement")), ("aset", None), "as before")
            check(back["self"]["block_bytes"] > own["block_bytes"] * 1.05, "it is rounded again")
            target.finish()
            return (f"predicted {outcome['predicted_bytes'] >> 10} KiB, saved "
                    f"{outcome['saved_bytes'] >> 10} KiB")
    runs.__name__ = f"{policy}_saves_what_it_says"
    test(runs)


keep_policy("slab", "padded", "row_store")
keep_policy("generation", "queued", "message_new")
keep_policy("bump", "queued", "message_new")


def largest(target):
    return max(target.dump()["contexts"], key=lambda context: context["self"]["requested_bytes"])


def placed_by_rule(rules, placement):
    """Starts a program with these rules, and checks the placement of its rows."""
    with runtime_dir() as directory, planted(directory, "padded", MEMCTX_RULES=rules) as target:
        target.hear()
        target.wait_socket()
        # The library applies rules ten times a second.
        wait_until(lambda: largest(target).get("placement") == placement, f"placed by {rules}")
        target.say("")
        target.hear()
        listed = command(target, "rules", target.pid)["rules"]
        rows = largest(target)
        check_equal(rows["frame"]["function"], "row_store(unsigned long)", "the largest context")
        check_equal(rows.get("placement"), placement, f"placed by {rules}")
        check_equal([one["rule"] for one in listed], rules.split(";"), "rules")
        target.finish()
        return listed, rows


@test
def rules_place_what_is_new():
    listed, rows = placed_by_rule("no_such=bump;row_store=slab", "slab")
    check_equal([(one["contexts"], one["requested_bytes"], one["live_chunks"]) for one in listed],
                [(0, 0, 0), (1, 20000 * 1040, 20000)], "what each rule has")
    check_equal(rows["policy"], "slab", "policy")
    waste = rows["self"]["block_bytes"] - rows["self"]["requested_bytes"]
    check(waste < 20000 * 1040 // 20, f"rounded from the start: {waste} bytes")


@test
def the_first_rule_that_holds_counts():
    for rules, placement in (("row_*=generation;row_store=slab", "generation"),
                             ("r?w_sto*e=bump;main=aset", "bump"),
                             ("main=mixed;row_store=slab", "shared"),
                             ("module:plant*=aset;row_store=slab", "apart"),
                             ("row=slab", None), ("module:planted=default;row_store=slab", None),
                             ("_ZL9row_storem=slab", "slab"), ("row_store*=slab", "slab")):
        placed_by_rule(rules, placement)


@test
def rules_of_a_running_program():
    with runtime_dir() as directory, planted(directory, "padded") as target:
        target.hear()
        target.wait_socket()
        check_equal(command(target, "rules", target.pid)["rules"], [], "rules")

        def placement():
            dump = json.loads(run_cli("dump", target.pid, "--json", env=target.cli_env).stdout)
            rows = max(dump["contexts"], key=lambda context: context["self"]["requested_bytes"])
            return rows["id"], rows.get("placement"), rows["self"]["block_bytes"], rows.get("why")
        rows, before, blocks, _ = placement()
        check_equal(before, None, "placement")
        done = run_cli("rules", target.pid, "--add", "nothing=aset", "--add", "padded=slab",
                       "--json", env=target.cli_env)
        check(done.returncode == 0 and
              done.stderr.startswith('memctx: note: the rule "nothing=aset" matches no function '
                                     'of '), done.stderr)
        listed = json.loads(done.stdout)["rules"]
        check(listed[1]["requested_bytes"] >= 20000 * 1040, f"found at once: {listed}")
        check_equal(placement()[1], "slab", "placement")
        target.say("")
        target.hear()
        check(placement()[2] < blocks * 0.93, "its rows came over")
        check_equal((command(target, "rules", target.pid, "--clear")["rules"], placement()[1]),
                    ([], None), "without rules")
        command(target, "set", target.pid, rows, "policy=generation")
        listed = command(target, "rules", target.pid, "--clear", "--add", "row_store=bump")["rules"]
        check_equal((placement()[1], placement()[3]), ("generation", None),
                    "what was placed by hand stays, and no rule is its reason")
        check_equal(listed[0]["contexts"], 0, "contexts that the rule placed")
        command(target, "set", target.pid, rows, "policy=default")
        listed = command(target, "rules", target.pid)["rules"]
        check_equal((placement()[1], placement()[3], listed[0]["contexts"]),
                    ("bump", "row_store=bump", 1), "default leaves it to the rule")
        command(target, "set", target.pid, rows, "policy=generation")
        check_equal(command(target, "rules", target.pid)["rules"][0]["contexts"], 0,
                    "contexts that the rule places still")
        for words, status, says in ((("--add", "x"), 2, "PATTERN=POLICY"),
                                    (("--add", "x=y"), 2, "policies are"),
                                    (("--add", "=slab"), 2, "PATTERN=POLICY")):
            done = run_cli("rules", target.pid, *words, env=target.cli_env)
            check_equal(done.returncode, status, f"rules {words}")
            check(says in done.stderr, f"rules {words}: {done.stderr}")
        check("row_store=bump" in run_cli("rules", target.pid, "--human",
                                          env=target.cli_env).stdout, "as text")
        check_equal(command(target, "rules", target.pid, "--clear")["rules"], [], "none")
        target.finish()


@test
def rules_of_memctx_run():
    with runtime_dir() as directory:
        program = harness.build_planted()
        env = harness.clean_env(XDG_RUNTIME_DIR=directory, MEMCTX_RULES="first=aset")
        done = subprocess.run([harness.CLI, "run", "--rule", "second=slab", "--rule", "third", "--",
                               program], env=env, check=False,
                              capture_output=True, text=True, timeout=60)
        check_equal(done.returncode, 2, "a rule without a policy")
        done = subprocess.run([harness.CLI, "run", "--rule", "second=slab", "--rule", "third=x",
                               "--", "/usr/bin/env"], env=env,
                              check=False, capture_output=True, text=True, timeout=60)
        check_equal((done.returncode, done.stdout), (2, ""), "a rule that is not understood")
        check('the rule "third=x" is not understood: the policies are' in done.stderr, done.stderr)
        done = subprocess.run([harness.CLI, "run", "--rule", "second=slab", "--rule", "third=own",
                               "--", "/usr/bin/env"], env=env,
                              check=False, capture_output=True, text=True, timeout=60)
        check("MEMCTX_RULES=first=aset;second=slab;third=own" in done.stdout, done.stdout)
        check_equal((done.returncode, re.findall(r'^memctx: note: the rule "(\S+)" matches no '
                                                 r'function of .*\n', done.stderr, re.M),
                     done.stderr.count("\n")),
                    (0, ["second=slab", "third=own"], 2),
                    "rules that are understood, and match nothing in env")


@test
def a_thread_that_sleeps_is_trimmed():
    """trim gives the predicted bytes back although the program's thread sleeps, and says that the
    thread has not allocated since."""
    with runtime_dir() as directory, planted(directory, "survivors") as target:
        target.hear()
        target.wait_socket()
        held = pinner(target, "session_open")
        before = harness.rss_kib(target.pid) << 10
        trimmed = command(target, "trim", target.pid, held["context"])
        after = harness.rss_kib(target.pid) << 10
        check_equal((trimmed["threads"], trimmed["threads_waiting"]), (1, 1), "trim")
        check_near("the resident set", trimmed["predicted_bytes"], before - after)
        done = run_cli("trim", target.pid, str(held["context"]), env=target.cli_env)
        check("1 of 1 threads have not allocated since" in done.stdout, done.stdout)
        target.say("")
        target.finish()
        return (f"predicted {trimmed['predicted_bytes'] >> 10} KiB, {before - after >> 10} KiB "
                "came back")


SLEEPERS = 24


def sleepers(directory, *words, threads=SLEEPERS, **extra):
    program = harness.build_program("tests/diagnosis/sleepers.c")
    target = Target([program, str(threads), *words], directory, MEMCTX_CONTROL="eager",
                    MEMCTX_THP="never", **extra)
    check_equal(target.hear(), "look", "what the program says")
    target.wait_socket()
    wait_until(lambda: target.dump()["ledger"]["freelist_bytes"] == 0, "an empty freelist")
    return target


def kept_bytes(target):
    """The bytes in memory of pages without a live chunk, which their threads keep."""
    return next(line["bytes"] for line in command(target, "frag", target.pid)["ledger"]["lines"]
                if line["name"] == "kept_bytes")


@test
def threads_whose_load_is_over():
    """Threads that freed nearly all they had, and sleep, keep a page of each size. Doctor tells
    that, and trim gives it back."""
    with runtime_dir() as directory, sleepers(directory) as target:
        found = [one for one in command(target, "doctor", target.pid)["findings"]
                 if one["id"] == "thread-memory"]
        check_equal([one["severity"] for one in found], ["info"], "findings")
        check("25 threads" in found[0]["evidence"], found[0]["evidence"])
        before = harness.rss_kib(target.pid) << 10
        trimmed = command(target, "trim", target.pid, "--site", "row_make|note_keep")
        after = harness.rss_kib(target.pid) << 10
        check(abs(before - after - trimmed["predicted_bytes"]) <= before / 10,
              f"predicted {trimmed['predicted_bytes']} of {before}, {before - after} came back")
        check(trimmed["threads_waiting"] >= SLEEPERS, f"threads that sleep: {trimmed}")
        target.say("")  # each thread does its work again, and checks the contents of its chunks
        check_equal(target.hear(), "look", "what the program says")
        check_equal(target.dump()["exact"], True, "exact")
        target.say("")
        target.finish()
        return (f"predicted {trimmed['predicted_bytes'] >> 10} KiB, {before - after >> 10} KiB "
                "came back")


@test
def threads_that_freed_in_any_order():
    """Blocks that a thread freed last keep their OS pages while the thread sleeps. Doctor and frag
    do not promise that a trim returns these."""
    with runtime_dir() as directory, sleepers(directory, "shuffled", threads=60) as target:
        listed = command(target, "doctor", target.pid)["findings"]
        found = next(one for one in listed if one["id"] == "thread-memory")
        text = " ".join(run_cli("frag", target.pid, env=target.cli_env).stdout.split())
        kept, before = kept_bytes(target), harness.rss_kib(target.pid) << 10
        command(target, "trim", target.pid)
        came = before - (harness.rss_kib(target.pid) << 10)
        said = re.search(r"trim \d+ returns (\d+) of it; threads that sleep keep the rest", text)
        check(came < kept / 2, f"{came} of {kept} came back")
        check(said and abs(int(said[1]) - came) <= before / 20, f"{came} came back: {text[-300:]}")
        promised = found["now_bytes"] or 0
        check(promised - came <= before / 20, f"promised {promised}, {came} of {before} came back")
        target.say("")  # each thread does its work again, and checks the contents of its chunks
        check_equal(target.hear(), "look", "what the program says")
        target.say("")
        target.finish()
        return f"{kept >> 10} KiB in empty pages, {said[1]} bytes promised, {came} came back"


@test
def sleeping_threads_keep_little():
    """The control thread gives the empty pages of threads that sleep back by itself, again after
    each load, also if the chunks are freed in the opposite order."""
    for words in ((), ("back",)):
        with runtime_dir() as directory, sleepers(directory, *words, MEMCTX_HOLES="1",
                                                  MEMCTX_DECAY_MS="100") as target:
            wait_until(lambda: kept_bytes(target) < 4 << 20, "few bytes in empty pages")
            target.say("")
            check_equal(target.hear(), "look", "what the program says")
            wait_until(lambda: kept_bytes(target) < 4 << 20, "few bytes after a second load")
            target.say("")
            target.finish()


@test
def who_frees_whose_chunks():
    with runtime_dir() as directory, planted(directory, "handed") as target:
        target.hear()
        target.wait_socket()
        dump = target.dump("--threads")
        names_of = {thread["tid"]: thread["name"] for thread in dump["threads"]}
        found = {(names_of[one["freed_by"]], names_of[one["owner"]]): one["frees"]
                 for one in dump["remote_frees"]}
        check_equal(found, {("planted", "maker"): 10000}, "frees of another thread's chunks")
        target.finish()


@test
def ages_of_chunks():
    started = time.monotonic()
    with runtime_dir() as directory, planted(directory, "sparse") as target:
        target.hear()
        target.wait_socket()
        time.sleep(4)
        held = pinner(target, "session_open")
        late = max(0, time.monotonic() - started - 5)  # seconds more than on an idle machine
        check(4 <= held["oldest_age_s"] < 8 + late, f"the oldest: {held}")
        # The median age is known within a factor of two.
        check(2 <= held["median_age_least_s"] <= 5 + late and
              4 <= held["median_age_most_s"] < 8 + 2 * late, f"the median: {held}")
        by_id = {context["id"]: context
                 for context in command(target, "frag", target.pid)["contexts"]}
        one = by_id[held["context"]]
        check(sum(one["os_occupancy"]) * 4096 >= one["resident_bytes"] * 0.99,
              f"its OS pages: {one}")
        check_equal(one["os_occupancy"][0] * 4096 >= one["empty_os_bytes"], True,
                    "the empty ones are the first")
        file = os.path.join(directory, "snapshot")
        check_equal(run_cli("dump", target.pid, "-o", file, env=target.cli_env).returncode, 0,
                    "memctx dump -o")
        done = run_cli("frag", file, "--json")
        kept = next(p for p in json.loads(done.stdout)["pinners"]
                    if p["context"] == held["context"])
        for figure in ("chunks", "alone_bytes", "alone_free_bytes", "what_if"):
            check_equal(kept[figure], held[figure], f"{figure} in a snapshot")
        asked = time.monotonic()
        target.say("")
        target.hear()
        made = next(one for one in command(target, "frag", target.pid)["contexts"]
                    if "late_buffer" in one["path"][0])
        check(made["oldest_age_s"] < 3 + (time.monotonic() - asked), f"what was just made: {made}")
        target.finish()


FORKING = """
import os, sys, time
old = [bytes(500) for i in range(20000)]
time.sleep(3)
if os.fork():
    os.wait()
    sys.exit()
time.sleep(.1)
young = [bytearray(900) for i in range(20000)]
print(os.getpid(), flush=True)
sys.stdin.readline()
"""


@test
def ages_in_a_forked_child():
    """In a forked child, chunks of the parent are older than the child, and its own are younger."""
    argv, started = ["/usr/bin/python3", "-c", FORKING], time.monotonic()
    with runtime_dir() as directory, Target(argv, directory, MEMCTX_CONTROL="eager",
                                            PYTHONMALLOC="malloc") as target:
        child = int(target.hear())
        target.wait_socket(child)
        contexts = json.loads(run_cli("frag", child, "--json",
                                      env=target.cli_env).stdout)["contexts"]
        big = sorted((one for one in contexts if one["requested_bytes"] > 9000000),
                     key=lambda one: one["requested_bytes"])
        largest = [(one["path"][:3], one["live_chunks"]) for one in contexts[:5]]
        check_equal(len(big), 2, f"contexts with 20 000 chunks each: {largest}")
        late = max(0, time.monotonic() - started - 4)
        check(3 <= big[0]["oldest_age_s"] < 20 + late,
              f"from the parent: {big[0]['oldest_age_s']} s")
        check(big[1]["median_age_most_s"] < 3 + 2 * late,
              f"its own: {big[1]['median_age_most_s']} s")
        target.say("")


@test
def looking_does_not_make_resident():
    """frag does not make memory resident again that a trim gave back."""
    with runtime_dir() as directory, planted(directory, "among") as target:
        target.hear()
        target.wait_socket()
        trimmed = command(target, "trim", target.pid, "--site", ".")
        check(trimmed["punched_bytes"] > 1 << 20, f"of mixed pages: {trimmed}")
        residues = []
        for _ in range(3):
            ledger = {line["name"]: line["bytes"]
                      for line in command(target, "frag", target.pid)["ledger"]["lines"]}
            residues.append(ledger["residue_bytes"])
        check(all(abs(residue) < 1 << 20 for residue in residues), f"residues: {residues}")
