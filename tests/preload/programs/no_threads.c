/* SPDX-License-Identifier: MIT */
/* no_threads - allocates in a process that may not be allowed to start threads, and prints whether
 * it could start one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *nothing(void *argument) {
    return argument;
}

int main(void) {
    unsigned long sum = 0;
    pthread_t thread;
    for (size_t i = 1; i < 20000; i++) {
        char *block = malloc(i);
        memset(block, (int)i, i);
        sum += (unsigned char)block[0];
        free(block);
    }
    usleep(50000);
    int status = pthread_create(&thread, NULL, nothing, NULL);
    if (status == 0) {
        pthread_join(thread, NULL);
    }
    printf("sum %lu, thread: %s\n", sum, strerror(status));
    return 0;
}
