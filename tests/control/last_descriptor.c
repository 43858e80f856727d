/* SPDX-License-Identifier: MIT */
/* last_descriptor - the process may open one descriptor more, and several threads begin to wait at
 * once, so that one of them starts the control thread. Then the control thread must run. Does so in
 * 40 children, and prints in how many no control thread ran. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 40, THREADS = 8, DESCRIPTORS = 24, LOOKS = 400, LOOK_US = 5000 };

static pthread_barrier_t together;

static void *wait_long(void *nothing) {
    pthread_barrier_wait(&together);
    sleep(1000);
    return nothing;
}

/* Returns 0 when the process has a thread that libc did not make. */
static int child_main(void) {
    struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    struct stat tasks = {0};
    pthread_t thread;
    int last = -1;
    pthread_barrier_init(&together, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, wait_long, NULL);
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;)
        last = fd;
    close(last);
    pthread_barrier_wait(&together);
    for (int i = 0; i < LOOKS; i++) {
        /* a link for each thread, and 2 for the directory itself */
        if (!stat("/proc/self/task", &tasks) && tasks.st_nlink == 2 + 1 + THREADS + 1)
            return 0;
        usleep(LOOK_US);
    }
    return 1;
}

int main(void) {
    int without = 0;
    sleep(0);
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        pid_t child = fork();
        if (!child)
            _exit(child_main());
        waitpid(child, &status, 0);
        without += !!status;
    }
    printf("%d without\n", without);
    return 0;
}
