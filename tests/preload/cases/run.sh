# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# memctx run starts a program as a shell would, or refuses it with a reason.

test_run_status() {
    local status
    for status in 0 1 7 126 127 255; do
        PROOF=loader same_status "$status" sh -c "exit $status"
        # bash's exit runs the exit handlers
        PROOF=loader same_status "$status" bash -c "exit $status"
    done
    equal "statuses" "exit status 255" "$(cat "$T/ours.status")"
}

test_run_not_found() {
    # With a directory in PATH that may not be searched, the status would be 126, as with env.
    PATH=/usr/bin:/bin capture ours "$MEMCTX" run -- no-such-program-anywhere
    equal "not found" "exit status 127" "$(cat "$T/ours.status")"
    grep -q 'no-such-program-anywhere' "$T/ours.err" || fail "$(cat "$T/ours.err")"
    : >"$T/script"
    capture ours "$MEMCTX" run -- "$T/script"
    equal "not executable" "exit status 126" "$(cat "$T/ours.status")"
    grep -q "$T/script" "$T/ours.err" || fail "$(cat "$T/ours.err")"
    capture ours "$MEMCTX" run
    equal "no program" "exit status 2" "$(cat "$T/ours.status")"
}

test_run_signals() {
    local signal pid status
    for signal in TERM INT HUP KILL SEGV USR1; do
        : >"$T/up" # removes the output of the last program
        # Without job control a shell starts background jobs with INT ignored; perl resets that.
        "$MEMCTX" run -- perl -e '$SIG{INT} = "DEFAULT"; $| = 1; print "up\n"; sleep 600' \
            >"$T/up" 2>"$T/err" &
        pid=$!
        wait_until 60 grep -q up "$T/up" || fail "the program did not start"
        kill "-$signal" "$pid"
        wait "$pid" 2>/dev/null
        status=$?
        equal "status after $signal" "$((128 + $(kill -l "$signal")))" "$status"
        equal "what was said" "" "$(cat "$T/err")"
    done
    # A program with a handler gets the signal exactly once.
    : >"$T/up"
    "$MEMCTX" run -- bash -c 'trap "echo got it; exit 5" TERM
        echo up; while :; do sleep 0.1; done' >"$T/up" &
    pid=$!
    wait_until 60 grep -q up "$T/up" || fail "the program did not start"
    kill -TERM "$pid"
    wait "$pid"
    equal "status" 5 $?
    equal "output" "up got it" "$(tr '\n' ' ' <"$T/up" | sed 's/ $//')"
}

test_run_same_process() { # pid, parent, name and arguments are as without memctx run
    local pid
    "$MEMCTX" run -- sleep 600 &
    pid=$!
    wait_socket "$pid"
    equal "command" "sleep 600 " "$(tr '\0' ' ' <"/proc/$pid/cmdline")"
    equal "parent" "$BASHPID" "$(ps -o ppid= -p "$pid" | tr -d ' ')"
    grep -q libmemctx "/proc/$pid/maps" || fail "the library is not there"
    equal "threads" "memctx sleep " "$(sort "/proc/$pid/task/"*/comm | tr '\n' ' ')"
    kill "$pid"
    wait "$pid"
    equal "exit status" 143 $?
}

test_run_stdin() {
    seq 1 200000 >"$T/stdin"
    same sh -c 'read -r first; echo "$first"; md5sum; read -r rest || echo end'
    same awk '{ sum += $1 } END { print sum, NR }'
}

test_run_environment() {
    export SOMETHING='a b  c' EMPTY=
    capture plain env
    capture ours "$MEMCTX" run -- env
    # memctx run adds two variables to the environment, and changes no other.
    diff <(grep -v '^_=' "$T/plain.out" | sort) \
        <(grep -v -E '^(_|LD_PRELOAD|MEMCTX_RUN_PID)=' "$T/ours.out" | sort) || fail "environment"
    grep -q '^LD_PRELOAD=[^:]*libmemctx.so$' "$T/ours.out" || fail "$(grep LD_ "$T/ours.out")"
    build hold.so
    LD_PRELOAD=$bin_dir/hold.so capture ours "$MEMCTX" run -- env
    grep -q "^LD_PRELOAD=[^:]*libmemctx.so:$bin_dir/hold.so$" "$T/ours.out" ||
        fail "LD_PRELOAD was not kept: $(grep LD_ "$T/ours.out")"
}

test_run_children() {
    local script='grep -c libmemctx /proc/self/maps; sh -c "grep -c libmemctx /proc/self/maps"'
    capture ours "$MEMCTX" run -- sh -c "$script; :"
    ! grep -q '^0' "$T/ours.out" || fail "the children were not preloaded"
    equal "lines" 2 "$(wc -l <"$T/ours.out")"
    capture ours "$MEMCTX" run --no-children -- \
        sh -c "grep -c libmemctx /proc/\$\$/maps; $script; :"
    [ "$(head -n 1 "$T/ours.out")" -gt 0 ] || fail "the program itself was not preloaded"
    equal "children with --no-children" "0 0 " "$(tail -n 2 "$T/ours.out" | tr '\n' ' ')"
    build hold.so
    LD_PRELOAD=$LIBRARY_OTHER capture ours "$MEMCTX" run --no-children -- env
    equal "what is kept of LD_PRELOAD" "$(grep ^LD_PRELOAD= "$T/ours.out")" \
        "LD_PRELOAD=$LIBRARY_OTHER"
}
LIBRARY_OTHER=$bin_dir/hold.so

refused() { # PATTERN COMMAND...
    local pattern=$1
    shift
    capture ours "$MEMCTX" run -- "$@"
    ! grep -q '^exit status 0$' "$T/ours.status" || fail "$* was not refused"
    grep -q -i -E "$pattern" "$T/ours.err" || fail "the reason is not clear: $(cat "$T/ours.err")"
    equal "output of what was refused" "" "$(cat "$T/ours.out")"
    equal "lines" 1 "$(wc -l <"$T/ours.err")"
}

test_run_static() {
    build static_program
    equal "without us" static "$("$bin_dir/static_program")"
    refused 'static' "$bin_dir/static_program"
    PATH=$bin_dir:$PATH refused 'static' static_program
}

test_run_setuid() {
    need_root
    cp /bin/echo "$T/setuid"
    chown 54321 "$T/setuid"
    chmod 4755 "$T/setuid"
    refused 'set-?uid|setuid' "$T/setuid" hello
    cp /bin/echo "$T/setgid"
    chown 0:54321 "$T/setgid"
    chmod 2755 "$T/setgid"
    refused 'set-?[gu]id' "$T/setgid" hello
    cp /bin/echo "$T/own" # its bit changes no user
    chmod 4755 "$T/own"
    equal "what a program prints whose bit changes no user" hello \
        "$("$MEMCTX" run -- "$T/own" hello)"
}

had_socket() {
    [ -n "$(find "$T/run" -name '*.sock')" ] && : >"$T/had"
}

# A program that ends by exit removes its socket. (After a kill or _exit the socket stays; `memctx
# ps` removes it.)
test_run_leaves_nothing() {
    "$MEMCTX" run -- bash -c 'read -r line; exit 0' < <(wait_until 60 had_socket; echo) ||
        fail "exit status $?"
    [ -e "$T/had" ] || fail "there never was a socket"
    equal "what is left" "" "$(find "$T/run" -name '*.sock*')"
    "$MEMCTX" run -- bash -c 'for i in 1 2 3 4 5 6; do (sleep 0.1; :) & done; wait' ||
        fail "exit status $?"
    equal "what is left" "" "$(find "$T/run" -name '*.sock*')"
}
