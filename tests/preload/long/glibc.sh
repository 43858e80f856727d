# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# glibc's own tests of malloc, from Debian's package glibc-source, built for the installed libc.

# Tests that cannot pass with a preloaded malloc, and why. All others must end as without the
# library.
declare -A glibc_left_out=(
    [tst-compathooks-off]="needs glibc's build for symbols of old versions"
    [tst-compathooks-on]="needs glibc's build for symbols of old versions"
    [tst-mallocstate]="needs glibc's build for symbols of old versions"
    [tst-dynarray-fail]="counts on a heap that refuses a smaller copy, too, after larger ones"
    [tst-malloc-backtrace]="overwrites glibc's own bookkeeping, to see it abort"
    [tst-safe-linking]="overwrites glibc's own bookkeeping, to see it abort"
    [tst-malloc-usable-tunables]="asks for glibc's tunables (and fails without us, too)"
    [tst-interpose-static-nothread]="static: nothing is preloaded"
    [tst-interpose-static-thread]="static: nothing is preloaded"
)

# Builds all tests that link into DIRECTORY; NAME.why has the error of a test that does not.
glibc_build() { # DIRECTORY
    local source flags file name extra
    mkdir -p "$1/support" && cd "$1" || return
    tar -xf "$(echo /usr/src/glibc/glibc-*.tar.xz)" --strip-components=1 --wildcards \
        '*/include' '*/malloc' '*/support' '*/test-skeleton.c' '*/sysdeps/generic' '*/sysdeps/x86' \
        '*/sysdeps/x86_64/stackinfo.h' || return
    : >config.h # the tests need no definition of config.h
    flags=(-w -O2 -g -std=gnu11 -D_GNU_SOURCE -D_LARGEFILE64_SOURCE -DMODULE_NAME=testsuite
        -Dattribute_hidden= -DTIMEOUTFACTOR=4 '-Dlibc_hidden_proto(x)=' -include limits.h
        -I. -Isupport -idirafter include -idirafter sysdeps/x86_64
        -idirafter sysdeps/x86 -idirafter sysdeps/generic)
    for name in BINDIR COMPLOCALEDIR INSTDIR LIBDIR OBJDIR OBJDIR_ELF_LDSO ROOTSBINDIR SBINDIR \
        SLIBDIR SRCDIR; do
        flags+=("-D${name}_PATH=\"/\"")
    done
    mkdir -p objects
    for file in support/*.c; do # files that do not compile without glibc's build are not needed
        name=$(basename "$file" .c)
        case $name in
            tst-* | *-container | links-dso* | test-run-command | test-driver | *string_main | \
                *blob_main) ;;
            *) gcc "${flags[@]}" -c "$file" -o "objects/$name.o" 2>/dev/null ;;
        esac
    done
    ar rc libsupport.a objects/*.o
    for file in malloc/tst-*.c malloc/mallocbug.c; do
        name=$(basename "$file" .c)
        case $name in
            *-skeleton | *-aux | *-aux-nothread | *-aux-thread | *-static-*) continue ;;
        esac
        extra=()
        case $name in
            tst-interpose-*) extra=("malloc/${name/interpose/interpose-aux}.c") ;;
        esac
        gcc "${flags[@]}" -fno-builtin -o "$name" "$file" "${extra[@]}" libsupport.a -pthread \
            -ldl -lm 2>"$name.why" && rm "$name.why"
    done
}

test_glibc_malloc() {
    need gcc ar tar
    [ -e "$(echo /usr/src/glibc/glibc-*.tar.xz)" ] || skip "glibc-source is not installed"
    local directory=$T/glibc name plain ours file command same=0 left_out=0 bad=0
    (glibc_build "$directory") || fail "cannot unpack glibc-source"
    gadfly_begin
    for file in "$directory"/malloc/tst-*.c "$directory"/malloc/mallocbug.c; do
        name=$(basename "$file" .c)
        case $name in
            *-skeleton | *-aux | *-aux-nothread | *-aux-thread) continue ;;
        esac
        if [ -n "${glibc_left_out[$name]-}" ]; then
            echo "left out: $name: ${glibc_left_out[$name]}"
            left_out=$((left_out + 1))
            continue
        fi
        if [ ! -x "$directory/$name" ]; then
            echo "not built: $name: $(grep -m1 -E 'error|undefined' "$directory/$name.why")"
            bad=$((bad + 1))
            continue
        fi
        command=()
        case $name in
            # No control thread: these fork in handlers that interrupt fork, where glibc holds a
            # lock if the program has two threads.
            tst-mallocfork | tst-mallocfork2) command=(env MEMCTX_CONTROL=off) ;;
        esac
        (cd "$directory" && timeout 200 "./$name" </dev/null) >"$T/plain.out" 2>&1
        plain=$?
        (cd "$directory" && timeout 200 "${command[@]}" "$MEMCTX" run -- "./$name" </dev/null) \
            >"$T/ours.out" 2>&1
        ours=$?
        if [ "$plain" -eq "$ours" ]; then
            echo "same: $name: exit status $ours"
            same=$((same + 1))
        else
            echo "differs: $name: exit status $plain without us, $ours with us:" \
                "$(tail -n 3 "$T/ours.out")"
            bad=$((bad + 1))
        fi
    done
    gadfly_end 1
    echo "$same the same, $left_out left out, $bad bad"
    [ "$bad" -eq 0 ] || fail "$bad of glibc's tests"
    [ "$same" -ge 25 ] || fail "only $same of glibc's tests could be built"
}
