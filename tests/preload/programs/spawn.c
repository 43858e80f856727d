/* SPDX-License-Identifier: MIT */
/* spawn - every way to start a process: vfork, posix_spawn with file actions, system, popen,
 * clone(CLONE_VM | CLONE_VFORK), each 40 or 150 times while threads allocate. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static atomic_bool stopping;

static void *churn(void *argument) {
    while (!atomic_load(&stopping)) {
        for (size_t i = 1; i < 300; i++) {
            char *block = malloc(i * 3);
            block[0] = 1;
            free(block);
        }
        usleep(100);
    }
    return argument;
}

static int status_of(pid_t pid) {
    int status = -1;
    if (pid <= 0 || waitpid(pid, &status, 0) != pid) {
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int clone_main(void *argument) {
    (void)argument;
    execl("/bin/true", "true", (char *)NULL);
    _exit(99);
}

int main(void) {
    pthread_t threads[2];
    int good[6] = {0};
    char *arguments[] = {"sh", "-c", "echo from posix_spawn; exit 4", NULL};
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, churn, NULL);
    }
    for (int i = 0; i < 150; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(99);
        }
        good[0] += status_of(pid) == 0;

        pid = vfork();
        if (pid == 0) {
            execl("/nowhere/to/be/found", "nothing", (char *)NULL);
            _exit(17);
        }
        good[1] += status_of(pid) == 17;

        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
        if (posix_spawnp(&pid, "sh", &actions, NULL, arguments, environ) != 0) {
            pid = -1;
        }
        good[2] += status_of(pid) == 4;
        posix_spawn_file_actions_destroy(&actions);

        char *stack = malloc(64 * 1024);
        pid = clone(clone_main, stack + 64 * 1024, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        good[3] += status_of(pid) == 0;
        free(stack);
    }
    for (int i = 0; i < 40; i++) {
        good[4] += system("exit 3") == 3 << 8;
        FILE *pipe = popen("echo one; echo two", "r");
        char *line = NULL;
        size_t line_bytes = 0;
        int lines = 0;
        while (getline(&line, &line_bytes, pipe) > 0) {
            lines++;
        }
        free(line);
        good[5] += lines == 2 && pclose(pipe) == 0;
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("vfork %d, failed exec %d, posix_spawn %d, clone %d, system %d, popen %d\n", good[0],
           good[1], good[2], good[3], good[4], good[5]);
    return 0;
}
