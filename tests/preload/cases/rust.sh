# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# A Rust program, whose allocator calls malloc.

test_rust_program() {
    HOME=$user_home need_working rustc --version
    build rust_program
    same "$bin_dir/rust_program"
}
