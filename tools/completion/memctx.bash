# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# memctx.bash - bash completion: verbs, options and their values; for TARGET the processes with a
# control socket (pid or name) and files. scripts/check-completion compares it with the help texts.

# Adds to COMPREPLY the pids that have a control socket, and the names of their processes. HOW is
# `quoted` for names as words of the shell, or `name` if readline quotes them. Another user chooses
# the names of his processes, so a name must not go through compgen -W, which executes $(...).
_memctx_targets() { # HOW WORD
    local directory socket pid name quoted
    for directory in "${XDG_RUNTIME_DIR:-/nonexistent}/memctx" "/run/user/$UID/memctx" \
        "/tmp/memctx-$UID"; do
        [[ -O $directory ]] || continue # anybody may make the one in /tmp
        for socket in "$directory"/*.sock; do
            pid=${socket##*/}
            pid=${pid%.sock}
            [[ -S $socket && $pid != *[!0-9]* ]] || continue
            { IFS= read -r name <"/proc/$pid/comm"; } 2>/dev/null || continue
            printf -v quoted %q "$name"
            [[ $pid != "$2"* ]] || COMPREPLY+=("$pid")
            [[ $name != "$2"* && $quoted != "$2"* ]] || COMPREPLY+=("${!1}")
        done
    done
}

# Adds to COMPREPLY the names that `compgen KIND` finds: files (-f), folders (-d), commands (-c).
# Readline quotes blanks in them, and writes "/" behind a folder.
_memctx_files() { # KIND WORD
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen "$1" -- "$2")
    compopt -o filenames 2>/dev/null
}

# Prints NAME= for each setting of `memctx options`, one a line; WHEN is live, start or live|start.
_memctx_settings() { # WHEN
    "${COMP_WORDS[0]}" options 2>/dev/null | sed -n -E "s/^([a-z_]+) +($1) .*/\\1=/p"
}

_memctx() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local verb=${COMP_WORDS[1]} common="-h --help -V --version" names="--no-symbols --debug-dir"
    local verbs="run ps dump top frag doctor postmortem watch export report serve push agent mark
        diff reset trim isolate merge verify rules set options"
    local options='' words='' files='' targets='' at
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$verbs help $common" -- "$word")
        return
    fi
    case $verb in
        help)
            ((COMP_CWORD > 2)) || mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$word")
            return
            ;;
        run) options="--depth --verify --no-children --rule --marks --record --names --set -v
            --verbose" ;;
        ps) options="--json --no-pager --human --bytes" ;;
        dump) options="--json -o --output --flat --sort --min --depth --limit --context --site
            --threads --human --bytes --peak --self --outside --stream --svg --no-pager $names" ;;
        top) options="--all --match --batch --interval --json --limit --sort --threads --tree
            --human --bytes $names" ;;
        frag) options="--json --map --quick --pages --no-pager --sort --min --limit --depth
            --context --site --human --bytes $names" ;;
        doctor) options="--json --no-pager --human --bytes --watch --fail-on --limit --all --full
            --depth $names" ;;
        postmortem) options="--json --no-pager --human --bytes --last --limit --all --depth --names
            $names" ;;
        watch) options="--when --do --keep --cool --dir --every --timeout --memory --all --match
            --check --json $names" ;;
        export) options="--pprof --otlp --attribute --limit-samples --seconds --folded --speedscope
            --heaptrack --csv --metric $names" ;;
        report) options="-o --output --before $names" ;;
        serve) options="--all --match --listen --token-file --cert --key --every --check" ;;
        push) options="--pyroscope --parca --otlp --pushgateway --all --match --label --every --once
            --token-file --ca-file --cert --key --limit-samples --check --json" ;;
        agent) options="--config --check --json" ;;
        mark) options="--list --json" ;;
        diff) options="--json --no-pager --min --limit --depth --human --bytes $names" ;;
        reset) options="--json --context --site --named --timeout $names" ;;
        trim | isolate | merge) options="--json --context --site --human --bytes $names" ;;
        set) options="--json --context --site --for --human --bytes $names" ;;
        verify) options="--json --no-pager --human --bytes" ;;
        rules) options="--json --no-pager --human --bytes --add --again --clear" ;;
        options) options="--json --no-pager" ;;
        *) return ;;
    esac
    if [[ $verb == run ]]; then
        # All words after the program's name are arguments of the program: offer file names.
        for ((at = 2; at < COMP_CWORD; at++)); do
            case ${COMP_WORDS[at]} in
                --depth | --verify | --rule | --marks | --set) ((at++)) ;;
                --) ((at++)) && break ;;
                # Bash makes three words of NAME=VALUE.
                [=:]*) ((at++)) ;;
                -*) ;;
                *) break ;;
            esac
        done
        if ((at < COMP_CWORD)); then
            _memctx_files -f "$word"
            return
        fi
        [[ $before != = || ${COMP_WORDS[COMP_CWORD - 2]} != --record ]] || before=--dir
    fi
    case $before in
        --sort | --metric)
            words="requested reserved allocs frees waste pinned peak chunks"
            [[ $verb != top ]] || words="live growth waste allocs chunks"
            ;;
        --fail-on) words="info warning critical" ;;
        --set) words=$(_memctx_settings 'live|start') ;;
        --do) words="snapshot doctor exec:" ;;
        --when) words="used> rss> inuse> waste> growth> psi> ends" ;;
        --debug-dir | --dir)
            _memctx_files -d "$word"
            return
            ;;
        --otlp)
            [[ $verb == push ]] || _memctx_files -f "$word"
            return
            ;;
        -o | --output | --config | --svg | --pprof | --folded | --speedscope | --heaptrack | \
            --csv | --token-file | --ca-file | --cert | --key)
            _memctx_files -f "$word"
            return
            ;;
        --depth | --verify | --marks | --last | --min | --limit | --limit-samples | --seconds | \
            --site | --context | --watch | --for | --batch | --interval | --keep | --cool | \
            --every | --timeout | --memory | --match | --listen | --pyroscope | --parca | \
            --pushgateway | --label | --attribute)
            return
            ;;
        *)
            case $word in
                -*) words="$options $common" ;;
                *)
                    case $verb in
                        run)
                            _memctx_files -c "$word"
                            [[ $word != */* ]] || _memctx_files -d "$word"
                            ;;
                        dump | top | frag | doctor | postmortem | export | report | verify | diff)
                            files=name
                            ;;&
                        mark) [[ " ${COMP_WORDS[*]} " != *" --list "* ]] || files=name ;;&
                        dump | frag | doctor | watch | export | report | serve | push | verify | \
                            diff | mark | reset | trim | isolate | merge | rules | options | top)
                            targets=quoted
                            ;;
                        set)
                            ((COMP_CWORD > 2)) || targets=quoted
                            ((COMP_CWORD == 2)) || words="$(_memctx_settings live) record="
                            # memctx set: the words that may follow the number of a context.
                            ((COMP_CWORD == 2)) ||
                                [[ ! $before =~ ^[0-9]+$ || $COMP_CWORD -eq 3 ]] ||
                                words="unfold fold policy="
                            ;;
                    esac
                    ;;
            esac
            ;;
    esac
    [[ $words != *= ]] || compopt -o nospace 2>/dev/null
    [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    [[ -z $targets ]] || _memctx_targets "${files:-$targets}" "$word"
    [[ -z $files ]] || _memctx_files -f "$word"
}

complete -F _memctx memctx
