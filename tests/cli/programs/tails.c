/* SPDX-License-Identifier: MIT */
/*
 * tails.c - functions that end in a tail call on the way to an allocation. Each case allocates a
 * chunk of another size. tails_far.c and tails_plain.c have the functions in other files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tails.h"

#define APART __attribute__((noinline, noclone, noipa))

static void *volatile keep;
static volatile int yes = 1, steps = 3;

/* Writes to the chunk after malloc, so the call of malloc is no tail call. */
#define WORK(name)                                                                                 \
    APART static char *name(size_t bytes) {                                                        \
        char *chunk = malloc(bytes);                                                               \
        chunk[0] = 'x';                                                                            \
        return chunk;                                                                              \
    }

WORK(one_work)
APART static char *one(size_t bytes) {
    return one_work(bytes + 1); /* MARK one */
}

WORK(two_work)
APART static char *two_inner(size_t bytes) {
    return two_work(bytes + 1); /* MARK two_inner */
}
APART static char *two_outer(size_t bytes) {
    return two_inner(bytes + 1); /* MARK two_outer */
}

WORK(either_work)
APART static char *either_left(size_t bytes) {
    return either_work(bytes + 2);
}
APART static char *either_right(size_t bytes) {
    return either_work(bytes + 3);
}
APART static char *either(size_t bytes) {
    return yes ? either_left(bytes) : either_right(bytes);
}

WORK(twice_work)
APART static char *twice(size_t bytes) {
    if (yes)
        return twice_work(bytes + 4);
    keep = NULL;
    return twice_work(bytes * 5 + 1);
}

WORK(again_work)
APART static char *again_other(size_t bytes);
APART static char *again(size_t bytes) {
    return steps-- > 0 ? again_other(bytes + 1) : again_work(bytes);
}
APART static char *again_other(size_t bytes) {
    return again(bytes + 1);
}

APART static char *back_work(size_t bytes);
APART static char *back(size_t bytes) {
    return back_work(bytes + 1);
}
APART static char *back_work(size_t bytes) {
    char *chunk = malloc(bytes);
    keep = chunk;
    return yes ? chunk : back(bytes);
}

WORK(inlined_work)
static inline __attribute__((always_inline)) char *inlined_step(size_t bytes) {
    return inlined_work(bytes + 1); /* MARK inlined_step */
}
APART static char *inlined_outer(size_t bytes) {
    return inlined_step(bytes + 1); /* MARK inlined_outer */
}

WORK(pointer_work)
static char *(*volatile pointer)(size_t bytes) = pointer_work;
APART static char *by_pointer(size_t bytes) {
    return yes ? pointer(bytes + 1) : pointer_work(bytes + 2);
}

/* tails_far.c has another static function with this name. */
APART static char *helper(size_t bytes) {
    return far_entry(bytes + 1); /* MARK helper */
}

WORK(plain_last)
char *plain_back(size_t bytes) {
    return plain_last(bytes + 1);
}
APART static char *maybe_plain(size_t bytes) {
    return yes ? plain_maybe(bytes) : plain_back(bytes);
}

/* or_libc calls libc_work last; puts, which it calls elsewhere, has no tail call to libc_work. */
WORK(libc_work)
APART static char *or_libc(size_t bytes) {
    if (!yes)
        return (char *)(long)puts("no");
    return libc_work(bytes + 1); /* MARK or_libc */
}

APART static void *make(size_t bytes) {
    return malloc(bytes + 1); /* MARK make */
}

APART static void *make_zeroed(size_t bytes) {
    return calloc(1, bytes + 1);
}
APART static void *make_either(size_t bytes) {
    return yes ? make_zeroed(bytes) : malloc(bytes);
}

/* malloc is reached by the tail call and by both_work; both leave one return address in main. */
WORK(both_work)
APART static void *both(size_t bytes) {
    if (bytes > 2000)
        keep = both_work(bytes + 1);
    return malloc(bytes);
}

int main(void) {
    keep = one(1010);
    keep = two_outer(1020);
    keep = either(1030);
    keep = twice(1040);
    keep = again(1050);
    keep = back(1060);
    keep = inlined_outer(1070);
    keep = by_pointer(1080);
    keep = helper(1090);
    keep = plain_entry(1100);
    keep = maybe_plain(1110);
    keep = or_libc(1120);
    keep = make(1130);
    keep = make_either(1140);
    keep = both(3000);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
