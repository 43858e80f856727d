/* SPDX-License-Identifier: MIT */
/*
 * endings.c - a program whose threads end in the way that its argument names. Its exit handlers
 * must run and print "end" when its last thread has ended; the library's own thread does not count.
 *   cancel         the first thread cancels itself, with asynchronous cancellation
 *   cancel-late    the first thread cancels itself and ends at a cancellation point
 *   cancel-others  like cancel, while a second thread still runs
 *   cancel-second  the second thread cancels itself, the first one returns from main
 *   cancel-joined  the first thread cancels the second, joins it, and ends by pthread_exit
 *   cancel-child   in a forked child the only thread cancels itself
 *   cancel-write   like cancel, and a cleanup handler of the thread writes
 *   cancel-child-write  like cancel-child, and a cleanup handler of the thread writes
 *   exit           the only thread ends by pthread_exit
 *   exit-others    like exit, while a second thread runs that never allocates
 *   return         main returns
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void say_end(void) {
    puts("end");
}

static void *work(void *allocates) {
    if (allocates)
        free(malloc(100));
    usleep(200000); /* by then the first thread has ended */
    return NULL;
}

static void *cancel_self(void *unused) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cancel(pthread_self());
    puts("not cancelled");
    return unused;
}

/* fprintf to a stream without a buffer has a cancellation point, and makes the cancellation
 * deferred for a moment. */
static void say_cleanup(void *unused) {
    (void)unused;
    fprintf(stderr, "%s\n", "cleanup");
}

static void cancel_self_and_write(void) {
    pthread_cleanup_push(say_cleanup, NULL);
    cancel_self(NULL);
    pthread_cleanup_pop(0);
}

static void *wait_for_cancellation(void *unused) {
    for (;;)
        pause();
    return unused;
}

static void start(void *(*function)(void *), void *argument, int join, int cancel) {
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, function, argument) || (cancel && pthread_cancel(thread)))
        exit(1);
    if (join && (pthread_join(thread, &result) || result != PTHREAD_CANCELED))
        exit(2);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    atexit(say_end);
    /* In a process that is older than 20 ms an allocation starts the library's thread. */
    usleep(50000);
    for (int i = 0; i < 1000; i++)
        free(malloc((size_t)i * 50));
    bool writes = strstr(how, "-write");
    if (!strncmp(how, "cancel-child", 12)) {
        int ending;
        pid_t child = fork();
        if (!child && writes)
            cancel_self_and_write();
        if (!child)
            cancel_self(NULL);
        if (child < 0 || waitpid(child, &ending, 0) != child || ending)
            return 3;
        return 0;
    }
    if (!strcmp(how, "cancel-others") || !strcmp(how, "exit-others"))
        start(work, how[0] == 'c' ? "" : NULL, 0, 0);
    if (!strcmp(how, "cancel-second"))
        start(cancel_self, NULL, 1, 0);
    if (!strcmp(how, "cancel-joined"))
        start(wait_for_cancellation, NULL, 1, 1);
    if (!strncmp(how, "exit", 4) || !strcmp(how, "cancel-joined"))
        pthread_exit(NULL);
    if (!strcmp(how, "cancel-late")) {
        pthread_cancel(pthread_self());
        pthread_testcancel();
    }
    if (writes)
        cancel_self_and_write();
    if (!strncmp(how, "cancel", 6) && strcmp(how, "cancel-second"))
        cancel_self(NULL);
    return 0;
}
