# SPDX-License-Identifier: MIT
"""memctx agent: mistakes in its configuration file, parts that end or hang, reload, the agent's
end, the systemd unit."""
import contextlib
import glob
import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

import harness
from harness import PATIENCE_S, ROOT, Skip, check, check_equal, clean_env, run_cli, test, wait_until
from pushes import sink
from serving import free_port, served


@contextlib.contextmanager
def file_of(text):
    with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
        path = os.path.join(where, "agent.toml")
        write(path, text)
        yield path


def write(path, text):
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def checked(path, *words):
    return run_cli("agent", "--config", path, "--check", *words)


def check_help():
    """Checks that the help lists each key of each table of the configuration file (match needs it
    once)."""
    told = run_cli("agent", "--help").stdout
    with open(os.path.join(ROOT, "tools/memctx/agent/config.c"), encoding="utf-8") as file:
        keys = re.findall(r'\{PART_(\w+), "([\w-]+)"', file.read())
    check(len(keys) > 20, keys)
    for part, key in keys:
        listed = told.split(f"\n  [{part.lower()}] ")[1].split("\n  [")[0].split("\n\n")[0]
        check(key == "match" or re.search(rf"(?<![\w-]){key}(?![\w-])", listed),
              f"[{part}] {key} is not in the help: {listed}")


@test
def the_file_is_read_strictly():
    check_help()
    serve = '[serve]\nlisten = "127.0.0.1:0"\n'
    two = 2 * '[[push]]\npushgateway = "http://x"\nlabels = ["c=d", "{}"]\n'
    for text, line, message in (
            (serve + "lisen = 1", 3, 'has no key "lisen"; did you mean listen?'),
            ("[sevre]", 1, "did you mean [serve]?"),
            ("a = 1\n[serve]", 1, '"a" stands before the first table'),
            ("# nothing\n", 1, "nothing to do"), ("", 1, "nothing to do"),
            (serve + "[serve]", 3, '"serve" has two tables; put their keys into one'),
            ("[[serve]]", 1, "one pair of brackets"),
            ("[push]\n[[push]]", 2, "in one place"), (serve + 'listen = ""', 3, "stands twice"),
            ("[serve", 1, "head of a table"),
            ("[serve]]", 1, "stands behind"), ("[serve] x", 1, "stands behind"),
            ("[]", 1, "head of a table"),
            ("[serve]\nlisten", 2, "a = is missing"), ("[serve]\nlisten =", 2, "has no value"),
            ("[serve]\na.b = 1", 2, "dotted keys"),
            ('[serve]\n"listen" = ""', 2, "a line is KEY = VALUE"),
            ("[serve]\nlisten = x", 2, "no whole number"),
            ("[watch]\nkeep = 1.5", 2, "no whole number"),
            ("[watch]\nkeep = 01", 2, "begin with 0"), ("[watch]\nkeep = -", 2, "has digits"),
            ("[watch]\nkeep = 1_", 2, "no whole number"),
            ("[watch]\nkeep = " + 19 * "9", 2, "too large"),
            ("[watch]\nkeep = " + 60 * "9", 2, "too large"),
            ('[serve]\nlisten = "x', 2, "does not end"),
            ("[serve]\nlisten = 'x\n'", 2, "does not end"),
            ('[serve]\nlisten = "\\x"', 2, "no such escape"),
            ('[serve]\nlisten = "\\ud800"', 2, "no such escape"),
            ('[serve]\nlisten = "\\u00"', 2, "no such escape"),
            ('[serve]\nlisten = "\\', 2, "no such escape"),
            ('[serve]\nlisten = """x"""', 2, "several lines"),
            ("[serve]\nlisten = {}", 2, "inline tables"),
            ('[watch]\nwhen = ["ends"\n"x"]', 3, "a , or ]"),
            ('[watch]\nwhen = ["ends",\n1]', 3, "strings only"),
            ("[watch]\nwhen = [\n", 3, "does not end"),
            (b"[serve]\n# \xff", 2, "not UTF-8"), (b"[serve]\n# \x01", 2, "control character"),
            (b"[serve]\n\0", 1, "value 0"),
            (b"[serve]\rlisten", 1, "control character"),
            ('[serve]\nlisten = ["x"]', 2, "listen takes a string"),
            ("[watch]\nwhen = true", 2, "when takes a string or an array"),
            ('[push]\njson = "yes"', 2, "json takes true or false"),
            ('[agent]\nmemory = "1M"\n' + serve, 2, "at least 16M"),
            ('[agent]\nmemory = "9999999999G"\n' + serve, 2, "memory takes"),
            (17 * "[[push]]\n", 17, "more than 16 parts"),
            (two.format("a=b", "a=b"), 4,
             "[push] has the pushgateway and labels of the table in line 1"),
            # Messages of the verbs about wrong values.
            ('[serve]\n\nlisten = "0.0.0.0:1"', 1, "can be reached from other machines"),
            ('[serve]\nkey = "x"', 2, "--cert and --key"),
            ('[watch]\nwhen = "rss"', 2, "--when: "),
            ('[watch]\nkeep = 0\nwhen = "rss>1"', 2, "--keep takes"),
            ("[watch]", 1, "needs a condition"),
            ('[watch]\nwhen = "rss>1"\ndir = "/none"', 3, "/none"),
            ("[push]", 1, "needs the server"), ('[push]\notlp = "x"', 2, "--otlp takes a URL"),
            ('[push]\notlp = "https://x"\nca-file = "/0"', 3, "--ca-file: cannot read /0"),
            ('[push]\notlp = "https://x"\nkey = "x"', 3, "--cert and --key"),
            ('[push]\notlp = "http://x"\nlabels = ["a"]', 3, "--label takes NAME=VALUE"),
            ('[push]\notlp = "http://x"\nevery = "1x"', 3, "--every takes")):
        with file_of(text) as path:
            done = checked(path)
            want = 1 if "/none" in message else 2
            check(done.returncode == want and done.stderr.startswith(f"memctx: {path}:{line}: ") and
                  message in done.stderr,
                  f"{text!r}: exit code {done.returncode}, {done.stderr!r}")
    with file_of(two.format("a=b", "a=x")) as path:
        check_equal(checked(path).returncode, 0, "two tables with labels that differ")
    with file_of("#" + 65536 * "x") as path:
        check("more than 65536 bytes" in checked(path).stderr, "a large file")
        done = checked(path + "x")
        check(done.returncode == 2 and
              re.search("cannot read .*; name the file with --config FILE$", done.stderr),
              done.stderr)
        os.mkfifo(path + ".fifo")  # nobody writes into it
        for no_file in (path + ".fifo", "/dev/zero", os.path.dirname(path)):
            done = checked(no_file)
            check_equal((done.returncode, done.stderr.strip()),
                        (2, f"memctx: {no_file} is no regular file; name the file of settings with "
                         "--config FILE"), "no regular file")
        os.remove(path + ".fifo")
        done = run_cli("agent", "--config", path, "served")
        check(done.returncode == 2 and "takes no TARGET" in done.stderr, done.stderr)


@test
def a_warning_of_a_part_is_not_its_mistake():
    with file_of("") as path:
        token = path + ".token"
        write(path, f'[serve]\nlisten = "127.0.0.1:0"\ntoken-file = "{token}"\n')
        for text, code in (("short\n", 2), ("0123456789abcdef\n", 0)):
            write(token, text)
            os.chmod(token, 0o644)
            done = checked(path)
            lines = done.stderr.splitlines()
            check_equal((done.returncode, lines[0]),
                        (code, f"memctx: {path}:3: [serve] --token-file: other users may "
                         f"read {token}; chmod 600 {token}"), done.stderr)
            check_equal([line.split(" of ")[0] for line in lines[1:]],
                        [f"memctx: {path}:3: [serve] --token-file: the first line"] if code else [],
                        done.stderr)


@test
def the_file_becomes_command_lines():
    text = ("# c\r\n\r\n[ agent ] # c\n  match='a*b'\n[push]\nevery = 6_0\njson = true\notlp = "
            "\"http://x/\\u00e9\" # \"\n"
            "labels = [ 'a=\\n', # one\n\n\t\"b=\\\"c d\",]\n[[watch]]\nwhen = 'rss>1G'\nmatch = "
            "\"other\"\njson = false\n"
            "do = 'exec:it'\n[[watch]]\nwhen = []\n[serve]\nlisten = \"unix:/x\"")
    with file_of(text) as path:
        done = checked(path)
        check(done.returncode == 2 and ":18: [watch] watch needs" in done.stderr, done.stderr)
        write(path, text.replace("[[watch]]\nwhen = []\n", ""))
        done = checked(path, "--json")
        check_equal(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        check_equal((found["schema"], found["file"], found["memory_bytes"]),
                    ("memctx-agent/1", path, 256 << 20), "head")
        check_equal({one["name"]: one["words"] for one in found["parts"]}, {
            "push": ["push", "--every", "60", "--json", "--otlp", "http://x/\u00e9", "--label",
                     "a=\\n", "--label", 'b="c d',
                     "--match", "a*b"],
            "watch": ["watch", "--when", "rss>1G", "--do", "exec:it", "--match", "other"],
            "serve": ["serve", "--listen", "unix:/x", "--match", "a*b"]}, "words")
        lines = checked(path).stdout.splitlines()
        check_equal(lines[1], "watch: memctx watch --when 'rss>1G' --do exec:it --match other",
                    "a command line")


class Agent:
    """Runs memctx agent --json. Its caller ignores SIGCHLD, as some do that start services."""

    def __init__(self, path, runtime):
        self.process = subprocess.Popen([harness.CLI, "agent", "--config", path, "--json"],
                                        stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env=clean_env(XDG_RUNTIME_DIR=runtime),
                                        preexec_fn=lambda:
                                        signal.signal(signal.SIGCHLD, signal.SIG_IGN),
                                        start_new_session=True)
        self.seen, self.lines = [], queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(timeout=5)

    def hear(self, event, part=None, timeout_s=PATIENCE_S):
        """Waits for the next event of that name, and of that part if given. Other lines are kept in
        `seen`."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            line = ""
            with contextlib.suppress(queue.Empty):
                line = self.lines.get(timeout=max(end - time.monotonic(), 0))
            self.seen.append(line)
            if not line:
                break
            if '"memctx-agent/1"' not in line:
                continue
            found = json.loads(line)
            if (found["event"], found["part"]) == (event, part):
                return found
        raise harness.Failure(f"no event {event} of {part}: {self.seen}")


def metrics(port):
    """What memctx serve tells at this port; empty if nobody answers."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                                              timeout=10) as answer:
        return answer.read().decode()
    return ""


def data_limit(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        return re.search(r"^Max data size +(\w+)", file.read(), re.M)[1]


def start_of(pid):
    """The start time of process `pid`; None: it has ended. (A later process may have the same
    pid.)"""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rsplit(")", 1)[1].split()
        return None if words[0] == "Z" else words[19]
    return None


def runs(pid):
    return start_of(pid) is not None


@test
def three_parts_run_and_are_started_again():
    name, ports = f"agent{os.getpid()}", (free_port(), free_port())
    with served(name=name) as target, sink() as (url, got), file_of("") as path:
        where = os.path.dirname(path)
        text = (f'[agent]\nmatch = "{name}"\nmemory = "128M"\n[serve]\nlisten = '
                f'"127.0.0.1:{ports[0]}"\n[watch]\nwhen = "rss>1"\n'
                f'do = ["snapshot", "exec:grep data /proc/self/limits >{where}/limits"]\ndir = '
                f'"{where}"\n[push]\nparca = "{url}"\nevery = "100ms"\n')
        write(path, text)
        with Agent(path, target.runtime) as agent:
            pids = {part: agent.hear("started", part)["pid"] for part in ("serve", "watch", "push")}
            wait_until(lambda: {data_limit(pid) for pid in pids.values()} == {str(128 << 20)},
                       "limits of memory")
            wait_until(lambda: f'memctx_up{{program="{name}",process="1"}} 1' in metrics(ports[0]),
                       "the metrics")
            wait_until(lambda: any(one.endswith(".mctx") for one in os.listdir(where)),
                       "the snapshot")
            wait_until(lambda: os.path.exists(f"{where}/limits") and
                       os.path.getsize(f"{where}/limits"), "the command")
            with open(f"{where}/limits", encoding="ascii") as file:
                limits = file.read().split()
            check(limits[3] == limits[4] != str(128 << 20),
                  f"the command has the agent's limit: {limits}")
            wait_until(lambda: got, "a profile")
            os.kill(pids["serve"], signal.SIGKILL)
            check("was ended by signal 9" in agent.hear("failed", "serve")["text"], "how it ended")
            pids["serve"] = agent.hear("started", "serve")["pid"]
            wait_until(lambda: "memctx_up" in metrics(ports[0]),
                       "the metrics after the end of the part")
            # A reload of a file with a mistake changes nothing.
            write(path, text + "evry = 1\n")
            agent.process.send_signal(signal.SIGHUP)
            agent.hear("refused")
            old = {pid: start_of(pid) for pid in pids.values()}
            check(all(old.values()), "a part has ended")
            write(path, text.replace(str(ports[0]), str(ports[1])).split("[push]")[0])
            agent.process.send_signal(signal.SIGHUP)
            agent.hear("reload")
            again = {part: agent.hear("started", part)["pid"] for part in ("serve", "watch")}
            wait_until(lambda: "memctx_up" in metrics(ports[1]), "the metrics at the new address")
            wait_until(lambda: all(start_of(pid) != start for pid, start in old.items()),
                       "the end of the old parts")
            wait_until(lambda: not metrics(ports[0]), "the end of answers at the old address")
            agent.process.terminate()
            agent.hear("end")
            agent.process.wait(timeout=PATIENCE_S)
            errors = agent.process.stderr.read()
            check_equal(agent.process.returncode, 0, f"end ({errors})")
            check(not any(map(runs, again.values())), "a part runs after the end")
            check_equal(errors.count("\n"), 1, f"messages {errors}")
            check('has no key "evry"; did you mean every?' in errors, errors)


@test
def a_part_that_cannot_run_is_tried_at_growing_pauses():
    with socket.socket() as taken, served() as target:
        port = free_port()
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with file_of(f'[agent]\nmatch = "no-such-{os.getpid()}"\n[serve]\nlisten = '
                     f'"127.0.0.1:{port}"\n') as path, \
                Agent(path, target.runtime) as agent:
            check_equal([agent.hear("failed", "serve")["text"] for _ in range(2)],
                        ["ended with status 1; starts again in 1 s",
                         "ended with status 1; starts again in 2 s"], "pauses")
            taken.close()
            wait_until(lambda: "memctx_serve_processes 0" in metrics(port), "the server")


@test
def parts_end_with_the_agent():
    """The parts of an agent end even if SIGKILL ends the agent."""
    text = (f'[agent]\nmatch = "no-such-{os.getpid()}"\n[serve]\nlisten = "127.0.0.1:0"\n'
            '[push]\nparca = "http://127.0.0.1:1"\n')
    with served() as target, file_of(text) as path, Agent(path, target.runtime) as agent:
        pids = [agent.hear("started", part)["pid"] for part in ("serve", "push")]
        agent.process.kill()
        try:
            wait_until(lambda: not any(map(runs, pids)), "the end of the parts")
        finally:
            for pid in filter(runs, pids):
                os.kill(pid, signal.SIGKILL)


@test
def a_part_that_hangs_is_killed():
    """A part that does not end after SIGTERM is killed after 10 s, and the agent ends."""
    with served() as target, file_of(f'[agent]\nmatch = "no-such-{os.getpid()}"\n[serve]\n'
                                     'listen = "127.0.0.1:0"\n') as path, \
            Agent(path, target.runtime) as agent:
        pid = agent.hear("started", "serve")["pid"]
        # SIGTERM ends even a stopped process, as long as the process neither blocks nor handles it.
        wait_until(lambda: any(int(harness.read_status(pid, field), 16) >> signal.SIGTERM - 1 & 1
                               for field in ("SigBlk", "SigCgt")), "a part that takes SIGTERM")
        os.kill(pid, signal.SIGSTOP)
        agent.process.terminate()
        agent.hear("killed")
        check_equal(agent.hear("ended", "serve")["text"], "was ended by signal 9 (Killed)",
                    "how the part ended")
        agent.hear("end")
        check_equal(agent.process.wait(PATIENCE_S), 0, "status")


@test
def control_c_ends_push_by_one_signal():
    """The terminal signals the agent's whole process group. The part gets the agent's SIGTERM only,
    so it still removes its group from the Pushgateway."""
    with served(name=f"agent{os.getpid()}") as target, sink(slow_s=0.3) as (url, got), \
            file_of(f'[agent]\nmatch = "agent{os.getpid()}"\n'
                    f'[push]\npushgateway = "{url}"\n') as path, \
            Agent(path, target.runtime) as agent:
        wait_until(lambda: got, "the metrics")
        os.killpg(agent.process.pid, signal.SIGINT)
        agent.hear("end")
        check_equal([one[0] for one in got], ["PUT", "DELETE"], "requests")
        check("sent 2, retried 0, dropped 0, failed 0\n" in agent.seen,
              f"sums of push: {agent.seen}")


@test
def the_unit_and_the_example_are_valid():
    with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
        with open(f"{ROOT}/examples/agent/agent.toml", encoding="utf-8") as file:
            text = file.read().replace("/var/lib/memctx", where)
        path = os.path.join(where, "agent.toml")
        # The example file as it is, and with all commented-out keys except the token.
        more = re.sub(r'^# (?=\[\[push|otlp|labels|every|match)', "", text, flags=re.M)
        for one, parts in ((text, ["serve", "watch"]), (more, ["serve", "watch", "push"])):
            write(path, one)
            done = checked(path, "--json")
            check_equal((done.returncode, done.stderr), (0, ""), "the example")
            check_equal([part["name"] for part in json.loads(done.stdout)["parts"]], parts, "parts")
        if not shutil.which("systemd-analyze"):
            raise Skip("systemd-analyze is not installed; the example was checked")
        os.makedirs(f"{where}/bin")
        os.symlink(harness.CLI, f"{where}/bin/memctx")
        with open(f"{ROOT}/scripts/memctx-agent.service.in", encoding="utf-8") as file:
            # Drops the line Documentation=, because systemd-analyze looks for the manual page here.
            unit = re.sub("^Documentation=.*\n", "", file.read().replace("@PREFIX@", where),
                          flags=re.M)
        check("\nKillMode=mixed\n" in unit, "systemd would signal the parts besides the agent")
        write(f"{where}/memctx-agent.service", unit)
        done = subprocess.run(["systemd-analyze", "verify", "--man=no",
                               f"{where}/memctx-agent.service"], capture_output=True,
                              text=True, timeout=60, check=False)
        ours = [line for line in done.stderr.splitlines() if "memctx-agent" in line]
        check_equal((done.returncode, ours), (0, []), f"systemd-analyze ({done.stderr})")


def unit_keys():
    """The keys of the unit: {key: [words of its value]}."""
    with open(f"{ROOT}/scripts/memctx-agent.service.in", encoding="utf-8") as file:
        found = re.findall("^([A-Z][A-Za-z]*)=(.*)$", file.read(), re.M)
    keys = {key: value.split() for key, value in found}
    check_equal(len(keys), len(found), "keys of the unit")
    return keys


def bytes_of(text):
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]


@test
def the_unit_fits_the_agent_and_its_example():
    """The unit waits for the file that the agent reads, starts the agent again unless that file has
    a mistake, gives it the directory of the example, and lets it open the sockets that it needs."""
    unit = unit_keys()
    check_equal(unit["ExecStart"], ["@PREFIX@/bin/memctx", "agent"], "the command")
    path, = unit["ConditionPathExists"]
    done = run_cli("agent", "--config", "/none", "--check")
    check_equal([str(done.returncode)], unit["RestartPreventExitStatus"], "status of a bad file")
    check(path in run_cli("agent", "--help").stdout, f"the agent does not read {path}")
    check_equal((unit["Restart"], unit["KillMode"]), (["on-failure"], ["mixed"]), "its end")
    check_equal(unit["ExecReload"][-3:], ["/bin/kill", "-HUP", "$MAINPID"], "the reload")
    with open(f"{ROOT}/examples/agent/agent.toml", encoding="utf-8") as file:
        example = file.read()
    directory = re.search('^dir = "(.*)"$', example, re.M).group(1)
    check_equal((["/var/lib/" + unit["StateDirectory"][0]], unit["ProtectSystem"],
                 unit["ProtectHome"]), ([directory], ["strict"], ["read-only"]),
                "the directory that the agent may write to")
    check_equal(unit["WorkingDirectory"], [directory], "the working directory")
    memory = re.search('^memory = "(.*?)"', example, re.M).group(1)
    high, most = unit["MemoryHigh"][0], unit["MemoryMax"][0]
    check(bytes_of(memory) < bytes_of(high) < bytes_of(most),
          f"one process may have {memory}, all together {high} to {most}")
    check({"AF_UNIX", "AF_INET", "AF_INET6"} <= set(unit["RestrictAddressFamilies"]),
          "the agent cannot reach programs, or clients cannot reach the agent")
    # tests/serve/manifests.py shows that these capabilities are enough and needed.
    with open(f"{ROOT}/examples/kubernetes/agent.yaml", encoding="utf-8") as file:
        added = re.search(r"^ *add: \[(.*)\]$", file.read(), re.M).group(1)
    check_equal(sorted(unit["CapabilityBoundingSet"]),
                sorted("CAP_" + word.strip('" ') for word in added.split(",")), "capabilities")


@test
def the_printed_start_works():
    """The commands of docs/agent.md, up to the check, succeed on a machine that has no directory of
    memctx yet."""
    with open(f"{ROOT}/docs/agent.md", encoding="utf-8") as file:
        lines = re.search(r"```\nmake install PREFIX=/usr .*?\n(.*?)\nsystemctl ", file.read(),
                          re.S).group(1).splitlines()
    check_equal(lines[-1].split("#")[0].split(), ["memctx", "agent", "--check"], "the last command")
    with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
        os.makedirs(f"{where}/usr/share/doc/memctx")
        with open(f"{ROOT}/examples/agent/agent.toml", encoding="utf-8") as file:
            write(f"{where}/usr/share/doc/memctx/agent.toml",
                  file.read().replace("/var/lib/", f"{where}/var/lib/"))
        for line in lines[:-1]:
            command = re.sub("/(usr|etc|var)/", lambda found: where + found.group(), line)
            done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60,
                                  check=False)
            check_equal((done.returncode, done.stderr), (0, ""), command)
        done = checked(f"{where}/etc/memctx/agent.toml")
        check_equal((done.returncode, done.stderr), (0, ""), "memctx agent --check")


@test
def no_other_unit_has_the_directory_of_the_agent():
    """systemd gives the files in a StateDirectory to the unit's user."""
    with open(f"{ROOT}/scripts/memctx-agent.service.in", encoding="utf-8") as file:
        ours = re.search("^StateDirectory=(.*)$", file.read(), re.M).group(1)
    units = []
    for page in glob.glob(f"{ROOT}/docs/*.md"):
        with open(page, encoding="utf-8") as file:
            units += re.findall("^StateDirectory=(.*)$", file.read(), re.M)
    check(units, "no page has a unit")
    check(ours not in units, f"a page gives the snapshots in /var/lib/{ours} to another user")
