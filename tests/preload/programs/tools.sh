# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2003,SC2012,SC2018,SC2019,SC2116
# Small tools (awk, sort, sed, ...) with much input.
seq 1 60000 | awk '{ n[$1 % 997] = n[$1 % 997] " " $1 }
    END { for (i = 0; i < 997; i++) print i n[i] }' >lines
sed -E 's/([0-9]+) ([0-9]+)/\2 \1/g; 10,20d' lines | cksum
sort -k 2 -S 1M --parallel=2 lines | cksum
join <(sort lines) <(sort -r lines | sort) | wc
grep -c -E '(1+)(23)+ .*7$' lines
tr ' ' '\n' <lines | sort -n | uniq -c | sort -rn | head -n 3
split -n l/7 lines part. && cat part.* | cmp - lines && rm part.*
diff <(head -n 400 lines) <(tail -n +30 lines | head -n 400) | cksum
find /usr/share/doc -maxdepth 2 -name 'c*' | sort | xargs -n 50 ls -d | wc -l
printf '%s\n' {a..z}{0..99} | shuf --random-source=lines | cksum
base64 lines | base64 -d | cmp - lines && echo "base64 is right"
expr 12345678901234567890 '*' 98765432109876543210
factor 1234567890123456789
paste -d, <(seq 1 1000) <(seq 1000 -1 1) | cut -d, -f2 | tac | head -n 2
date -u -d @1600000000 +'%F %T %A'
od -A x -t x1z -N 5000 lines | tail -n 2
dd if=lines bs=1M count=3 2>/dev/null | sha256sum
ls -l --time-style=+ lines | awk '{ print $5 }'
env -i /bin/echo "no environment"
timeout 5 sleep 0.1
echo "$?"
