// SPDX-License-Identifier: MIT
// doubling.cc - allocates in a template whose readable name doubles with each of 60 levels.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

static void *volatile keep;

template <typename Left, typename Right> struct Both {};

template <int Levels> struct Nest {
    typedef typename Nest<Levels - 1>::type Below;
    typedef Both<Below, Below> type;
};

template <> struct Nest<0> { typedef int type; };

template <typename T> __attribute__((noinline, noipa)) void fill(int bytes) {
    keep = malloc(bytes);
}

int main() {
    fill<Nest<60>::type>(1111);
    fill<Nest<2>::type>(2222);
    std::puts("ready");
    std::fflush(stdout);
    for (;;) {
        pause();
    }
}
