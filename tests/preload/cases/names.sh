# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# Call paths and their names in dumps of programs with known paths and sizes
# (programs/call_chain.c).

path() { # [FIGURE=VALUE...] -- PATTERN...: see find_path.py
    "$PYTHON" "$suite_dir/find_path.py" "$T/dump.json" "$@" || fail "path $*"
}

no_path() {
    ! "$PYTHON" "$suite_dir/find_path.py" "$T/dump.json" "$@" >"$T/no_path" ||
        fail "there is a path $*"
}

held_dump() { # PROGRAM ARGUMENT...: dumps the program at its end, then lets it end
    local name=$1
    shift
    build "$name"
    hold_begin "$name" "$bin_dir/$name" "$@"
    dump "$held_pid" --quiescent
    hold_end "${HOLD_STATUS:-0}"
}

chain_paths() {
    path requested_bytes=7007 live_chunks=7 allocs=7 frees=0 -- chain_two chain_one main
    path requested_bytes=5015 live_chunks=5 allocs=5 -- chain_xmalloc chain_one main
    path requested_bytes=3009 live_chunks=3 allocs=3 -- chain_xmalloc chain_other main
    path requested_bytes=8000 live_chunks=4 allocs=4 -- '(__)?strdup' chain_copy main
    path requested_bytes=2018 live_chunks=2 -- recurse recurse recurse recurse recurse main
    path requested_bytes=0 live_chunks=0 allocs=9 frees=9 requested_cum_bytes=9117 -- \
        chain_freed main
    path requested_bytes=90000 live_chunks=1 -- chain_grow main
}

test_names_chain() {
    held_dump call_chain
    chain_paths
    path requested_bytes=6042 live_chunks=6 -- chain_inline main
    no_path -- chain_two main
}

# The text of a dump has the names.
test_names_text() {
    build call_chain
    hold_begin call_chain "$bin_dir/call_chain"
    "$MEMCTX" dump "$held_pid" >"$T/text" || fail "dump: exit status $?"
    hold_end
    local figures='[0-9]+ total in [0-9]+ pages; [0-9]+ free \([0-9]+ chunks\); [0-9]+ used; '
    grep -E "^ *chain_two.*: ${figures}7007 requested" "$T/text" ||
        fail "no line for chain_two: $(grep chain_ "$T/text")"
    grep -q '^Grand total: ' "$T/text" || fail "no grand total"
}

test_names_frame_pointer() {
    held_dump call_chain_fp
    chain_paths
}

test_names_no_frame_pointer() {
    held_dump call_chain_nofp
    chain_paths
}

# Without debug information names come from dynamic symbols; without these a frame is module+offset.
test_names_stripped() {
    held_dump call_chain_stripped
    chain_paths
    path requested_bytes=6042 live_chunks=6 -- main
    build call_chain
    cp "$bin_dir/call_chain" "$T/bare"
    check strip --strip-all "$T/bare"
    hold_begin bare "$T/bare"
    dump "$held_pid" --quiescent
    hold_end
    local frame='bare\+0x[0-9a-f]+'
    path requested_bytes=8000 live_chunks=4 -- '(__)?strdup' "$frame" "$frame" ...
    path requested_bytes=113091 live_chunks=24 -- "$frame" ... # all chunks but that of strdup
    path -- "$frame" "$frame" "$frame" "$frame" "$frame" "$frame" ...
}

# operator new may be a frame or not; its caller must be one.
test_names_cxx() {
    held_dump call_chain_cpp
    path requested_bytes=32000 live_chunks=8 -- ... 'shop::shelf<int>::fill\(int\)' main
    path requested_bytes=15005 live_chunks=5 -- ... 'shop::open_box\(unsigned long\)' main
    path requested_bytes=6144 live_chunks=3 -- ... 'shop::aligned_box\(\)' main
    # The path of a library's constructor is whole: nothing called the loader's entry.
    path -- ... '.*' 'ld-linux-x86-64\.so\.2\+.*|_dl_start_user' END
}

test_names_rust() {
    HOME=$user_home need_working rustc --version
    held_dump rust_program
    path -- ... 'rust_program::words.*' ... 'rust_program::main.*' ...
    path -- ... 'alloc::.*' ...
}

# Two libraries were loaded and unloaded hundreds of times at one address; each chunk has the right
# name.
test_names_dlclose() {
    # an older glibc has no _dl_find_object: docs/platforms.md, What differs between versions
    [ "$(printf '%s\n' "glibc 2.35" "$(getconf GNU_LIBC_VERSION)" | sort -V | head -n 1)" = \
        "glibc 2.35" ] || skip "glibc before 2.35: paths end at code that was just loaded"
    build plugin_a.so plugin_b.so
    held_dump dlopen_loop "$bin_dir"
    path allocs=6400 frees=6400 requested_bytes=0 -- make plugin_work main
    path allocs=6400 frees=6400 -- '(__)?strdup' plugin_work main
}

# The loader's link maps stand in chunks with guard pages.
test_names_dlclose_guarded() {
    MEMCTX_RULES='main=guard' test_names_dlclose
}

test_names_signal() {
    held_dump signals
    path -- handler ... raise_deep raise_deep raise_deep ... main
    path -- handler ... compute ...
}

# A guard page lies between the handler's stack and the stack below which the signal came.
test_names_stack_below() {
    held_dump stack_below
    path requested_bytes=1900 live_chunks=100 -- '(__)?strdup' below_handler ... raise_above \
        raise_above raise_above raise_above above ...
    path requested_bytes=4321 -- null_handler ... '\[no unwind information\]' END
}

# Paths lead through the code of an engine that keeps a list of it, and end at all other code that
# was made at run time. Such a frame has neither a function nor a module.
test_names_generated() {
    local made='\+None' ends='\[no unwind information\]'
    held_dump generated_code
    path allocs=100 -- leaf_listed "$made" middle "$made" "$made" outer run main ...
    path allocs=100 -- leaf_wasm "$made" "$made" outer run main ...
    path allocs=100 -- leaf_outside "$made" "$ends" END
    path allocs=100 -- leaf_made "$made" "$ends" END
    path allocs=100 -- leaf_early "$made" "$ends" END
    path allocs=100 -- leaf_far "$made" "$ends" END
    path allocs=100 -- leaf_destroyed "$made" "$ends" END
    path allocs=100 -- leaf_other "$made" "$ends" END
    path allocs=100 -- leaf_other_below "$made" "$made" "$ends" END
    path allocs=100 -- leaf_wasm_alone "$made" "$ends" END
    path allocs=100 -- leaf_integer "$made" "$made" "$ends" END
    path allocs=100 -- leaf_pointer "$made" "$made" "$ends" END
    path allocs=100 -- leaf_replaced "$made" outer run main ...
    path allocs=100 -- leaf_replaced "$made" "$ends" END
    path allocs=100 -- leaf_interior "$made" "$ends" END
    path allocs=100 -- leaf_odd "$made" "$ends" END
    path allocs=100 -- leaf_long "$made" "$ends" END
    path allocs=100 -- leaf_edge "$made" outer run main ...
    path allocs=100 -- leaf_behind "$made" "$ends" END
    path allocs=100 -- leaf_wasm_below "$made" "$made" "$made" outer run main ...
    path allocs=100 -- leaf_odd_type "$made" "$made" "$ends" END
    path allocs=100 -- leaf_no_type "$made" "$made" "$ends" END
    path allocs=100 -- leaf_jumped "$made" "$made" "$ends" END
    path allocs=100 -- leaf_near "$made" "$made" outer run main ...
    path allocs=100 -- leaf_nowhere "$made" "$made" "$ends" END
    path allocs=100 -- leaf_many "$made" outer run ...
    path allocs=100 -- leaf_one_by_one "$made" outer run ...
    path allocs=100 -- leaf_crowded "$made" "$ends" END
    equal "the depth with V8" 64 "$(depth_of_dump)"
    MEMCTX_DEPTH=20 held_dump generated_code
    equal "the depth that the user set" 20 "$(depth_of_dump)"
}

test_names_fiber() {
    held_dump fibers
    path -- work work work work fiber_main
}

test_names_depth() {
    local many
    mapfile -t many < <(yes recurse | head -n 100)
    held_dump call_chain 100
    path requested_bytes=2018 live_chunks=2 -- "${many[@]:0:32}" '\[truncated\]' END
    chain_but_recursion
    MEMCTX_DEPTH=128 held_dump call_chain 100
    path requested_bytes=2018 live_chunks=2 -- "${many[@]}" main
    chain_but_recursion
    MEMCTX_DEPTH=2 held_dump call_chain 100
    path requested_bytes=7007 -- chain_two chain_one '\[truncated\]' END
    path requested_bytes=2018 -- recurse recurse '\[truncated\]' END
}

chain_but_recursion() {
    path requested_bytes=7007 live_chunks=7 allocs=7 -- chain_two chain_one main
    path requested_bytes=3009 live_chunks=3 allocs=3 -- chain_xmalloc chain_other main
}

test_names_depth_one() {
    MEMCTX_DEPTH=1 held_dump call_chain
    path requested_bytes=7007 live_chunks=7 -- chain_two
    path requested_bytes=8024 live_chunks=8 -- chain_xmalloc # the chunks of both callers
    no_path -- chain_two chain_one
}

test_names_depth_zero() {
    MEMCTX_DEPTH=0 held_dump call_chain
    "$PYTHON" - "$T/dump.json" <<'EOT' || fail "the dump without call paths"
import json, sys
dump = json.load(open(sys.argv[1]))
assert dump["depth"] == 0
assert not any(context["kind"] == "path" for context in dump["contexts"])
assert dump["totals"]["requested_bytes"] >= 7007 + 5015 + 3009 + 8000 + 6042 + 2018 + 90000
EOT
}

# The totals are equal for all values of MEMCTX_DEPTH.
test_names_totals() {
    local depth sums=()
    for depth in 0 1 7 32 128; do
        MEMCTX_DEPTH=$depth held_dump call_chain 60
        sums+=("$("$PYTHON" -c 'import json, sys
totals = json.load(open(sys.argv[1]))["totals"]
print(*[totals[key] for key in ("requested_bytes", "live_chunks", "allocs", "frees")])' \
            "$T/dump.json")")
    done
    equal "number of different totals" 1 "$(printf '%s\n' "${sums[@]}" | sort -u | wc -l)"
}

# check_dump.py rejects each copy of a good dump with a planted fault.
test_names_checker() {
    held_dump call_chain
    "$PYTHON" "$suite_dir/spoil_dump.py" "$T/dump.json" "$T/spoilt" >"$T/kinds" || fail "no dumps"
    [ "$(wc -l <"$T/kinds")" -ge 15 ] || fail "too few kinds of faults"
    local kind
    while read -r kind; do
        ! "$PYTHON" "$suite_dir/check_dump.py" --quiescent "$T/spoilt.$kind" >"$T/said" ||
            fail "$kind was not noticed"
        [ -s "$T/said" ] || fail "$kind was refused without a word"
        echo "$kind: $(head -n 1 "$T/said")"
    done <"$T/kinds"
    no_path requested_bytes=7008 -- chain_two chain_one main
    no_path -- chain_one chain_two main
    no_path requested_bytes=7007 -- chain_two chain_one main END
}
