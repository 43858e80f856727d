/* SPDX-License-Identifier: MIT */
/* earlier - a library that the program early is linked with. Its constructor runs before those of
 * preloaded libraries, takes the pthread keys that glibc stores without an allocation (32), and
 * starts threads that allocate. */
#include <pthread.h>
#include <stdlib.h>

enum { KEYS = 40, THREADS = 5 };

void *earlier_kept[THREADS];

static void *thread(void *argument) {
    void **kept = argument;
    for (int i = 1; i < 500; i++) {
        free(malloc((size_t)i * 10));
    }
    *kept = malloc(1000);
    return NULL;
}

__attribute__((constructor)) static void before_anything(void) {
    pthread_t threads[THREADS];
    pthread_key_t key;
    for (int i = 0; i < KEYS; i++) {
        if (pthread_key_create(&key, NULL) != 0) {
            abort();
        }
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, thread, &earlier_kept[i]) != 0) {
            abort();
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}
