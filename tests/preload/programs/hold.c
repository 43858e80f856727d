/* SPDX-License-Identifier: MIT */
/*
 * hold.so - stops a program at its end, when it has done all its work, so that a test can make a
 * dump of it.
 *
 * The process whose short name is $HOLD_NAME stops when main returns or exit() is called, before
 * any exit handler: it writes its pid to $HOLD_DIR/pid and waits until $HOLD_DIR/go, a FIFO, is
 * opened for writing. Only the first such process of a run is held. A forked child that has not
 * called exec is not held, because it may be too young to have a socket. Nothing here allocates.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void),
                           void (*)(void), void *);

static main_function *real_main;
static pid_t started; /* the process whose main was called */

static void process_hold(void) {
    const char *name = getenv("HOLD_NAME"), *directory = getenv("HOLD_DIR");
    if (getpid() != started || !name || !directory ||
        strcmp(name, program_invocation_short_name) != 0) {
        return;
    }
    char path[4096], temporary[4096], text[32];
    snprintf(temporary, sizeof temporary, "%s/pid.new", directory);
    snprintf(path, sizeof path, "%s/pid", directory);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return; /* another process of this name is already held */
    }
    int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (write(fd, text, (size_t)length) != length || close(fd) != 0 ||
        link(temporary, path) != 0) { /* pid.new stays and marks that a process is held */
        _exit(99);
    }
    snprintf(path, sizeof path, "%s/go", directory);
    while ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 && errno == EINTR) {
    }
    close(fd);
}

static int hold_main(int argc, char **argv, char **envp) {
    int status = real_main(argc, argv, envp);
    process_hold();
    return status;
}

__attribute__((visibility("default"))) int __libc_start_main(main_function *, int, char **,
                                                             void (*)(void), void (*)(void),
                                                             void (*)(void), void *);

int __libc_start_main(main_function *program_main, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end) {
    start_function *next;
    *(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = program_main;
    started = getpid();
    return next(hold_main, argc, argv, init, fini, rtld_fini, stack_end);
}

__attribute__((visibility("default"))) void exit(int status) {
    void (*next)(int) __attribute__((noreturn));
    *(void **)&next = dlsym(RTLD_NEXT, "exit");
    process_hold();
    next(status);
    __builtin_unreachable();
}
