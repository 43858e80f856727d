# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# node: collector and compiler threads, worker threads, buffers, zlib, crypto, child processes.

test_node_work() {
    need node
    same node "$programs_dir/node_work.js"
}

# Prints the share of the allocations, in percent, whose paths end at code without unwind
# information.
node_unknown() {
    "$PYTHON" - "$T/dump.json" <<'EOF'
import json, sys
dump = json.load(open(sys.argv[1]))
print(sum(100 * context["total"]["allocs"] for context in dump["contexts"]
          if context["frame"] and context["frame"]["function"] == "[no unwind information]") //
      dump["totals"]["allocs"])
EOF
}

# Paths lead through the code that V8 makes.
test_node_paths() {
    need node
    same node "$programs_dir/node_paths.js"
    hold_begin node "$(type -P node)" "$programs_dir/node_paths.js"
    dump "$held_pid"
    hold_end
    equal "percent of allocations with an unknown caller" 0 "$(node_unknown)"
    equal "the depth" 64 "$(depth_of_dump)"
}

test_node_server() {
    need node
    mkfifo "$T/in" "$T/out"
    "$MEMCTX" run -- node "$programs_dir/node_server.js" <"$T/in" >"$T/out" &
    local server=$! answer round
    exec 5>"$T/in" 6<"$T/out"
    read -r -t 60 -u 6 answer || fail "node did not start"
    equal "first line" ready "$answer"
    wait_socket "$server"
    watch_begin "$server"
    for round in 1 2 3 4 5; do
        echo "work" >&5
        read -r -t 60 -u 6 answer || fail "no answer in round $round"
        equal "round $round" "done 40 1600000" "$answer"
    done
    watch_end
    sleep 0.3
    dump "$server"
    exec 5>&-
    wait "$server" || fail "node ended with $?"
}
