# SPDX-License-Identifier: MIT
"""doctor's first finding is the planted fault; doctor raises no alarm about healthy programs."""
import contextlib
import os
import re
import socket

import harness
from harness import Target, check, check_equal, run_cli, runtime_dir, test, test_named
from planted import (PLAIN, PLANTED, SEVERE, SETTINGS, ALARMING, CHUNKS_TOGETHER, doctor, looks,
                     planted, check_first, installed, found_at)


def plant(case, wrapper, ident, function):
    """Registers a test: the first finding about this case of planted.cc has the id `ident` and
    blames `function`."""
    def run():
        with runtime_dir() as directory, planted(directory, case, wrapper,
                                                 **SETTINGS.get(case, {})) as target:
            *_, last = looks(target)
            check_first(last, ident, function)
            check(case not in SEVERE or last["findings"][0]["severity"] in ALARMING,
                  f"only told: {last['findings'][0]}")
            if case in CHUNKS_TOGETHER:
                evidence = last["findings"][0]["evidence"]
                chunks = int(re.search(r"(\d+) chunks", evidence)[1])
                check(chunks >= CHUNKS_TOGETHER[case], f"recursion is not folded: {evidence}")
        return f"{last['findings'][0]['evidence']}"
    test_named(f"{case}-{wrapper}")(run)


for planted_case, (planted_id, culprit) in PLANTED.items():
    for by in ("malloc", "xmalloc", "new",
               "strdup") if culprit and planted_case not in PLAIN else ("malloc",):
        plant(planted_case, by, planted_id, culprit)


def check_healthy(target, from_look=1):
    """Checks that doctor raises no alarm at any look of the program, from look `from_look` on."""
    count = 0
    for found in looks(target):
        count += 1
        if count < from_look:
            continue
        alarms = [(finding["id"], finding["path"][:4], finding["evidence"])
                  for finding in found["findings"] if finding["severity"] in ALARMING]
        check(not alarms, f"look {count}: {alarms}")
    check(count >= from_look, f"only {count} looks")
    return f"{count} looks"


def keep_healthy(case):
    def run():
        with runtime_dir() as directory, planted(directory, case) as target:
            return check_healthy(target)
    # A vocabulary grows more and more slowly. A machine whose speed changes meanwhile can hide
    # that.
    test_named(f"healthy-{case}")(harness.in_tries(run) if "vocabulary" in case else run)


for healthy_case in ("full-cache", "filling-cache", "steady", "table", "grows-and-stays",
                     "map-of-strings", "small",
                     "sawtooth", "days", "vocabulary", "late-vocabulary", "reloaded"):
    keep_healthy(healthy_case)

PYTHON_WORK = """
import json, sys
kept = {str(i): [i] * 5 for i in range(50000)}
for round in range(4):
    for i in range(30):
        text = json.dumps({str(k): list(range(20)) for k in range(2000)})
        json.loads(text)
    print("look", flush=True)
    sys.stdin.readline()
"""
PERL_WORK = """
$| = 1;
my %kept = map { $_ => "x" x 50 } 1 .. 50000;
for my $round (1 .. 4) {
    for my $i (1 .. 20) {
        my %h = map { $_ => [1 .. 10] } 1 .. 2000;
        my $s = join ",", sort keys %h;
    }
    print "look\\n";
    <STDIN>;
}
"""
NODE_WORK = """
const fs = require('fs'), line = Buffer.alloc(1);
const kept = new Map(Array.from({length: 50000}, (_, i) => [i, 'x'.repeat(50)]));
for (let round = 0; round < 4; round++) {
    for (let i = 0; i < 30; i++)
        JSON.parse(JSON.stringify(
            Array.from({length: 5000}, (_, k) => ({key: k, value: 'v' + k}))));
    fs.writeSync(1, 'look\\n');
    fs.readSync(0, line);
}
"""
NODE_BUFFERS = """
const fs = require('fs'), line = Buffer.alloc(1), ring = [];
let made = 0;
for (let round = 0; round < 4; round++) {
    for (let i = 0; i < 200; i++)
        ring[made++ % 100] = Buffer.alloc(20000 + made % 5000, 1);
    fs.writeSync(1, 'look\\n');
    fs.readSync(0, line);
}
"""
BASH_WORK = """
for round in 1 2 3 4; do
    for ((i = 0; i < 3000; i++)); do a[i % 500]="some text $i"; b=${a[i % 500]//text/other}; done
    echo look
    read -r line
done
"""
REAL = {
    "python3": ["/usr/bin/python3", "-c", PYTHON_WORK],
    "perl": ["perl", "-e", PERL_WORK],
    "node": ["node", "-e", NODE_WORK],
    "node-buffers": ["node", "-e", NODE_BUFFERS],
    "bash": ["bash", "-c", BASH_WORK],
}


def keep_real(name, argv):
    def run():
        with runtime_dir() as directory, Target([installed(argv[0]), *argv[1:]], directory,
                                                MEMCTX_CONTROL="eager") as target:
            return check_healthy(target)
    test_named(f"healthy-{name}")(run)


for real, words in REAL.items():
    keep_real(real, words)


def check_round(target, count):
    """Checks that doctor raises no alarm, and sets a mark."""
    alarms = [finding for finding in doctor(target)["findings"] if finding["severity"] in ALARMING]
    check(not alarms, f"look {count}: {alarms}")
    done = run_cli("mark", target.pid, f"look-{count}", env=target.cli_env)
    check_equal(done.returncode, 0, f"memctx mark: {done.stderr}")


@test
def healthy_sqlite3():
    work = ("begin;", "insert into t select value, hex(randomblob(20)) from generate_series(1, "
                      "20000);",
            "select count(*) from t where b like '%7A%';", "delete from t;", "commit;",
            ".print look")
    with runtime_dir() as directory, Target([installed("sqlite3")], directory,
                                            MEMCTX_CONTROL="eager") as target:
        target.say("create table t(a, b); create index i on t(b);")
        for count in range(4):
            for line in work:
                target.say(line)
            while target.hear() != "look":
                pass
            check_round(target, count)


@contextlib.contextmanager
def redis():
    """Starts redis-server; yields it and a function that sends commands and waits for as many
    answers."""
    with runtime_dir() as directory:
        path = os.path.join(directory, "redis.sock")
        arguments = [installed("redis-server"), "--port", "0", "--unixsocket", path, "--save", "",
                     "--dir", directory]
        with Target(arguments, directory, MEMCTX_CONTROL="eager") as target:
            with socket.socket(socket.AF_UNIX) as client:
                # between bind and listen, redis-server refuses connections
                harness.wait_until(lambda: client.connect_ex(path) == 0, "redis-server's socket")

                def ask(commands, lines):
                    client.sendall(b"".join(commands))
                    answer = b""
                    while answer.count(b"\n") < lines:
                        answer += client.recv(1 << 20)
                yield target, ask


@test
def healthy_redis():
    """A redis-server whose clients write and read the same keys again and again raises no alarm."""
    with redis() as (target, ask):
        for count in range(4):
            for first in range(0, 60000, 1000):
                ask([b"SET key:%d %s\r\nGET key:%d\r\n" % (i, b"v" * (20 + i % 80), i)
                     for i in range(first, first + 1000)], 3000)
            check_round(target, count)


@test
def deep_recursion_is_one_finding():
    """Leaks of a recursion are one finding, although MEMCTX_DEPTH cuts the outer end off some
    paths."""
    with runtime_dir() as directory, planted(directory, "leaky-recursion",
                                             MEMCTX_DEPTH="10") as target:
        found = found_at(target, 4)
    check_first(found, "growth", "node_label")
    listed = [(finding["path"][:6], finding["evidence"])
              for finding in found["findings"] if finding["id"] == "growth"]
    check_equal(len(listed), 1, f"findings of one leak: {listed}")
