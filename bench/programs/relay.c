/* SPDX-License-Identifier: MIT */
/* Two threads, each with a table of blocks of many sizes, half of them aligned to 16 to 1024 bytes.
 * Each thread replaces its blocks at random. One replaced block in eight goes into a list instead
 * of being freed; a thread hands each full list to the other thread, which frees it. After each
 * round a thread hands over its whole table. */
#include "common.h"

#include <pthread.h>

enum { THREADS = 2, SLOTS = 6000, ROUNDS = 60, STEPS = 20000, LIST = 500 };

struct node {
    struct node *next;
    size_t bytes;
};

/* by a thread's number: the list that was handed to this thread; accessed atomically */
static struct node *handed[THREADS];
static uint64_t sums[THREADS];

static NOINLINE struct node *node_create(struct random *random) {
    size_t shift = 5 + random_below(random, 8);
    size_t bytes = (1UL << shift) + random_below(random, 1UL << shift);
    struct node *node;

    if (random_next(random) >> 40 & 1) {
        size_t alignment = 16UL << random_below(random, 7);

        bytes = (bytes + alignment - 1) / alignment * alignment;
        node = check_chunk(aligned_alloc(alignment, bytes), bytes);
        if ((uintptr_t)node % alignment != 0) {
            exit(1);
        }
    } else {
        node = check_chunk(malloc(bytes), bytes);
    }
    tag_chunk(node, bytes, (unsigned int)bytes);
    node->next = NULL;
    node->bytes = bytes;
    return node;
}

static NOINLINE uint64_t list_free(struct node *list, uint64_t sum) {
    while (list != NULL) {
        struct node *next = list->next;

        sum += list->bytes;
        free(list);
        list = next;
    }
    return sum;
}

/* Hands a list to the other thread, and frees the list that the other thread has handed over.
 * Returns the new sum. */
static uint64_t exchange(size_t number, struct node *list, uint64_t sum) {
    /* If the other thread has not taken the previous list, this thread gets that list back and
     * frees it. */
    sum = list_free(__atomic_exchange_n(&handed[1 - number], list, __ATOMIC_ACQ_REL), sum);
    return list_free(__atomic_exchange_n(&handed[number], NULL, __ATOMIC_ACQ_REL), sum);
}

static void *replace(void *argument) {
    size_t number = (size_t)(uintptr_t)argument;
    struct random random = {.state = 1000 + number};
    struct node **slots = check_chunk(calloc(SLOTS, sizeof(*slots)), SLOTS * sizeof(*slots));
    uint64_t sum = 0;

    for (int round = 0; round < ROUNDS; round++) {
        struct node *list = NULL;

        for (int step = 0, listed = 0; step < STEPS; step++) {
            struct node **slot = &slots[random_below(&random, SLOTS)], *old = *slot;

            *slot = node_create(&random);
            if (old == NULL) {
                continue;
            }
            if (step % 8 != 0) {
                sum += old->bytes;
                free(old);
                continue;
            }
            old->next = list;
            list = old;
            if (++listed == LIST) {
                sum = exchange(number, list, sum);
                list = NULL;
                listed = 0;
            }
        }
        for (int i = 0; i < SLOTS; i++) {
            if (slots[i] != NULL) {
                slots[i]->next = list;
                list = slots[i];
                slots[i] = NULL;
            }
        }
        sum = exchange(number, list, sum);
    }
    free(slots);
    sums[number] = sum;
    return NULL;
}

int main(void) {
    pthread_t other;
    uint64_t sum;

    if (pthread_create(&other, NULL, replace, (void *)1) != 0) {
        return 1;
    }
    replace((void *)0);
    pthread_join(other, NULL);
    sum = sums[0] + sums[1];
    sum = list_free(handed[0], sum);
    sum = list_free(handed[1], sum);
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
