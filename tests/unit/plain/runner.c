/* SPDX-License-Identifier: MIT */
/*
 * runner.c - runs all registered tests one after the other, each in a process of its own. It prints
 * "ok - SUITE::NAME" or "not ok - SUITE::NAME" for each and at the end the number of tests.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "criterion/criterion.h"

enum { LIMIT_S = 120 };

static struct plain_test *first;

void plain_register(struct plain_test *test) {
    test->next = first;
    first = test;
}

static int passes(const struct plain_test *test) {
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(LIMIT_S);
        if (test->options.init != NULL) {
            test->options.init();
        }
        test->run();
        exit(0); /* not _exit: a sanitizer reports at exit */
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return 0;
    }
    if (test->options.signal != 0) {
        return WIFSIGNALED(status) && WTERMSIG(status) == test->options.signal;
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "ended by signal %d\n", WTERMSIG(status));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void) {
    int passed = 0, failed = 0;
    for (const struct plain_test *test = first; test != NULL; test = test->next) {
        int good = passes(test);
        printf("%s - %s::%s\n", good ? "ok" : "not ok", test->suite, test->name);
        *(good ? &passed : &failed) += 1;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed != 0 ? 0 : 1;
}
