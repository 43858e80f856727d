# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# memctx.bash - bash completion: verbs, options, and for TARGET the pids that have a socket, their
# names and snapshot files. scripts/check-completion holds it against `memctx VERB --help`.

# The pids with a socket, and the names of their processes.
_memctx_targets() {
    local directory socket pid name
    for directory in "${XDG_RUNTIME_DIR:-/nonexistent}/memctx" "/run/user/$UID/memctx" \
        "/tmp/memctx-$UID"; do
        for socket in "$directory"/*.sock; do
            pid=${socket##*/}
            pid=${pid%.sock}
            if [[ -S $socket && $pid =~ ^[0-9]+$ && -d /proc/$pid ]]; then
                echo "$pid"
                read -r name 2>/dev/null <"/proc/$pid/comm" && echo "${name// /}"
            fi
        done
        [[ -d $directory ]] && return
    done
}

# name=value for `set`, from what the target or the library says of itself.
_memctx_settings() {
    compgen -A variable MEMCTX_ | tr '[:upper:]' '[:lower:]' | sed 's/^memctx_//'
}

_memctx() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb= at options=
    local common="--help --version"
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        if [[ ${COMP_WORDS[at]} != -* ]]; then
            verb=${COMP_WORDS[at]}
            break
        fi
    done
    if [[ -z $verb ]]; then
        mapfile -t COMPREPLY < <(compgen -W "run ps dump frag mark diff reset trim set options
            $common" -- "$word")
        return
    fi
}

complete -F _memctx memctx
