/* SPDX-License-Identifier: MIT */
/* Many short-lived small objects about twelve calls deep: an evaluator walks a chain of rules, each
 * of which makes one or two small objects and frees them before it returns. Nearly all of the time
 * is spent in malloc and free. */
#include "common.h"

enum { ROUNDS = 3200000, LEVELS = 12 };

typedef uint64_t rule_function(uint64_t value, int level);

static rule_function rule_pair, rule_text, rule_node;
static rule_function *const rules[] = {rule_pair, rule_text, rule_node};

/* Only every fourth level chooses between calls, so there are 48 paths, like the hot paths of a
 * program. sites.c and trees.c have thousands of paths. */
static inline uint64_t descend(uint64_t value, int level) {
    if (level >= LEVELS) {
        return value;
    }
    size_t turn = level % 4 == 3 ? (size_t)(value & 1) : 0;

    return rules[((size_t)level + turn) % 3](value, level + 1);
}

static NOINLINE uint64_t rule_pair(uint64_t value, int level) {
    uint64_t *pair = check_chunk(malloc(16), 16);

    pair[0] = value;
    pair[1] = mix(value, (uint64_t)level);
    uint64_t below = descend(pair[1], level);
    below ^= pair[0];
    free(pair);
    return below;
}

static NOINLINE uint64_t rule_text(uint64_t value, int level) {
    size_t bytes = 24 + (value & 31);
    unsigned char *text = check_chunk(malloc(bytes), bytes);

    tag_chunk(text, bytes, (unsigned int)level);
    uint64_t below = descend(mix(value, bytes), level);
    check_tag(text, bytes, (unsigned int)level);
    free(text);
    return below;
}

static NOINLINE uint64_t rule_node(uint64_t value, int level) {
    uint64_t *node = check_chunk(calloc(1, 48), 48);
    uint64_t **holder = check_chunk(malloc(32), 32);

    *holder = node;
    node[level % 6] = value;
    uint64_t below = descend(mix(node[level % 6], node[(level + 1) % 6]), level);
    below += **holder;
    free(holder);
    free(node);
    return below;
}

int main(void) {
    uint64_t sum = 0;

    for (uint64_t round = 0; round < ROUNDS; round++) {
        sum = mix(sum, descend(round, 0));
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
