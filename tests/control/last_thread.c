/* SPDX-License-Identifier: MIT */
/* A program whose first thread ends by pthread_exit: the process ends, with its exit handlers, when
 * the last of its own threads does. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *work(void *unused) {
    free(malloc(100));
    usleep(300000); /* the first thread is long gone */
    return unused;
}

static void say_end(void) {
    puts("end");
}

int main(void) {
    pthread_t thread;
    atexit(say_end);
    free(malloc(100));
    if (pthread_create(&thread, NULL, work, NULL))
        return 1;
    pthread_exit(NULL);
}
