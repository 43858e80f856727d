# SPDX-License-Identifier: MIT
"""make install and uninstall: installed files work from their place; uninstall leaves only others'
files. The removal of Debian's package of the library."""
import os
import re

from clitest import scratch
from harness import ROOT, check, check_equal, clean_env, run_program, test

MODES = {"lib/libmemctx.so": 0o755, "bin/memctx": 0o755, "include/memctx.h": 0o644,
         "include/memctx.hpp": 0o644,
         "share/man/man1/memctx.1": 0o644, "lib/pkgconfig/memctx.pc": 0o644,
         "lib/systemd/system/memctx-agent.service": 0o644, "share/doc/memctx/agent.toml": 0o644,
         "share/bash-completion/completions/memctx": 0o644}


def make_env():
    return {name: value for name, value in clean_env().items()
            if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}


def start_make(target, place, prefix):
    # What is installed can be read by everybody, also if root makes private files by default.
    return run_program(["sh", "-c", 'umask 077; exec make "$@"', "-", "-s", "-C", ROOT, target,
                        f"PREFIX={prefix}",
                        f"DESTDIR={place}"], make_env(), timeout_s=300)


def make(target, place):
    done = start_make(target, place, "/opt/memctx")
    check_equal(done.returncode, 0, f"make {target} ({done.stderr[-600:]})")


def files_below(directory):
    return {os.path.relpath(os.path.join(path, name), directory)
            for path, _, names in os.walk(directory) for name in names}


def run(*argv):
    done = run_program(list(argv), clean_env())
    check_equal(done.returncode, 0, f"{argv[0]} ({done.stderr[-600:]})")
    return done.stdout


def check_page(page, command):
    """The page has a title line, and each table of a help text in lines of its own."""
    check(re.search(r"^\.(TH|Dt) ", page, re.M), "the manual page has no title line")
    tables = 0
    for verb in re.findall("^  ([a-z]+) ", run(command, "--help"), re.M):
        for paragraph in run(command, verb, "--help").split("\n\n"):
            if not re.search("^ +-", paragraph, re.M) and re.search(r"\S  +\S", paragraph):
                tables += 1
                check(f"\n.Bd -literal\n{paragraph}\n.Ed\n" in page,
                      f"not a table in the manual page:\n{paragraph}")
    check(tables >= 4, f"{tables} tables in the help texts")


@test
def install_and_uninstall():
    headers = {f"include/memctx/{name}"
               for name in os.listdir(f"{ROOT}/include/memctx") if name.endswith(".h")}
    with scratch() as place:
        prefix = f"{place}/opt/memctx"
        others = {"lib/libother.so", "include/memctx_other.h", "bin/other"}
        for name in others:
            os.makedirs(os.path.dirname(f"{prefix}/{name}"), exist_ok=True)
            with open(f"{prefix}/{name}", "w", encoding="ascii"):
                pass
        make("install", place)
        check_equal(files_below(place), {os.path.relpath(f"{prefix}/{name}", place)
                                         for name in {*MODES, *headers, *others}}, "files")
        for name in {*MODES, *headers}:
            mode = os.stat(f"{prefix}/{name}").st_mode & 0o7777
            check_equal(oct(mode), oct(MODES.get(name, 0o644)), f"mode of {name}")
        version = run(f"{prefix}/bin/memctx", "--version").split()[1]
        maps = run(f"{prefix}/bin/memctx", "run", "--", "/bin/cat", "/proc/self/maps")
        check(f"{prefix}/lib/libmemctx.so\n" in maps, f"another library was preloaded:\n{maps}")
        with open(f"{prefix}/lib/pkgconfig/memctx.pc", encoding="ascii") as file:
            text = file.read()
        check("prefix=/opt/memctx\n" in text and f"Version: {version}\n" in text, text)
        with open(f"{prefix}/share/man/man1/memctx.1", encoding="utf-8") as file:
            check_page(file.read(), f"{prefix}/bin/memctx")
        run("bash", "-n", f"{prefix}/share/bash-completion/completions/memctx")
        for compiler, language in (("cc", "c"), ("c++", "c++")):
            for header in ("memctx.h", "memctx.hpp",
                           *(name.removeprefix("include/") for name in headers)):
                # The other headers are for memctx itself, and are C only.
                if header.endswith(".hpp") == (language == "c++") or header in ("memctx.h",
                                                                                "memctx/weak.h"):
                    run(compiler, "-fsyntax-only", "-x", language, f"-I{prefix}/include",
                        "-include", header, "/dev/null")
        make("uninstall", place)
        check_equal(files_below(prefix), others, "files left")
        check(not os.path.exists(f"{prefix}/include/memctx"), "the headers' directory is left")
        make("uninstall", place)  # a second uninstall is no error


@test
def no_library_is_installed_that_cannot_be_preloaded():
    """LD_PRELOAD separates names by blanks and colons. DESTDIR is no part of the final path."""
    with scratch() as place:
        for prefix in ("/opt/my dir", "/opt/a:b"):
            done = start_make("install", place, prefix)
            check(done.returncode != 0 and "has a blank or a colon" in done.stderr,
                  f"{prefix}: {done.returncode} {done.stderr}")
            check_equal(files_below(place), set(), f"files of {prefix}")
        make("install", f"{place}/a b")
        check(os.path.exists(f"{place}/a b/opt/memctx/bin/memctx"), "DESTDIR with a blank")


@test
def a_package_that_is_removed_warns_of_preload():
    """The package's script warns while /etc/ld.so.preload names the library, and changes nothing.
    Other libraries, comments, and the library of `make install` are no reason."""
    ours = "/usr/$LIB/memctx/libmemctx.so"
    with scratch() as root:
        os.mkdir(f"{root}/etc")

        def removal(text, action="remove"):
            if text is not None:
                with open(f"{root}/etc/ld.so.preload", "w", encoding="ascii") as file:
                    file.write(text)
            done = run_program(["sh", f"{ROOT}/packaging/debian/libmemctx0.prerm", action],
                               {**clean_env(), "DPKG_ROOT": root})
            check_equal((done.returncode, done.stdout), (0, ""), f"status and output of {text!r}")
            if text is not None:
                with open(f"{root}/etc/ld.so.preload", encoding="ascii") as file:
                    check_equal(file.read(), text, "the file")
            return done.stderr

        check_equal(removal(None), "", "without the file")
        for text in (f"{ours}\n", ours, f"# all programs\n/lib/libother.so:{ours}\n",
                     "/usr/lib/x86_64-linux-gnu/memctx/libmemctx.so\n",
                     "/usr/lib/libother.so\t/usr/${LIB}/memctx/libmemctx.so # memory\n"):
            check("/etc/ld.so.preload still names libmemctx.so" in removal(text), repr(text))
        check_equal(removal(ours, "upgrade"), "", "an upgrade")
        for text in ("", f"#{ours}\n", f"{ours}.old\n", "/usr/local/lib/libmemctx.so\n"):
            check_equal(removal(text), "", repr(text))


@test
def flags_of_distributions():
    """Distributions build with link-time optimisation and _FORTIFY_SOURCE. Both would break the
    library, so CFLAGS cannot switch them on there. In the command, what assembler code defines is
    global, because link-time optimisation may put its uses into another file."""
    flags = "-g -flto=auto -ffat-lto-objects -fstack-protector-strong -fcf-protection"
    for fortify in ("-D_FORTIFY_SOURCE=3", "-Wp,-D_FORTIFY_SOURCE=2"):
        with scratch() as place:
            # waits.c has assembler code that names static variables, stats.c calls fprintf
            objects = [f"{place}/lib/src/api/{name}.o" for name in ("waits", "stats")]
            page = f"{place}/cli/tools/memctx/report/report_html.o"
            done = run_program(["make", "-s", "-C", ROOT, f"out={place}",
                                f"CFLAGS={flags} {fortify}", *objects, page], make_env(),
                               timeout_s=300)
            check_equal(done.returncode, 0, f"make ({done.stderr[-600:]})")
            for name in objects:
                sections = run("readelf", "-SW", name)
                check(".debug_info" in sections, f"CFLAGS are not used: {sections}")
                check(".gnu.lto_" not in sections, f"{name} is for link-time optimisation")
                checked = re.findall(r" U (__(?!stack)\w+_chk)", run("nm", "-u", name))
                check_equal(checked, [], f"functions of _FORTIFY_SOURCE in {name}")
            symbol = re.search(r" (\w+) +\w+ +\w+ asset_page$", run("readelf", "-sW", page), re.M)
            check_equal(symbol and symbol[1], "GLOBAL", "binding of asset_page")
    # With -Bsymbolic-functions (Ubuntu), preload's process_replaced fails.
    done = run_program(["make", "-n", "-C", ROOT, "out=out/never-made", "lib",
                        "LDFLAGS=-Wl,-Bsymbolic-functions -Wl,-z,now"], make_env(), timeout_s=300)
    links = [line for line in done.stdout.replace("\\\n", " ").splitlines()
             if "order.ld" in line and " -o " in line]
    check(len(links) == 1 and "-Bsymbolic" not in links[0], f"link of the library: {links}")
