/* SPDX-License-Identifier: MIT */
/* A program whose first thread ends by pthread_exit: the process ends, with its exit handlers, when
 * the last of its own threads does. With an argument that thread waits for ever. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *work(void *wait) {
    free(malloc(100));
    usleep(300000); /* the first thread is long gone */
    if (wait)
        pause();
    return NULL;
}

static void say_end(void) {
    puts("end");
}

int main(int argc, char **argv) {
    pthread_t thread;
    atexit(say_end);
    free(malloc(100));
    if (pthread_create(&thread, NULL, work, argc > 1 ? argv[1] : NULL))
        return 1;
    pthread_exit(NULL);
}
