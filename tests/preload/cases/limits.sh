# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# Little memory, no second thread, nowhere to put a socket: the program runs as without us.

limited() { # KIB STATUS COMMAND...: with that much address space
    local kib=$1 status=$2
    shift 2
    capture plain bash -c 'ulimit -v "$0" && exec "$@"' "$kib" "$@"
    rm -f "$T"/loader.*
    capture ours env LD_DEBUG=libs LD_DEBUG_OUTPUT="$T/loader" \
        bash -c 'ulimit -v "$0" && exec "$@"' "$kib" "$MEMCTX" run -- "$@"
    PROOF=loader was_preloaded
    equal "exit status without us" "exit status $status" "$(cat "$T/plain.status")"
}

test_limits_true() {
    limited 32768 0 /bin/true
    compare
}

test_limits_shell() {
    limited 32768 0 dash -c 'for i in 1 2 3 4 5 6 7 8; do /bin/echo $i | cat; done'
    compare
    [ -s "$T/plain.out" ] || fail "nothing was printed"
}

test_limits_memory() {
    build short_of_memory
    local kib
    for kib in 65536 400000; do
        limited "$kib" 0 "$bin_dir/short_of_memory"
        cat "$T/plain.err" "$T/ours.err" # how much each got: for the log
        : >"$T/plain.err"
        : >"$T/ours.err"
        compare
        grep -q '^wrong: 0$' "$T/ours.out" || fail "something is wrong in both"
    done
}

test_limits_python() {
    limited 150000 0 "$PYTHON" -c '
blocks = []
try:
    while True:
        blocks.append(bytearray(1 << 20))
except MemoryError:
    count = len(blocks)
    del blocks
    print("MemoryError", count > 50, len([str(i) for i in range(100000)]))'
    compare
    grep -q 'MemoryError True' "$T/ours.out" || fail "memory did not run out"
}

# As another user, because root may have as many processes as it likes.
test_limits_threads() {
    need_root
    need setpriv prlimit
    build no_threads
    mkdir "$T/bin"
    cp "$MEMCTX" "$LIBRARY" "$bin_dir/no_threads" "$T/bin/"
    chown -R 54321 "$T"
    local as=(prlimit --nproc=1:1 setpriv --reuid=54321 --regid=54321 --clear-groups)
    capture plain "${as[@]}" "$T/bin/no_threads"
    chown 54321 "$T"/plain.*
    capture ours "${as[@]}" "$T/bin/memctx" run -- "$T/bin/no_threads"
    compare
    grep -q 'thread: Resource temporarily unavailable' "$T/plain.out" ||
        fail "the limit did not bind: $(cat "$T/plain.out")"
    capture ours env MEMCTX_VERBOSE=1 "${as[@]}" "$T/bin/memctx" run -- "$T/bin/no_threads"
    compare_but_err
    equal "lines about the thread" 1 "$(grep -c '^memctx: ' "$T/ours.err")"
}

compare_but_err() {
    cp "$T/ours.err" "$T/kept.err"
    cp "$T/plain.err" "$T/ours.err"
    compare
    mv "$T/kept.err" "$T/ours.err"
}

# No directory for the socket is of use: one is absent, or no directory, and the last resort belongs
# to somebody else. The program notices nothing; MEMCTX_VERBOSE=1 says it in one line.
test_limits_socket() {
    need_root
    need setpriv perl
    local last=/tmp/memctx-54322 place as ours
    local work='my @a = map { "x" x $_ } 1 .. 3000; select undef, undef, undef, 0.2;
        print scalar(@a), "\n"'
    mkdir -m 0700 "$last" || skip "$last is there already"
    at_end "rm -rf '$last'"
    mkdir "$T/bin"
    cp "$MEMCTX" "$LIBRARY" "$T/bin/"
    : >"$T/file"
    chmod 755 "$T"
    as=(setpriv --reuid=54322 --regid=54322 --clear-groups)
    ours=("${as[@]}" "$T/bin/memctx" run -- perl -e "$work")
    for place in "$T/nowhere" "$T/file" /proc relative; do
        capture plain "${as[@]}" perl -e "$work"
        capture ours env XDG_RUNTIME_DIR="$place" "${ours[@]}"
        compare
        capture ours env XDG_RUNTIME_DIR="$place" MEMCTX_VERBOSE=1 "${ours[@]}"
        equal "lines about the socket" 1 "$(grep -c '^memctx: ' "$T/ours.err")"
        compare_but_err
    done
    equal "what is in somebody else's directory" "" "$(ls -A "$last")"
}

# Values that make no sense: one warning each that names the value, and the default is used.
test_limits_options() {
    local pair
    for pair in DEPTH=many DEPTH=129 DEPTH=-1 DEPTH= VERIFY=1x CONTROL=perhaps \
        DECAY_MS=99999999999999999999; do
        capture plain echo output
        capture ours env "MEMCTX_$pair" "$MEMCTX" run -- echo output
        equal "warnings for MEMCTX_$pair" 1 "$(grep -c '^memctx: ' "$T/ours.err")"
        grep '^memctx: ' "$T/ours.err" | grep "MEMCTX_${pair%%=*}" | grep -q -F -e "${pair#*=}" ||
            fail "the warning does not name MEMCTX_$pair: $(cat "$T/ours.err")"
        equal "other lines" 0 "$(grep -c -v '^memctx: ' "$T/ours.err")"
        compare_but_err
    done
}
