# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2119,SC2120
# lib.sh - functions for the cases of the preload suite. Sourced with the repository's root as the
# working directory. The functions `fail` and `skip` end a test with that verdict. The usual test is
# one line, `same PROGRAM ARGUMENT...`: it runs the program without the library, then under `memctx
# run`, and compares output and exit status.

root_dir=$PWD
readonly root_dir
readonly MEMCTX=${MEMCTX_TEST_COMMAND:-$root_dir/out/release/memctx}
readonly LIBRARY=${MEMCTX_TEST_LIBRARY:-$root_dir/out/release/libmemctx.so}
readonly PYTHON=/usr/bin/python3 # Debian's python3, not the first of PATH
readonly suite_dir=$root_dir/tests/preload
readonly programs_dir=$suite_dir/programs
readonly bin_dir=$root_dir/out/test/bin
readonly user_home=${HOME:-/}

test_begin() { # NAME DIRECTORY
    T=$2
    cd "$T" || exit 1
    local name
    for name in $(compgen -e MEMCTX_) LD_PRELOAD; do
        unset "$name"
    done
    # `memctx run` would take the library that belongs to the command.
    [ "$LIBRARY" -ef "${MEMCTX%/*}/libmemctx.so" ] ||
        [ "$LIBRARY" -ef "${MEMCTX%/*}/../lib/libmemctx.so" ] || export MEMCTX_LIBRARY=$LIBRARY
    mkdir -m 0700 "$T/run" "$T/home"
    renew_sockets
    export HOME=$T/home XDG_RUNTIME_DIR=$T/run LC_ALL=C TZ=UTC
    unset XDG_CONFIG_HOME
    cleanups=()
    filter=()
    client=("$MEMCTX") # the words that run the command as a client
    trap 'run_cleanups' EXIT
    trap 'exit 143' TERM INT
    set -o pipefail
}

# Adds a command to run at the end of the test, such as stopping a server. The last added runs
# first.
at_end() { # COMMAND LINE
    cleanups=("$1" "${cleanups[@]}")
}

run_cleanups() {
    local command
    for command in "${cleanups[@]}"; do
        eval "$command"
    done
}

fail() { # MESSAGE...
    echo "FAILED: $*" >&2 # standard output may be the compared output
    exit 1
}

# Stops the server whose pid is in FILE at the end of the test, if it still runs.
stop_at_end() { # FILE [SIGNAL]
    at_end "[ ! -s '$1' ] || stop_process \"\$(cat '$1')\" ${2:-TERM}"
}

stop_process() { # PID SIGNAL
    ! kill "-$2" "$1" 2>/dev/null || wait "$1"
}

skip() { # REASON...
    echo "$*"
    exit 77
}

need() { # PROGRAM...
    local name
    for name in "$@"; do
        type -P "$name" >/dev/null || skip "$name is not installed"
    done
}

need_working() { # COMMAND...: skips the test if the command fails, such as PROGRAM --version
    "$@" >/dev/null 2>&1 || skip "$1 is not installed"
}

need_root() {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
}

check() { # COMMAND...: the command must succeed
    "$@" || fail "exit status $?: $*"
}

equal() { # WHAT EXPECTED GOT
    [ "$2" = "$3" ] || fail "$1: expected \"$2\", got \"$3\""
}

wait_until() { # SECONDS COMMAND...
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.05
    done
}

# Builds test programs or libraries into out/test/bin.
build() { # NAME...
    local name
    mkdir -p "$bin_dir"
    for name in "$@"; do
        (
            flock 9
            HOME=$user_home make -s -C "$root_dir" -f tests/preload/programs/Makefile \
                "out/test/bin/$name"
        ) 9>"$bin_dir/.lock.${name//\//-}" || fail "cannot build $name"
    done
}

# --- the comparison -------------------------------------------------------------------------

# Runs a command in the new directory $T/work, which is then renamed to $T/WHICH.work. Its output
# and exit status go to $T/WHICH.*. Its standard input is $T/stdin, if that exists.
capture() { # WHICH COMMAND...
    local which=$1 stdin=/dev/null
    shift
    [ ! -e "$T/stdin" ] || stdin=$T/stdin
    rm -rf "$T/work" "$T/$which.work"
    mkdir "$T/work"
    (cd "$T/work" && "$@") <"$stdin" >"$T/$which.out" 2>"$T/$which.err"
    echo "exit status $?" >"$T/$which.status"
    mv "$T/work" "$T/$which.work"
}

# Compares the two runs. Lines of sed -E in `filter` remove differences such as times and pids.
compare() { # [FILE...]: files of the work directory to compare, too
    local stream script
    script=$(printf '%s\n' "${filter[@]-}")
    for stream in status out err "$@"; do
        local plain=$T/plain.$stream ours=$T/ours.$stream
        if [ ! -e "$plain" ]; then
            plain=$T/plain.work/$stream
            ours=$T/ours.work/$stream
        fi
        sed -E "$script" "$plain" >"$T/left" || fail "no $stream without us"
        sed -E "$script" "$ours" >"$T/right" || fail "no $stream with us"
        if ! cmp "$T/left" "$T/right"; then
            diff -u --label "$stream without us" --label "$stream with us" "$T/left" "$T/right" |
                head -n 30
            tail -n 5 "$T/ours.err"
            fail "$stream differs"
        fi
    done
}

# Makes the directory of sockets anew. A file stays in it, so a process that ends does not remove
# the directory, and its time tells was_preloaded whether a socket was made.
renew_sockets() {
    rm -rf "$T/run/memctx"
    mkdir -m 0700 "$T/run/memctx"
    : >"$T/run/memctx/kept"
    touch -d @0 "$T/run/memctx"
}

# Checks that the library was loaded: its control thread made a socket since renew_sockets.
# PROOF=loader is for programs that end before that: the dynamic loader then says which libraries it
# loaded.
was_preloaded() {
    if [ "${PROOF-}" = loader ]; then
        grep -q 'calling init:.*/libmemctx\.so' "$T"/loader.* || fail "the library was not loaded"
    else
        [ "$(stat -c %Y "$T/run/memctx" || echo 0)" -gt 0 ] ||
            fail "the library was not there: no socket in $T/run/memctx"
    fi
}

same_status() { # STATUS COMMAND...: like same, but the exit status must be STATUS in both runs
    local status=$1 loader=()
    shift
    [ "${PROOF-}" != loader ] || loader=(env LD_DEBUG=libs "LD_DEBUG_OUTPUT=$T/loader")
    capture plain "${loader[@]}" "$@"
    renew_sockets
    rm -f "$T"/loader.*
    capture ours "${loader[@]}" "$MEMCTX" run -- "$@"
    was_preloaded
    equal "exit status without us" "exit status $status" "$(cat "$T/plain.status")"
    compare
}

same() { # COMMAND...
    same_status 0 "$@"
    [ -s "$T/plain.out" ] || fail "the program printed nothing: nothing was compared"
}

# --- dumps ----------------------------------------------------------------------------------

socket_of() { # PID
    echo "$XDG_RUNTIME_DIR/memctx/$1.sock"
}

wait_socket() { # PID
    wait_until 60 test -S "$(socket_of "$1")" || fail "no socket of $1 after 60 s"
}

# Dumps to $T/dump.json and checks schema and sums; more arguments go to check_dump.py.
dump() { # PID [--quiescent]
    local pid=$1
    shift
    "${client[@]}" dump "$pid" --json --threads >"$T/dump.json" || fail "dump $pid: exit status $?"
    "$PYTHON" "$suite_dir/check_dump.py" --pid "$pid" "$@" "$T/dump.json" ||
        fail "the dump of $pid"
}

depth_of_dump() {
    "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["depth"])' <"$T/dump.json"
}

# Dumps processes repeatedly in the background until watch_end; at least one dump must succeed.
watch_begin() { # PID...
    rm -f "$T/watch.stop" "$T/watch.bad"
    (
        trap - EXIT
        dumps=0
        until [ -e "$T/watch.stop" ] && [ "$dumps" -gt 0 ]; do
            for pid in "$@"; do
                if ! "${client[@]}" dump "$pid" --json --threads \
                    >"$T/watch.json" 2>"$T/watch.err" ||
                    ! "$PYTHON" "$suite_dir/check_dump.py" --pid "$pid" "$T/watch.json"; then
                    echo "watching $pid, dump $dumps: $(cat "$T/watch.err")"
                    : >"$T/watch.bad"
                    exit 1
                fi
            done
            dumps=$((dumps + 1))
            sleep 0.3
        done
        echo "$dumps dumps of $* while they ran"
    ) &
    watch_pid=$!
}

watch_end() {
    : >"$T/watch.stop"
    wait "$watch_pid" || fail "a dump while the program ran"
    [ ! -e "$T/watch.bad" ] || fail "a dump while the program ran"
}

# Dumps all processes with a socket every 20 ms until the test ends (gadfly.py). The test fails if
# an answer was wrong.
gadfly_begin() {
    rm -f "$T/gadfly.stop"
    "$PYTHON" "$suite_dir/gadfly.py" "$XDG_RUNTIME_DIR/memctx" "$T/gadfly.stop" \
        >"$T/gadfly.out" 2>&1 &
    gadfly_pid=$!
}

gadfly_end() { # [DUMPS]: the least number of dumps that it must have made
    local dumps
    : >"$T/gadfly.stop"
    wait "$gadfly_pid" || fail "$(tail -n 5 "$T/gadfly.out")"
    cat "$T/gadfly.out"
    dumps=$(sed -n -E 's/^gadfly: .* ([0-9]+) dumps.*/\1/p' "$T/gadfly.out")
    [ "${dumps:-0}" -ge "${1:-0}" ] || fail "${dumps:-no} dumps, and $1 at least were expected"
}

# Prints the library's own statistic NAME of a process.
statistic() { # PID NAME
    "${client[@]}" dump --self "$1" --json >"$T/self.json" || fail "dump --self $1: exit status $?"
    "$PYTHON" "$suite_dir/statistic.py" "$2" "$T/self.json" || fail "no statistic $2"
}

# --- programs that stop before they end -------------------------------------------------------

# Starts a command under memctx run with hold.so: the process with the name NAME waits at the end of
# main, or in exit, until hold_end. Sets held_pid.
hold_begin() { # NAME COMMAND...
    local name=$1 stdin=/dev/null
    shift
    build hold.so
    [ ! -e "$T/stdin" ] || stdin=$T/stdin
    rm -rf "$T/hold" "$T/work"
    mkdir "$T/hold" "$T/work"
    mkfifo "$T/hold/go"
    (cd "$T/work" && LD_PRELOAD=$bin_dir/hold.so HOLD_NAME=$name HOLD_DIR=$T/hold \
        exec "$MEMCTX" run -- "$@") <"$stdin" >"$T/held.out" 2>"$T/held.err" &
    hold_job=$!
    wait_until "${HOLD_LIMIT_S:-450}" hold_arrived || fail "$name did not get to its end"
    [ -s "$T/hold/pid" ] || hold_failed
    held_pid=$(cat "$T/hold/pid")
    wait_socket "$held_pid"
}

hold_arrived() {
    [ -s "$T/hold/pid" ] || ! kill -0 "$hold_job"
}

hold_failed() {
    wait "$hold_job"
    echo "exit status $?"
    tail -n 5 "$T/held.out" "$T/held.err"
    fail "the program ended without being held"
}

hold_end() { # [STATUS]
    local status=0
    : >"$T/hold/go" # the process waits until this file is opened
    wait "$hold_job" || status=$?
    [ "$status" -eq "${1:-0}" ] || {
        tail -n 5 "$T/held.err"
        fail "the held program ended with exit status $status"
    }
}
