# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# With little memory, without a second thread or a place for the socket, the program runs as without
# the library.

limited() { # OPTION KIB STATUS COMMAND...: runs the command under `ulimit OPTION KIB`
    local limit="ulimit $1 $2"' && exec "$@"' status=$3
    shift 3
    capture plain bash -c "$limit" limited "$@"
    rm -f "$T"/loader.*
    capture ours env LD_DEBUG=libs LD_DEBUG_OUTPUT="$T/loader" \
        bash -c "$limit" limited "$MEMCTX" run -- "$@"
    PROOF=loader was_preloaded
    equal "exit status without us" "exit status $status" "$(cat "$T/plain.status")"
}

test_limits_true() {
    limited -v 32768 0 /bin/true
    compare
}

test_limits_shell() {
    limited -v 32768 0 dash -c 'for i in 1 2 3 4 5 6 7 8; do /bin/echo $i | cat; done'
    compare
    [ -s "$T/plain.out" ] || fail "nothing was printed"
}

test_limits_memory() {
    build short_of_memory
    local kib
    for kib in 65536 400000; do
        limited -v "$kib" 0 "$bin_dir/short_of_memory"
        cat "$T/plain.err" "$T/ours.err" # prints to the log how much memory each run got
        : >"$T/plain.err"
        : >"$T/ours.err"
        compare
        grep -q '^wrong: 0$' "$T/ours.out" || fail "something is wrong in both"
    done
}

# RLIMIT_DATA limits writable memory, like a system without overcommit. A segment must count only
# its own bytes, not those that are mapped for a moment to align it.
test_limits_data() {
    need perl
    build short_of_memory
    local try
    for try in 1 2 3 4 5 6 7 8; do # several tries, because the kernel chooses addresses at random
        limited -d 7000 0 perl -e 'print "printed\n"'
        compare
    done
    [ -s "$T/plain.out" ] || fail "nothing was printed"
    limited -d 65536 0 "$bin_dir/short_of_memory"
    : >"$T/plain.err"
    : >"$T/ours.err"
    compare
    grep -q '^wrong: 0$' "$T/ours.out" || fail "something is wrong in both"
}

# RLIMIT_AS counts inaccessible memory, too. A program that has room for one segment gets it, even
# if there is no room for the padding that aligns it.
test_limits_address_space() {
    local try
    for try in 1 2 3 4 5 6 7 8; do # several tries, because the kernel chooses addresses at random
        limited -v 9700 0 sort /etc/passwd
        compare
    done
    [ -s "$T/plain.out" ] || fail "nothing was printed"
}

test_limits_python() {
    limited -v 150000 0 "$PYTHON" -c '
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

# With RLIMIT_NOFILE 4 the loader can open one file at a time; with 5 the program can open a file,
# too.
test_limits_descriptors() {
    need perl
    local count
    local work='my @a = map { "x" x $_ } 1 .. 3000; select undef, undef, undef, 0.2;
        print scalar(@a), "\n", open(my $file, "<", "/dev/null") ? "opened\n" : "$!\n",
            open(my $other, "<", "/dev/null") ? "opened\n" : "$!\n"'
    for count in 4 5 6; do
        capture plain bash -c 'ulimit -n "$0" && exec "$@"' "$count" perl -e "$work"
        renew_sockets
        capture ours bash -c 'ulimit -n "$0" && exec "$@"' "$count" "$MEMCTX" run -- perl -e "$work"
        was_preloaded
        compare
        grep '^3000$' "$T/ours.out" || fail "$count descriptors: $(cat "$T/ours.out" "$T/ours.err")"
    done
    grep -q opened "$T/plain.out" || fail "no limit let the program open a file"
    hold_begin perl bash -c 'ulimit -n 4 && exec "$@"' 4 perl -e "$work"
    dump "$held_pid" --quiescent
    hold_end
}

# The test runs as another user, because RLIMIT_NPROC does not limit root.
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

# No directory for the socket is usable: one does not exist or is a file, and the last belongs to
# another user. The program runs as usual; MEMCTX_VERBOSE=1 prints one line.
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

# A wrong value of a setting gives one warning that names the value, and the default is used.
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
