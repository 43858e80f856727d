# SPDX-License-Identifier: MIT
"""python_verdicts.py MODULE... - runs python's own tests of these modules. Prints a sorted line for
each test, with its id and verdict. Output of the tests themselves goes to the file "log"."""
import os
import sys
import unittest


class Verdicts(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.lines = set()

    def say(self, test, verdict):
        self.lines.add(f"{test.id()} {verdict}")

    def addSuccess(self, test):
        self.say(test, "ok")

    def addError(self, test, error):
        super().addError(test, error)
        self.say(test, "ERROR")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.say(test, "FAIL")

    def addSkip(self, test, reason):
        self.say(test, "skipped")

    def addExpectedFailure(self, test, error):
        self.say(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.say(test, "unexpected success")


def main():
    out = os.fdopen(os.dup(1), "w")
    nowhere = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for name in sys.argv[1:]:
        result = Verdicts()
        unittest.defaultTestLoader.loadTestsFromName(name).run(result)
        print(f"{name}: {result.testsRun} tests", *sorted(result.lines), sep="\n", file=out,
              flush=True)
        for kind, failed in (("ERROR", result.errors), ("FAIL", result.failures)):
            for test, text in failed:
                print(kind, test.id(), text, flush=True)


if __name__ == "__main__":
    main()
