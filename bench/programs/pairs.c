/* SPDX-License-Identifier: MIT */
/* One chunk at a time: a function takes a buffer, writes to it and frees it, again and again, as
 * code does that has a temporary string or a temporary array. Each size and alignment has a loop,
 * once three calls deep and once thirteen. No other chunk of the size is free meanwhile. */
#include "common.h"

enum { PAIRS = 1200000, DEPTH = 10 };

struct kind {
    size_t bytes, alignment; /* alignment 0: plain malloc */
};

static const struct kind kinds[] = {{24, 0},    {500, 0}, {2000, 0},
                                    {20000, 0}, {64, 64}, {4096, 4096}};

static NOINLINE uint64_t take_and_free(const struct kind *kind) {
    uint64_t sum = 0;

    for (int i = 0; i < PAIRS; i++) {
        void *chunk = check_chunk(kind->alignment ? aligned_alloc(kind->alignment, kind->bytes)
                                                  : malloc(kind->bytes),
                                  kind->bytes);
        tag_chunk(chunk, kind->bytes, (unsigned int)i);
        check_tag(chunk, kind->bytes, (unsigned int)i);
        sum = mix(sum, *(unsigned char *)chunk);
        free(chunk);
    }
    return sum;
}

static NOINLINE uint64_t deeper(const struct kind *kind, int depth) {
    return depth ? deeper(kind, depth - 1) + (uint64_t)depth : take_and_free(kind);
}

int main(void) {
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        sum = mix(sum, deeper(&kinds[i], 0));
        sum = mix(sum, deeper(&kinds[i], DEPTH));
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
