# SPDX-License-Identifier: MIT
"""A terminal emulator: runs a program on a pseudo-terminal, so that a test can read its screen.

It knows the sequences that curses sends to TERM=xterm, and fails on any other sequence.
"""
import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from harness import PATIENCE_S, Failure, Owner, check

SEQUENCE = re.compile(r"\033(?:\[([?>]?)([\d;]*)([@-~])|([()])(.)|([=>78MDEHc])|"
                      r"\](.*?)(?:\007|\033\\))", re.S)


class Emulator:
    """Keeps the characters of a screen; feed() applies a program's output."""

    def __init__(self, rows, columns):
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.left = ""
        self.modes = set()
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.clear()

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.marks = [[False] * self.columns for _ in range(self.rows)]
        self.y = self.x = 0
        self.top, self.bottom = 0, self.rows - 1
        self.reverse = self.insert = False
        self.last = " "

    def feed(self, data):
        text = self.left + self.decoder.decode(data)
        self.left = ""
        at = 0
        while at < len(text):
            if text[at] != "\033":
                self.put(text[at])
                at += 1
                continue
            match = SEQUENCE.match(text, at)
            if not match:
                check(len(text) - at < 40,
                      f"a sequence that the emulator does not know: {text[at:at + 20]!r}")
                self.left = text[at:]
                return
            self.obey(match)
            at = match.end()

    def put(self, letter):
        if letter == "\n" and self.y == self.bottom:
            self.shift("S", 1)
        elif letter == "\n":
            self.y = min(self.y + 1, self.rows - 1)
        elif letter == "\r":
            self.x = 0
        elif letter == "\b":
            self.x = max(self.x - 1, 0)
        elif letter == "\t":
            self.x = min((self.x // 8 + 1) * 8, self.columns - 1)
        elif letter >= " ":
            if self.x >= self.columns:
                self.x, self.y = 0, min(self.y + 1, self.rows - 1)
            if self.insert:
                self.change("@", 1)
            self.cells[self.y][self.x] = self.last = letter
            self.marks[self.y][self.x] = self.reverse
            self.x += 1

    def erase(self, y, start, end):
        for x in range(max(start, 0), min(end, self.columns)):
            self.cells[y][x], self.marks[y][x] = " ", False

    def obey(self, match):
        prefix, numbers, kind = match.group(1), match.group(2), match.group(3)
        if kind is None:
            check(match.group(6) in (None, "=", ">", "7", "8", "M"), f"unknown: {match.group(0)!r}")
            if match.group(6) == "M":
                if self.y > self.top:
                    self.y -= 1
                else:
                    self.shift("T", 1)
            return
        values = [int(number or 0) for number in numbers.split(";")]
        first = max(values[0], 1)
        if prefix:
            self.set_mode(values, kind)
        elif kind in "Hf":
            self.y = min(first, self.rows) - 1
            self.x = min(max(values[1] if len(values) > 1 else 1, 1), self.columns) - 1
        elif kind in "ABCDGd":
            self.move(kind, first)
        elif kind in "JKXP@":
            self.change(kind, values[0])
        elif kind in "LMST":
            self.shift(kind, first)
        elif kind == "r":
            # What the program sent before it heard of a resize may name lines that are gone.
            bottom = min(values[1] if len(values) > 1 and values[1] else self.rows, self.rows) - 1
            if first - 1 < bottom:
                self.top, self.bottom = first - 1, bottom
                self.y = self.x = 0
        elif kind == "b":
            for _ in range(first):
                self.put(self.last)
        elif kind == "m":
            for value in values:
                self.reverse = value == 7 or (self.reverse and value not in (0, 27))
        else:
            check(kind in "lht", f"a sequence that the emulator does not know: {match.group(0)!r}")
            if values[0] == 4 and kind in "lh":
                self.insert = kind == "h"

    def set_mode(self, values, kind):
        for value in values:
            if kind == "h":
                self.modes.add(value)
            elif kind == "l":
                self.modes.discard(value)
            if value == 1049 and kind in "hl":
                self.clear()

    def move(self, kind, number):
        if kind == "A":
            self.y = max(self.y - number, 0)
        elif kind == "B":
            self.y = min(self.y + number, self.rows - 1)
        elif kind == "C":
            self.x = min(self.x + number, self.columns - 1)
        elif kind == "D":
            self.x = max(self.x - number, 0)
        elif kind == "G":
            self.x = min(number, self.columns) - 1
        else:
            self.y = min(number, self.rows) - 1

    def change(self, kind, number):
        if kind == "K":
            start, end = {0: (self.x, self.columns), 1: (0, self.x + 1),
                          2: (0, self.columns)}[number]
            self.erase(self.y, start, end)
        elif kind == "X":
            self.erase(self.y, self.x, self.x + max(number, 1))
        elif kind == "J":
            if number != 1:
                self.erase(self.y, self.x if number == 0 else 0, self.columns)
            for y in range(self.rows):
                if (number in (0, 2) and y > self.y) or (number in (1, 2) and y < self.y):
                    self.erase(y, 0, self.columns)
        else:
            count = max(number, 1)
            for line, blank in ((self.cells[self.y], " "), (self.marks[self.y], False)):
                rest = (line[self.x + count:] + [blank] * count if kind == "P"
                        else [blank] * count + line[self.x:])
                line[self.x:] = rest[:self.columns - self.x]

    def shift(self, kind, count):
        top = self.y if kind in "LM" else self.top
        if not self.top <= top <= self.bottom:
            return
        for lines, blank in ((self.cells, " "), (self.marks, False)):
            for _ in range(count):
                new = [blank] * self.columns
                if kind in "LT":
                    del lines[self.bottom]
                    lines.insert(top, new)
                else:
                    del lines[top]
                    lines.insert(self.bottom, new)

    def lines(self):
        return ["".join(line).rstrip() for line in self.cells]

    def marked(self):
        """The lines whose first cell is shown in reverse video."""
        return [line for line, marks in zip(self.lines(), self.marks) if marks[0]]


class Terminal(Owner):
    """A program that runs on its own pseudo-terminal."""

    def __init__(self, argv, env, rows=24, columns=80):
        self.screen = Emulator(rows, columns)
        self.master, slave = pty.openpty()
        self.set_size(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.slave = slave  # kept open, so that is_restored can read its settings

        def lead():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(argv, env=env, stdin=slave, stdout=slave, stderr=slave,
                                        preexec_fn=lead)

    def __exit__(self, *_):
        super().__exit__()
        os.close(self.master)
        os.close(self.slave)

    def set_size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.read(0)
        self.screen.resize(rows, columns)
        self.set_size(rows, columns)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read(self, seconds):
        """Waits up to `seconds` for output of the program and feeds it to the screen."""
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.screen.feed(os.read(self.master, 65536))
            except OSError:
                return False
            return True
        return False

    def text(self):
        return "\n".join(self.screen.lines())

    def wait(self, pattern, what, timeout_s=PATIENCE_S):
        """Waits until the screen's text matches the pattern; returns the match."""
        deadline = time.monotonic() + timeout_s
        while True:
            match = re.search(pattern, self.text(), re.M)
            if match:
                return match
            if time.monotonic() > deadline:
                raise Failure(f"{what}: no /{pattern}/ after {timeout_s} s on this screen:\n"
                              f"{self.text()}")
            self.read(0.05)

    def until(self, condition, what, timeout_s=PATIENCE_S):
        """Reads output until condition() is true."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise Failure(f"{what}: not after {timeout_s} s on this screen:\n{self.text()}")
            self.read(0.05)

    def ended(self, timeout_s=PATIENCE_S):
        """Waits for the end of the program; returns its exit code (-N: signal N)."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            self.read(0.05)
            if time.monotonic() > deadline:
                raise Failure(f"the program has not ended after {timeout_s} s; its screen:\n"
                              f"{self.text()}")
        while self.read(0):
            pass
        return self.process.returncode

    def is_restored(self):
        """True if the terminal has its first settings again and does not show the alternate
        screen."""
        return termios.tcgetattr(self.slave) == self.before and 1049 not in self.screen.modes
