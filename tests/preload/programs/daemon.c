/* SPDX-License-Identifier: MIT */
/* daemon FILE - goes to the background as old daemons do: it forks twice, calls setsid, closes
 * every descriptor and opens others with their numbers. Then it works for a while and writes to
 * FILE which descriptors were open. The parent waits until FILE is complete. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void descriptors_print(FILE *file, const char *when) {
    fprintf(file, "%s:", when);
    for (int fd = 0; fd < 4096; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            fprintf(file, " %d", fd);
        }
    }
    fprintf(file, "\n");
}

static void *work(void *argument) {
    for (size_t i = 1; i < 3000; i++) {
        free(malloc(i * 7));
    }
    return argument;
}

static int daemon_main(const char *path) {
    for (int fd = 0; fd < 1024; fd++) { /* without closefrom, which needs glibc 2.34 */
        close(fd);
    }
    int first = open("/dev/null", O_RDWR), second = dup(first), third = dup(first);
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    FILE *file = fopen(temporary, "w");
    if (!file) {
        return 1;
    }
    fprintf(file, "got %d %d %d %d\n", first, second, third, fileno(file));
    descriptors_print(file, "at first");
    pthread_t thread;
    for (int i = 0; i < 5; i++) {
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
        usleep(30000); /* gives a thread of the library time to start and to open descriptors */
    }
    descriptors_print(file, "later");
    /* closes descriptors that it did not open, as some daemons do; a write to one of them would
     * then land in the file `sentinel` */
    for (int fd = 3; fd < 64; fd++) {
        if (fd != fileno(file)) {
            close(fd);
        }
    }
    int sentinel = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(sentinel, 20);
    dup2(sentinel, 60);
    usleep(100000);
    work(NULL);
    struct stat status;
    fstat(sentinel, &status);
    fprintf(file, "sentinel %d: %ld bytes, closed twice: %d %d\n", sentinel, (long)status.st_size,
            close(20), close(60));
    close(sentinel);
    descriptors_print(file, "at last");
    fclose(file);
    return rename(temporary, path) != 0;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        return 2;
    }
    int hold = open("/dev/null", O_RDONLY);
    printf("the first free descriptor is %d\n", hold);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() != 0) {
            _exit(0);
        }
        _exit(daemon_main(argv[1]));
    }
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 200; i++) {
        struct stat status;
        if (stat(argv[1], &status) == 0 && status.st_size > 20) {
            printf("the daemon wrote its file\n");
            return 0;
        }
        usleep(50000);
    }
    printf("the daemon did not come back\n");
    return 1;
}
