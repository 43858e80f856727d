# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# perl: hashes, regular expressions, sorting, closures, string growth, fork and pipes.

test_perl_work() {
    need perl
    PERL_HASH_SEED=0 same perl "$programs_dir/perl_work.pl"
}

# perl's own allocation functions all call malloc (unless perl is built with its own malloc).
test_perl_modules() {
    need perl
    seq 1 30000 | sed 's/$/ some words and then some/' >"$T/stdin"
    same perl -MList::Util=sum -MData::Dumper -MStorable=dclone -MDigest::MD5=md5_hex -ne '
        push @{$by{$. % 1000}}, [split];
        END {
            $Data::Dumper::Sortkeys = 1;
            my $copy = dclone(\%by);
            print md5_hex(Dumper($copy)), " ", sum(map { scalar @$_ } values %$copy), "\n";
        }'
}
