# SPDX-License-Identifier: MIT
# Words of random lines are counted and sorted; then other work of perl on strings and lists.
use strict;
use warnings;

my $state = 42;
sub random { $state = ($state * 1103515245 + 12345) % 2147483648; return ($state >> 8) % shift; }
sub word { return join '', map { chr(97 + random(26)) } 1 .. 1 + random(10); }

my (%count, @lines);
for my $i (1 .. 20000) {
    my $line = join ' ', map { word() } 1 .. 1 + random(5);
    $count{$_}++ for split / /, $line;
    push @lines, $line;
}
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print scalar(@sorted), " words, first: @sorted[0 .. 9]\n";

my $text = join "\n", @lines;
my $pairs = () = $text =~ /\b(\w)\w*\1\b/g;
(my $swapped = $text) =~ s/(\w+) (\w+)/$2 $1/g;
print "$pairs ", length($swapped), " ", unpack('%32C*', $swapped), "\n";

my @closures = map { my $n = $_; sub { return $n += length shift } } 1 .. 2000;
my $total = 0;
$total += $_->("x" x 100) for @closures;
my $grown = '';
$grown .= chr(65 + $_ % 26) for 1 .. 500000;
substr($grown, 1000, 400000) = '';
print "$total ", length($grown), "\n";

for my $round (1 .. 3) {    # round 2: cycles that stay until the interpreter ends
    my @ring = map { {number => $_} } 1 .. 1000;
    $ring[$_]{next} = $ring[($_ + 1) % 1000] for 0 .. 999;
    delete $_->{next} for $round == 2 ? () : @ring;
}
my @codes;
for my $i (1 .. 40) {
    defined(my $pid = fork) or die;
    if (!$pid) {
        my %own = map { $_ => 'y' x $_ } 1 .. 300;
        exit(keys(%own) == 300 ? $i : 99);
    }
    waitpid $pid, 0;
    push @codes, $? >> 8;
}
print "@codes\n";
open my $pipe, '-|', 'seq 1 5000 | tail -n 3' or die;
print <$pipe>;
close $pipe;
eval { die {reason => 'an object'} };
print "$@->{reason}\n";
my $deep = [];
$deep = [$deep, $_] for 1 .. 50000;
print "deep\n";
exit 0;
