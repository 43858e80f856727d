# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# MEMCTX_VERIFY: in real programs every Nth cached call path is compared with a walk by libunwind.
# There must be many comparisons and no mismatch.

no_mismatch() { # PID LEAST
    local checked mismatches
    checked=$(statistic "$1" verify_checked) || fail "$checked"
    mismatches=$(statistic "$1" verify_mismatches) || fail "$mismatches"
    echo "$checked checked, $mismatches mismatches, of $(statistic "$1" allocs) allocations"
    [ "$checked" -ge "$2" ] || fail "only $checked comparisons, at least $2 expected"
    equal "mismatches" 0 "$mismatches"
}

oracle() { # N LEAST NAME COMMAND...
    local every=$1 least=$2 name=$3
    shift 3
    MEMCTX_VERIFY=$every hold_begin "$name" "$@"
    no_mismatch "$held_pid" "$least"
    dump "$held_pid"
    hold_end "${HOLD_STATUS:-0}"
}

test_oracle_gcc() {
    need gcc
    big_c 60 big
    check gcc -E -o "$T/big.i" "$T/big.c"
    oracle 100 1000 cc1 "$(gcc -print-prog-name=cc1)" -quiet -O2 -fpreprocessed "$T/big.i" -o big.s
}

# Views are evicted while replays are noted, so notes of replays must be forgotten.
test_oracle_templates() {
    need g++
    check g++ -std=c++17 -E -o "$T/templates.ii" "$programs_dir/templates.cpp"
    oracle 97 30000 cc1plus "$(gcc -print-prog-name=cc1plus)" -quiet -std=c++17 -O1 \
        -fpreprocessed "$T/templates.ii" -o "$T/templates.s"
}

test_oracle_python3() {
    PYTHONMALLOC=malloc oracle 100 1000 python3 "$PYTHON" "$programs_dir/python_json.py"
}

test_oracle_python3_threads() {
    PYTHONMALLOC=malloc oracle 100 1000 python3 "$PYTHON" "$programs_dir/python_threads.py"
}

test_oracle_node() {
    need node
    oracle 100 300 node "$(type -P node)" "$programs_dir/node_work.js"
    oracle 20 300 node "$(type -P node)" "$programs_dir/node_paths.js"
}

test_oracle_perl() {
    need perl
    PERL_HASH_SEED=0 oracle 100 1000 perl perl "$programs_dir/perl_work.pl"
}

test_oracle_git() {
    need git
    git init -q -b main "$T/repository"
    awk -v commits=400 -f "$programs_dir/git_history.awk" >"$T/stdin"
    oracle 10 100 git git -C "$T/repository" fast-import --quiet
    rm "$T/stdin"
    oracle 100 100 git git -C "$T/repository" log -p --stat --all
    oracle 10 100 git git -C "$T/repository" rev-list --objects --all
    oracle 1 100 git git -C "$T/repository" pack-objects --revs --all --threads=2 -q \
        --no-reuse-delta --no-reuse-object packed
}

test_oracle_redis() {
    need redis-server redis-benchmark
    local server
    MEMCTX_VERIFY=100 "$MEMCTX" run -- redis-server --port 0 --unixsocket "$T/redis.sock" \
        --dir "$T" --save "" >"$T/redis.log" &
    server=$!
    echo "$server" >"$T/redis.pid"
    stop_at_end "$T/redis.pid"
    wait_until 60 redis-cli -s "$T/redis.sock" ping || fail "redis-server does not answer"
    redis_load
    redis-benchmark -s "$T/redis.sock" -n 10000 -r 5000 -c 20 -q >/dev/null || fail "benchmark"
    wait_socket "$server"
    no_mismatch "$server" 1000
    dump "$server"
    redis-cli -s "$T/redis.sock" shutdown nosave
    wait "$server" || fail "exit status $?"
    rm "$T/redis.pid"
}

test_oracle_postgres() {
    pg_begin
    (cd / && exec "${as[@]}" env MEMCTX_VERIFY=100 "$ours_command" run -- "$pg_bin/initdb" \
        -D "$T/data" -A trust -U tester --no-sync --locale=C >"$T/initdb.log") || fail "initdb"
    export MEMCTX_VERIFY=20
    pg_start "$T/data" "$ours_command" run --
    pg_psql -f "$programs_dir/postgres.sql" >"$T/sql.out" 2>&1
    # A connection runs SQL and then stays open, while the test asks its backend.
    pg_rest_begin <"$programs_dir/postgres.sql" >"$T/rest.out" 2>&1
    local backend
    backend=$(pg_resting)
    wait_socket "$backend"
    no_mismatch "$backend" 100
    no_mismatch "$pg_server" 1
    pg_rest_end
    pg_stop >"$T/end"
    equal "the end" "exit status 0" "$(cat "$T/end")"
}

test_oracle_sqlite3() {
    need sqlite3
    {
        printf '%s\n' 'create table t (n int, w text);' \
            'with recursive c(i) as (select 1 union all select i + 1 from c where i < 30000)' \
            "insert into t select i * 7919 % 9973, 'word' || i from c;" \
            'create index i on t (n); select count(*), sum(n) from t group by n % 100;'
        # The sqlite3 of Debian 13 makes 907 allocations for the lines above, and 12 for each of
        # these statements.
        seq -f 'select n, max(w) from t where n = %.0f group by n order by 2 limit 3;' 1000
    } >"$T/stdin"
    oracle 10 1000 sqlite3 sqlite3 work.db
}

test_oracle_programs() {
    build fibers jumps threads signals dlopen_loop plugin_a.so plugin_b.so
    local name
    for name in fibers jumps signals; do
        echo "$name:"
        oracle 1 100 "$name" "$bin_dir/$name"
    done
    echo "threads:"
    oracle 11 10000 threads "$bin_dir/threads"
    echo "dlopen_loop:"
    oracle 3 10000 dlopen_loop "$bin_dir/dlopen_loop" "$bin_dir"
}

# A piece of such a stack always has room for malloc, but seldom for libunwind unless gold links the
# program, which adds 16 KiB where a function without -fsplit-stack is called.
test_oracle_split_stack() {
    need gcc ld.gold
    build split_stack
    oracle 7 100 split_stack "$bin_dir/split_stack"
}

# Small tables, so that functions are folded, paths wait, and replays are made.
test_oracle_wander() {
    build wander
    MEMCTX_TABLES=1M oracle 11 10000 wander "$bin_dir/wander" 3 20000
    MEMCTX_TABLES=4M MEMCTX_DEPTH=128 oracle 11 10000 wander "$bin_dir/wander" 3 20000
    MEMCTX_TABLES=1M MEMCTX_DEPTH=8 oracle 11 10000 wander "$bin_dir/wander" 3 20000
    MEMCTX_TABLES=1M MEMCTX_FOLD=off oracle 11 10000 wander "$bin_dir/wander" 3 20000
}

test_oracle_chains() {
    build chains
    MEMCTX_TABLES=1M oracle 23 10000 chains "$bin_dir/chains"
}

# Traces of folded paths, in which some words may differ.
test_oracle_twins() {
    build twins
    MEMCTX_TABLES=1M oracle 13 10000 twins "$bin_dir/twins" 100 13
    MEMCTX_TABLES=16M oracle 13 10000 twins "$bin_dir/twins" 100 13
    MEMCTX_TABLES=4M MEMCTX_DEPTH=8 oracle 13 10000 twins "$bin_dir/twins" 100 13
}

# Traces that lead to sites, while functions are folded.
test_oracle_often() {
    build often
    MEMCTX_TABLES=768K oracle 13 10000 often "$bin_dir/often"
    MEMCTX_TABLES=1M oracle 13 10000 often "$bin_dir/often"
}

# Threads that allocate while they hold the loader's lock, and children that need it.
test_oracle_callbacks() {
    build callbacks
    oracle 7 100 callbacks "$bin_dir/callbacks" visits
    oracle 7 100 callbacks "$bin_dir/callbacks" forks
}

test_oracle_rust() {
    HOME=$user_home need_working rustc --version
    build rust_program
    oracle 10 1000 rust_program "$bin_dir/rust_program"
}
