/* SPDX-License-Identifier: MIT */
/* last_thread.c - a program whose first thread ends by pthread_exit. The process must end, after
 * its exit handlers, when its second thread ends. With an argument the second thread waits for
 * ever. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *work(void *wait) {
    free(malloc(100));
    usleep(300000); /* by then the first thread has ended */
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
