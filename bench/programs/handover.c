/* SPDX-License-Identifier: MIT */
/* Producer and consumer: one thread allocates messages of several parts, the other one reads and
 * frees them, so no thread frees its own chunks. Messages go through a bounded queue in batches. */
#include "common.h"

#include <pthread.h>

enum { BATCHES = 30000, BATCH = 64, QUEUE = 64, PARTS = 3 };

struct message {
    struct message *next;
    unsigned char *parts[PARTS];
    uint32_t bytes[PARTS];
};

static struct message *queue[QUEUE];
static size_t queue_head, queue_tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;

static NOINLINE unsigned char *part_create(uint32_t bytes) {
    unsigned char *part = check_chunk(malloc(bytes), bytes);

    tag_chunk(part, bytes, bytes);
    return part;
}

static NOINLINE struct message *message_create(struct random *random, struct message *next) {
    struct message *message = check_chunk(malloc(sizeof *message), sizeof *message);

    message->next = next;
    for (int i = 0; i < PARTS; i++) {
        message->bytes[i] = (uint32_t)(16 + random_below(random, 16U << (3 * i)));
        message->parts[i] = part_create(message->bytes[i]);
    }
    return message;
}

static void *produce(void *argument) {
    struct random random = {.state = 4711};

    for (int batch = 0; batch < BATCHES; batch++) {
        struct message *list = NULL;

        for (int i = 0; i < BATCH; i++) {
            list = message_create(&random, list);
        }
        pthread_mutex_lock(&lock);
        while (queue_head - queue_tail == QUEUE) {
            pthread_cond_wait(&emptied, &lock);
        }
        queue[queue_head++ % QUEUE] = list;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&lock);
    }
    return argument;
}

static NOINLINE uint64_t consume_list(struct message *list, uint64_t sum) {
    while (list != NULL) {
        struct message *next = list->next;

        for (int i = 0; i < PARTS; i++) {
            check_tag(list->parts[i], list->bytes[i], list->bytes[i]);
            sum = mix(sum, list->bytes[i]);
            free(list->parts[i]);
        }
        free(list);
        list = next;
    }
    return sum;
}

int main(void) {
    pthread_t producer;
    uint64_t sum = 0;

    if (pthread_create(&producer, NULL, produce, NULL) != 0) {
        return 1;
    }
    for (int batch = 0; batch < BATCHES; batch++) {
        pthread_mutex_lock(&lock);
        while (queue_head == queue_tail) {
            pthread_cond_wait(&filled, &lock);
        }
        struct message *list = queue[queue_tail++ % QUEUE];
        pthread_cond_signal(&emptied);
        pthread_mutex_unlock(&lock);
        sum = consume_list(list, sum);
    }
    pthread_join(producer, NULL);
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
