/* SPDX-License-Identifier: MIT */
/* call_chain [DEPTH] - leaves blocks of known sizes and counts, made through known call chains, and
 * ends. tests/preload/cases/names.sh expects:
 *   main > chain_one > chain_two > malloc             7 blocks of 1001 bytes
 *   main > chain_one > chain_xmalloc > malloc         5 blocks of 1003 bytes
 *   main > chain_other > chain_xmalloc > malloc       3 blocks of 1003 bytes
 *   main > chain_copy > strdup > malloc               4 blocks of 2000 bytes
 *   main > chain_inline (inlined) > malloc            6 blocks of 1007 bytes
 *   main > recurse * DEPTH > malloc                   2 blocks of 1009 bytes
 *   main > chain_freed > malloc                       9 blocks of 1013 bytes, all freed again
 *   main > chain_grow > realloc                       1 block of 90000 bytes, after 90 reallocs
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *chain_one(int which);
void *chain_two(size_t bytes);
void *chain_xmalloc(size_t bytes);
void *chain_other(void);
void *chain_copy(const char *text);
void *chain_grow(int times);
void chain_freed(int count);
void *recurse(int depth);

static void *volatile kept[100];
static int kept_count;

static void keep(void *block) {
    kept[kept_count++] = block;
}

__attribute__((noinline)) void *chain_two(size_t bytes) {
    void *block = malloc(bytes);
    __asm__ volatile("" : "+r"(block)); /* no tail call: the frame stays */
    return block;
}

__attribute__((noinline)) void *chain_xmalloc(size_t bytes) {
    void *block = malloc(bytes);
    if (!block) {
        abort();
    }
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noinline)) void *chain_one(int which) {
    void *block = which ? chain_xmalloc(1003) : chain_two(1001);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noinline)) void *chain_other(void) {
    void *block = chain_xmalloc(1003);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noinline)) void *chain_copy(const char *text) {
    void *block = strdup(text);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noinline)) void *chain_grow(int times) {
    void *block = NULL;
    for (int i = 1; i <= times; i++) {
        block = realloc(block, (size_t)i * 1000);
        __asm__ volatile("" : "+r"(block));
    }
    return block;
}

__attribute__((noinline)) void chain_freed(int count) {
    for (int i = 0; i < count; i++) {
        void *block = malloc(1013);
        __asm__ volatile("" : "+r"(block));
        free(block);
    }
}

static inline __attribute__((always_inline)) void *chain_inline(void) {
    void *block = malloc(1007);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noinline)) void *recurse(int depth) {
    void *block = depth > 1 ? recurse(depth - 1) : malloc(1009);
    __asm__ volatile("" : "+r"(block));
    return block;
}

int main(int argc, char **argv) {
    static char text[2000];
    int depth = argc > 1 ? atoi(argv[1]) : 5;
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 7; i++) {
        keep(chain_one(0));
    }
    for (int i = 0; i < 5; i++) {
        keep(chain_one(1));
    }
    for (int i = 0; i < 3; i++) {
        keep(chain_other());
    }
    for (int i = 0; i < 4; i++) {
        keep(chain_copy(text));
    }
    for (int i = 0; i < 6; i++) {
        keep(chain_inline());
    }
    for (int i = 0; i < 2; i++) {
        keep(recurse(depth));
    }
    chain_freed(9);
    keep(chain_grow(90));
    return 0;
}
