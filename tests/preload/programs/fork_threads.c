/* SPDX-License-Identifier: MIT */
/* fork_threads COUNT - forks while three threads are inside malloc most of the time, on new call
 * paths. Each child allocates on new paths, frees its parent's chunks, starts threads and forks
 * once more. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INHERITED = 200 };

static atomic_bool stopping;
static char *inherited[INHERITED];

void *path_left(unsigned way, int steps, size_t bytes);
void *path_right(unsigned way, int steps, size_t bytes);

/* The lowest bits of `way` choose one of 2^steps call paths. */
static inline void *path_make(unsigned way, int steps, size_t bytes) {
    void *block = steps == 0 ? malloc(bytes)
                  : way & 1U ? path_left(way >> 1, steps - 1, bytes)
                             : path_right(way >> 1, steps - 1, bytes);
    __asm__ volatile("" : "+r"(block)); /* no tail call */
    return block;
}

__attribute__((noinline)) void *path_left(unsigned way, int steps, size_t bytes) {
    return path_make(way, steps, bytes);
}

__attribute__((noinline)) void *path_right(unsigned way, int steps, size_t bytes) {
    return path_make(way, steps, bytes);
}

static void *churn(void *argument) {
    char *blocks[64] = {NULL};
    for (unsigned i = 0; !atomic_load(&stopping); i++) {
        free(blocks[i % 64]);
        blocks[i % 64] = i % 4 ? malloc(1 + (i * 2654435761U) % (i % 50 ? 600 : 200000))
                               : path_make(i * 2654435761U, 14, 1 + i % 100);
        blocks[i % 64][0] = (char)i;
    }
    for (int i = 0; i < 64; i++) {
        free(blocks[i]);
    }
    return argument;
}

static void *child_thread(void *argument) {
    for (size_t i = 1; i < 2000; i++) {
        char *block = malloc(i);
        memset(block, 1, i);
        free(block);
    }
    return argument;
}

static int child_main(int depth) {
    for (int i = 0; i < INHERITED; i++) {
        if (inherited[i][0] != (char)i) {
            return 50;
        }
        inherited[i] = realloc(inherited[i], 2000);
        if (inherited[i][0] != (char)i) {
            return 51;
        }
        free(inherited[i]);
        inherited[i] = path_make((unsigned)(i * 7919 + depth), 14, 100);
        inherited[i][0] = (char)i;
    }
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, child_thread, NULL) != 0) {
            return 52;
        }
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    if (depth > 0) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            _exit(child_main(depth - 1));
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            return 53;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 100, good = 0;
    pthread_t threads[3];
    for (int i = 0; i < INHERITED; i++) {
        inherited[i] = malloc((size_t)(10 + i * 20));
        inherited[i][0] = (char)i;
    }
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, churn, NULL);
    }
    for (int i = 0; i < count; i++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            alarm(240); /* ends a deadlock; the parent sees the signal */
            if (i % 2) {
                _exit(child_main(1));
            }
            exit(child_main(0)); /* exit, so that the exit handlers run */
        }
        if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0) {
            good++;
        } else {
            fprintf(stderr, "child %d: status %x\n", i, (unsigned)status);
        }
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%d of %d children\n", good, count);
    return good != count;
}
