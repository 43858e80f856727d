# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# python3: with its own small-block allocator and without, threads, processes, C libraries.

python_program() { # FILE ARGUMENT...
    same "$PYTHON" -X utf8 "$programs_dir/$1" "${@:2}"
}

test_python3_json() {
    python_program python_json.py
}

test_python3_json_malloc() {
    PYTHONMALLOC=malloc python_program python_json.py
}

test_python3_threads() {
    PYTHONMALLOC=malloc python_program python_threads.py
}

test_python3_fork() {
    python_program python_processes.py fork
}

test_python3_spawn() {
    PYTHONMALLOC=malloc python_program python_processes.py spawn
}

test_python3_subprocess() {
    python_program python_subprocess.py
}

test_python3_ctypes() {
    python_program python_ctypes.py
}

test_python3_sqlite3() {
    PYTHONMALLOC=malloc python_program python_sqlite3.py
}

# A python3 server on standard input is dumped while it works and while it is idle.
test_python3_watched() {
    mkfifo "$T/in" "$T/out"
    PYTHONMALLOC=malloc "$MEMCTX" run -- "$PYTHON" "$programs_dir/python_server.py" \
        <"$T/in" >"$T/out" &
    local server=$! answer round
    exec 5>"$T/in" 6<"$T/out"
    read -r -t 30 -u 6 answer || fail "python3 did not start"
    equal "first line" ready "$answer"
    wait_socket "$server"
    watch_begin "$server"
    for round in 1 2 3 4 5 6; do
        echo "work 20000" >&5
        read -r -t 60 -u 6 answer || fail "no answer in round $round"
        equal "round $round" "done 20000 306670" "$answer"
    done
    watch_end
    dump "$server" --quiescent
    exec 5>&-
    wait "$server" || fail "python3 ended with $?"
}
