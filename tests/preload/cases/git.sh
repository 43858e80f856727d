# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# git: a repository with hundreds of commits made, cloned, packed, checked, searched and rebased;
# git starts dozens of programs, each of them preloaded.

test_git_work() {
    need git
    export GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat
    same bash "$programs_dir/git_work.sh"
}
