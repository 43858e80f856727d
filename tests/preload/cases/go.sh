# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# A Go program with cgo: goroutines call C's malloc.

test_go_program() {
    HOME=$user_home need_working go version
    build go_program
    same "$bin_dir/go_program"
}
