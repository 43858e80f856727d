# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# Programs that install a seccomp filter, or start under one. The filter kills the process at system
# calls that only the library would make. A client dumps all processes with a socket every 20 ms.

# Compares output and exit status without the library, with LD_PRELOAD and under memctx run.
same_sandboxed() { # COMMAND...
    local mode
    capture plain "$@"
    grep -q 'all in order' "$T/plain.out" ||
        fail "without us: $(cat "$T/plain.status" "$T/plain.err")"
    gadfly_begin
    capture ours "$MEMCTX" run -- "$@"
    compare
    for mode in auto eager; do
        capture ours env "LD_PRELOAD=$LIBRARY" "MEMCTX_CONTROL=$mode" "$@"
        compare
    done
    gadfly_end
}

test_sandbox_strict() {
    build sandboxed
    same_sandboxed "$bin_dir/sandboxed" strict 0
    same_sandboxed "$bin_dir/sandboxed" strict 300
}

test_sandbox_counter() {
    build sandboxed
    same_sandboxed "$bin_dir/sandboxed" counter 0
    same_sandboxed "$bin_dir/sandboxed" counter 300
}

test_sandbox_short_list() {
    build sandboxed
    same_sandboxed "$bin_dir/sandboxed" short 0
    same_sandboxed "$bin_dir/sandboxed" short 300
}

test_sandbox_late() {
    build sandboxed
    same_sandboxed "$bin_dir/sandboxed" late 0
    same_sandboxed "$bin_dir/sandboxed" late 300
}

test_sandbox_late_all_threads() {
    build sandboxed
    same_sandboxed "$bin_dir/sandboxed" all 0
    same_sandboxed "$bin_dir/sandboxed" all 300
}

# The control thread of a parent goes on if children install filters (also a vfork child), or if the
# parent only asks whether the kernel has filters, or its filter is refused.
test_sandbox_parent_goes_on() {
    build sandboxed
    filter=('s/^threads: [12]/threads/')
    local how
    for how in none children question; do
        same_sandboxed "$bin_dir/sandboxed" "$how" 50
        grep -q -x 'threads: 2' "$T/ours.out" || fail "$how: there is no control thread"
    done
}

# The filter is installed before exec, as service managers do.
test_sandbox_before_exec() {
    build sandboxed filtering
    local group
    for group in network clone; do
        same_sandboxed "$bin_dir/filtering" "$group" -- "$bin_dir/sandboxed" none 50
        capture ours "$bin_dir/filtering" "$group" -- "$MEMCTX" run -- "$bin_dir/sandboxed" none 50
        compare
    done
    # With MEMCTX_CONTROL=always the control thread starts under a filter that allows its calls.
    capture ours "$bin_dir/filtering" nothing -- env "LD_PRELOAD=$LIBRARY" MEMCTX_CONTROL=always \
        "$bin_dir/sandboxed" none 50
    grep -q -x 'threads: 2' "$T/ours.out" || fail "always: no control thread"
}

# All processes are under one filter, as in a container. The control thread starts if a child
# process that makes its system calls first survives.
test_sandbox_container() {
    build sandboxed filtering
    local inside=(unshare --pid --fork --mount-proc)
    "${inside[@]}" true 2>/dev/null || skip "no namespace can be made here"
    capture ours "$bin_dir/filtering" nothing -- "${inside[@]}" \
        sh -c '"$@"; exit' sh "$MEMCTX" run -- "$bin_dir/sandboxed" none 50
    grep -q -x 'threads: 2' "$T/ours.out" || fail "there is no control thread"
    local group
    for group in network barrier; do
        capture ours "$bin_dir/filtering" "$group" -- "${inside[@]}" \
            sh -c '"$@"; exit' sh "$MEMCTX" run -- "$bin_dir/sandboxed" none 50
        equal "what it said under a filter that ends it ($group)" "threads: 1
all in order" "$(cat "$T/ours.out")"
    done
}

# Filters play older kernels, which do not know newer system calls and requests of madvise. The
# library and the command work without them.
test_sandbox_older_kernels() {
    build older_kernel call_chain
    local version verb older
    export MEMCTX_CONTROL=always # the library cannot know that the filter permits its calls
    for version in 3.10 4.18 5.4; do
        older=("$bin_dir/older_kernel" "$version")
        client=("${older[@]}" "$MEMCTX")
        same "${older[@]}" "$PYTHON" -X utf8 "$programs_dir/python_subprocess.py"
        PYTHONMALLOC=malloc same "${older[@]}" "$PYTHON" -X utf8 "$programs_dir/python_threads.py"
        hold_begin call_chain "${older[@]}" "$bin_dir/call_chain"
        grep -q -x 'Seccomp:.2' "/proc/$held_pid/status" || fail "the filter does not hold"
        dump "$held_pid" --quiescent
        chain_paths # also shows that functions have names
        for verb in ps "doctor $held_pid" "frag $held_pid" "dump --outside $held_pid" \
            "top --batch 1 $held_pid"; do
            # shellcheck disable=SC2086
            "${client[@]}" $verb >"$T/verb.out" || fail "Linux $version: $verb: exit status $?"
            grep -q -w "$held_pid" "$T/verb.out" ||
                fail "Linux $version: $verb says nothing of $held_pid: $(cat "$T/verb.out")"
        done
        hold_end
    done
}

# `memctx ps` lists a process under a filter with the reason why it has no socket, also if only one
# of its threads has a filter.
test_sandbox_ps() {
    build sandboxed filtering
    local how pid
    mkfifo "$T/in"
    for how in late thread filtered; do
        # The process stays until the other end of its standard input is closed.
        case $how in
            filtered)
                "$bin_dir/filtering" clone -- "$MEMCTX" run -- "$bin_dir/sandboxed" none 600 stay \
                    <"$T/in" >/dev/null &
                ;;
            *)
                env "LD_PRELOAD=$LIBRARY" MEMCTX_CONTROL=eager "$bin_dir/sandboxed" "$how" 300 \
                    stay <"$T/in" >/dev/null &
                ;;
        esac
        pid=$!
        exec 7>"$T/in"
        wait_until 60 sandbox_ps_says "$pid" || fail "$how: $("$MEMCTX" ps)"
        exec 7>&-
        wait "$pid" || fail "$how: exit status $?"
    done
}

sandbox_ps_says() { # PID
    "$MEMCTX" ps | grep -A1 "^ *$1 " |
        grep -q 'not asked: .*its system calls are filtered (seccomp)'
}

# --- sshd -----------------------------------------------------------------------------------------

sshd_program() {
    PATH=$PATH:/usr/sbin:/sbin type -P sshd
}

# Starts sshd. The unprivileged child of sshd has a filter that kills at most system calls.
sshd_begin() { # PORT COMMAND...
    local port=$1
    shift
    cat >"$T/sshd_config" <<EOT
Port $port
ListenAddress 127.0.0.1
HostKey $T/host_key
PidFile $T/sshd.pid
AuthorizedKeysFile $T/authorized_keys
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
UsePAM no
Subsystem sftp internal-sftp
EOT
    "$@" "$(sshd_program)" -D -e -f "$T/sshd_config" >"$T/sshd.out" 2>"$T/sshd.log" &
    wait_until 60 test -s "$T/sshd.pid" || fail "sshd does not start: $(tail -n 5 "$T/sshd.log")"
}

sshd_end() {
    stop_process "$(cat "$T/sshd.pid")" TERM
    rm -f "$T/sshd.pid"
}

# Uses the server: a login, a command, files copied in both directions.
sshd_use() { # PORT
    local options=(-F /dev/null -i "$T/key" -o BatchMode=yes -o StrictHostKeyChecking=no
        -o "UserKnownHostsFile=$T/known_hosts" -o LogLevel=ERROR -o ConnectTimeout=20) i
    rm -rf "$T/there" "$T/back"
    mkdir "$T/there"
    for i in 1 2 3; do
        ssh "${options[@]}" -p "$1" root@127.0.0.1 \
            'echo "logged in as $(id -un)"; seq 1 50000 | cksum'
        echo "exit status $?"
    done
    scp -q "${options[@]}" -P "$1" "$T/file" "root@127.0.0.1:$T/there/file"
    echo "exit status $?"
    sftp -q "${options[@]}" -P "$1" -b - root@127.0.0.1 >/dev/null <<EOT
get $T/there/file $T/back
EOT
    echo "exit status $?"
    cksum <"$T/there/file"
    cksum <"$T/back"
}

test_sandbox_sshd() {
    need_root
    need ssh scp sftp ssh-keygen
    sshd_program >/dev/null || skip "sshd is not installed"
    local port
    port=$(free_port)
    stop_at_end "$T/sshd.pid"
    mkdir -p /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f "$T/host_key"
    ssh-keygen -q -t ed25519 -N '' -f "$T/key"
    cp "$T/key.pub" "$T/authorized_keys"
    seq 1 400000 >"$T/file"
    sshd_begin "$port" env
    sshd_use "$port" >"$T/plain.out" 2>"$T/plain.err"
    sshd_end
    : >"$T/plain.status"
    : >"$T/ours.status"
    grep -q 'logged in as root' "$T/plain.out" ||
        fail "no login without us: $(tail -n 5 "$T/sshd.log")"
    local start mode
    for mode in run auto eager; do
        start=("$MEMCTX" run --)
        [ "$mode" = run ] || start=(env "LD_PRELOAD=$LIBRARY" "MEMCTX_CONTROL=$mode")
        rm -rf "$T/run/memctx"
        gadfly_begin
        sshd_begin "$port" "${start[@]}"
        [ "$mode" = auto ] || wait_socket "$(cat "$T/sshd.pid")"
        sshd_use "$port" >"$T/ours.out" 2>"$T/ours.err"
        sshd_end
        compare
        if [ "$mode" = auto ]; then
            gadfly_end
        else
            gadfly_end 5
        fi
    done
}

# --- chromium -------------------------------------------------------------------------------------

# chromium with its sandbox, which its helpers can enter only with a single thread.
test_sandbox_chromium() {
    need_root # as root chromium runs only without a sandbox, so the test changes the user
    need chromium setpriv
    local page='data:text/html,<p id=a>x</p>'
    page+='<script>document.getElementById("a").textContent = 6 * 7</script>'
    local as=(setpriv --reuid=65534 --regid=65534 --clear-groups env "HOME=$T/home")
    chmod 755 "$T"
    chmod 777 "$T/home"
    cp "$LIBRARY" "$T/libmemctx.so"
    local mode command=(timeout 60 chromium --headless --hide-scrollbars
        "--user-data-dir=$T/home/profile" --dump-dom "$page")
    capture plain "${as[@]}" "${command[@]}"
    grep -q '>42<' "$T/plain.out" || skip "no sandbox can be had here: $(tail -n 1 "$T/plain.err")"
    : >"$T/plain.err" # messages about missing D-Bus sockets
    for mode in eager auto; do
        rm -rf "$T/home/profile"
        capture ours "${as[@]}" "LD_PRELOAD=$T/libmemctx.so" "MEMCTX_CONTROL=$mode" "${command[@]}"
        : >"$T/ours.err"
        compare
    done
}
