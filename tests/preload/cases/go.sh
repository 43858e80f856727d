# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# A Go program with cgo: C's malloc called from goroutines, on Go's own stacks' terms.

test_go_program() {
    HOME=$user_home need_working go version
    build go_program
    same "$bin_dir/go_program"
}
