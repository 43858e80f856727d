# SPDX-License-Identifier: MIT
"""memctx run: programs that it starts or refuses, and the environment that it passes on."""
import json
import os
import re
import shutil
import signal
import subprocess

import harness
from clitest import CLI, LIB, cli, expect, scratch, succeed, tool
from harness import (NOBODY, Skip, build_program, check, check_equal, clean_env, test,
                     wait_until)


def run(*words, **options):
    return cli("run", *words, **options)


def write_script(path, text, mode=0o755):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


@test
def run_passes_status_and_output():
    done = run("--", "sh", "-c", "cat; echo out; echo err >&2; exit 37", stdin="in\n")
    check_equal((done.returncode, done.stdout, done.stderr), (37, "in\nout\n", "err\n"), "ending")
    check_equal(run("true").returncode, 0, "without --")
    check_equal(run("echo", "--json", "-h").stdout, "--json -h\n", "options of the program")


@test
def run_passes_signals():
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        with subprocess.Popen([CLI, "run", "--", "sleep", "100"], env=clean_env()) as process:
            wait_for_program(process.pid, "sleep")
            process.send_signal(number)
            check_equal(process.wait(timeout=60), -number, "ending")


def wait_for_program(pid, name):
    def started():
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            return file.read().strip() == name
    wait_until(started, f"{name} to run as pid {pid}")


@test
def run_sets_the_environment():
    env = clean_env(LD_PRELOAD="libc.so.6", MEMCTX_DEPTH="5")
    script = "echo $LD_PRELOAD $MEMCTX_RUN_PID $$ $MEMCTX_DEPTH $MEMCTX_VERIFY $MEMCTX_VERBOSE" \
             " $MEMCTX_NO_CHILDREN"
    done = run("--depth", "9", "--verify", "100", "--verbose", "--set", "decay_ms=7", "--", "sh",
               "-c", script, env=env)
    words = done.stdout.split()
    check_equal(words[0], f"{os.path.realpath(LIB)}:libc.so.6", "LD_PRELOAD")
    check_equal(words[1], words[2], "MEMCTX_RUN_PID and the program's pid")
    check_equal(words[3:], ["9", "100", "1"], "options")
    for shell in ("sh", "bash"):  # bash has functions getenv and setenv of its own
        done = run("--no-children", shell, "-c",
                   "env | grep -E 'libmemctx|NO_CHILDREN'; echo $LD_PRELOAD", env=env)
        check_equal(done.stdout, "libc.so.6\n", f"LD_PRELOAD of the children of {shell}")


@test
def run_warns_of_misspelled_variables():
    near = {"MEMCTX_DEPHT": "DEPTH", "MEMCTX_RULE": "RULES", "MEMCTX_mark": "MARKS",
            "MEMCTX_RECORDS": "RECORD", "MEMCTX_LIBARY": "LIBRARY"}
    others = ("MEMCTX_COLOUR_OF_THE_SKY", "MEMCTX_FILE", "MEMCTX_WHEN", "MEMCTX_DECAY_MS", "MEMCTX")
    done = run("true", env=clean_env(**dict.fromkeys([*near, *others], "1")))
    check_equal((done.returncode, sorted(done.stderr.splitlines())),
                (0, sorted(f"memctx: {name} is no variable that memctx reads; did you mean "
                           f"MEMCTX_{meant}?" for name, meant in near.items())), "warnings")


@test
def run_refuses_wrong_options():
    expect(2, "depth takes a value from 0 to 128; got \"129\"", "run", "--depth", "129", "true")
    expect(2, "depth takes a value from", "run", "--depth", "-1", "true")
    expect(2, "unknown option name \"speed\"", "run", "--set", "speed=1", "true")
    expect(2, "control takes off, auto, eager or always; got", "run", "--set", "control=maybe",
           "true")
    expect(2, "tables takes bytes from 65536 on, with K, M or G, or 1% to 50%; got", "run", "--set",
           "tables=51%", "true")
    expect(2, "name=value", "run", "--set", "depth", "true")
    expect(2, "unknown option", "run", "--nonsense", "true")
    check_equal(run("--set", "control=off", "true").returncode, 0, "a word of an enum")


@test
def verify_without_libunwind_is_told():
    with scratch() as where:
        with open(os.path.join(where, "libunwind.so.8"), "w", encoding="ascii"):
            pass
        for words, told in ((("--verify", "1"), True), ((), False)):
            done = run(*words, "true", env=clean_env(LD_LIBRARY_PATH=where))
            check_equal((done.returncode, "install libunwind8" in done.stderr), (0, told),
                        f"{words}: {done.stderr}")


@test
def run_program_not_found():
    expect(127, "no-such-program: no such program", "run", "no-such-program")
    expect(127, "no such program", "run", "./no-such-program")
    expect(127, "no such program", "run", "")
    expect(127, "no such program", "run", "/etc/passwd/x")
    with scratch() as where:
        for words, code, wrong in (([where, "--", "true"], 126, where),
                                   (["no-such-program", "true"], 127, "no-such-program")):
            expect(code, f"if that is the directory to record in, write --record={wrong}\n", "run",
                   "--record", *words)
    expect(127, "check the spelling and PATH\n", "run", "--record", "no-such-program")


@test
def run_not_executable():
    with scratch() as where:
        plain = write_script(os.path.join(where, "plain"), "echo hello\n", 0o644)
        expect(126, "cannot be executed; Permission denied", "run", plain)
        expect(126, "cannot be executed; Permission denied", "run", "plain",
               env=clean_env(PATH=where))
        expect(126, "cannot be executed; Is a directory; name a program in it\n", "run", where)


@test
def run_scripts():
    with scratch() as where:
        script = write_script(os.path.join(where, "script"), "#! /bin/sh -e\necho $0 $1\n")
        check_equal(run(script, "x").stdout, f"{script} x\n", "a script")
        second = write_script(os.path.join(where, "second"), f"#!{script}\n")
        check_equal(run(second).stdout, f"{script} {second}\n", "a script of a script")
        bare = write_script(os.path.join(where, "bare"), "echo bare $1\n")
        check_equal(run(bare, "x").stdout, "bare x\n", "a script without #!")
        found = run("script", "y", env=clean_env(PATH=where + ":" + os.environ["PATH"]))
        check_equal(found.stdout, f"{script} y\n", "a script in PATH")
        orphan = write_script(os.path.join(where, "orphan"), "#!/no/such/interpreter\n")
        expect(126, "its interpreter /no/such/interpreter cannot be executed", "run", orphan)


@test
def run_refuses_sanitizers():
    """memctx run refuses a program with a sanitizer, whose run-time library would abort under a
    preload."""
    for flag, name in (("address", "AddressSanitizer"), ("thread", "ThreadSanitizer")):
        program = build_program("tests/cli/programs/nothing.c", "nothing-" + flag,
                                ["-fsanitize=" + flag])
        expect(1, f"nothing-{flag} is built with {name}", "run", program)


@test
def another_malloc_is_told():
    """A program that exports its own malloc runs unchanged; with -v memctx run says that the
    library is unused."""
    program = build_program("tests/cli/programs/own_malloc.c", "own-malloc", ["-rdynamic"])
    for options, told in (((), False), (("-v",), True)):
        done = run(*options, program)
        check_equal((done.returncode, done.stdout), (0, "own 3\n"), "exit status and output")
        check_equal("malloc calls go to the program itself, not to memctx; " in done.stderr, told,
                    f"standard error with {options}: {done.stderr}")


@test
def malloc_as_a_value_is_ours():
    """If a non-PIE program takes the address of malloc, its calls and libc's still reach the
    library."""
    program = build_program("tests/cli/programs/plt_malloc.c", "plt-malloc",
                            ["-no-pie", "-fno-pie"])
    symbols = tool("readelf", "-W", "--dyn-syms", program)
    check(re.search(r" (?!0{16})[0-9a-f]{16} .* UND malloc", symbols),
          f"malloc has no address in the program: {symbols}")
    with harness.runtime_dir() as runtime, harness.Target([CLI, "run", "-v", program], runtime,
                                                          preload=False) as live:
        check_equal(live.hear(), "ready", "the program's line")
        live.wait_socket()
        figures = json.loads(succeed("dump", "--self", "--json", live.pid,
                                     env=live.cli_env))["figures"]
        check(figures["libc_names"] > 10,
              f"libc's functions lead elsewhere: {figures['libc_names']}")
        check(live.dump()["totals"]["requested_bytes"] >= 1100, "what was allocated")
        code, errors = live.finish()
    check_equal((code, "malloc calls go to" in errors), (0, False),
                f"the end, and standard error: {errors}")


@test
def run_refuses_static():
    program = build_program("tests/cli/programs/nothing.c", "nothing-static", ["-static"])
    expect(1, "statically linked: no library can be preloaded", "run", program)
    program = build_program("tests/cli/programs/nothing.c", "nothing-static-pie", ["-static-pie"])
    expect(1, "statically linked", "run", program)
    with scratch() as where:
        script = write_script(os.path.join(where, "script"), f"#!{program}\n")
        expect(1, "statically linked", "run", script)


@test
def loader_as_a_program():
    """The loader, started as a program, preloads as usual. The frames of the program that it loads
    have that program's name, and the control thread starts in a wait."""
    with open(os.path.realpath(CLI), "rb") as file:
        loader = re.search(rb"/lib64/ld-linux[^\0]+", file.read())[0].decode()
    done = run(loader, "--library-path", "/lib", "/bin/sh", "-c", "echo $0; exit 3", "word")
    check_equal((done.returncode, done.stdout, done.stderr), (3, "word\n", ""), "ending")
    with harness.runtime_dir() as runtime, harness.Target([loader, "/bin/sleep", "100"],
                                                          runtime) as live:
        live.wait_socket()
        modules = {os.path.basename(module["path"]) for module in live.dump()["modules"]}
        check("sleep" in modules, f"the program among the modules: {modules}")


@test
def run_refuses_setuid():
    """A set-user-ID bit matters if the caller is another user than the owner of the file."""
    with scratch() as where:
        copy = os.path.join(where, "copy")
        for mode, word in ((0o4755, "setuid"), (0o2755, "setgid"), (0o2745, None)):
            shutil.copy("/bin/cat", copy)
            os.chmod(copy, mode)
            check_preloaded(run(copy, "/proc/self/maps"))
            if os.getuid() == 0:
                os.chown(copy, NOBODY, NOBODY)
                os.chmod(copy, mode)
                if word:
                    expect(1, f"is a {word} program: the loader ignores LD_PRELOAD", "run", copy)
                    check_preloaded(run_without_privileges(copy, "/proc/self/maps"))
                else:  # not executable for the group: the bit changes no group
                    check_preloaded(run(copy, "/proc/self/maps"))
            os.unlink(copy)


def run_without_privileges(*words):
    """Runs `memctx run` where the kernel ignores the set-user-ID bit (no_new_privs)."""
    return subprocess.run(["setpriv", "--no-new-privs", CLI, "run", *words], env=clean_env(),
                          capture_output=True, text=True, timeout=60, check=False)


def check_preloaded(done):
    check_equal((done.returncode, "libmemctx.so" in done.stdout), (0, True),
                f"status, and whether the program is preloaded: {done.stderr}")


@test
def run_refuses_capabilities():
    """File capabilities matter if the caller is not root."""
    with scratch() as where:
        copy = os.path.join(where, "copy")
        shutil.copy("/bin/cat", copy)
        # The xattr that setcap writes: version 2, effective, CAP_NET_BIND_SERVICE.
        value = (0x02000001).to_bytes(4, "little") + (1 << 10).to_bytes(4, "little") + bytes(12)
        try:
            os.setxattr(copy, "security.capability", value)
        except OSError as error:
            raise Skip(f"no file capabilities here: {error}") from None
        check_preloaded(run(copy, "/proc/self/maps"))  # only root can set this xattr
        os.chmod(where, 0o755)
        done = subprocess.run(["setpriv", f"--reuid={NOBODY}", CLI, "run", copy], env=clean_env(),
                              capture_output=True, text=True, timeout=60, check=False)
        if "setpriv: failed to execute" in done.stderr:
            raise Skip("the build cannot be read by another user")
        check_equal(done.returncode, 1, "exit status")
        check(re.search("has file capabilities", done.stderr), done.stderr)


def patched(program, where, offset, data):
    path = os.path.join(where, "patched")
    with open(program, "rb") as file:
        content = bytearray(file.read())
    content[offset:offset + len(data)] = data
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, 0o755)
    return path


@test
def run_refuses_other_machines():
    program = build_program("tests/cli/programs/nothing.c")
    with scratch() as where:
        expect(1, "is a 32-bit program", "run", patched(program, where, 4, b"\1"))
        expect(1, "is for another processor .ELF machine 183", "run",
               patched(program, where, 18, (183).to_bytes(2, "little")))
        cut = os.path.join(where, "cut")
        with open(program, "rb") as file, open(cut, "wb") as out:
            out.write(file.read(40))
        os.chmod(cut, 0o755)
        expect(1, "its header is cut off", "run", cut)


@test
def run_finds_the_library():
    with scratch() as where:
        for place in ("bin", "lib/memctx"):
            os.makedirs(os.path.join(where, place))
        installed = os.path.join(where, "bin", "memctx")
        shutil.copy(CLI, installed)
        env = clean_env()
        done = subprocess.run([installed, "run", "true"], env=env, capture_output=True, text=True,
                              timeout=60, check=False)
        check_equal(done.returncode, 1, "exit code without a library")
        check("MEMCTX_LIBRARY" in done.stderr, f"message: {done.stderr}")
        library = os.path.join(where, "lib/memctx/libmemctx.so")
        shutil.copy(LIB, library)
        heard = tool(installed, "run", "sh", "-c", "echo $LD_PRELOAD", env=env).strip()
        check_equal(heard, os.path.realpath(library), "the library of an installation")
        spaced = os.path.join(where, "with blank.so")
        shutil.copy(LIB, spaced)
        expect(1, "cannot be preloaded; LD_PRELOAD cannot hold a path with a space", "run", "true",
               env=clean_env(MEMCTX_LIBRARY=spaced))
        expect(1, "MEMCTX_LIBRARY names /no/such", "run", "true",
               env=clean_env(MEMCTX_LIBRARY="/no/such"))
        for other in (os.path.realpath("/bin/true"), "/dev/null", where, __file__):
            expect(1, f"MEMCTX_LIBRARY names {re.escape(other)}, which is not libmemctx.so", "run",
                   "true", env=clean_env(MEMCTX_LIBRARY=other))
        named = os.path.join(where, "heap.so")
        shutil.copy(LIB, named)
        heard = succeed("run", "sh", "-c", "echo $LD_PRELOAD", env=clean_env(MEMCTX_LIBRARY=named))
        check_equal(heard.strip(), named, "a library with another name")
