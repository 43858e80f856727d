/* SPDX-License-Identifier: MIT */
/* Growth by realloc. Texts grow in small steps to exactly the needed size, and vectors double; many
 * of them grow in turns. A table, one at a time, grows by quarters to several megabytes. */
#include "common.h"

enum { ROUNDS = 650, TEXTS = 64, APPENDS = 300, VECTORS = 48, DOUBLINGS = 14, TABLE_STEPS = 20 };

static unsigned char *texts[TEXTS];
static size_t text_bytes[TEXTS];
static uint64_t *vectors[VECTORS];

static NOINLINE void texts_append(struct random *random) {
    for (int i = 0; i < TEXTS; i++) {
        size_t more = 1 + random_below(random, 24), bytes = text_bytes[i] + more;

        texts[i] = check_chunk(realloc(texts[i], bytes), bytes);
        memset(texts[i] + text_bytes[i], (int)(bytes & 127), more);
        text_bytes[i] = bytes;
    }
}

static NOINLINE void vectors_double(size_t old, size_t count) {
    for (int i = 0; i < VECTORS; i++) {
        size_t bytes = count * sizeof(uint64_t);

        vectors[i] = check_chunk(realloc(vectors[i], bytes), bytes);
        vectors[i][old] = (uint64_t)i;
        vectors[i][count - 1] = count;
    }
}

static NOINLINE uint64_t table_grow(uint64_t sum) {
    uint32_t *table = NULL;
    size_t used = 0, count = 20000;

    for (int step = 0; step < TABLE_STEPS; step++) {
        table = check_chunk(realloc(table, count * sizeof *table), count * sizeof *table);
        for (; used < count; used += 16) {
            table[used] = (uint32_t)used;
        }
        count += count / 4;
        sum = mix(sum, table[used / 32 * 16]);
    }
    free(table);
    return sum;
}

int main(void) {
    struct random random = {.state = 99};
    uint64_t sum = 0;

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < APPENDS; i++) {
            texts_append(&random);
        }
        for (int i = 0; i < TEXTS; i++) {
            sum = mix(sum, text_bytes[i] + texts[i][text_bytes[i] / 2]);
            free(texts[i]);
            texts[i] = NULL;
            text_bytes[i] = 0;
        }
        for (size_t i = 0; i < DOUBLINGS; i++) {
            vectors_double(i == 0 ? 0 : (size_t)1 << i, (size_t)2 << i);
        }
        for (int i = 0; i < VECTORS; i++) {
            sum = mix(sum, vectors[i][((size_t)1 << DOUBLINGS) - 1]);
            free(vectors[i]);
            vectors[i] = NULL;
        }
        if (round % 8 == 0) {
            sum = table_grow(sum);
        }
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
