/* SPDX-License-Identifier: MIT */
/* Random sizes, mostly small, some of several KiB, in 60 000 slots that are replaced at random; one
 * slot in sixteen is replaced seldom, so that old chunks stay between young ones. */
#include "common.h"

enum { SLOTS = 60000, STEPS = 9000000 };

struct slot {
    unsigned char *chunk;
    uint32_t bytes;
};

static struct slot slots[SLOTS];

static size_t draw_bytes(struct random *random) {
    size_t kind = random_below(random, 100);

    if (kind < 80) {
        return 8 + random_below(random, 248);
    }
    if (kind < 97) {
        return 256 + random_below(random, 1792);
    }
    return 2048 + random_below(random, 10240);
}

static NOINLINE void slot_fill(struct slot *slot, size_t bytes) {
    slot->bytes = (uint32_t)bytes;
    slot->chunk = check_chunk(malloc(bytes), bytes);
    tag_chunk(slot->chunk, bytes, (unsigned int)bytes);
}

int main(void) {
    struct random random = {.state = 2024};
    uint64_t sum = 0;

    for (int i = 0; i < SLOTS; i++) {
        slot_fill(&slots[i], draw_bytes(&random));
    }
    for (int step = 0; step < STEPS; step++) {
        size_t index = random_below(&random, SLOTS);

        if (index % 16 == 0 && step % 64 != 0) {
            index++;
        }
        struct slot *slot = &slots[index];
        check_tag(slot->chunk, slot->bytes, slot->bytes);
        sum = mix(sum, slot->bytes);
        free(slot->chunk);
        slot_fill(slot, draw_bytes(&random));
    }
    for (int i = 0; i < SLOTS; i++) {
        free(slots[i].chunk);
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
