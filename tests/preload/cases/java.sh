# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# java: the compiler and a program with threads, collections and compiled code.

test_java_program() {
    need java javac
    same_status 3 java -XX:TieredStopAtLevel=1 -Xmx256m -cp "$(java_classes)" JavaProgram
    grep -q '200 threads' "$T/ours.out" || fail "it did not do its work"
}

# All of java's compilers, and a collector that marks and moves objects in its own threads.
test_java_collector() {
    need java javac
    same_status 3 java -XX:+UseG1GC -XX:ParallelGCThreads=2 -Xmx128m -cp "$(java_classes)" \
        JavaProgram
}

test_java_javac() {
    need javac
    same bash -c "javac -d . '$programs_dir/JavaProgram.java' && ls && cksum ./*.class"
}

test_java_watched() {
    need java javac
    local classes server
    classes=$(java_classes) || exit 1
    mkfifo "$T/in"
    "$MEMCTX" run -- java -Xmx256m -cp "$classes" JavaProgram <"$T/in" >"$T/java.out" &
    server=$!
    exec 5>"$T/in"
    wait_socket "$server"
    watch_begin "$server"
    echo >&5
    wait_until 60 grep -q '200 threads' "$T/java.out" || fail "it did not do its work"
    watch_end
    exec 5>&-
    wait "$server"
    equal "exit status" 3 $?
}

java_classes() {
    mkdir -p "$bin_dir/java"
    (
        flock 9
        HOME=$user_home make -s -C "$root_dir" -f tests/preload/programs/Makefile \
            out/test/bin/java/JavaProgram.class >&2
    ) 9>"$bin_dir/.lock.java" || exit 1
    echo "$bin_dir/java"
}
