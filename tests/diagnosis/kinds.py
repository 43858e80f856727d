# SPDX-License-Identifier: MIT
"""Programs of kinds that the other files do not have, and programs in which one call path holds
most memory."""
import re

import harness
from harness import Target, check, check_equal, runtime_dir, test, test_named
from cases import check_healthy
from planted import ALARMING, doctor, found_at, names
from text import told, verdict

FLAGS = ["-O2"]


def kinds(directory, *arguments):
    program = harness.build_program("tests/diagnosis/kinds.cc", flags=FLAGS)
    return Target([program, *arguments], directory, MEMCTX_CONTROL="eager")


def keep_healthy(case):
    def run():
        with runtime_dir() as directory, kinds(directory, case) as target:
            return check_healthy(target)
    test_named(f"kinds-healthy-{case}")(run)


for healthy_case in ("wheel", "routes", "simulation", "frames"):
    keep_healthy(healthy_case)


FAULTY = {  # case -> (function to blame, chunks that it leaks for each look; None: not counted)
    "locales": ("price_format", None),
    "locals": ("scratch_make", 60),
    "shapes": ("clone", 6000),
    "requests": ("request_handle", 1000),
    "expressions": ("agent_matches", None),
    "audits": ("audit_note", 200 * (1 + 21 + 21 + 21)),
    "refusals": ("order_refuse", 4000),
}


def blame(case, function, chunks):
    def run():
        with runtime_dir() as directory, kinds(directory, case) as target:
            found = found_at(target, 5)
        alarms = [one for one in found["findings"] if one["severity"] in ALARMING]
        check_equal([one["id"] for one in alarms], ["growth"], "alarms")
        check(names(alarms[0], function), f"{function} is not in {alarms[0]['path']}")
        check(re.search(rf"\b{function}\b", found["verdict"]), found["verdict"])
        if chunks:
            check(f" by {4 * chunks} chunks " in alarms[0]["evidence"], alarms[0]["evidence"])
        return alarms[0]["function"]
    test_named(f"kinds-{case}")(run)


for faulty_case, (culprit, leaked) in FAULTY.items():
    blame(faulty_case, culprit, leaked)


@test
def kinds_function_that_the_compiler_divided():
    """A function and the part of it that the compiler moved elsewhere are one function."""
    with runtime_dir() as directory, kinds(directory, "refusals") as target:
        found = found_at(target, 5)
    severe = [one for one in found["findings"] if one["severity"] in ALARMING]
    check_equal([one["function"].split(",")[0] for one in severe], ["order_refuse"], "alarms")


HOLDERS = {  # case -> (function that holds most, its chunks)
    "dictionary": ("dictionary_load", 200001),  # the texts and the vector
    "packets": ("packet_get", 30000),
    "workers": ("worker_fill", 48 * 4000),
    "countries": ("country_name", 300000),
}


def hold(case, function, chunks):
    """A program of which nothing is wrong has no alarm, and the text says who holds its memory."""
    def run():
        with runtime_dir() as directory, kinds(directory, case) as target:
            found = found_at(target, 5)
            text = told(target)
        alarms = [one["evidence"] for one in found["findings"] if one["severity"] in ALARMING]
        check_equal(alarms, [], "alarms")
        check("for information, who holds most of the memory in use: " in text.replace("\n", " "),
              text)
        largest = found["largest"][0]
        check(names(largest, function), f"{function} is not in {largest['path']}")
        check(largest["ratio"] > 0.8, f"{largest}")
        held = re.search(r"in (\d+) chunks", largest["evidence"])
        check(held and abs(int(held[1]) - chunks) <= 100, f"{chunks} chunks: {largest['evidence']}")
        check(largest["evidence"] in text.replace("\n", " "), text)
        since = r"(held since before|came after|.* more than at) \d\d:\d\d:\d\d"
        check(re.match(since, largest["since"]), largest["since"])
        check(re.search(rf"\), {since}", text.replace("\n", " ")), text)
        check(re.search(rf"who holds .*\b{function}\b", text.replace("\n", " ")), text)
        check_equal(" of 48 threads" in largest["evidence"], case == "workers",
                    largest["evidence"])
        return largest["evidence"]
    test_named(f"kinds-holder-{case}")(run)


for holder_case, (holder, count) in HOLDERS.items():
    hold(holder_case, holder, count)


@test
def kinds_labels():
    """The text about memory that Go allocated with C.malloc says which calls of Go allocate so."""
    with runtime_dir() as directory, kinds(directory, "labels") as target:
        first = found_at(target, 5)["findings"][0]
    check_equal((first["id"], first["severity"]), ("growth", "warning"), f"{first}")
    check("C.CString" in first["advice"], first["advice"])


@test
def kinds_tokens():
    """Chunks are short-lived also if each request has many of them, and several threads serve."""
    with runtime_dir() as directory, kinds(directory, "tokens") as target:
        first = found_at(target, 1)["findings"][0]
    check_equal((first["id"], names(first, "token_copy")), ("temporary", True), f"{first}")
    check("were freed soon: at most 60 of a call path were alive" in first["evidence"],
          first["evidence"])


@test
def kinds_holder_beside_an_alarm():
    """A text with a warning does not say who holds most."""
    with runtime_dir() as directory, kinds(directory, "locals") as target:
        found = found_at(target, 12)
        text = told(target)
        check(found["requested_bytes"] > 8 << 20, f"{found['requested_bytes']} bytes in use")
        check("who holds most" not in text, text)
        check(names(doctor(target)["largest"][0], "scratch_make"), f"{found['largest']}")
    check("growth of " in verdict(text), text)
