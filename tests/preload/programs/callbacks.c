/* SPDX-License-Identifier: MIT */
/* callbacks - "callbacks visits": one thread allocates in callbacks of dl_iterate_phdr, one loads
 * and closes a library. "callbacks forks": the main thread forks, and each child loads the library.
 * Two threads allocate on stacks of many depths meanwhile. With MEMCTX_VERIFY, a thread or a child
 * could wait for a lock of the loader's or of libunwind's for ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARY "libthread_db.so.1" /* of glibc, and loaded by no program but debuggers */
enum { DEPTHS = 25, SIZES = 1000, IN_CALLBACK = 20, THREADS = 4, ROUNDS = 200 };
static atomic_bool over;

static int allocate_in_callback(struct dl_phdr_info *object, size_t bytes, void *nothing) {
    (void)object;
    (void)bytes;
    (void)nothing;
    for (size_t i = 0; i < IN_CALLBACK; i++) {
        void *volatile block = malloc(20 + i);
        free(block);
    }
    return 0;
}

static void *visit_objects(void *nothing) {
    while (!over)
        dl_iterate_phdr(allocate_in_callback, NULL);
    return nothing;
}

static void load(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library)
        dlclose(library);
}

static void *load_and_close(void *nothing) {
    while (!over)
        load();
    return nothing;
}

__attribute__((noinline)) static void *allocate_below(int frames, size_t bytes) {
    void *volatile block = frames ? allocate_below(frames - 1, bytes) : malloc(bytes);
    return block;
}

static void *allocate(void *nothing) {
    for (int i = 0; !over; i++)
        free(allocate_below(i % DEPTHS, 30 + (size_t)(i % SIZES)));
    return nothing;
}

static bool child_ends_well(void) {
    int status = 0;
    pid_t child = fork();
    if (!child) {
        load();
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status == 0;
}

int main(int argc, char **argv) {
    void *(*const work[THREADS])(void *) = {allocate, allocate, visit_objects, load_and_close};
    bool forks = argc > 1 && !strcmp(argv[1], "forks");
    int threads = forks ? 2 : THREADS, wrong = 0;
    pthread_t thread[THREADS];
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, work[i], NULL);
    for (int i = 0; i < ROUNDS; i++) {
        if (forks)
            wrong += !child_ends_well();
        usleep(10000);
    }
    over = true;
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    return wrong != 0;
}
