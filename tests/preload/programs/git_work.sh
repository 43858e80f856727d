# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The git commands of test_git_work. Dates and names are fixed, so all object names are, too.
set -eu
here=$(dirname "$0")
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org GIT_COMMITTER_DATE='1700000000 +0000'

git init -q -b main origin
awk -v commits=600 -f "$here/git_history.awk" | git -C origin fast-import --quiet
git -C origin config pack.threads 2
git clone -q origin copy 2>&1
cd copy
git log --stat --oneline | cksum
git log -p --all | cksum
git fsck --full --strict
git gc -q --aggressive --prune=now
git count-objects -v | grep -v size
git verify-pack -v .git/objects/pack/*.idx | awk '$2 == "blob"' | wc -l
git checkout -q -b topic HEAD~40
for i in 1 2 3; do
    echo "topic $i" >>topic.txt
    git add topic.txt
    git commit -q -m "topic $i"
done
git rebase -q main
git log --oneline -n 5
git blame -s dir3/file3.txt | cksum
git grep -c 'line 1..' | cksum
git diff HEAD~30 --stat | tail -n 1
git merge-base topic main~50
git archive --format=tar HEAD | tar t | wc -l
git bundle create -q ../all.bundle --all
git clone -q ../all.bundle ../again 2>&1
git -C ../again rev-list --all --count
git shortlog -s HEAD | cat
git bisect start HEAD HEAD~60 | tail -n 1
git bisect run sh -c '! grep -q "commit 570" dir*/file*.txt' 2>&1 |
    grep -c "is the first '*bad'* commit" # git 2.55 writes quotes
git bisect reset >/dev/null 2>&1
git status --short
git rev-parse HEAD
