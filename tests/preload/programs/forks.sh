# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2003,SC2012,SC2018,SC2019,SC2116
# More than a thousand forks, some of them with an exec; pipelines, background jobs, traps,
# here-documents.
sum=0
for ((i = 0; i < 700; i++)); do
    value=$(echo $((i * i)))
    sum=$((sum + value))
done
echo "$sum"
for ((i = 0; i < 250; i++)); do
    /bin/true && /bin/echo "$i" | cat
done | cksum
pids=()
for ((i = 0; i < 60; i++)); do
    (exit $((i % 7))) &
    pids+=($!)
done
codes=
for pid in "${pids[@]}"; do
    wait "$pid"
    codes+=$?
done
echo "$codes"
seq 1 20000 | sort -R --random-source=<(yes) | sort -n | uniq | tee >(wc -l >&2) | tail -n 2
sleep 0.1
trap 'echo trapped' USR1
for ((i = 0; i < 5; i++)); do
    kill -USR1 $$
done
coproc cat
echo "through a coprocess" >&"${COPROC[1]}"
read -r line <&"${COPROC[0]}"
echo "$line"
cat <<TEXT | tr a-z A-Z
a here-document of $(echo several) $((1 + 1)) lines
TEXT
declare -A words=()
while read -r word; do
    words[$word]=$((${words[$word]:-0} + 1))
done < <(yes "$(seq 1 50)" | head -n 20000)
echo "${#words[@]} ${words[17]}"
text=
for ((i = 0; i < 3000; i++)); do
    text+="$i,"
done
echo "${#text} ${text//1/one}" | cksum
(ulimit -c 0; kill -SEGV $BASHPID) 2>/dev/null
echo "$?"
recurse() {
    [ "$1" -eq 0 ] || (recurse $(($1 - 1)))
}
recurse 40 && echo "40 shells deep"
exec 9>&1
{ echo "to nine" >&9; } | cat
exit 0
