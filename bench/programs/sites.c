/* SPDX-License-Identifier: MIT */
/* 4 096 generated functions, each with its own call of malloc and its own size, called in random
 * order, each by one of four callers; 60 000 chunks are alive. This measures paths that were used
 * before, but not lately. */
#include "common.h"

#define SITE(n)                                                                                    \
    static NOINLINE void *site_##n(size_t bytes) {                                                 \
        unsigned char *chunk = check_chunk(malloc(bytes + (0x##n % 64)), bytes);                   \
        tag_chunk(chunk, bytes, 0x##n % 251);                                                      \
        return chunk;                                                                              \
    }
#define NAME(n) site_##n,
/* clang-format would indent each repetition more than the last. */
/* clang-format off */
#define REPEAT_16(X, n)                                                                            \
    X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)                                \
    X(n##8) X(n##9) X(n##a) X(n##b) X(n##c) X(n##d) X(n##e) X(n##f)
#define REPEAT_256(X, n)                                                                           \
    REPEAT_16(X, n##0) REPEAT_16(X, n##1) REPEAT_16(X, n##2) REPEAT_16(X, n##3)                    \
    REPEAT_16(X, n##4) REPEAT_16(X, n##5) REPEAT_16(X, n##6) REPEAT_16(X, n##7)                    \
    REPEAT_16(X, n##8) REPEAT_16(X, n##9) REPEAT_16(X, n##a) REPEAT_16(X, n##b)                    \
    REPEAT_16(X, n##c) REPEAT_16(X, n##d) REPEAT_16(X, n##e) REPEAT_16(X, n##f)
#define REPEAT_4096(X)                                                                             \
    REPEAT_256(X, 0) REPEAT_256(X, 1) REPEAT_256(X, 2) REPEAT_256(X, 3)                            \
    REPEAT_256(X, 4) REPEAT_256(X, 5) REPEAT_256(X, 6) REPEAT_256(X, 7)                            \
    REPEAT_256(X, 8) REPEAT_256(X, 9) REPEAT_256(X, a) REPEAT_256(X, b)                            \
    REPEAT_256(X, c) REPEAT_256(X, d) REPEAT_256(X, e) REPEAT_256(X, f)
/* clang-format on */

REPEAT_4096(SITE)

enum { SITES = 4096, SLOTS = 60000, STEPS = 12000000 };

static void *(*const sites[SITES])(size_t) = {REPEAT_4096(NAME)};
static struct {
    void *chunk;
    uint32_t bytes, site;
} slots[SLOTS];

#define CALLER(n)                                                                                  \
    static NOINLINE void *caller_##n(size_t site, size_t bytes) {                                  \
        return escape(sites[site](bytes));                                                         \
    }
CALLER(0)
CALLER(1)
CALLER(2)
CALLER(3)
static void *(*const callers[])(size_t, size_t) = {caller_0, caller_1, caller_2, caller_3};

int main(void) {
    struct random random = {.state = 4096};
    uint64_t sum = 0;

    for (int step = 0; step < STEPS; step++) {
        size_t index = random_below(&random, SLOTS);

        if (slots[index].chunk != NULL) {
            check_tag(slots[index].chunk, slots[index].bytes, slots[index].site % 251);
            free(slots[index].chunk);
        }
        /* The minimum of two draws makes low-numbered sites frequent. */
        size_t one = random_below(&random, SITES), other = random_below(&random, SITES);
        size_t site = one < other ? one : other;
        slots[index].site = (uint32_t)site;
        slots[index].bytes = (uint32_t)(16 + site % 97);
        slots[index].chunk = callers[site % 4](site, slots[index].bytes);
        sum = mix(sum, site);
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
