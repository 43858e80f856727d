# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# redis-server on a Unix socket: a load of all data types, expiry, background save (a fork),
# append-only file, benchmark, restart from the saved data.

# Loads equal data in both runs. redis prints a digest of all data.
redis_load() {
    awk 'BEGIN {
        for (i = 0; i < 20000; i++) {
            printf "SET key:%d %s\n", i, sprintf("%0" (i % 300 + 1) "d", i)
            if (i % 3 == 0) printf "HSET hash:%d f%d %d\n", i % 100, i % 700, i
            if (i % 4 == 0) printf "RPUSH list:%d %d-%d\n", i % 50, i, i * i
            if (i % 5 == 0) printf "ZADD set:%d %d member%d\n", i % 20, i, i
            if (i % 6 == 0) printf "SADD bag:%d %d\n", i % 30, i
            if (i % 7 == 0) printf "DEL key:%d\n", i - 3
            if (i % 8 == 0) printf "APPEND key:%d %d\n", i - 5, i
        }
    }' | redis-cli -s "$T/redis.sock" --pipe | tail -n 1
}

# Redis 7 has the command DEBUG only with a setting, which earlier versions do not know.
redis_debug=()
case $(redis-server --version 2>/dev/null) in
    *v=[0-6].*) ;;
    *) redis_debug=(--enable-debug-command yes) ;;
esac

redis_serve() { # PREFIX COMMAND...: prints the server's answers
    local prefix=$1 server cli=(redis-cli -s "$T/redis.sock")
    shift
    "$@" redis-server --port 0 --unixsocket "$T/redis.sock" --dir "$T/$prefix" --appendonly yes \
        ${redis_debug[@]+"${redis_debug[@]}"} --save "" --daemonize no >>"$T/$prefix.log" &
    server=$!
    echo "$server" >"$T/redis.pid"
    wait_until 60 "${cli[@]}" ping || {
        tail -n 5 "$T/$prefix.log"
        fail "redis-server does not answer"
    }
    if [ "$prefix" = ours ]; then
        wait_socket "$server"
        watch_begin "$server" >&2
    fi
    redis_load
    "${cli[@]}" debug digest
    "${cli[@]}" bgsave
    redis-benchmark -s "$T/redis.sock" -n 20000 -r 5000 -c 20 -q \
        -t set,get,incr,lpush,rpop,sadd,hset,spop,zadd,mset >"$T/$prefix.benchmark"
    wc -l <"$T/$prefix.benchmark"
    wait_until 60 sh -c "redis-cli -s '$T/redis.sock' info persistence |
        grep -q rdb_bgsave_in_progress:0" || fail "BGSAVE does not end"
    "${cli[@]}" info persistence | grep rdb_last_bgsave_status
    "${cli[@]}" flushall
    redis_load
    "${cli[@]}" eval 'local t = {} for i = 1, 20000 do t[i] = tostring(i) end
        return string.len(table.concat(t))' 0
    "${cli[@]}" debug reload
    "${cli[@]}" bgrewriteaof
    wait_until 60 sh -c "redis-cli -s '$T/redis.sock' info persistence |
        grep -q aof_rewrite_in_progress:0" || fail "BGREWRITEAOF does not end"
    "${cli[@]}" debug digest
    if [ "$prefix" = ours ]; then
        watch_end >&2
        dump "$server" --quiescent >&2
    fi
    "${cli[@]}" shutdown save
    wait "$server"
    echo "exit status $?"
}

test_redis_server() {
    need redis-server redis-cli redis-benchmark
    stop_at_end "$T/redis.pid"
    mkdir "$T/plain" "$T/ours"
    redis_serve plain >"$T/plain.out" || fail "$(tail -n 3 "$T/plain.out")"
    redis_serve ours "$MEMCTX" run -- >"$T/ours.out" || fail "$(tail -n 3 "$T/ours.out")"
    was_preloaded
    grep -c OK "$T/ours.out" >/dev/null || fail "redis said nothing"
    equal "answers" "$(cat "$T/plain.out")" "$(cat "$T/ours.out")"
    # A redis-server without the library reads the data that the preloaded server saved.
    redis-server --port 0 --unixsocket "$T/redis.sock" --dir "$T/ours" --appendonly yes \
        ${redis_debug[@]+"${redis_debug[@]}"} --save "" >"$T/again.log" &
    local again=$!
    echo "$again" >"$T/redis.pid"
    wait_until 60 sh -c "redis-cli -s '$T/redis.sock' ping | grep -q PONG" || fail "no restart"
    equal "digest after the restart" "$(grep -E '^[0-9a-f]{40}$' "$T/plain.out" | tail -n 1)" \
        "$(redis-cli -s "$T/redis.sock" debug digest)"
    redis-cli -s "$T/redis.sock" shutdown nosave
    wait "$again" # not for other background jobs, such as a dumping client
}
