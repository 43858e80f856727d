# SPDX-License-Identifier: MIT
"""Output of the command on a terminal: units, width, colour, and the name of the program."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios

import harness
from harness import Skip, Target, build_program, check, check_equal, clean_env, test
from clitest import CLI, scratch, succeed, target

EXACT = re.compile(r"\b\d{5,}\b")  # an exact number of bytes


def read_all(process, master, slave):
    """Returns what a process writes to a terminal. Closes `slave` only after the process has ended:
    if the last descriptor were closed while this function reads, the kernel could answer the read
    with EIO before it has handed over the last lines."""
    text = b""
    while process.poll() is None:
        if select.select([master], [], [], 0.01)[0]:
            text += os.read(master, 65536)
    os.close(slave)
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # EIO: nothing is left
            return text
        if not part:
            return text
        text += part


def on_terminal(*words, env=None, columns=80, code=0, warned="", **extra):
    """Runs the command on a terminal with `columns` columns; returns its output. Its standard error
    must have `warned`, or be empty if that is empty. (A line of ps does not count: ps also removes
    sockets that other programs of this machine left.)"""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {**(env or clean_env()), "TERM": "xterm", "PAGER": "cat", **extra}
    with subprocess.Popen([CLI, *map(str, words)], stdin=subprocess.DEVNULL, stdout=slave,
                          stderr=subprocess.PIPE, env=env) as process:
        text = read_all(process, master, slave)
        error = re.sub("memctx: removed .* stale sockets?\n", "", process.stderr.read().decode())
    os.close(master)
    check_equal(process.returncode, code, f"memctx {words}: {error}")
    check(warned in error and bool(warned) == bool(error), f"memctx {words}: {error}")
    return text.decode(errors="replace").replace("\r\n", "\n")


def plain(text):
    return re.sub(r"\033\[\d*m", "", text)


@test
def help_fits_a_terminal():
    """Help texts are broken anew on a narrow terminal; no word is lost. A pipe counts as 75 columns
    wide."""
    verbs = re.findall(r"^  ([a-z]+) +\S", succeed("--help"), re.M)
    check(len(verbs) > 20, f"verbs: {verbs}")
    for verb in verbs:
        text = succeed(verb, "--help")
        check_equal(on_terminal(verb, "--help", columns=75), text, f"{verb} on 75 columns")
        for columns in (60, 110):
            lines = on_terminal(verb, "--help", columns=columns).split("\n")
            check_equal(" ".join(lines).split(), text.split(), f"the words of {verb} --help")
            for line in lines:
                check(len(line) <= columns or " " not in line.strip(),
                      f"{verb}, {columns} columns: {line}")
            check_equal([line for line in lines if re.match(r"  -", line)][-1][:15],
                        "  -V, --version", f"the last option of {verb}")
    check(max(map(len, succeed("--help").split("\n"))) <= 80,
          "memctx --help is wider than 80 columns")
    narrow = on_terminal("--help", columns=60)
    check(narrow.split() == succeed("--help").split() and max(map(len, narrow.split("\n"))) <= 60,
          f"memctx --help on 60 columns: {narrow}")


@test
def units_on_a_terminal():
    """Sizes are in KiB and MiB on a terminal, else exact bytes. The last of --bytes and --human
    wins."""
    program = build_program("tests/cli/programs/allocate.c")
    with target([program]) as live:
        env = live.cli_env
        succeed("mark", live.pid, env=env)
        context = next(one["id"] for one in live.dump()["contexts"]
                       if one["self"]["live_chunks"] > 0)
        for words in (["dump", live.pid], ["dump", live.pid, "--flat"], ["frag", live.pid], ["ps"],
                      ["diff", live.pid],
                      ["trim", live.pid, context]):
            human = plain(on_terminal(*words, env=env))
            exact = plain(on_terminal(*words, "--human", "--bytes", env=env))
            check(re.search(r"\d [KM]iB", human), f"{words} on a terminal: {human}")
            check(not re.search(r"\d [KM]iB", exact.replace("pages of 4 KiB", "")),
                  f"{words} --bytes: {exact}")
            elsewhere = succeed(*words, env=env)
            check(not re.search(r"\d [KM]iB", elsewhere.replace("pages of 4 KiB", "")),
                  f"{words} elsewhere: {elsewhere}")
            asked = succeed(*words, "--bytes", "--human", env=env)
            check(re.search(r"\d [KM]iB", asked), f"{words} --human: {asked}")
        for words in (["dump"], ["diff"]):
            check(not EXACT.search(re.sub(r"pid \d+|0x[0-9a-f]+", "",
                                          plain(on_terminal(*words, live.pid, env=env)))),
                  f"{words}")


def progress_of(live, columns, term):
    """Returns what `memctx export --seconds` writes to a terminal for its standard error."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen([CLI, "export", str(live.pid), "--pprof", "/dev/null", "--seconds", "2"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave,
                          env={**live.cli_env, "TERM": term}) as process:
        text = read_all(process, master, slave)
    os.close(master)
    return text.decode()


@test
def progress_fits_a_line():
    """The line that tells what the command does is cut where the terminal ends. A terminal that is
    dumb, which cannot remove the line, gets none."""
    with target(["python3", "-c", "print('ready', flush=True); input()"]) as live:
        lines = set(progress_of(live, 20, "xterm").split("\r\033[K"))
        check("memctx: waiting, 1 " in lines, f"lines of progress: {lines}")
        check(all(len(line) < 20 for line in lines), f"lines of progress: {lines}")
        check_equal(progress_of(live, 20, "dumb"), "", "the output on a dumb terminal")


@test
def no_binary_on_a_terminal():
    with target([build_program("tests/cli/programs/allocate.c")]) as live:
        for name in ("-", "/dev/stdout"):
            for words, warned in ((["dump", live.pid, "-o"],
                                   "a packed snapshot is no text for a terminal"),
                                  (["export", live.pid, "--pprof"],
                                   "which a terminal cannot show")):
                check_equal(on_terminal(*words, name, env=live.cli_env, code=2, warned=warned), "",
                            f"{words} {name}")
        check(on_terminal("dump", live.pid, "--json", "-o", "-",
                          env=live.cli_env).startswith('{"schema"'), "JSON")


@test
def doctor_fits_the_terminal():
    """doctor breaks lines at the terminal's width, and colours only the severity."""
    program = harness.build_planted()
    with harness.runtime_dir() as runtime, Target([program, "survivors"], runtime,
                                                  MEMCTX_CONTROL="eager") as live:
        check_equal(live.hear(60), "look", "what the program says")
        live.wait_socket()
        counts = []
        for columns in (60, 80, 130):
            text = on_terminal("doctor", live.pid, env=live.cli_env, columns=columns)
            check_equal(re.findall(r"\033\[\d+m.*?\033\[0m", text), ["\033[31mcritical\033[0m"],
                        "what has a colour")
            lines = plain(text).splitlines()
            for line in lines:
                check(len(line) <= columns or re.match(r"   (now|next): +memctx ", line),
                      f"{columns} columns: {line}")
            check(max(map(len, lines)) > columns - 25,
                  f"lines for {columns} columns are short: {lines}")
            counts.append(len(lines))
        check(counts[0] > counts[1] > counts[2], f"lines: {counts}")
        check("\033" not in on_terminal("doctor", live.pid, env=live.cli_env, NO_COLOR="1"),
              "NO_COLOR")


@test
@harness.in_tries  # ps prints a line when it removes a socket that a process outside the test left
def ps_fits_the_terminal():
    """ps cuts commands at the terminal's width, and breaks the lines of reasons."""
    words = ["/usr/bin/python3", "-c", "print('ready', flush=True); input()", "ü" * 70]
    with target(words) as live, harness.runtime_dir() as runtime, \
            Target(words, runtime, MEMCTX_CONTROL="off") as silent, \
            Target(words, runtime, MEMCTX_CONTROL="off") as second:
        check_equal((silent.hear(60), second.hear(60)), ("ready", "ready"), "what the programs say")
        # removes sockets that other tests left, which prints a line
        succeed("ps", env=live.cli_env)
        for columns in (80, 200):
            text = on_terminal("ps", env=live.cli_env, columns=columns)
            lines = text.splitlines()
            check(all(len(line) <= columns for line in lines), f"{columns} columns: {text}")
            row = next(line for line in lines if re.match(rf" *{live.pid} ", line))
            check_equal("ü" in row, columns == 200, f"the command in {row!r}")
            check(re.search(rf"^ *{silent.pid} .*\n {{9}}read from outside; not asked: (.*\n "
                            rf"{{9}})*", text, re.M), text)
            check("MEMCTX_CONTROL=off" in text.replace("\n         ", " "), text)
            check(re.search(rf"^ *{second.pid} .*\n {{9}}read from outside; not asked: as for pid "
                            rf"{silent.pid}$", text, re.M), text)
        check(f"not asked: pid {second.pid} (" in succeed("ps", env=live.cli_env),
              "the whole reason elsewhere")
        check("ü" * 70 in succeed("ps", env=live.cli_env), "the whole command elsewhere")


@test
def program_is_named_as_started():
    """A program is named after the symbolic link or script that the user started, also in a
    snapshot."""
    program = build_program("tests/cli/programs/allocate.c")
    with scratch() as directory:
        link = os.path.join(directory, "shop-server")
        script = os.path.join(directory, "report-maker")
        os.symlink(program, link)
        with open(script, "w") as file:
            file.write("#!/usr/bin/python3\nimport sys\nprint('ready', flush=True)\n"
                       "sys.stdin.readline()\n")
        os.chmod(script, 0o755)
        for path in (link, script):
            name = os.path.basename(path)
            with target([path]) as live:
                snapshots = [os.path.join(directory, f"{name}.{kind}") for kind in ("mctx", "json")]
                succeed("dump", live.pid, "-o", snapshots[0], env=live.cli_env)
                succeed("dump", live.pid, "--json", "-o", snapshots[1], env=live.cli_env)
                for where in (live.pid, *snapshots):
                    for verb in ("dump", "frag", "doctor"):
                        text = succeed(verb, where, env=live.cli_env)
                        check(re.search(rf"^{name} \(pid {live.pid}\)", text, re.M),
                              f"{verb} {where}: {text[:300]}")
                    found = json.loads(succeed("doctor", "--json", where, env=live.cli_env))
                    check_equal(found["program"], name, f"doctor --json {where}")
                    check(os.path.basename(found["exe"]) != name, f"exe: {found['exe']}")


@test
def program_with_a_long_path_has_its_name():
    """A program whose path has more bytes than the command keeps of a command line is named by its
    file, also with an argument. A rule finds it by this name."""
    with scratch() as directory:
        folder = os.path.join(directory, "a" * 200, "b" * 200)
        os.makedirs(folder)
        program = os.path.join(folder, "shop-server")
        shutil.copy(build_program("tests/cli/programs/allocate.c"), program)
        with target([program, "argument"], MEMCTX_RULES="module:shop-server=slab") as live:
            modules = json.loads(succeed("dump", "--json", live.pid, env=live.cli_env))["modules"]
            check(program in [module["path"] for module in modules], f"modules: {modules}")
            rules = json.loads(succeed("rules", "--json", live.pid, env=live.cli_env))["rules"]
            check(rules[0]["contexts"] > 0, f"no path is placed: {rules}")
            for words in (["dump", live.pid], ["doctor", "shop-server"]):
                text = succeed(*words, env=live.cli_env)
                check(re.search(rf"^shop-server \(pid {live.pid}\)", text, re.M),
                      f"{words}: {text[:300]}")


@test
def redis_is_named_redis_server():
    """redis-server is named so, although Debian's is a link to redis-check-rdb and changes its
    arguments."""
    server = shutil.which("redis-server")
    if not server:
        raise Skip("redis-server is not installed")
    with harness.runtime_dir() as runtime:
        path = os.path.join(runtime, "redis.sock")
        with Target([server, "--port", "0", "--unixsocket", path, "--save", "", "--dir", runtime],
                    runtime, MEMCTX_CONTROL="eager") as live:
            harness.wait_until(lambda: os.path.exists(path), "redis-server's socket")
            live.wait_socket()
            text = succeed("doctor", live.pid, env=live.cli_env)
            check(re.search(r"^redis-server \(pid ", text, re.M), text)


# a function's full name, its short name in texts, and its name in the tables of who_tables.c
SHORT_NAMES = (
    ("operator new(unsigned long)", "operator new", "operator new"),
    ("void* operator new(unsigned long, std::align_val_t)", "operator new", "operator new"),
    ("session_open()", "session_open", "session_open"),
    ("foo::operator()(int) const", "foo::operator()", "foo::operator()"),
    ("std::function<void (int)>::operator()(int) const", "std::function<void (int)>::operator()",
     "std::function::operator()"),
    ("void (anonymous namespace)::f<int>(int)", "f<int>", "f"),
    ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()",
     "main::{lambda(int)#1}::operator()"),
    ("masked()::O::observe(int) [clone .cold]", "masked::O::observe", "masked::O::observe"),
    ("void A::f(int (*)(int)) const::{lambda(int)#1}::operator()(int) const",
     "A::f::{lambda(int)#1}::operator()", "A::f::{lambda(int)#1}::operator()"),
    ("f(", "f", "f"),
    ("f()::", "f::", "f::"),
    ("std::ostream& operator<<(std::ostream&, int)", "operator<<", "operator<<"),
    ("Foo::operator bool() const", "Foo::operator bool", "Foo::operator bool"),
    ("Foo::operator->()", "Foo::operator->", "Foo::operator->"),
    ("ns::Pool<Session>::get()", "ns::Pool<Session>::get", "ns::Pool::get"),
    ("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
     ">::_M_create(unsigned long&, unsigned long)",
     "std::basic_string<...>::_M_create", "std::basic_string::_M_create"),
    ("std::enable_if<std::is_same<int, int>::value, int>::type ns::h<int>(int)", "ns::h<int>",
     "ns::h"),
    ("decltype(auto) g<x>(y)", "g<x>", "g"),
    ("decltype (g({parm#1})) ns::f<int>(int)", "ns::f<int>", "ns::f"),
    ("decltype ((a)>(b))::type<c, d> ns::f<int>(int)", "ns::f<int>", "ns::f"),
    ("decltype_of(int)", "decltype_of", "decltype_of"),
    ("LazyCompile:~foo /a/b.js:1:2", "LazyCompile:~foo /a/b.js:1:2",
     "LazyCompile:~foo /a/b.js:1:2"),
    ("leak::foo::h0123456789abcdef", "leak::foo", "leak::foo"),
    ("<&dyn core::ops::Fn(u8) -> u8 as core::ops::FnOnce>::call",
     "<&dyn core::ops::Fn(u8) -> u8 as core::ops::FnOnce>::call",
     "<&dyn core::ops::Fn(u8) -> u8 as core::ops::FnOnce>::call"),
    ("f<g<h", "f<g<h", "f<g<h"),
    ("<", "<", "<"),
    ("", "?", "?"),
)


@test
def names_are_shortened():
    """Short names have no parameters and return types, and template arguments only if these are
    short."""
    tools = os.path.join(harness.ROOT, "tools/memctx")
    program = build_program("tests/cli/programs/short_names.c", "short_names",
                            ["-I" + tools, '-DMEMCTX_VERSION="test"',
                             "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                             os.path.join(tools, "model/shorten.c"),
                             os.path.join(tools, "base/cli.c"),
                             os.path.join(tools, "base/progress.c"),
                             os.path.join(tools, "base/help.c"),
                             os.path.join(tools, "base/quantity.c"),
                             os.path.join(tools, "base/terminal.c"),
                             os.path.join(tools, "base/nearest.c"),
                             os.path.join(tools, "base/json.c")])
    done = harness.run_program([program], clean_env(ASAN_OPTIONS="detect_leaks=0"),
                               stdin="".join(name + "\n" for name, _, _ in SHORT_NAMES))
    check_equal((done.returncode, done.stderr), (0, ""), "short_names")
    for (name, text, plain_name), line in zip(SHORT_NAMES, done.stdout.splitlines(), strict=True):
        check_equal(line.split("\t"), [text, plain_name], name)
