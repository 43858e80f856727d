/* SPDX-License-Identifier: MIT */
/*
 * control_target.c - a program that allocates all the time while its control socket is under
 * attack.
 *
 * Words on the command line, done in their order:
 *   contexts N  makes N live chunks, each on a call path of its own (about 5 N contexts)
 *   daemon      forks twice, as daemons do, and goes on in the grandchild
 *   fds         prints the descriptors that the program can see and the number that open returns
 * Then it prints "ready PID" and answers each line on stdin:
 *   ops         the number of allocations made so far
 *   fds         as above
 *   closefrom   closes every descriptor from 3 on, then answers as fds
 *   dup2        puts /dev/null on every descriptor up to 899, then answers as fds
 *   fork        the exit status of a child that allocates and exits
 *   chroot DIR  changes the root directory to DIR
 *   limit N     allows itself N descriptors
 * The end of stdin ends it with status 0.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic unsigned long operations;
static pthread_t thread;
static void *volatile sink;

static void *allocate_for_ever(void *unused) {
    void *blocks[64] = {NULL};
    for (unsigned i = 0;; i++) {
        free(blocks[i % 64]);
        blocks[i % 64] = malloc(i * 37 % 5000);
        if (!blocks[i % 64])
            abort();
        memset(blocks[i % 64], 1, i * 37 % 5000);
        if (atomic_fetch_add(&operations, 1) % 256 == 0)
            usleep(500); /* leaves time to other processes */
    }
    return unused;
}

__attribute__((noinline)) static void *descend(unsigned bits, unsigned depth);

__attribute__((noinline)) static void *turn_left(unsigned bits, unsigned depth) {
    void *block = descend(bits, depth);
    __asm__ volatile("# left" : : : "memory");
    return block;
}

__attribute__((noinline)) static void *turn_right(unsigned bits, unsigned depth) {
    void *block = descend(bits, depth);
    __asm__ volatile("# right" : : : "memory");
    return block;
}

/* Each number has a call path of its own: its bits choose between two calls on each level. */
__attribute__((noinline)) static void *descend(unsigned bits, unsigned depth) {
    if (depth == 0)
        return malloc(24);
    void *block = bits & 1 ? turn_right(bits >> 1, depth - 1) : turn_left(bits >> 1, depth - 1);
    __asm__ volatile("# descend" : : : "memory");
    return block;
}

static void make_contexts(unsigned count) {
    unsigned depth = 0;
    while (1u << depth < count)
        depth++;
    for (unsigned i = 0; i < count; i++)
        sink = descend(i, depth);
}

static void print_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    if (!directory)
        exit(5);
    printf("fds");
    while ((entry = readdir(directory)))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory))
            printf(" %s", entry->d_name);
    closedir(directory);
    int next = open("/dev/null", O_RDONLY);
    printf(" next %d\n", next);
    close(next);
    fflush(stdout);
}

static void dup2_many_numbers(void) {
    int null = open("/dev/null", O_RDWR);
    for (int fd = 3; fd < 900; fd++)
        if (fd != null && dup2(null, fd) != fd)
            exit(6);
}

static void daemonise(void) {
    if (fork() != 0)
        _exit(0);
    setsid();
    if (fork() != 0)
        _exit(0);
    if (chdir("/"))
        exit(6);
    closefrom(3);
}

static void enter_root(const char *directory) {
    if (chroot(directory) || chdir("/")) {
        perror("chroot");
        exit(6);
    }
    printf("in %s\n", directory);
}

/* The child ends by exit: its exit handlers must not remove the parent's socket. */
static void print_fork(void) {
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 1000; i++)
            free(malloc((size_t)i * 7));
        exit(0);
    }
    waitpid(child, &status, 0);
    printf("fork %d\n", status);
}

static void limit_descriptors(const char *count) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)atoi(count);
    if (setrlimit(RLIMIT_NOFILE, &limit))
        exit(6);
    printf("limit %s\n", count);
}

static void answer(const char *word) {
    if (strcmp(word, "ops") == 0) {
        printf("ops %lu\n", operations);
    } else if (strcmp(word, "fork") == 0) {
        print_fork();
    } else if (strncmp(word, "chroot ", 7) == 0) {
        enter_root(word + 7);
    } else if (strncmp(word, "limit ", 6) == 0) {
        limit_descriptors(word + 6);
    } else {
        if (strcmp(word, "closefrom") == 0)
            closefrom(3);
        if (strcmp(word, "dup2") == 0)
            dup2_many_numbers();
        print_descriptors();
    }
}

int main(int argc, char **argv) {
    char line[100];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "contexts") == 0)
            make_contexts((unsigned)atoi(argv[++i]));
        else if (strcmp(argv[i], "daemon") == 0)
            daemonise();
        else if (strcmp(argv[i], "fds") == 0)
            print_descriptors();
        else {
            fprintf(stderr, "control_target: what is %s?\n", argv[i]);
            return 2;
        }
    }
    if (pthread_create(&thread, NULL, allocate_for_ever, NULL))
        return 3;
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        answer(strtok(line, "\n"));
        fflush(stdout);
    }
    return 0;
}
