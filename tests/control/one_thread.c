/* SPDX-License-Identifier: MIT */
/* one_thread.c - a program with one thread, which makes a second one after a line. It prints three
 * times, at first, after the line and after the second thread, whether libc uses code for one
 * thread only, and whether a new stream takes locks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

extern char single_threaded __asm__("__libc_single_threaded") __attribute__((weak));

#define NEEDS_LOCK 128 /* glibc's _IO_FLAGS2_NEED_LOCK */

static void *nothing(void *argument) {
    return argument;
}

static void say(const char *when) {
    FILE *stream = fopen("/dev/null", "w");
    if (!stream)
        exit(1);
    /* glibc has the variable from 2.32 on */
    const char *threads = !&single_threaded ? "unknown" : single_threaded ? "one" : "several";
    printf("%s %s %s\n", when, threads, stream->_flags2 & NEEDS_LOCK ? "locks" : "plain");
    fflush(stdout);
    fclose(stream);
}

int main(void) {
    pthread_t thread;
    char line[8];
    free(malloc(100));
    say("begin");
    if (!fgets(line, sizeof line, stdin))
        return 1;
    say("later");
    if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL))
        return 1;
    say("threads");
    return fgets(line, sizeof line, stdin) ? 0 : 1;
}
