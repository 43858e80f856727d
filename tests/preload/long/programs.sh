# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# Large programs, while a client dumps all processes with a socket every 20 ms. Output and exit
# status must be as without the library; each test filters out parts that differ between runs
# (times, pids, the order of threads).

# Like same_status and same, but with the dumping client, which must make DUMPS dumps.
same_dumped_status() { # DUMPS STATUS COMMAND...
    local dumps=$1
    shift
    gadfly_begin
    same_status "$@"
    gadfly_end "$dumps"
}

same_dumped() { # DUMPS COMMAND...
    local dumps=$1
    shift
    same_dumped_status "$dumps" 0 "$@"
    [ -s "$T/plain.out" ] || fail "the program printed nothing: nothing was compared"
}

# --- browsers, runtimes -------------------------------------------------------------------------

test_chromium_screenshot() {
    need chromium
    cat >"$T/page.html" <<'EOT'
<!doctype html><title>start</title><style>
#grid { display: grid; grid-template-columns: repeat(20, 1fr); font: 9px monospace }
</style><div id=grid></div><canvas id=canvas width=400 height=200></canvas><script>
const grid = document.getElementById("grid");
let state = 1;
for (let i = 0; i < 4000; i++) {
    state = (state * 48271) % 2147483647;
    const cell = document.createElement("span");
    cell.textContent = state.toString(36);
    cell.style.background = "hsl(" + state % 360 + ",70%,80%)";
    grid.append(cell);
}
const context = document.getElementById("canvas").getContext("2d");
for (let i = 0; i < 2000; i++) {
    context.fillStyle = "hsl(" + i % 360 + ",90%,50%)";
    context.fillRect((i * 37) % 400, (i * 91) % 200, 9, 7);
}
document.title = "state " + state;
</script>
EOT
    # Standard error is dropped: messages about missing D-Bus sockets have times and pids.
    same_dumped 1 bash -c 'options=(--headless --no-sandbox --disable-gpu --hide-scrollbars
            --disable-dev-shm-usage --force-color-profile=srgb --window-size=800,1200)
        timeout 100 chromium "${options[@]}" --user-data-dir=profile --screenshot=page.png \
            "file://$0" 2>/dev/null && cksum page.png
        echo "exit status $?"
        timeout 100 chromium "${options[@]}" --user-data-dir=profile --dump-dom "file://$0" \
            2>/dev/null | cksum
        rm -rf profile; ls' "$T/page.html"
    grep -q 'page.png' "$T/ours.out" || fail "there is no picture"
}

test_java_jni() {
    need java javac
    build java/JniProgram.class java/libjni.so
    same_dumped 5 java -Xmx256m -cp "$bin_dir/java" JniProgram "$bin_dir/java/libjni.so"
    grep -q ' true$' "$T/ours.out" || fail "the sums do not agree"
}

test_node_workers() {
    need node
    same_dumped 5 node "$programs_dir/node_workers.js"
}

test_go_threads() {
    HOME=$user_home need_working go version
    build go_program
    same_dumped 1 bash -c 'for i in 1 2 3 4 5 6 7 8 9 10; do "$0" || exit; done' \
        "$bin_dir/go_program"
}

test_rust_threads() {
    HOME=$user_home need_working rustc --version
    build rust_program
    same_dumped 1 bash -c 'for i in 1 2 3 4 5 6 7 8 9 10; do "$0" || exit; done' \
        "$bin_dir/rust_program"
}

# python3's own tests of modules: each verdict must be as without the library.
python_tests() { # MODULE...
    "$PYTHON" -c 'import test.test_json' 2>/dev/null || skip "libpython3-testsuite is not installed"
    same_dumped 3 bash -c 'timeout 900 "$0" -X utf8 "$@" </dev/null
        echo "exit status $?"
        rm -rf ./*' "$PYTHON" "$programs_dir/python_verdicts.py" "$@"
    [ "$(grep -c ' ok$' "$T/ours.out")" -ge 20 ] || fail "hardly a test ran"
    sed -E 's/^test.* //' "$T/ours.out" | sort | uniq -c
}

test_python3_tests_json() {
    python_tests test.test_json test.test_ctypes test.test_sqlite3
}

test_python3_tests_threading() {
    python_tests test.test_threading test.test_subprocess
}

test_python3_tests_asyncio() {
    python_tests test.test_asyncio
}

test_python3_tests_fork() {
    python_tests test.test_multiprocessing_fork
}

test_python3_tests_spawn() {
    python_tests test.test_multiprocessing_spawn
}

test_python3_tests_forkserver() {
    python_tests test.test_multiprocessing_forkserver
}

# --- servers --------------------------------------------------------------------------------------

# A backend is killed under load: the server restarts by itself, and all committed data is there.
test_postgres_killed() {
    pg_begin
    local dir=$T/ours.data before after killed
    (cd / && "${as[@]}" "$ours_command" run -- "$pg_bin/initdb" -D "$dir" -A trust -U tester \
        --no-sync --locale=C -E UTF8) >"$T/initdb.out" || fail "initdb: exit status $?"
    gadfly_begin
    pg_start "$dir" "$ours_command" run --
    (cd / && "${as[@]}" "$ours_command" run -- "$pg_bin/pgbench" -h "$T" -U tester -i -s 2 -q \
        postgres) >"$T/init.out" 2>&1 || fail "pgbench -i: $(tail -n 3 "$T/init.out")"
    for killed in 1 2 3; do
        (cd / && "${as[@]}" "$ours_command" run -- "$pg_bin/pgbench" -h "$T" -U tester -n -c 4 \
            -j 2 -T 4 postgres) >"$T/bench.$killed" 2>&1 &
        local bench=$!
        wait_until 60 pg_backend || fail "no backend to kill"
        sleep 1
        kill -KILL "$(pg_backend)"
        wait "$bench"
        wait_until 60 "$pg_bin/pg_isready" -h "$T" || fail "the server did not come back"
        grep 'processed' "$T/bench.$killed"
    done
    grep -c 'terminated by signal 9' "$T/pg.log" >"$T/terminated"
    equal "backends that were killed" 3 "$(cat "$T/terminated")"
    (cd / && "${as[@]}" "$ours_command" run -- "$pg_bin/pgbench" -h "$T" -U tester -n -c 4 -j 2 \
        -t 500 postgres) >"$T/bench" 2>&1 || fail "pgbench after it: $(tail -n 3 "$T/bench")"
    equal "sums of accounts and history" t "$(pg_psql -c 'select
        (select sum(delta) from pgbench_history) = (select sum(abalance) from pgbench_accounts) and
        (select sum(delta) from pgbench_history) = (select sum(tbalance) from pgbench_tellers)')"
    pg_stop >"$T/stopped"
    equal "end of the server" "exit status 0" "$(cat "$T/stopped")"
    gadfly_end 50
}

pg_backend() {
    pg_psql -c "select pid from pg_stat_activity where application_name = 'pgbench' limit 1" |
        grep -E '^[0-9]+$'
}

test_nginx_reloaded() {
    gadfly_begin
    test_nginx_server
    gadfly_end 20
}

test_redis_saved() {
    gadfly_begin
    test_redis_server
    gadfly_end 20
}

# --- tools ----------------------------------------------------------------------------------------

# A repository of ten thousand commits and 300 files.
test_git_large() {
    need git
    export GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat
    awk 'BEGIN {
        for (i = 1; i <= 10000; i++) {
            printf "commit refs/heads/main\nmark :%d\n", i
            printf "committer T <t@example.org> %d +0000\ndata 8\nc%07d", 1600000000 + i * 60, i
            if (i > 1) printf "from :%d\n", i - 1
            for (f = 0; f < 3; f++) {
                text = ""
                for (line = 0; line < 30; line++)
                    text = text "line " line " of " (line % 7 ? f : i) "\n"
                printf "M 100644 inline d%d/f%d\ndata %d\n%s\n", i % 20, (i * 7 + f) % 300,
                    length(text), text
            }
        }
    }' >"$T/stream"
    same_dumped 5 bash -c 'git init -q -b main a && cd a && git fast-import --quiet <"$0" &&
        git -c pack.threads=2 gc -q --aggressive --prune=now && git fsck --full 2>&1 && cd .. &&
        git clone -q "file://$PWD/a" b && cd b && git log --format=%H%s | cksum &&
        git repack -q -a -d -f --window=20 && git fsck 2>&1 && git grep -c "of 9[0-9]*9$" | cksum &&
        git blame d3/f21 | cksum; git rev-list --objects --all | wc -l; cd .. &&
        rm -rf a b' "$T/stream"
}

# Configures and builds the source of a Debian package: each built file must be equal.
built_tarball() { # COMPILER PACKAGE OBJECTS CONFIGURE-OPTION...
    local compiler=$1 package=$2 objects=$3
    shift 3
    need "$compiler" make dpkg-source
    mkdir -p "$bin_dir/source"
    (
        flock 9
        cd "$bin_dir/source" || exit 1
        [ -e "$package.there" ] || {
            cp -a /etc/apt/sources.list.d "$T/parts"
            [ ! -e /etc/apt/sources.list ] || cp /etc/apt/sources.list "$T/parts/main.list"
            sed -i -E 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' "$T"/parts/*
            mkdir -p "$T/lists/partial"
            apt_options=(-o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$T/parts"
                -o "Dir::State::Lists=$T/lists" -o APT::Sandbox::User=root)
            apt-get -q "${apt_options[@]}" update >"$T/apt.log" 2>&1
            apt-get -q "${apt_options[@]}" source --download-only "$package" >>"$T/apt.log" 2>&1 &&
                : >"$package.there"
        }
    ) 9>"$bin_dir/.lock.source" || skip "no source of $package: $(tail -n 1 "$T/apt.log")"
    same_dumped 20 bash -c 'compiler=$0 package=$1
        dpkg-source -x "$2"/"${package}"_*.dsc source >/dev/null 2>&1 || exit
        cd source || exit
        shift 2
        CC=$compiler CFLAGS="-O2 -g" ./configure "${@:2}" >../configure.log 2>&1 ||
            { tail ../configure.log; exit 1; }
        grep -c "yes$" ../configure.log
        make -j2 >../make.log 2>&1 || { tail ../make.log; exit 1; }
        find . -name "*.o" -o -name "*.so.*" -o -name "*.a" | LC_ALL=C sort | xargs cksum
        cd .. && rm -rf ./*' "$compiler" "$package" "$bin_dir/source" "$@"
    [ "$(grep -c '\.o$' "$T/ours.out")" -ge "$objects" ] ||
        fail "fewer than $objects objects were made"
}

test_gcc_tarball() {
    built_tarball gcc xz-utils 100 --disable-doc --disable-nls
}

test_clang_tarball() {
    built_tarball clang-14 sed 20 --disable-dependency-tracking --disable-nls
}

test_shell_many_forks() {
    same_dumped 100 bash -c 'sum=0
        for ((i = 0; i < 100000; i++)); do
            (exit $((i % 7)))
            sum=$((sum + $?))
        done
        echo $sum'
}

test_shell_compressors() {
    need xz zstd
    seq 1 6000000 >"$T/stdin"
    same_dumped 20 bash -c 'cat >data; xz -T2 --block-size=4MiB -3 -k data; zstd -q -T2 -12 -k data
        cksum data.xz data.zst; xz -T2 -dc data.xz | cksum; zstd -dqc data.zst | cksum; rm data*'
}

test_shell_openssl_speed() {
    need openssl
    same_dumped 1 bash -c 'openssl speed -multi 2 -seconds 1 rsa2048 sha256 2>&1 | grep -c rsa
        openssl dhparam -dsaparam 2048 2>/dev/null | head -n 1
        seq 300000 >data; for i in 1 2 3 4 5; do openssl dgst -sha512 data; done
        openssl enc -aes-256-gcm -h 2>&1 | head -n 1; rm data'
}

test_ffmpeg_encode() {
    need ffmpeg
    local graph='testsrc2=size=640x360:rate=25:duration=12,split=2[a][b]'
    graph+=';[b]hue=h=t*40,scale=320:180[c];[a][c]overlay=10:10'
    same_dumped 10 ffmpeg -hide_banner -nostdin -loglevel error -filter_complex "$graph" \
        -c:v libx264 -threads 2 -preset veryfast -f framemd5 -
}

stressed() { # ARGUMENT...: stress-ng itself reports whether each stressor passed
    need stress-ng
    filter=('s/\[[0-9]+\]/[PID]/g' 's/[0-9]+\.[0-9]+s?/T/g' 's/completed in .*//')
    same_dumped 5 bash -c \
        'stress-ng --no-rand-seed --verify "$@" 2>&1 | sort; exit "${PIPESTATUS[0]}"' \
        stress "$@"
}

test_stress_ng_malloc() {
    stressed --malloc 2 --malloc-ops 400000 --malloc-pthreads 2 --malloc-bytes 64M \
        --malloc-thresh 16K
}

test_stress_ng_fork() {
    stressed --fork 2 --fork-ops 4000 --vfork 1 --vfork-ops 2000 --clone 1 --clone-ops 2000 \
        --pthread 1 --pthread-ops 2000
}

# A program that is linked with another allocator: the preloaded library comes first.
linked_allocator() { # LIBRARY
    local library
    library=$(ldconfig -p | sed -n -E "s#.* => (.*/$1)\$#\1#p" | head -n 1)
    [ -n "$library" ] || skip "$1 is not installed"
    gcc -O2 -o "$T/linked" "$programs_dir/threads.c" -pthread -Wl,--no-as-needed "$library" ||
        fail "cannot link with $library"
    same_dumped 1 bash -c 'for i in 1 2 3 4 5; do "$0" || exit; done' "$T/linked"
}

test_linked_jemalloc() {
    linked_allocator libjemalloc.so.2
}

test_linked_tcmalloc() {
    linked_allocator libtcmalloc_minimal.so.4
}
