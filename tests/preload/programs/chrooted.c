/* SPDX-License-Identifier: MIT */
/* chrooted DIRECTORY - changes its root to an empty directory and becomes the user 65534, as
 * network daemons do. Then it allocates, starts threads and forks. */
#define _GNU_SOURCE
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *argument) {
    unsigned long sum = 0;
    for (size_t i = 1; i < 5000; i++) {
        char *block = malloc(i);
        memset(block, (int)i, i);
        sum += (unsigned char)block[i / 2];
        free(block);
    }
    *(unsigned long *)argument = sum;
    return argument;
}

int main(int argc, char **argv) {
    unsigned long sums[4];
    pthread_t threads[4];
    int status = 0;
    if (argc != 2 || chroot(argv[1]) != 0 || chdir("/") != 0) {
        perror("chroot");
        return 2;
    }
    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) {
        perror("setuid");
        return 2;
    }
    printf("uid %d, root again: %d\n", (int)getuid(), setuid(0));
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, work, &sums[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        work(&sums[0]);
        usleep(50000);
        work(&sums[0]);
        _exit(sums[0] == sums[1] ? 5 : 6);
    }
    waitpid(pid, &status, 0);
    printf("sums equal: %d, child %d\n", sums[0] == sums[1] && sums[1] == sums[3],
           WEXITSTATUS(status));
    return 0;
}
