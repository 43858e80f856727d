# SPDX-License-Identifier: MIT
"""The socket: its directory, the users that may connect, stale sockets."""
import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import time

import harness
from harness import NOBODY, PATIENCE_S, Skip, check, check_equal, check_sums, runtime_dir, test
from hostile import attacked, start_target
from wire import Wire

OTHER_UID = 1  # the user "daemon", who is neither root nor the target's user nobody


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root to become other users")


def as_user(uid, argv, env, timeout_s=PATIENCE_S):
    return harness.run_program([harness.public_copy(argv[0]), *argv[1:]], env, timeout_s, uid=uid)


def target_argv(*words):
    return [harness.build_program("tests/control/control_target.c"), *words]


@test
def permissions():
    with runtime_dir() as directory, start_target(directory) as target:
        path = target.wait_socket()
        parent = os.lstat(os.path.dirname(path))
        mine = os.lstat(path)
        check(stat.S_ISDIR(parent.st_mode) and stat.S_ISSOCK(mine.st_mode), "types of the files")
        check_equal(stat.S_IMODE(parent.st_mode), 0o1700, "mode of the directory")
        check_equal(stat.S_IMODE(mine.st_mode), 0o600, "mode of the socket")
        check_equal((parent.st_uid, mine.st_uid), (os.geteuid(),) * 2, "owners")
        check_equal(os.listdir(os.path.dirname(path)), [f"{target.pid}.sock"],
                    "what else lies in the directory")


@test
def the_runtime_directory_is_left_empty():
    """A program may remove its runtime directory when it ends, as dbus-daemon's tests do. So the
    last process removes the directory of sockets. A process that starts at that moment gets a
    socket."""
    with runtime_dir() as directory:
        folder = os.path.join(directory, "memctx")
        with start_target(directory) as target:
            target.wait_socket()
            with start_target(directory) as other:
                other.wait_socket()
                check_equal(other.finish()[0], 0, "exit status of the other process")
            target.dump()  # the directory stays while a process has a socket there
            check_equal(target.finish()[0], 0, "exit status")
        check_equal(os.listdir(directory), [], "what is left in the runtime directory")
        env = harness.preloaded_env(XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="eager")
        for _ in range(10):
            short = [subprocess.Popen(target_argv(), env=env, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL) for _ in range(4)]
            with start_target(directory) as target:
                target.wait_socket()
                check_equal([one.wait(PATIENCE_S) for one in short], [0] * 4, "exit statuses")
                target.dump()
                target.finish()
        check_equal(os.path.exists(folder) and os.listdir(folder), False, "directory of sockets")


@test
def a_directory_of_the_user_stays():
    """The last process does not remove a directory of sockets that the library did not make."""
    with runtime_dir() as directory:
        os.mkdir(os.path.join(directory, "memctx"), 0o700)
        with start_target(directory) as target:
            target.wait_socket()
            check_equal(target.finish()[0], 0, "exit status")
        check_equal(os.listdir(directory), ["memctx"], "what is left in the runtime directory")


@test
def permissions_under_odd_umask():
    for mask in (0o000, 0o077, 0o777):
        with runtime_dir() as directory:
            old = os.umask(mask)
            try:
                target = start_target(directory)
            finally:
                os.umask(old)
            with target:
                path = target.wait_socket()
                modes = [stat.S_IMODE(os.lstat(name).st_mode) for name in
                         (os.path.dirname(path), path)]
                check_equal(modes, [0o1700, 0o600], f"modes under umask {mask:03o}")
                with Wire(path) as client:
                    client.dump()


@test
def other_uid_refused():
    """Another user cannot connect: the directory's mode forbids it, and if that was changed, the
    server refuses the client by SO_PEERCRED."""
    need_root()
    with runtime_dir(owner=NOBODY) as directory:
        program = target_argv()
        with harness.Target(program, directory, uid=NOBODY, MEMCTX_CONTROL="eager") as target:
            target.hear()
            path = target.wait_socket()
            connect = [harness.build_program("tests/control/control_client.c"), path]
            done = as_user(OTHER_UID, connect, harness.clean_env())
            check_equal(done.stdout, "denied\n", f"connecting as uid {OTHER_UID} ({done.stderr})")
            done = as_user(OTHER_UID, [harness.CLI, "dump", str(target.pid)], target.cli_env)
            check_equal(done.returncode, 4, f"exit status of dump as another uid ({done.stderr})")
            os.chmod(directory, 0o755)
            os.chmod(os.path.dirname(path), 0o755)
            os.chmod(path, 0o777)
            done = as_user(OTHER_UID, connect, harness.clean_env())
            check_equal(done.stdout, "got 0\n", f"bytes for uid {OTHER_UID} ({done.stderr})")
            done = as_user(OTHER_UID, [harness.CLI, "dump", str(target.pid)], target.cli_env)
            check_equal(done.returncode, 4, f"exit status, modes opened ({done.stderr})")
            check(done.stderr.strip(), "no message for the other uid")
            for uid in (NOBODY, 0):  # the owner and root may connect
                done = as_user(uid, connect, harness.clean_env())
                check(done.stdout.startswith("got ") and done.stdout != "got 0\n",
                      f"uid {uid}: {done.stdout} {done.stderr}")
            check_sums(target.dump())


@test
def root_reaches_a_process_in_a_user_namespace():
    """Root asks processes of user namespaces (containers) over their sockets: one as a user of the
    namespace, whose directory is named after the id there, and one as root of the namespace."""
    need_root()
    outer = 154000
    program = harness.build_program("tests/control/user_namespace.c")
    enter = [program, "0", str(outer), "0", "/bin/true"]
    if harness.run_program(enter, harness.clean_env()).returncode != 0:
        raise Skip("no user namespace can be made, or these ids cannot be mapped")
    without = ["setpriv", "--bounding-set", "-setuid", "--inh-caps", "-all", harness.CLI]
    for inner in (50000 + os.getpid() % 4000, 0):
        first = inner // 1000 * 1000
        argv = [program, str(first), str(outer), str(inner), "/bin/sleep", "600"]
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(runtime_dir(owner=outer))
            if inner:
                stack.callback(shutil.rmtree, f"/tmp/memctx-{inner}", ignore_errors=True)
            # /tmp/memctx-0 belongs to the machine's root
            target = stack.enter_context(
                harness.Target(argv, "" if inner else directory,
                               LD_PRELOAD=harness.public_copy(harness.LIB)))
            mark = ("mark", str(target.pid), "here")
            harness.wait_until(lambda: harness.run_cli(*mark, env=target.cli_env).returncode == 0,
                               f"an answer of user {inner}")
            done = harness.run_program([*without, *mark], target.cli_env)
            check(done.returncode == 3 and "SETUID" in done.stderr,
                  f"without the capability: {done.returncode} {done.stderr}")
            done = harness.run_program([*without, "dump", str(target.pid)], target.cli_env)
            check(done.returncode == 0 and "SETUID" in done.stdout + done.stderr,
                  f"reading without the capability: {done.returncode} {done.stderr} "
                  f"{done.stdout[:500]}")


@test
def a_user_finds_a_process_without_a_readable_map():
    """A process that has changed its user answers its user, also by its name; ps lists it."""
    need_root()
    program = harness.build_program("tests/control/undumpable.c")
    with runtime_dir(owner=NOBODY) as directory:
        with harness.Target([program], directory, uid=NOBODY, MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "what it says")
            target.wait_socket()
            for words in (("dump", str(target.pid)), ("dump", "undumpable"), ("ps",)):
                done = as_user(NOBODY, [harness.CLI, *words], target.cli_env)
                # ps also lists other processes of this user, which may not answer.
                silent = f"not asked: pid {target.pid} " if words == ("ps",) else "not asked"
                check(done.returncode == 0 and str(target.pid) in done.stdout and
                      silent not in done.stdout,
                      f"{words}: {done.returncode} {done.stdout} {done.stderr}")
            done = as_user(OTHER_UID, [harness.CLI, "ps"], target.cli_env)
            check(str(target.pid) not in done.stdout, f"ps of another user: {done.stdout}")


@test
def many_refused_uids_cost_nothing():
    """Sixty clients of another user, who reach the socket because its modes were opened, take no
    place from a client of the right user."""
    need_root()
    with runtime_dir() as directory, start_target(directory) as target:
        path = target.wait_socket()
        os.chmod(directory, 0o755)
        os.chmod(os.path.dirname(path), 0o755)
        os.chmod(path, 0o777)
        flood = [harness.build_program("tests/control/control_client.c"), path, "60"]
        done = as_user(OTHER_UID, flood, harness.clean_env(), 200)
        check_equal(done.stdout, "got 0\n", f"the flood ({done.stderr})")
        with Wire(path) as client:
            client.dump()


# --- the directory --------------------------------------------------------------------------


# A user id without an account, so the tests may spoil /tmp/memctx-UID, the last directory of the
# list.
LONELY_UID = 61234


def expect_no_socket(reason, spoil):
    """Checks that without a usable directory the program runs as without the library;
    MEMCTX_VERBOSE=1 prints one line with the reason. spoil(path) makes a directory unusable."""
    need_root()
    last = f"/tmp/memctx-{LONELY_UID}"
    remove_any(last)
    with runtime_dir(owner=LONELY_UID) as directory:
        try:
            for path in (os.path.join(directory, "memctx"), last):
                spoil(path)
            for verbose in ("0", "1"):
                run_without_socket(directory, reason, verbose)
            for path in (os.path.join(directory, "memctx"), last):
                if os.path.isdir(path):
                    check_equal(os.listdir(path), [], f"{reason}: what came to lie in {path}")
        finally:
            remove_any(last)


def run_without_socket(directory, reason, verbose):
    with harness.Target(target_argv(), directory, uid=LONELY_UID, MEMCTX_CONTROL="eager",
                        MEMCTX_VERBOSE=verbose) as target:
        check_equal(target.hear(), f"ready {target.pid}", f"{reason}: the target's line")
        said = ""
        if verbose == "1":  # wait for the line before the program is told to end
            said = target.process.stderr.readline().decode()
        else:
            time.sleep(0.3)
        done = harness.run_cli("mark", target.pid, env=target.cli_env)
        check_equal(done.returncode, 3, f"{reason}: exit status of mark ({done.stderr})")
        code, text = target.finish()
    check_equal(code, 0, f"{reason}: exit status")
    text = said + text
    lines = text.splitlines()
    if verbose == "0":
        check_equal(text, "", f"{reason}: stderr without MEMCTX_VERBOSE")
    else:
        check(len(lines) == 1 and lines[0].startswith("memctx: "),
              f"{reason}: stderr under MEMCTX_VERBOSE=1 is {text!r}, want one memctx: line")


def remove_any(path):
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)


@test
def directory_is_a_link():
    with runtime_dir(owner=LONELY_UID) as elsewhere:
        expect_no_socket("a link", lambda path: os.symlink(elsewhere, path))
        check_equal(os.listdir(elsewhere), [], "what came to lie behind the link")
        os.mkdir(os.path.join(elsewhere, "fit"), 0o700)
        os.chown(os.path.join(elsewhere, "fit"), LONELY_UID, LONELY_UID)
        expect_no_socket("a link to a fit directory",
                         lambda path: os.symlink(os.path.join(elsewhere, "fit"), path))


@test
def directory_is_foreign():
    def spoil(path):
        os.mkdir(path, 0o700)
        os.chown(path, NOBODY, NOBODY)
    expect_no_socket("a directory of another user", spoil)


@test
def directory_is_foreign_to_root():
    """Root's process does not use a directory of another user, because that user could remove the
    socket."""
    need_root()
    with runtime_dir() as directory:
        mine = os.path.join(directory, "memctx")
        os.mkdir(mine, 0o700)
        os.chown(mine, NOBODY, NOBODY)
        socket_appears(usual_place(), XDG_RUNTIME_DIR=directory)
        check_equal(os.listdir(mine), [], "what came to lie in the foreign directory")


@test
def directory_is_open():
    for mode in (0o777, 0o770, 0o1777, 0o755, 0o701):
        def spoil(path, mode=mode):
            os.mkdir(path)
            os.chown(path, LONELY_UID, LONELY_UID)
            os.chmod(path, mode)
        expect_no_socket(f"mode {mode:o}", spoil)


@test
def directory_is_a_file():
    def spoil(path):
        with open(path, "w", encoding="ascii") as file:
            file.write("not a directory")
    expect_no_socket("a file", spoil)


@test
def directory_not_writable():
    def spoil(path):
        os.mkdir(path, 0o500)
        os.chown(path, LONELY_UID, LONELY_UID)
        os.chmod(path, 0o500)
    expect_no_socket("no right to write", spoil)


@test
def spoiled_directory_is_passed_over():
    """If the first directory is unusable, the library uses the next, and the command finds the
    socket there."""
    last = f"/tmp/memctx-{LONELY_UID}"
    need_root()
    remove_any(last)
    with runtime_dir(owner=LONELY_UID) as directory:
        os.mkdir(os.path.join(directory, "memctx"))
        os.chmod(os.path.join(directory, "memctx"), 0o777)
        try:
            with harness.Target(target_argv(), directory, uid=LONELY_UID,
                                MEMCTX_CONTROL="eager") as target:
                target.hear()
                name = os.path.join(last, f"{target.pid}.sock")
                harness.wait_until(lambda: os.path.exists(name), f"socket {name}")
                check_sums(target.dump())
                target.finish()
            check_equal(os.listdir(os.path.join(directory, "memctx")), [], "in the unfit one")
        finally:
            remove_any(last)


@test
def path_too_long():
    """A directory is passed over if the socket's path would exceed 107 bytes; the path is never
    cut."""
    with runtime_dir() as directory:
        deep = os.path.join(directory, "d" * 100)
        os.mkdir(deep)
        socket_appears(usual_place(), XDG_RUNTIME_DIR=deep)
        left = [name for _, folders, names in os.walk(directory) for name in folders + names]
        check_equal(left, ["d" * 100], "what came to lie under a cut name")


def usual_place():
    """The socket's directory if XDG_RUNTIME_DIR is not set."""
    uid = os.geteuid()
    home = f"/run/user/{uid}"
    return f"{home}/memctx" if os.path.isdir(home) else f"/tmp/memctx-{uid}"


def socket_appears(path, **env):
    """Starts a target with this environment, and checks that its socket is in the directory
    `path`."""
    with runtime_dir() as directory:
        with harness.Target(target_argv(), directory, MEMCTX_CONTROL="eager", **env) as target:
            target.hear()
            name = os.path.join(path, f"{target.pid}.sock")
            harness.wait_until(lambda: os.path.exists(name), f"socket {name}")
            done = harness.run_cli("dump", "--json", target.pid,
                                   env=harness.clean_env(XDG_RUNTIME_DIR=env["XDG_RUNTIME_DIR"]))
            check_equal(done.returncode, 0, f"dump through {name} ({done.stderr})")
            target.finish()
            check(not os.path.exists(name), f"{name} is left behind")


@test
def runtime_dir_unset_or_odd():
    """Without a usable XDG_RUNTIME_DIR the socket is below /run/user/UID, or else
    /tmp/memctx-UID."""
    # by the XDG specification relative paths are ignored
    for value in (None, "", "relative/path", "."):
        socket_appears(usual_place(), XDG_RUNTIME_DIR=value)
    with runtime_dir() as directory:
        socket_appears(f"{directory}/memctx", XDG_RUNTIME_DIR=directory + "/")


# --- stale sockets --------------------------------------------------------------------------


@test
def stale_socket_swept():
    with runtime_dir() as directory:
        with start_target(directory) as live, start_target(directory) as dying:
            live.wait_socket()
            stale = dying.wait_socket()
            os.kill(dying.pid, signal.SIGKILL)
            dying.process.wait()
            check(os.path.exists(stale), "a killed program cannot have removed its socket")
            done = harness.run_cli("dump", dying.pid, env=live.cli_env)
            check_equal(done.returncode, 3, f"dump of a dead target ({done.stderr})")
            done = harness.run_cli("ps", env=live.cli_env)
            check_equal(done.returncode, 0, f"memctx ps ({done.stderr})")
            check(str(live.pid) in done.stdout, f"ps does not show {live.pid}: {done.stdout}")
            check(not os.path.exists(stale), "ps left the stale socket behind")
            check(os.path.exists(live.socket_path()), "ps removed a live socket")


@test
def new_processes_sweep():
    """Each new process removes the sockets of some processes that have ended without removing
    theirs, and no other file."""
    with runtime_dir() as directory, start_target(directory) as first:
        folder = os.path.dirname(first.wait_socket())
        beyond = (1 << 22) + 1  # no process has such a number
        listening = socket.socket(socket.AF_UNIX)  # as of a process of another pid namespace
        listening.bind(f"{folder}/{beyond}.sock")
        listening.listen()
        with open(f"{folder}/{beyond + 1}.sock", "w", encoding="ascii"):
            pass
        kept = {f"{beyond}.sock", f"{beyond + 1}.sock", "notes.sock", f"{first.pid}.sock"}
        stale_names = [f"{beyond + i}.sock" for i in range(2, 12)]
        # a process that executes another program while it makes its socket leaves such a name
        stale_names += [f".{beyond + i}.tmp" for i in range(12, 22)]
        for name in ["notes.sock"] + stale_names:
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(f"{folder}/{name}")
        with contextlib.ExitStack() as targets:
            for left in (12, 4, 0):
                target = targets.enter_context(start_target(directory))
                target.wait_socket()
                kept.add(f"{target.pid}.sock")
                harness.wait_until(lambda: len(set(os.listdir(folder)) - kept) <= left,
                                   f"at most {left} stale sockets")
                check_equal(len(set(os.listdir(folder)) - kept), left, "stale sockets that stay")
                check_equal(kept - set(os.listdir(folder)), set(), "files that were removed")
        listening.close()


@test
def killed_workers_leave_few_sockets():
    with runtime_dir() as directory:
        for _ in range(30):
            with start_target(directory) as worker:
                folder = os.path.dirname(worker.wait_socket())
                check_equal(worker.dump("--limit", "1")["pid"], worker.pid, "the pid")
                worker.kill()
        check(len(os.listdir(folder)) <= 1, f"{len(os.listdir(folder))} sockets are left")


@test
def removed_socket_is_made_again():
    """If the directory of the socket is removed, the process makes directory and socket again."""
    with runtime_dir() as directory, start_target(directory, MEMCTX_RULES="f=aset") as target:
        path = target.wait_socket()
        first = os.stat(path).st_ino
        os.rename(os.path.dirname(path), directory + "/removed")
        harness.wait_until(lambda: os.path.exists(path), "the socket again")
        check(os.stat(path).st_ino != first, "a new socket")
        check_equal(stat.S_IMODE(os.lstat(path).st_mode), 0o600, "mode of the socket")
        check_equal(target.dump()["pid"], target.pid, "pid in the dump")
        target.finish()
        check(not os.path.exists(path), "the program left its second socket behind")


@test
def full_disk_has_no_room_for_a_socket():
    """If the file system of the socket's directory has no room for another file, the process gets
    its socket when there is room."""
    with runtime_dir() as directory:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=8", "none", directory],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            raise Skip("no file system can be mounted here")
        try:
            os.mkdir(os.path.join(directory, "memctx"), 0o700)
            names = (os.path.join(directory, f"fill-{number}") for number in range(8))
            with contextlib.suppress(OSError):
                for name in names:
                    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
            with start_target(directory, MEMCTX_CONTROL="eager") as target:
                check(harness.library_thread(target.pid), "there is no control thread")
                check_equal(os.listdir(os.path.join(directory, "memctx")), [], "files at first")
                os.remove(os.path.join(directory, "fill-0"))
                os.remove(os.path.join(directory, "fill-1"))
                target.wait_socket()
                check_equal(target.dump()["pid"], target.pid, "pid in the dump")
        finally:
            subprocess.run(["umount", "-l", directory], check=True)


@test
def ps_leaves_other_files():
    with runtime_dir() as directory, start_target(directory) as target:
        folder = os.path.dirname(target.wait_socket())
        others = ["notes", "notes.sock", "12x.sock", ".sock", "-5.sock", "999999999999.sock"]
        for name in others:
            with open(os.path.join(folder, name), "w", encoding="ascii"):
                pass
        done = harness.run_cli("ps", env=target.cli_env)
        check_equal(done.returncode, 0, f"memctx ps ({done.stderr})")
        left = sorted(os.listdir(folder))
        for name in others[:5]:  # the last one looks like the socket of a process: ps may remove it
            check(name in left, f"ps removed {name}")


@test
def its_own_figures():
    """The library's statistics of sampled allocation times, and of paths that need a long walk, are
    consistent."""
    with attacked("contexts", "5000") as target:
        harness.wait_until(lambda: int(target.ask("ops").split()[1]) > 20000, "20 000 allocations")
        with Wire(target.socket_path()) as client:
            figures = client.statistics()
    kinds = [figures[f"malloc_{kind}_ns"] for kind in ("found", "searched", "walked")]
    known = [ns for ns in kinds if ns is not None]
    check(figures["malloc_timed"] > 100, f"{figures['malloc_timed']} samples")
    check(known and min(known) <= figures["malloc_ns"] <= max(known),
          f"the mean of {kinds} is {figures['malloc_ns']}")
    check(figures["malloc_walked_ns"] > 0, "a walk took no time")
    # Each of the 5 000 paths needs a long walk, because its outermost frames differ from the path
    # before.
    far = figures["paths_walked_far"]
    check(5000 <= far <= figures["paths_missed"], f"{far} of {figures['paths_missed']} walks far")
    near = 1000 * (figures["allocs"] - far) / figures["allocs"]
    check(abs(figures["paths_near_permille"] - near) <= 1,
          f"near: {figures['paths_near_permille']} instead of {near}")


@test
def no_directory_may_be_written():
    """In a container whose file system is read-only, or below ProtectSystem=strict, no directory
    for the socket can be made. The process is accounted all the same, and the command says why it
    has no socket."""
    need_root()
    bind = "".join(f"mount --bind {name} {name} && mount -o remount,bind,ro {name} && "
                   for name in ("/tmp", "/run"))
    argv = ["unshare", "--mount", "sh", "-c", bind + 'exec env -u XDG_RUNTIME_DIR "$@"', "sh",
            *target_argv("contexts", "300")]
    if harness.run_program([*argv[:4], bind + "true"], harness.clean_env()).returncode != 0:
        raise Skip("cannot mount here")
    with runtime_dir() as directory, harness.Target(argv, directory,
                                                    MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), f"ready {target.pid}", "the target's line")
        done = harness.run_cli("mark", target.pid, env=target.cli_env)
        check(done.returncode == 3 and "/tmp is on a read-only file system" in done.stderr,
              f"mark: {done.returncode} {done.stderr}")
        done = harness.run_cli("dump", target.pid, env=target.cli_env)
        check(done.returncode == 0 and "/tmp is on a read-only file system" in done.stdout,
              f"dump: {done.returncode} {done.stdout[:500]} {done.stderr}")
