# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# Small programs with unusual events in the life of a process: forks, early allocations, closed
# descriptors, a changed environment.

own_program() { # STATUS NAME ARGUMENT...
    # most programs end before the control thread starts
    local status=$1 name=$2 PROOF=${PROOF-loader}
    shift 2
    build "$name"
    same_status "$status" "$bin_dir/$name" "$@"
    [ -s "$T/plain.out" ] || fail "$name printed nothing: nothing was compared"
}

test_process_exceptions() {
    own_program 9 exceptions
}

# The program has its own operator new and delete, realloc and free. The operators and functions
# that it does not define must call them, as those of the C++ library and of libc do.
test_process_replaced() {
    own_program 0 replaced
}

test_process_dlopen() {
    build plugin_a.so plugin_b.so
    own_program 0 dlopen_loop "$bin_dir"
}

test_process_closed_library_is_gone() {
    build plugin_a.so
    own_program 0 closed_gone "$bin_dir"
}

# The stack of the coroutine that began the present one is unmapped.
test_process_left_stack() {
    own_program 0 left_stack
}

# While functions are folded, and unfolded by a command, no unwind information is read of a library
# that another thread may be closing.
test_process_library_half_closed() {
    build half_closed plugin_a.so
    MEMCTX_TABLES=1M hold_begin half_closed "$bin_dir/half_closed" "$bin_dir"
    local folded
    folded=$(statistic "$held_pid" folded_functions)
    check "${client[@]}" set "$held_pid" --site recur unfold
    check "${client[@]}" set "$held_pid" --site recur fold
    hold_end
    equal "output" "done" "$(cat "$T/held.out")"
    [ "$folded" -ge 1 ] || fail "no function was folded"
}

# Old versions of qemu's user mode answer success to madvise and do nothing. Then the library zeroes
# memory itself.
test_process_unheeded() {
    own_program 0 unheeded
}

# Calls of syscall and prctl reach another preloaded library that stands in front of libc's, and are
# made by libc's code, as the kernel may be told that no other code makes system calls.
test_process_wrapped() {
    build wrapped wrapping.so
    own_program 0 wrapped
    local front=$bin_dir/wrapping.so
    LD_PRELOAD=$front own_program 0 wrapped # memctx run puts memctx in front of it
    grep -q -x 'wrapped: 1' "$T/plain.out" || fail "without us the calls were not wrapped"
    LD_PRELOAD=$front:$LIBRARY capture ours "$bin_dir/wrapped"
    compare
}

# The program and a library that is bound to libc's malloc (RTLD_DEEPBIND) free each other's chunks,
# also where a library in front of memctx has a malloc that passes the calls on. If that malloc may
# not be called yet, memctx does not call it.
test_process_deepbind() {
    build bound.so passing.so late.so
    own_program 0 deepbind "$bin_dir"
    LD_PRELOAD=$bin_dir/passing.so:$LIBRARY "$bin_dir/deepbind" "$bin_dir" >"$T/passed.out" ||
        fail "with another malloc in front: exit status $?"
    cmp "$T/plain.out" "$T/passed.out" || fail "with another malloc in front: other output"
    LD_PRELOAD=$bin_dir/late.so:$LIBRARY /bin/cat /dev/null ||
        fail "with a malloc in front that works later: exit status $?"
    hold_begin deepbind "$bin_dir/deepbind" "$bin_dir"
    equal "frees of chunks that are not ours" 0 "$(statistic "$held_pid" foreign_frees)"
    equal "names of libc's that lead to us" 18 "$(statistic "$held_pid" libc_names)"
    dump "$held_pid" --quiescent
    hold_end
    path allocs=2000 requested_bytes=0 -- '_IO_mem_finish|libc\.so\.6\+.*' '.*' bound_exchange main
}

# A function of .preinit_array allocates. A constructor before the library's takes all pthread keys
# that glibc stores without an allocation, so that the library has to find ended threads by their
# ids. The constructor also starts threads that allocate.
test_process_early() {
    build early
    # With glibc 2.43, malloc of libc itself crashes in a resolver.
    if "$bin_dir/early" >/dev/null; then
        own_program 0 early
    fi
    hold_begin early "$bin_dir/early"
    local heaps
    heaps=$(statistic "$held_pid" heaps)
    dump "$held_pid" --quiescent
    hold_end
    path allocs=101 requested_bytes=0 -- before_constructors '.*'
    path allocs=1 requested_bytes=0 -- __strdup before_constructors '.*'
    [ "$heaps" -lt 60 ] || fail "$heaps heaps of 325 threads, of which five ran at a time"
    echo "$heaps heaps"
}

test_process_fibers() {
    own_program 0 fibers
}

test_process_threads() {
    own_program 0 threads
}

test_process_longjmp() {
    own_program 0 jumps
}

test_process_signals() {
    own_program 0 signals
}

test_process_spawn() {
    own_program 0 spawn
}

test_process_fork_threads() {
    own_program 0 fork_threads 150
}

# fork_threads with a control thread in every child.
test_process_fork_eager() {
    MEMCTX_CONTROL=eager own_program 0 fork_threads 60
}

# Forks while locks of the library, of libc and of the program wait for each other.
test_process_fork_waits() {
    local how
    for how in handler streams circle; do
        own_program 0 fork_waits "$how"
        grep -q 'forked often, 0 bad' "$T/ours.out" || fail "$(cat "$T/ours.out")"
    done
}

test_process_daemon() {
    PROOF=directory own_program 0 daemon file # PROOF=loader would open one more descriptor
    compare file
    grep -q 'at last: 0 1 2' "$T/ours.work/file" || fail "the daemon saw no descriptors"
}

test_process_exit_order() {
    build exit_order
    own_program 6 exit_order
    own_program 4 exit_order quick
}

test_process_unwinder() {
    build unwinder
    own_program 0 unwinder
    MEMCTX_VERIFY=1 own_program 0 unwinder # MEMCTX_VERIFY loads libunwind
}

# A program may overwrite its environment: the library reads its settings before main.
test_process_environment() {
    build clears_environment
    local round pid
    mkfifo "$T/in"
    for round in $(seq 25); do
        "$MEMCTX" run -- "$bin_dir/clears_environment" <"$T/in" &
        pid=$!
        exec 5>"$T/in"
        wait_until 60 test -S "$(socket_of "$pid")" || fail "no socket where it should be ($round)"
        exec 5>&-
        wait "$pid" || fail "exit status $?"
    done
}

test_process_descriptors() {
    build descriptors
    local which command
    for which in open closed half; do
        capture plain with_descriptors $which "$bin_dir/descriptors" file
        renew_sockets
        capture ours with_descriptors $which "$MEMCTX" run -- "$bin_dir/descriptors" file
        was_preloaded
        compare file
        grep -q '^opened: [0-9]' "$T/ours.work/file" || fail "nothing was written"
    done
    grep -q '^opened: 2' "$T/ours.work/file" || fail "the test closes nothing"
}

# Runs a command with descriptors 0-2 open, with all three closed, or with only 2 closed.
with_descriptors() { # open|closed|half COMMAND...
    local which=$1
    shift
    case $which in
        open) "$@" ;;
        closed) "$@" <&- >&- 2>&- ;;
        half) "$@" 2>&- ;;
    esac
}

test_process_chroot() {
    need_root
    mkdir "$T/empty"
    own_program 0 chrooted "$T/empty"
}

# In a root without /tmp, /run, /proc the program runs as usual, without a socket and without a
# message.
test_process_bare_root() {
    need_root
    need ldd
    build threads
    local root=$T/root file
    mkdir -p "$root"
    cp "$bin_dir/threads" "$root/"
    # Copies the libraries that ldd names and that pthread_exit loads. libmemctx.so lies at the top:
    # this clone may lie below /tmp, and that directory in the new root would serve for a socket.
    cp "$LIBRARY" "$root/libmemctx.so"
    for file in $(ldd "$bin_dir/threads" "$LIBRARY" | grep -o '/[^ :]* (' | sort -u | tr -d ' (') \
        /lib/x86_64-linux-gnu/libgcc_s.so.1; do
        mkdir -p "$root$(dirname "$file")"
        [ -e "$root$file" ] || cp -L "$file" "$root$file"
    done
    local enter=(perl -e 'chroot shift or die; chdir "/"; $ENV{LD_PRELOAD} = shift; exec @ARGV')
    capture plain chroot "$root" /threads
    capture ours env MEMCTX_CONTROL=eager "${enter[@]}" "$root" /libmemctx.so /threads
    compare
    equal "exit status" "exit status 0" "$(cat "$T/ours.status")"
    # With MEMCTX_VERBOSE=1 the library prints a message, which proves that it was loaded. The
    # program must run until the control thread has printed that.
    cp -L /bin/sleep "$root/"
    local seconds
    for seconds in 2 20; do # 20 s for a loaded machine
        capture ours env MEMCTX_CONTROL=eager MEMCTX_VERBOSE=1 \
            "${enter[@]}" "$root" /libmemctx.so /sleep "$seconds"
        equal "exit status of sleep" "exit status 0" "$(cat "$T/ours.status")"
        ! grep -q '^memctx: ' "$T/ours.err" || break
    done
    equal "says that there is no socket" yes "$(grep -q '^memctx: ' "$T/ours.err" && echo yes)"
}
