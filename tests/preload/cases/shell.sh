# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# Shell scripts: thousands of forks and short-lived programs, pipes, traps; archivers; openssl.

test_shell_forks() {
    # removes the pid, which bash pads with spaces
    filter=('s/ +[0-9]+ Segmentation/ PID Segmentation/')
    same bash "$programs_dir/forks.sh"
}

test_shell_dash() {
    same dash -c 'i=0; while [ $i -lt 600 ]; do i=$((i + 1)); x=$(echo $i | tr 0-9 a-j); done
        echo "$x"; seq 3 | while read -r n; do (exit "$n"); echo $?; done; ulimit -n'
}

test_shell_archives() {
    need tar xz zstd gzip bzip2
    local i
    mkdir "$T/tree"
    for i in $(seq 40); do
        seq "$i" 97 "$((i * 3000))" >"$T/tree/file$i"
    done
    find "$T/tree" -exec touch -d '2020-01-01' {} +
    same env T="$T" bash -c '
        set -o pipefail
        create() { tar --sort=name --owner=0 --group=0 -C "$T" -c tree; }
        create | xz -2 -T2 >a.xz && create | zstd -q -10 -T2 >a.zst && create | gzip -n >a.gz &&
            create | bzip2 >a.bz2 || exit
        xz -dc a.xz | cksum; zstd -dqc a.zst | cksum; gzip -dc a.gz | cksum; bzip2 -dc a.bz2 | cksum
        mkdir out && tar -C out -xJf a.xz && diff -r out/tree "$T/tree" && echo same
        tar -tzf a.gz | sort -r | head -n 3; cksum a.gz a.bz2'
}

test_shell_tools() {
    need awk sed sort join
    same bash "$programs_dir/tools.sh"
}

test_shell_openssl() {
    need openssl
    same bash -c '
        seq 1 200000 >data
        for digest in md5 sha256 sha3-512 blake2b512; do openssl dgst -$digest data; done
        openssl enc -aes-256-cbc -pbkdf2 -iter 1000 -pass pass:x -S 0102030405060708 -in data |
            openssl dgst -sha256
        openssl genrsa -out key 2048 2>/dev/null && openssl rsa -in key -check -noout
        openssl req -x509 -key key -subj /CN=test -days 3 -out cert &&
            openssl verify -CAfile cert cert
        openssl ecparam -genkey -name prime256v1 -out ec &&
            openssl dgst -sha256 -sign ec -out signature cert &&
            openssl dgst -sha256 -prverify ec -signature signature cert
        openssl asn1parse -in cert | wc -l
        openssl list -digest-algorithms | cksum'
}
