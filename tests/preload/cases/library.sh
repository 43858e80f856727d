# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# The library's file: its exports, the symbols that it needs, its thread-local storage, and the
# system calls of allocation.

readonly exports_required="malloc free calloc realloc reallocarray memalign aligned_alloc
    posix_memalign valloc pvalloc malloc_usable_size malloc_trim mallinfo mallinfo2 malloc_info
    malloc_stats mallopt free_sized free_aligned_sized
    mallocx rallocx xallocx sallocx dallocx sdallocx nallocx
    _Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t
    _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t
    _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
    _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t"

# Other exports that are allowed. prctl and syscall: to notice a seccomp filter. setns, unshare and
# capset: to end the control thread before them. setuid and its kin: to change the user of the
# control thread, too. The names of the first lines: to notice a long wait.
readonly exports_allowed='(u|nano|clock_nano|thrd_)?sleep|pause|sigsuspend|'\
'sigwait(info)?|sigtimedwait|'\
'(__)?p?poll(_chk)?|p?select|epoll_p?wait|accept4?|'\
'set(e|re|res)?[ug]id|(set|init)groups|'\
'prctl|syscall|setns|unshare|capset|cfree|'\
'(LIB)?MEMCTX.*|memctx_.*|__libc_(free|memalign|[pv]{1,2}alloc|'\
'(m|c|re)alloc|reallocarray|mallinfo|mallopt|freeres)'

test_library_exports() {
    need nm
    local name
    nm -D --defined-only "$LIBRARY" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u \
        >"$T/exported"
    for name in $exports_required; do
        grep -q -x -F "$name" "$T/exported" || fail "$name is not exported"
    done
    tr -s ' \n' '\n' <<<"$exports_required" | sort >"$T/required"
    comm -23 "$T/exported" "$T/required" | grep -v -x -E "$exports_allowed" >"$T/other"
    [ ! -s "$T/other" ] || fail "exported, and not ours to export: $(tr '\n' ' ' <"$T/other")"
}

test_library_needs() {
    need readelf nm
    readelf -d -W "$LIBRARY" >"$T/dynamic"
    local others
    others=$(sed -n -E 's/.*\(NEEDED\).*\[(.*)\]/\1/p' "$T/dynamic" |
        grep -v -x -E 'libc\.so\.6|ld-linux-x86-64\.so\.2')
    equal "libraries it needs besides the C library" "" "$others"
    grep -q 'NODELETE' "$T/dynamic" || fail "it can be unloaded"
    # Standard streams allocate and lock: the library uses only the functions that malloc_info(FILE
    # *) needs.
    others=$(nm -D --undefined-only "$LIBRARY" | awk '{ sub(/@.*/, "", $2); print $2 }' |
        grep -x -E 'v?[a-z]{0,2}printf(_chk)?|f?put[cs]|f(d?open|write)|std(in|out|err)|_IO_.*' |
        grep -v -x fprintf)
    equal "stdio functions it calls" "" "$others"
}

# The linker puts the common code first, behind the constants, as src/api/order.ld asks.
test_library_order() {
    need nm readelf
    nm "$LIBRARY" | awk '
        $3 ~ /^(malloc|free|calloc|replay)$/ { print $1, "common" }
        $3 ~ /^(memctx_do_create|region_reset|malloc_info)$/ { print $1, "rare" }' | sort |
        awk '{ print $2 }' | uniq -c | xargs >"$T/order"
    equal "the order of seven functions" "4 common 3 rare" "$(cat "$T/order")"
    equal "the order of the sections" ".rodata .text" \
        "$(readelf -S -W "$LIBRARY" | grep -o -E ' \.(text|rodata) ' | tr -d '\n' | xargs)"
}

# Simulates glibc before 2.35, which has no _dl_find_object: a copy of the library looks for a
# function that does not exist, so it uses its own table of loaded objects. python3 loads extension
# modules.
test_library_without_find_object() {
    mkdir "$T/older"
    cp "$MEMCTX" "$T/older/memctx"
    LC_ALL=C sed 's/_dl_find_object/_dl_find_obj_ct/g' "$LIBRARY" >"$T/older/libmemctx.so"
    ! cmp -s "$LIBRARY" "$T/older/libmemctx.so" || fail "the copy has the function, too"
    cat >"$T/work.py" <<'END'
import decimal, json, sqlite3, threading, time
def work(count):
    kept = [json.loads('{"a": [1, 2, "text %d"]}' % i) for i in range(count)]
    return len(kept)
print(work(3000))
threads = [threading.Thread(target=work, args=(1000,)) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
import bz2, lzma                     # with threads: the control thread has to look
for _ in range(20):
    time.sleep(0.1)
    size = len(bz2.decompress(bz2.compress(b"x" * 1000)))
print(size, work(1000))
END
    capture plain "$PYTHON" "$T/work.py"
    capture ours env PYTHONMALLOC=malloc MEMCTX_VERBOSE=2 "$MEMCTX" run -- "$PYTHON" "$T/work.py"
    mv "$T/ours.err" "$T/usual"
    capture ours env PYTHONMALLOC=malloc MEMCTX_VERIFY=20 MEMCTX_VERBOSE=2 \
        "$T/older/memctx" run -- "$PYTHON" "$T/work.py"
    mv "$T/ours.err" "$T/figures" # the library's statistics
    : >"$T/ours.err"
    compare
    echo "$(figure verify_checked) paths compared with libunwind; $(figure modules) modules"
    [ "$(figure verify_checked)" -ge 300 ] || fail "too few comparisons"
    equal "paths that differ from libunwind's" 0 "$(figure verify_mismatches)"
    # One less is right: the control thread may look too late for a module that allocates only when
    # loaded.
    [ "$(figure modules)" -ge $(($(figure modules usual) - 1)) ] ||
        fail "$(figure modules) modules, with that function $(figure modules usual)"
}

figure() { # NAME [FILE]: prints a statistic that the library printed when the program ended
    awk -F'\t' -v name="$1" '$1 == name { print $2 }' "$T/${2-figures}"
}

test_library_tls() {
    need readelf
    readelf -r -W "$LIBRARY" >"$T/relocations"
    ! grep -E 'DTPMOD|DTPOFF|TLSDESC' "$T/relocations" || fail "dynamic thread-local storage"
    grep -q TPOFF64 "$T/relocations" || fail "no thread-local storage at all: the test is wrong"
    local bytes
    bytes=$(readelf -l -W "$LIBRARY" | awk '$1 == "TLS" { print $6 }')
    [ $((bytes)) -lt 1024 ] || fail "$((bytes)) bytes of every thread's stack"
}

# The library makes only the system calls that the manual names: a seccomp filter kills the process
# at any other call.
test_library_system_calls() {
    build filtered
    capture plain "$bin_dir/filtered" brk # libc's allocator also needs brk
    capture ours "$MEMCTX" run -- "$bin_dir/filtered"
    was_preloaded
    compare
    equal "exit status" "exit status 0" "$(cat "$T/ours.status")"
    capture plain "$bin_dir/filtered"
    equal "without us, where brk is not allowed" "exit status 159" "$(cat "$T/plain.status")"
    capture ours "$MEMCTX" run -- "$bin_dir/filtered" frame
    equal "below a large frame, where mremap is not allowed" "exit status 0" \
        "$(cat "$T/ours.status")"
}
