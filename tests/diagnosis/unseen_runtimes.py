# SPDX-License-Identifier: MIT
"""Programs of runtimes and interpreters: growth of the objects of Perl, Python, node and Java, and
of the memory that their garbage collectors take."""
import os
import re
import shutil

import harness
from harness import Target, check, check_equal, runtime_dir, test
from cases import check_healthy
from planted import ALARMING, doctor, found_at, installed
from text import labelled, told, verdict
from unseen import growth_at, started

PERL_KEEPS = """
$| = 1;
my %kept;
for my $round (1 .. 4) {
    $kept{"$round $_"} = {id => $_, name => "name $_" x 3, tags => ["a$_", "b$_"]} for 1 .. 4000;
    print "look\\n";
    <STDIN>;
}
"""


@test
def unseen_objects_of_perl():
    """Growth of a script's objects is one finding, which says that its call paths do not show the
    lines of the script."""
    with runtime_dir() as directory, Target([installed("perl"), "-e", PERL_KEEPS], directory,
                                            MEMCTX_CONTROL="eager") as target:
        growth, text = growth_at(target)
    check("Perl_runops_standard" in growth["path"], f"{growth['path']}")
    check("not the lines of the script" in labelled(text, 1, "fix"), text)


PERL_HASH = """
$| = 1;
my (%kept, $count);
for my $round (1 .. 9) {
    for (1 .. 100) {
        my %h = map { $_ => "v" x ($_ % 50) } 1 .. 50;
        my @parts = split /,/, join ",", sort keys %h;
    }
    $kept{"key-$count"} = "value of " . $count++ for 1 .. 6000;
    print "look\\n";
    <STDIN>;
}
"""


@test
def unseen_hash_of_perl():
    """The table of a hash, which becomes twice as large whenever it is full, belongs to the finding
    about the entries."""
    with runtime_dir() as directory, Target([installed("perl"), "-e", PERL_HASH], directory,
                                            MEMCTX_CONTROL="eager") as target:
        growth, _ = growth_at(target, 9)
    check("Perl_runops_standard" in growth["path"], f"{growth['path']}")


PERL_TEXTS = """
$| = 1;
my @kept;
$#kept = 100000;
my $used = 0;
for my $round (1 .. 4) {
    $kept[$used++] = "text $_" x 1000 for 1 .. 400;
    print "look\\n";
    <STDIN>;
}
"""


@test
def unseen_texts_of_perl():
    """The text says that call paths show no lines of the script also if one function of the
    interpreter allocated all of the memory."""
    with runtime_dir() as directory, Target([installed("perl"), "-e", PERL_TEXTS], directory,
                                            MEMCTX_CONTROL="eager") as target:
        growth, text = growth_at(target)
    check(not growth["function"].startswith("Perl_runops"), growth["function"])
    check("not the lines of the script" in labelled(text, 1, "fix"), text)


PERL_CYCLES = """
$| = 1;
for my $round (1 .. 5) {
    for (1 .. 5000) {
        my $one = {name => "n" x 50};
        my $other = {one => $one};
        $one->{other} = $other;
    }
    print "look\\n";
    <STDIN>;
}
"""


@test
def unseen_cycles_of_perl():
    """Objects of a script are one finding at the interpreter's loop, also if one function of the
    interpreter allocated nearly all of the memory, in several ways."""
    with runtime_dir() as directory, Target([installed("perl"), "-e", PERL_CYCLES], directory,
                                            MEMCTX_CONTROL="eager") as target:
        growth, text = growth_at(target, 5)
    check(growth["function"].startswith("Perl_runops"), growth["function"])
    check("; nearly all through Perl_pp_anonhash, perl)" in verdict(text), text)


PYTHON_THREADS = """
import sys, threading
kept, waits = [], threading.Event()
def serve():
    state = threading.local()
    state.buffer = bytearray(30000)
    waits.wait()
for round in range(4):
    for number in range(20):
        kept.append(threading.Thread(target=serve, daemon=True))
        kept[-1].start()
    print("look", flush=True)
    sys.stdin.readline()
"""


@test
def unseen_threads_of_python():
    """What a script keeps is one finding at the interpreter's loop, also if several threads
    allocate it."""
    with runtime_dir() as directory, Target(["/usr/bin/python3", "-c", PYTHON_THREADS], directory,
                                            MEMCTX_CONTROL="eager",
                                            PYTHONMALLOC="malloc") as target:
        found = found_at(target, 4)["findings"]
    grown = [one for one in found if one["id"] == "growth" and one["severity"] in ALARMING]
    check_equal(["_PyEval_EvalFrameDefault" in one["path"] for one in grown], [True],
                f"{[(one['function'], one['evidence']) for one in grown]}")


PYTHON_TREES = """
import sys
class Node:
    def __init__(self, parent, depth):
        self.parent = parent
        self.children = [Node(self, depth - 1) for number in range(3)] if depth else []
recent = []
for round in range(6):
    for number in range(30):
        recent.append(Node(None, 4))
        del recent[:-10]
    print("look", flush=True)
    sys.stdin.readline()
"""


@test
def unseen_trees_of_python():
    """Dropped trees, whose nodes refer to each other, are no alarm while Python may not have
    collected them."""
    with runtime_dir() as directory, Target(["/usr/bin/python3", "-c", PYTHON_TREES], directory,
                                            MEMCTX_CONTROL="eager",
                                            PYTHONMALLOC="malloc") as target:
        check_healthy(target)


PYTHON_MODULE = r"""
extern void *PyBytes_FromStringAndSize(const char *bytes, long size);
__attribute__((noipa)) static void *frame_pack(long number) {
    char *made = PyBytes_FromStringAndSize(0, 300);
    made[40] = (char)number;
    return made;
}
long pack(long number) { return frame_pack(number) != 0; }
"""
PYTHON_CALLS = """
import ctypes, sys
pack = ctypes.PyDLL(sys.argv[1]).pack
for round in range(4):
    for number in range(5000):
        pack(number)
    print("look", flush=True)
    sys.stdin.readline()
"""


@test
def unseen_module_that_calls_the_interpreter():
    """If a module in C leaks objects that the interpreter's functions allocate, the first line
    names the function of the module, too."""
    with runtime_dir() as directory:
        source, library = os.path.join(directory, "frames.c"), os.path.join(directory, "frames.so")
        with open(source, "w", encoding="ascii") as file:
            file.write(PYTHON_MODULE)
        done = harness.run_program(["gcc", "-O2", "-g", "-shared", "-fPIC", source, "-o", library],
                                   os.environ)
        check_equal(done.returncode, 0, f"gcc: {done.stderr}")
        argv = ["/usr/bin/python3", "-c", PYTHON_CALLS, library]
        with Target(argv, directory, MEMCTX_CONTROL="eager", PYTHONMALLOC="malloc") as target:
            _, text = growth_at(target)
    check(re.search(r"\(PyBytes_FromStringAndSize, python3\S*; called for frame_pack, "
                    r"frames\.c:4\)$", verdict(text)), text)


NODE_KEEPS = """
const kept = [];
setInterval(() => {
    for (let i = 0; i < 4000; i++)
        kept.push({id: i, name: 'name ' + i, tags: ['a' + i, 'b' + i]});
}, 5);
process.stdin.on('data', () => process.exit());
console.log('look');
"""


@test
def unseen_objects_of_node():
    """Growth of node's objects is one alarm (the engine's tables, which grow too, are none), and
    its next step needs no restart."""
    with runtime_dir() as directory, Target([installed("node"), "-e", NODE_KEEPS], directory,
                                            MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "look", "what the program says")
        harness.wait_until(lambda: harness.rss_kib(target.pid) > 250 << 10,
                           "a heap of more than it may fill", timeout_s=60)
        found = doctor(target, "--watch", "2")["findings"]
        alarms = [one["id"] for one in found if one["severity"] in ALARMING]
        check_equal(alarms, ["growth-not-malloc"],
                    f"alarms: {[(one['id'], one['evidence']) for one in found]}")
        check(found[0]["action"].startswith(f"kill -USR1 {target.pid}, then open chrome://inspect"),
              found[0]["action"])


NODE_BUFFERS = """
const fs = require('fs'), line = Buffer.alloc(1), kept = [];
let made = 0;
for (let round = 0; round < 6; round++) {
    for (let i = 0; i < 300; i++)
        kept[BOUND ? made++ % 100 : made++] = Buffer.alloc(5000 + i, 1);
    if (COLLECTS) {
        gc();
        gc();
    }
    fs.writeSync(1, 'look\\n');
    fs.readSync(0, line);
}
"""


@test
def unseen_buffers_of_node():
    """Buffers that survive full garbage collections are a leak, however few bytes they have.
    Without such collections, buffers of dead objects grow alike, so doctor only says that it may go
    on. The next step leads to the objects that own the buffers."""
    for bound, collects, alarm in ((0, 1, True), (1, 1, False), (1, 0, False), (0, 0, False)):
        script = NODE_BUFFERS.replace("BOUND", str(bound)).replace("COLLECTS", str(collects))
        with runtime_dir() as directory, Target([installed("node"), "--expose-gc", "-e", script],
                                                directory, MEMCTX_CONTROL="eager") as target:
            found = found_at(target, 6)["findings"]
        alarms = [(one["id"], "v8::internal::BackingStore::" in str(one["path"]))
                  for one in found if one["severity"] in ALARMING]
        check_equal(alarms, [("growth", True)] if alarm else [],
                    f"bound {bound}, collects {collects}: {found}")
        if alarm:
            check(found[0]["action"].startswith(f"kill -USR1 {target.pid}, then open chrome:") and
                  "Objects of JavaScript own this memory" in found[0]["advice"],
                  f"the next step: {found[0]}")


NODE_STARTS = """
function answer() {
    const rows = [];
    for (let i = 0; i < 200; i++)
        rows.push({id: i, text: 'x' + i});
    return JSON.stringify(rows);
}
const last = [];
setInterval(() => {
    for (let i = 0; i < 10; i++) {
        last.push(answer());
        if (last.length > 500)
            last.shift();
    }
}, 5);
process.stdin.on('data', () => process.exit());
console.log('look');
"""


@test
def unseen_node_that_has_just_started():
    """node's heap right after its start grows up to the first garbage collection, which is no
    alarm."""
    with runtime_dir() as directory, Target([installed("node"), "-e", NODE_STARTS], directory,
                                            MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "look", "what the program says")
        found = doctor(target, "--watch", "2")["findings"]
    alarms = [(one["id"], one["evidence"]) for one in found if one["severity"] in ALARMING]
    check_equal(alarms, [], "alarms")


@test
def unseen_heap_that_is_filled_before_it_is_collected():
    """Growth of mappings, of generated code and of ZGC's shared heap in a process named java is no
    alarm: a Java heap grows to a bound before it is collected."""
    program = harness.build_program("tests/diagnosis/planted_more.c", "planted-more-c")
    with runtime_dir() as directory:
        java = shutil.copy(program, os.path.join(directory, "java"))
        with Target([java, "runtime"], directory, MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "look", "what the program says")
            found = doctor(target, "--watch", "1")["findings"]
    growth = [one for one in found if one["id"] == "growth-not-malloc"]
    check_equal([one["severity"] for one in growth], ["info"] * 3, f"{found}")
    for one in growth:
        if one["evidence"].startswith("code generated"):
            check(one["sure"].startswith("open: this runtime keeps the code that it generates"),
                  f"{one}")
        else:
            check(one["sure"].startswith("open: this runtime lets its heap grow"), f"{one}")
            check(one["action"].startswith(f"jcmd {target.pid} GC.class_histogram"), f"{one}")


JAVA_KEEPS = """
import java.nio.ByteBuffer;
import java.util.ArrayList;

public class Keeps {
    static ArrayList<ByteBuffer> kept = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < 200; i++) {
                ByteBuffer buffer = ByteBuffer.allocateDirect(50000);
                for (int at = 0; at < 50000; at += 1000)
                    buffer.put(at, (byte) 1);
                kept.add(buffer);
            }
            System.out.println("look");
            System.in.read();
        }
    }
}
"""


@test
def unseen_direct_buffers_of_java():
    """For Java's direct buffers the finding names the objects that own the memory, and how to find
    their class."""
    with runtime_dir() as directory:
        source = os.path.join(directory, "Keeps.java")
        with open(source, "w", encoding="utf-8") as out:
            out.write(JAVA_KEEPS)
        with Target([installed("java"), "-Xint", "-Xshare:auto", source], directory,
                    MEMCTX_CONTROL="eager") as target:
            growth = [one for one in found_at(target, 4)["findings"] if one["id"] == "growth" and
                      one["severity"] in ALARMING]
            text = told(target)
    check_equal(len(growth), 1, f"alarms: {text}")
    check_equal(growth[0]["function"], "Unsafe_AllocateMemory0, libjvm.so", text)
    check(growth[0]["advice"].startswith("Objects of Java own this memory: a direct buffer"),
          growth[0]["advice"])
    check_equal(growth[0]["action"],
                f"jcmd {target.pid} GC.class_histogram, twice, some time apart", "what comes next")
    check(not re.search(r"0x[0-9a-f]{6}", labelled(text, 1, "who")),
          f"an address of code without a name: {text}")


PYTHON_KEEPS = """
import sys
kept = []
for round in range(5):
    kept.append([(number, str(number)) for number in range(60000)])
    print("look", flush=True)
    sys.stdin.readline()
"""


@test
def unseen_growth_that_marks_show():
    """With marks by hand, doctor tells growth of python's own memory; marks of a program that has
    hardly any memory of its own show none."""
    with runtime_dir() as directory, Target(["/usr/bin/python3", "-c", PYTHON_KEEPS], directory,
                                            MEMCTX_CONTROL="eager") as target:
        found = found_at(target, 4)["findings"]
        growth = [one for one in found if one["id"] == "growth-not-malloc"]
        check(len(growth) == 1 and 20 << 20 < growth[0]["bytes"] < 60 << 20, f"{growth}")
    with started("registry") as target:
        ids = [one["id"] for one in found_at(target, 4)["findings"]]
        check("growth-not-malloc" not in ids, f"{ids}")
