/* SPDX-License-Identifier: MIT */
/* fork_waits handler | streams | circle - forks while other threads hold locks that fork waits for:
 * handler: in a signal handler that interrupts malloc, free and fork; streams: while threads hold
 * the locks of the streams that they read, and another thread flushes all streams (glibc bug
 * 19431); circle: with a fork handler, registered before those of all libraries, that takes a lock
 * under which another thread allocates. The output must not depend on the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 500, HANDLER_FORKS = 300, STREAM_FORKS = 20, CIRCLE_FORKS = 8, READERS = 4 };

static atomic_bool stopping;
static char *volatile kept; /* keeps the compiler from removing pairs of malloc and free */
static volatile sig_atomic_t forks, bad;
static char path[] = "line.txt";

static void use_heap(void) {
    char *blocks[40];
    for (size_t i = 0; i < 40; i++) {
        blocks[i] = malloc(1 + i * i * 500);
        blocks[i][0] = 1;
    }
    for (size_t i = 0; i < 40; i++) {
        free(blocks[i]);
    }
}

static void fork_once(bool heap_too) {
    int status = 0, saved = errno;
    pid_t child = fork();
    if (child == 0) {
        /* not after a fork in a handler, which may have interrupted glibc's malloc */
        if (heap_too) {
            use_heap();
        }
        _exit(7);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 7) {
        bad++;
    }
    forks++;
    errno = saved;
}

static void handle(int number) {
    (void)number;
    fork_once(false);
}

static void in_handlers(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 3000}, {0, 3000}};
    void *blocks[SLOTS] = {NULL};
    unsigned seed = 1;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    while (forks < HANDLER_FORKS) {
        unsigned slot = (unsigned)rand_r(&seed) % SLOTS;
        free(blocks[slot]);
        blocks[slot] = malloc((size_t)rand_r(&seed) % 70000);
    }
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < SLOTS; i++) {
        free(blocks[i]);
    }
}

static void *read_lines(void *argument) {
    FILE *file = fopen(path, "r");
    while (file && !stopping) {
        char *line = NULL;
        size_t room = 0;
        rewind(file);
        if (getline(&line, &room, file) < 50000) {
            bad++;
        }
        free(line);
    }
    if (file) {
        fclose(file);
    }
    return argument;
}

static void *flush_all(void *argument) {
    while (!stopping) {
        fflush(NULL);
        usleep(50); /* lets a fork get the locks */
    }
    return argument;
}

static void with_streams(void) {
    pthread_t threads[READERS + 1];
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 60000; i++) {
        fputc('x', file);
    }
    fputc('\n', file);
    fclose(file);
    for (int i = 0; i < READERS; i++) {
        pthread_create(&threads[i], NULL, read_lines, NULL);
    }
    pthread_create(&threads[READERS], NULL, flush_all, NULL);
    while (forks < STREAM_FORKS) {
        fork_once(true);
    }
    stopping = true;
    for (int i = 0; i <= READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    remove(path);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool in_circle;

static void before(void) {
    if (in_circle) {
        pthread_mutex_lock(&mutex);
    }
}

static void after(void) {
    if (in_circle) {
        pthread_mutex_unlock(&mutex);
    }
}

/* Runs before the constructors of all libraries, so that fork calls `before` after their
 * handlers. */
static void at_first(int count, char **arguments, char **environment) {
    (void)environment;
    in_circle = count > 1 && strcmp(arguments[1], "circle") == 0;
    pthread_atfork(before, after, after);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **,
                                                                            char **) = at_first;

static void *allocate_locked(void *argument) {
    while (!stopping) {
        pthread_mutex_lock(&mutex);
        for (size_t i = 1; i < 4000; i++) {
            kept = malloc(i % 8 * 90000 + 1);
            free(kept);
        }
        pthread_mutex_unlock(&mutex);
        usleep(1);
    }
    return argument;
}

static void with_circle(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, allocate_locked, NULL);
    while (forks < CIRCLE_FORKS) {
        fork_once(true);
        usleep(1000);
    }
    stopping = true;
    pthread_join(thread, NULL);
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    if (!strcmp(how, "handler")) {
        in_handlers();
    } else if (!strcmp(how, "streams")) {
        with_streams();
    } else {
        with_circle();
    }
    use_heap();
    printf("%s: forked %s, %d bad\n", how, forks > 5 ? "often" : "seldom", (int)bad);
    return 0;
}
