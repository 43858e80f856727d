# SPDX-License-Identifier: MIT
"""Growth that ends, or becomes ever slower, raises no alarm once enough looks show it."""
import harness
from harness import Target, check, runtime_dir, test, test_named
from planted import ALARMING, found_at


def alarms_at(case, look):
    program = harness.build_program("tests/diagnosis/settles.cc", flags=["-O2"])
    with runtime_dir() as directory, Target([program, case], directory,
                                            MEMCTX_CONTROL="eager") as target:
        return [(one["function"], one["evidence"]) for one in found_at(target, look)["findings"]
                if one["severity"] in ALARMING]


def stay_quiet(case, look):
    """Registers a test: doctor raises no alarm at this look of the program."""
    def run():
        alarms = alarms_at(case, look)
        check(not alarms, alarms)
    test_named(f"settles-{case}")(run)


# The vocabulary grows evenly in time, but ever more slowly with the words that were read.
stay_quiet("vocabulary", 14)
# The number of texts swings by 500 at the same number of edits.
stay_quiet("undo", 14)
# The vector has doubled just before the last row was read.
stay_quiet("load", 12)


@test
def settles_not_while_an_array_grows():
    """A vector whose elements own no more memory, but that became larger since, is told."""
    alarms = alarms_at("empties", 12)
    check(len(alarms) == 1 and "grew in steps" in alarms[0][1], alarms)
