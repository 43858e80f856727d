/* SPDX-License-Identifier: MIT */
/* Buffers of 64 KiB to 4 MiB: 24 are alive at a time and replaced at random, and a part of each is
 * written. This measures how memory goes to the kernel and back. */
#include "common.h"

enum { BUFFERS = 24, STEPS = 32000, KIB = 1024 };

struct buffer {
    unsigned char *chunk;
    size_t bytes;
};

static struct buffer buffers[BUFFERS];

static NOINLINE void buffer_fill(struct buffer *buffer, struct random *random) {
    size_t shift = random_below(random, 6);

    buffer->bytes = ((size_t)64 << shift) * KIB + random_below(random, (size_t)(64 << shift) * KIB);
    buffer->chunk = check_chunk(malloc(buffer->bytes), buffer->bytes);
    tag_chunk(buffer->chunk, buffer->bytes, (unsigned int)shift + 1);
    memset(buffer->chunk + 1, (int)shift, buffer->bytes / 4);
}

int main(void) {
    struct random random = {.state = 31337};
    uint64_t sum = 0;

    for (int step = 0; step < STEPS; step++) {
        struct buffer *buffer = &buffers[random_below(&random, BUFFERS)];

        if (buffer->chunk != NULL) {
            check_tag(buffer->chunk, buffer->bytes, buffer->chunk[0]);
            sum = mix(sum, buffer->bytes + buffer->chunk[buffer->bytes / 8]);
            free(buffer->chunk);
        }
        buffer_fill(buffer, &random);
    }
    for (int i = 0; i < BUFFERS; i++) {
        free(buffers[i].chunk);
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
