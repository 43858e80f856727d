/* SPDX-License-Identifier: MIT */
/* Deep call paths: a recursion of 60 calls, like a parser's, in three functions that call each
 * other as the input says. One level in four allocates on the way down. The program keeps the
 * objects of every hundredth descent and frees the others when their descent returns. */
#include "common.h"

enum { DEPTH = 60, DESCENTS = 1400000, KEPT = 4096 };

typedef uint64_t parse_function(uint64_t input, int depth);

static parse_function parse_list, parse_name, parse_call;
static parse_function *const parsers[] = {parse_list, parse_name, parse_call, parse_list};

static void *kept[KEPT];
static size_t kept_turn;
static int keep_this;

static inline uint64_t parse_next(uint64_t input, int depth) {
    if (depth >= DEPTH) {
        return input;
    }
    return parsers[(input >> (depth % 30)) & 3](input, depth + 1);
}

static inline void drop(void *chunk) {
    if (!keep_this) {
        free(chunk);
        return;
    }
    free(kept[kept_turn % KEPT]);
    kept[kept_turn++ % KEPT] = chunk;
}

static NOINLINE uint64_t parse_list(uint64_t input, int depth) {
    if (depth % 4 != 0) {
        return parse_next(input, depth) + 1;
    }
    uint64_t *list = check_chunk(malloc(64), 64);
    list[7] = input;
    uint64_t below = parse_next(input, depth) ^ list[7];
    drop(list);
    return below;
}

static NOINLINE uint64_t parse_name(uint64_t input, int depth) {
    if (depth % 4 != 0) {
        return parse_next(input, depth) + 2;
    }
    size_t bytes = 8 + (size_t)depth;
    unsigned char *name = check_chunk(malloc(bytes), bytes);
    tag_chunk(name, bytes, (unsigned int)depth);
    uint64_t below = parse_next(input, depth) + name[bytes - 1];
    drop(name);
    return below;
}

static NOINLINE uint64_t parse_call(uint64_t input, int depth) {
    if (depth % 4 != 0) {
        return parse_next(input, depth) + 3;
    }
    uint64_t *call = check_chunk(calloc(3, 8), 24);
    call[depth % 3] = input;
    uint64_t below = parse_next(input, depth) + call[0];
    drop(call);
    return below;
}

int main(void) {
    uint64_t inputs[16], sum = 0; /* few inputs, so that call paths recur, as in real programs */
    struct random random = {.state = 60};

    for (int i = 0; i < 16; i++) {
        inputs[i] = random_next(&random);
    }
    for (int i = 0; i < DESCENTS; i++) {
        keep_this = i % 100 == 0;
        sum = mix(sum, parse_next(inputs[random_below(&random, 16)], 0));
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
