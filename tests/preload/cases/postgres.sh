# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# postgres: initdb, a server with a dozen processes, SQL, pgbench, a stop. Root runs the server as
# postgres or nobody, because it refuses root. It listens only on a Unix socket.

# Sets pg_bin, as (words that change the user) and ours_command (a copy of the command for that
# user).
pg_begin() {
    local user
    pg_bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
    [ -n "$pg_bin" ] || skip "postgresql is not installed"
    mkdir "$T/bin"
    cp "$MEMCTX" "$LIBRARY" "$T/bin/"
    ours_command=$T/bin/memctx
    as=()
    if [ "$(id -u)" -eq 0 ]; then
        user=nobody
        ! id postgres >/dev/null 2>&1 || user=postgres
        as=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups)
        chown -R "$user" "$T"
    fi
    client=("${as[@]}" "$ours_command")
    stop_at_end "$T/pg.pid" QUIT
}

pg_psql() {
    "${as[@]}" "$pg_bin/psql" -X -h "$T" -U tester -d postgres -Atq -v ON_ERROR_STOP=0 "$@"
}

pg_start() { # DIRECTORY COMMAND...
    local dir=$1
    shift
    (cd / && exec "${as[@]}" "$@" "$pg_bin/postgres" -D "$dir" -k "$T" -c listen_addresses= \
        -c fsync=off -c max_parallel_workers_per_gather=2 -c autovacuum_naptime=1s \
        -c shared_buffers=16MB) >"$T/pg.log" 2>&1 &
    pg_server=$!
    echo "$pg_server" >"$T/pg.pid"
    wait_until 60 "$pg_bin/pg_isready" -h "$T" || {
        tail -n 5 "$T/pg.log"
        fail "postgres does not answer"
    }
}

pg_stop() {
    kill -INT "$pg_server"
    wait "$pg_server"
    echo "exit status $?"
    rm "$T/pg.pid"
}

pg_serve() { # PREFIX COMMAND...: prints the server's answers
    local prefix=$1 dir=$T/$1.data backend
    shift
    (cd / && "${as[@]}" "$@" "$pg_bin/initdb" -D "$dir" -A trust -U tester --no-sync --locale=C \
        -E UTF8) || fail "initdb: exit status $?"
    pg_start "$dir" "$@"
    if [ "$prefix" = ours ]; then
        wait_socket "$pg_server"
        watch_begin "$pg_server" >&2
    fi
    pg_psql -f - <"$programs_dir/postgres.sql" 2>&1
    (cd / && "${as[@]}" "$@" "$pg_bin/pgbench" -h "$T" -U tester -i -s 2 -q postgres) \
        >"$T/$prefix.init" 2>&1 || fail "pgbench -i: $(tail -n 3 "$T/$prefix.init")"
    (cd / && "${as[@]}" "$@" "$pg_bin/pgbench" -h "$T" -U tester -n -c 4 -j 2 -t 250 \
        postgres) >"$T/$prefix.bench" 2>&1 || fail "pgbench: $(tail -n 3 "$T/$prefix.bench")"
    (cd / && "${as[@]}" "$@" "$pg_bin/pgbench" -h "$T" -U tester -n -S -M prepared -c 2 -j 2 \
        -t 1000 postgres) >"$T/$prefix.select" 2>&1 || fail "pgbench -S"
    grep -h 'actually processed' "$T/$prefix.bench" "$T/$prefix.select"
    pg_psql -c 'select count(*), sum(delta) = (select sum(abalance) from pgbench_accounts),
        sum(delta) = (select sum(tbalance) from pgbench_tellers) from pgbench_history'
    pg_rest_begin \
        <<<"select string_agg(md5(i::text), '') is null from generate_series(1, 100000) i;"
    if [ "$prefix" = ours ]; then
        backend=$(pg_resting)
        wait_socket "$backend"
        dump "$backend" --quiescent >&2
        watch_end >&2
    fi
    pg_rest_end
    pg_stop
}

readonly pg_resters="select pid from pg_stat_activity
    where state = 'idle' and query like 'select 1 as rest%'"

# Opens a connection that runs the SQL of standard input and then stays open until pg_rest_end.
pg_rest_begin() {
    mkfifo "$T/rest"
    pg_psql -f - <"$T/rest" &
    pg_rester=$!
    exec 7>"$T/rest"
    rm "$T/rest"
    cat - <(echo "select 1 as rest;") >&7
}

pg_resting() { # prints the backend's pid of the connection that pg_rest_begin opened
    wait_until 60 pg_rests || fail "no backend that rests"
    pg_psql -c "$pg_resters"
}

pg_rests() {
    [ -n "$(pg_psql -c "$pg_resters")" ]
}

pg_rest_end() {
    exec 7>&-
    wait "$pg_rester"
}

test_postgres() {
    pg_begin
    pg_serve plain >"$T/plain.out" || fail "$(tail -n 3 "$T/plain.out")"
    pg_serve ours "$ours_command" run -- >"$T/ours.out" || fail "$(tail -n 3 "$T/ours.out")"
    was_preloaded
    filter=("s#$T/(plain|ours).data#DATA#g")
    local name
    for name in plain ours; do
        : >"$T/$name.err"
        echo 0 >"$T/$name.status"
    done
    compare
    equal "transactions" 2 "$(grep -c 'actually processed' "$T/ours.out")"
    grep -q '^1000|t|t$' "$T/ours.out" || fail "the sums of pgbench do not agree"
    grep -q '^exit status 0$' "$T/ours.out" || fail "postgres ended badly"
    # A server without the library reads the data that the preloaded server wrote.
    pg_start "$T/ours.data"
    equal "rows after the restart" 200000 "$(pg_psql -c 'select count(*) from pgbench_accounts')"
    pg_stop
}
