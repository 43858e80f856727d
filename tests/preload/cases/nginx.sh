# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# nginx: a master and two workers, static files, gzip, a proxy to itself, a reload during requests,
# reopened logs, a graceful end.

free_port() {
    "$PYTHON" -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

nginx_config() { # DIRECTORY PORT
    local user=
    [ "$(id -u)" -ne 0 ] || user="user root;"
    mkdir -p "$1/www" "$1/tmp"
    seq 1 200000 >"$1/www/large.txt"
    seq 1 100 >"$1/www/small.txt"
    cat >"$1/nginx.conf" <<EOT
$user
worker_processes 2;
pid $1/nginx.pid;
error_log $1/error.log warn;
daemon off;
events { worker_connections 128; }
http {
    client_body_temp_path $1/tmp/body; proxy_temp_path $1/tmp/proxy;
    fastcgi_temp_path $1/tmp/fastcgi; uwsgi_temp_path $1/tmp/uwsgi; scgi_temp_path $1/tmp/scgi;
    access_log $1/access.log;
    gzip on; gzip_types text/plain; gzip_min_length 100;
    server {
        listen 127.0.0.1:$2;
        root $1/www;
        location /proxy/ { proxy_pass http://127.0.0.1:$2/; proxy_buffers 4 4k; }
        location /moved { return 301 /small.txt; }
        location ~ ^/rx/(.*)\$ { rewrite ^/rx/(.*)\$ /\$1 break; }
    }
}
EOT
}

nginx_serve() { # PREFIX PORT COMMAND...
    local prefix=$1 port=$2 dir=$T/$1 server url=http://127.0.0.1:$2 i
    shift 2
    nginx_config "$dir" "$port"
    "$@" nginx -p "$dir" -c "$dir/nginx.conf" 2>"$dir/stderr" &
    server=$!
    echo "$server" >"$T/nginx.pid"
    wait_until 60 curl -sf -o /dev/null "$url/small.txt" || fail "nginx does not answer"
    if [ "$prefix" = ours ]; then
        wait_socket "$server"
        watch_begin "$server" >&2
    fi
    for path in small.txt large.txt proxy/large.txt rx/small.txt moved nothing; do
        curl -s -m 60 -w '%{http_code}\n' "$url/$path" | cksum
        curl -s -m 60 --compressed -w '%{http_code}\n' "$url/$path" | cksum
    done
    for i in 1 2 3 4; do
        seq -f "$url/small.txt?$i-%g" 1 150 | sed 's/^/url = /' |
            curl -s -m 60 -K - | cksum >"$dir/many.$i" &
        many[i]=$!
    done
    for i in 1 2 3; do
        kill -HUP "$server"
        sleep 0.3
        curl -s -m 60 -o /dev/null -w '%{http_code}\n' "$url/small.txt"
    done
    wait "${many[@]}"
    cat "$dir"/many.*
    mv "$dir/access.log" "$dir/access.old"
    kill -USR1 "$server"
    wait_until 60 test -e "$dir/access.log" || fail "the log was not reopened"
    curl -s -m 60 "$url/proxy/small.txt" | cksum
    if [ "$prefix" = ours ]; then
        watch_end >&2
        dump "$server" --quiescent >&2
        nginx_workers "$server" >&2
    fi
    kill -QUIT "$server"
    wait "$server"
    echo "exit status $?"
    cat "$dir/stderr"
    sed -E 's/^[^[]*//' "$dir/error.log"
}

# Checks the dump of each worker, a forked process.
nginx_workers() { # MASTER
    local worker
    for worker in $(pgrep -P "$1"); do
        wait_until 5 test -S "$(socket_of "$worker")" ||
            curl -s -m 60 -o /dev/null "http://127.0.0.1:$port/large.txt"
        if [ -S "$(socket_of "$worker")" ]; then
            dump "$worker" --quiescent
            echo "worker $worker was dumped"
        fi
    done
}

test_nginx_server() {
    need nginx curl pgrep
    stop_at_end "$T/nginx.pid"
    local many=()
    nginx_serve plain "$(free_port)" >"$T/plain.out" || fail "$(tail -n 3 "$T/plain.out")"
    nginx_serve ours "$(free_port)" "$MEMCTX" run -- >"$T/ours.out" ||
        fail "$(tail -n 3 "$T/ours.out")"
    was_preloaded
    filter=('s/127.0.0.1:[0-9]+/HOST/' 's/[0-9]+#[0-9]+: //' "s#$T/(plain|ours)##")
    echo 0 >"$T/plain.status"
    echo 0 >"$T/ours.status"
    : >"$T/plain.err"
    : >"$T/ours.err"
    compare
    grep -q 'exit status 0' "$T/ours.out" || fail "nginx ended badly"
}
