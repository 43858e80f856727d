/* SPDX-License-Identifier: MIT */
/* short_of_memory - allocates until malloc returns NULL with ENOMEM, for several sizes, in main and
 * in a second thread. Every block must keep its content, a failed realloc must not change its
 * block, and after free there must be memory again, the last time about as much as the first. The
 * caller sets the limit (RLIMIT_AS or RLIMIT_DATA). The amounts differ between allocators, so the
 * program prints only whether they are plausible. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct node {
    struct node *next;
    size_t bytes;
};

static size_t fill(size_t bytes, int *wrong) {
    struct node *first = NULL, *node;
    size_t sum = 0;
    errno = 0;
    while ((node = malloc(bytes))) {
        memset(node, (int)(bytes % 251), bytes);
        node->next = first;
        node->bytes = bytes;
        first = node;
        sum += bytes;
    }
    *wrong += errno != ENOMEM;
    errno = 0;
    if (first) { /* realloc to 1 TiB must fail and leave the block unchanged */
        node = realloc(first, (size_t)1 << 40);
        *wrong += node != NULL || errno != ENOMEM || first->bytes != bytes;
    }
    errno = 0;
    *wrong += calloc((size_t)1 << 20, (size_t)1 << 20) != NULL || errno != ENOMEM;
    void *aligned = NULL;
    *wrong += posix_memalign(&aligned, 4096, (size_t)1 << 40) != ENOMEM || aligned != NULL;
    while (first) {
        node = first->next;
        const unsigned char *payload = (const unsigned char *)(first + 1);
        for (size_t i = 0; i < first->bytes - sizeof *first; i += 97) {
            *wrong += payload[i] != (unsigned char)(bytes % 251);
        }
        free(first);
        first = node;
    }
    return sum;
}

static void *thread_main(void *argument) {
    *(size_t *)argument = fill(1000, &(int){0});
    return argument;
}

/* Returns the lower of the two limits. */
static size_t limit_bytes(void) {
    struct rlimit all, data;
    getrlimit(RLIMIT_AS, &all);
    getrlimit(RLIMIT_DATA, &data);
    return all.rlim_cur < data.rlim_cur ? all.rlim_cur : data.rlim_cur;
}

int main(void) {
    static const size_t sizes[] = {1 << 20, 100, 5000, 40, 70000, 1 << 20};
    size_t limit = limit_bytes();
    int wrong = 0;
    size_t first_bytes = 0, bytes = 0;

    /* The thread starts first, while there is room for its stack; later an allocator's caches may
     * take the room. */
    size_t in_thread = 0;
    pthread_t thread;
    int status = pthread_create(&thread, NULL, thread_main, &in_thread);
    if (status == 0) {
        pthread_join(thread, NULL);
    }
    printf("thread: %d, it got a sixth: %d\n", status, in_thread > limit / 6);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bytes = fill(sizes[i], &wrong);
        first_bytes = i == 0 ? bytes : first_bytes;
        fprintf(stderr, "%zu: %zu of %zu\n", sizes[i], bytes, limit);
        printf("size %zu: at least a third of the limit: %d\n", sizes[i], bytes > limit / 3);
    }
    printf("the last time as much as the first: %d\n", bytes * 10 > first_bytes * 8);
    printf("wrong: %d\n", wrong);
    return 0;
}
