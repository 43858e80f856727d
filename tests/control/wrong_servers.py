# SPDX-License-Identifier: MIT
"""What the command says if behind a socket another process, another version or another protocol
answers, or if there is no such process."""
import contextlib
import os
import socket
import subprocess
import sys
import threading

import harness
import wire
from harness import Skip, check, check_equal, runtime_dir, test
from wire import constant, frame


# A fake server: binds the socket path of its own pid, and greets each client with the given bytes.
FAKE_SERVER = """
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(os.path.join(sys.argv[1], f"{os.getpid()}.sock"))
server.listen(5)
print(os.getpid(), flush=True)
answer = bytes.fromhex(sys.stdin.readline())
while True:
    client = server.accept()[0]
    client.settimeout(3)
    try:
        client.sendall(answer)
        client.recv(4096)
    except OSError:
        pass
    client.close()
"""


@contextlib.contextmanager
def sleeper():
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def hello(pid, ticks, **head):
    body = wire.struct_bytes("wire_hello", pid=pid, start_ticks=ticks,
                             library_version=b"0.0")
    return frame(constant("WIRE_HELLO"), body, **head)


def start_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return int(file.read().rsplit(")", 1)[1].split()[19])


def mark_of_fake(answer_for):
    """Runs `memctx mark` against a fake server that greets it with answer_for(pid). (`memctx dump`
    would read the process from outside.)"""
    with runtime_dir() as directory:
        folder = os.path.join(directory, "memctx")
        os.mkdir(folder, 0o700)
        argv = [sys.executable, "-c", FAKE_SERVER, folder]
        with harness.Target(argv, directory, MEMCTX_CONTROL="off") as server:
            pid = int(server.hear())
            server.say(answer_for(pid).hex())
            return harness.run_cli("mark", pid, env=server.cli_env)


@test
def foreign_listener_refused():
    """The command refuses a server that listens at the socket path of another process."""
    with runtime_dir() as directory:
        with harness.Target(["sleep", "60"], directory, MEMCTX_CONTROL="off") as victim:
            folder = os.path.join(directory, "memctx")
            os.mkdir(folder, 0o700)
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(os.path.join(folder, f"{victim.pid}.sock"))
                server.listen(5)

                def greet():  # ends when the server's socket is shut down
                    with contextlib.suppress(OSError):
                        while True:
                            with server.accept()[0] as client:
                                client.sendall(hello(victim.pid, start_ticks(victim.pid)))
                                client.recv(100)

                thread = threading.Thread(target=greet)
                thread.start()
                done = harness.run_cli("mark", victim.pid, env=victim.cli_env)
                server.shutdown(socket.SHUT_RDWR)
                thread.join()
            check_equal(done.returncode, 3, f"exit status ({done.stderr})")
            check(done.stderr.startswith("memctx: "), f"message: {done.stderr!r}")


@test
def reused_pid_recognised():
    """The command refuses an answer whose pid or start time is not that of the process."""
    for what, answer in {
            "start time": lambda pid: hello(pid, start_ticks(pid) - 500),
            "pid": lambda pid: hello(pid + 1, start_ticks(pid))}.items():
        done = mark_of_fake(answer)
        check_equal(done.returncode, 3, f"exit status, other {what} ({done.stderr})")
        check(done.stderr.startswith("memctx: "), f"message, other {what}: {done.stderr!r}")
        check_equal(done.stdout, "", f"output, other {what}")


@test
def process_in_a_time_namespace_answers():
    """A process in a time namespace, whose clock is ahead or behind, answers over its socket."""
    if os.geteuid() != 0 or not os.path.exists("/proc/self/timens_offsets"):
        raise Skip("needs root and time namespaces")
    if harness.run_program(["unshare", "--time", "--boottime", "1", "--fork", "/bin/true"],
                           harness.clean_env()).returncode != 0:
        raise Skip("unshare makes no time namespace")
    program = harness.build_program("tests/cli/programs/allocate.c")
    for offset in ("100000", "-1"):
        argv = ["unshare", "--time", "--boottime", offset, "--fork", "--kill-child", program]
        with runtime_dir() as directory, harness.Target(argv, directory,
                                                        MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "the program")
            with open(f"/proc/{target.pid}/task/{target.pid}/children", encoding="ascii") as file:
                pid = file.read().split()[0]
            target.wait_socket(pid)
            done = harness.run_cli("mark", pid, "here", env=target.cli_env)
            check_equal((done.returncode, done.stderr), (0, ""), f"mark, clock {offset} s ahead")


@test
def other_version_refused():
    done = mark_of_fake(lambda pid: hello(pid, start_ticks(pid), version=99))
    check_equal(done.returncode, 1, f"exit status ({done.stderr})")
    check("99" in done.stderr and "version" in done.stderr, f"message: {done.stderr!r}")


@test
def not_our_protocol():
    answers = (b"HTTP/1.0 400 Bad Request\r\n\r\n" + b"x" * 100, b"", b"\0" * 24, b"MCTX")
    # After some of them the command tries again for 5 s.
    for answer, done in zip(answers, harness.together(
            lambda answer: mark_of_fake(lambda pid: answer), answers)):
        check(done.returncode in (1, 3), f"exit status {done.returncode} for {answer[:10]!r}")
        check(done.stderr.startswith("memctx: "), f"message for {answer[:10]!r}: {done.stderr!r}")


@test
def oversize_answer_refused():
    """The command refuses an answer that announces an absurd length."""
    done = mark_of_fake(lambda pid: hello(pid, start_ticks(pid), length=1 << 62))
    check(done.returncode in (1, 3), f"exit status {done.returncode}")
    check(done.stderr.startswith("memctx: "), f"message: {done.stderr!r}")


@test
def no_such_target():
    with runtime_dir() as directory, sleeper() as pid:
        env = harness.clean_env(XDG_RUNTIME_DIR=directory)
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            nobody = int(file.read()) - 1
        for what, name in {"no such pid": nobody, "no library in it": pid,
                           "no such name": "no-process-has-this-name"}.items():
            done = harness.run_cli("dump", name, env=env)
            check_equal(done.returncode, 3, f"exit status: {what} ({done.stderr})")
            check(done.stderr.startswith("memctx: "), f"message: {what}: {done.stderr!r}")
