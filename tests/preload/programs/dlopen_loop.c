/* SPDX-License-Identifier: MIT */
/* dlopen_loop DIRECTORY - loads and unloads two libraries in turn, which are mapped at equal
 * addresses. Both allocate, and other threads allocate and unwind meanwhile. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 400, KEPT_MAX = 2 * ROUNDS * 8 };

static atomic_bool stopping;

static void *churn(void *argument) {
    unsigned long sum = 0;
    while (!atomic_load(&stopping)) {
        for (int i = 1; i < 200; i++) {
            char *block = malloc((size_t)i);
            block[0] = (char)i;
            sum += (unsigned long)block[0];
            free(block);
        }
    }
    (void)argument;
    return sum ? "churned" : NULL;
}

static int wrong_bytes(const unsigned char *block, size_t bytes) {
    int wrong = 0;
    for (size_t i = 0; i < bytes; i++) {
        wrong += block[i] != (unsigned char)bytes;
    }
    return wrong;
}

int main(int argc, char **argv) {
    static void *kept[KEPT_MAX];
    static size_t kept_bytes[KEPT_MAX];
    char paths[2][4096];
    const char *directory = argc > 1 ? argv[1] : ".";
    pthread_t threads[2];
    int count = 0, wrong = 0;
    snprintf(paths[0], sizeof paths[0], "%s/plugin_a.so", directory);
    snprintf(paths[1], sizeof paths[1], "%s/plugin_b.so", directory);
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, churn, NULL);
    }
    for (int round = 0; round < 2 * ROUNDS; round++) {
        void *library = dlopen(paths[round % 2], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            printf("%s\n", dlerror());
            return 1;
        }
        void *(*work)(size_t);
        *(void **)&work = dlsym(library, "plugin_work");
        /* blocks that stay after the library that allocated them was closed */
        for (int i = 0; i < 8; i++) {
            kept_bytes[count] = (size_t)(16 + (round * 7 + i * 31) % 500);
            kept[count] = work(kept_bytes[count]);
            count++;
        }
        dlclose(library);
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < 2; i++) {
        void *result;
        pthread_join(threads[i], &result);
        puts(result ? result : "idle");
    }
    for (int i = 0; i < count; i++) {
        wrong += wrong_bytes(kept[i], kept_bytes[i]);
        free(kept[i]);
    }
    printf("%d blocks, %d wrong bytes\n", count, wrong);
    return wrong != 0;
}
