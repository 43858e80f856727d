/* SPDX-License-Identifier: MIT */
/* use CASE - an ordinary program without calls of memctx; rules of the suite place, guard, limit or
 * zero its call path row_new. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elsewhere.h"

#define NOINLINE __attribute__((noinline))
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Fills the row, so that the tests can tell a live row from a freed one. */
static NOINLINE char *row_new(size_t bytes) {
    char *row = malloc(bytes);
    if (row != NULL) {
        memset(row, 0x5a, bytes);
    }
    return row;
}

static NOINLINE void row_free(char *row) {
    free(row);
}

static NOINLINE char *row_resize(char *row, size_t bytes) {
    return realloc(row, bytes);
}

static void begun(void) {
    puts("begun");
    fflush(stdout);
    getchar();
}

/* --- guard ------------------------------------------------------------------------------------ */

static void overflow(void) {
    volatile char *row = row_new(100);
    row[112] = 1;
}

static void overflow_of_one(void) { /* 4096 is a multiple of 16, so the row has no slack */
    volatile char *row = row_new(4096);
    row[4096] = 1;
}

static void overflow_read(void) {
    volatile char *row = row_new(64);
    putchar(row[64]);
}

static void overflow_in_tail(void) {
    char *row = row_new(100);
    ((volatile char *)row)[100] = 1;
    row_free(row);
}

static void use_after_free(void) {
    char *row = row_new(100);
    row_free(row);
    ((volatile char *)row)[3] = 1;
}

static void use_long_after_free(void) {
    char *row = row_new(100);
    row_free(row);
    for (int i = 0; i < 4000; i++) {
        row_free(row_new(50));
    }
    putchar(((volatile char *)row)[3]);
}

static void *free_it(void *row) {
    row_free(row);
    return NULL;
}

static void freed_by_another(void) {
    pthread_t thread;
    char *row = row_new(100);
    pthread_create(&thread, NULL, free_it, row);
    pthread_join(thread, NULL);
    ((volatile char *)row)[3] = 1;
}

static void double_free(void) {
    char *row = row_new(100);
    row_free(row);
    row_free(row);
}

/* The program's own handler of SIGSEGV, which must get the faults outside of guarded chunks. */
static void on_fault(int number) {
    static const char line[] = "own handler\n";
    (void)number;
    fwrite(line, 1, sizeof(line) - 1, stdout);
    fflush(stdout);
    _Exit(7);
}

static void own_handler(void) {
    signal(SIGSEGV, on_fault);
    row_free(row_new(100));
    *(volatile char *)16 = 1;
}

/* A handler that takes the fault's address, and jumps out of the signal. */
static sigjmp_buf before_fault;
static void on_fault_at(int number, siginfo_t *info, void *context) {
    printf("fault %d at %p%s\n", number == SIGSEGV, info->si_addr, context ? "" : ", no context");
    fflush(stdout);
    siglongjmp(before_fault, 1);
}

static void jumping_handler(void) {
    struct sigaction action = {.sa_sigaction = on_fault_at, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    row_free(row_new(100));
    for (volatile uintptr_t address = 16; address < 18; address++) {
        if (!sigsetjmp(before_fault, 0)) { /* with SA_NODEFER the mask stays as it is */
            *(volatile char *)address = 1;
        }
    }
}

static void sent_signal(void) {
    row_free(row_new(100));
    raise(SIGSEGV);
    puts("survived");
}

static void ignored_signal(void) {
    signal(SIGSEGV, SIG_IGN);
    row_free(row_new(100));
    raise(SIGSEGV);
    puts("ignored");
}

/* Called in a forked child: its call path is new, so the rule must be applied without the control
 * thread. */
static NOINLINE void in_child(void) {
    volatile char *row = row_new(100);
    row[112] = 1;
}

static void forked(void) {
    int status;
    row_free(row_new(100));
    pid_t child = fork();
    if (child == 0) {
        in_child();
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("%d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* --- all options: nothing goes wrong ---------------------------------------------------------- */

#define ROWS 6000

static uint64_t next_number(uint64_t *state) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return *state >> 33;
}

struct row {
    unsigned char *bytes;
    size_t size;
    unsigned char fill;
};

static void fill_row(struct row *row, size_t size, unsigned char fill) {
    row->bytes = (unsigned char *)row_new(size);
    row->size = row->bytes != NULL ? size : 0;
    row->fill = fill;
    if (row->bytes != NULL) {
        memset(row->bytes, fill, size);
    }
}

static bool is_whole(const struct row *row, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (row->bytes[i] != row->fill) {
            return false;
        }
    }
    return true;
}

static void wrong(const char *what) {
    printf("wrong: %s\n", what);
    exit(1);
}

static void end_row(struct row *row) {
    if (!is_whole(row, row->size)) {
        wrong("contents");
    }
    row_free((char *)row->bytes);
    row->bytes = NULL;
    row->size = 0;
}

static void change_row(struct row *row, uint64_t *state) {
    static const size_t sizes[] = {24, 100, 300, 700, 1032, 2000, 5000, 9000, 40000};
    size_t size = sizes[next_number(state) % (next_number(state) % 16 ? 6 : COUNT(sizes))];
    size -= next_number(state) % 20;
    unsigned char fill = (unsigned char)(next_number(state) | 1);
    if (next_number(state) % 4 == 0 && row->bytes != NULL) {
        size_t kept = size < row->size ? size : row->size;
        unsigned char *moved = (unsigned char *)row_resize((char *)row->bytes, size);
        if (moved == NULL) {
            return; /* refused by a limit: the old row is unchanged */
        }
        row->bytes = moved;
        if (!is_whole(row, kept)) {
            wrong("contents after realloc");
        }
        row->size = size;
        memset(row->bytes, row->fill, size);
        return;
    }
    end_row(row);
    fill_row(row, size, fill);
}

static void *free_rows(void *rows) {
    for (size_t i = 0; i < ROWS; i += 3) {
        end_row(&((struct row *)rows)[i]);
    }
    return NULL;
}

static void many(void) {
    static struct row rows[ROWS];
    uint64_t state = 7;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 4 * ROWS; i++) {
            change_row(&rows[next_number(&state) % ROWS], &state);
        }
        pthread_t thread;
        pthread_create(&thread, NULL, free_rows, rows);
        pthread_join(thread, NULL);
    }
    begun();
    for (size_t i = 0; i < ROWS; i++) {
        end_row(&rows[i]);
    }
    begun();
}

/* More rows than can have a guard. */
static void past_the_bound(void) {
    static char *rows[17000];
    for (size_t i = 0; i < COUNT(rows); i++) {
        rows[i] = row_new(100);
    }
    begun();
    for (size_t i = 0; i < COUNT(rows); i++) {
        row_free(rows[i]);
    }
}

static long resident_bytes(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &all, &resident) != 2) {
        return -1;
    }
    fclose(file);
    return resident * getpagesize();
}

/* Freed rows wait, without their memory. */
static void freed_memory(void) {
    static char *rows[100];
    long before = resident_bytes();
    for (size_t i = 0; i < COUNT(rows); i++) {
        rows[i] = row_new(200000);
    }
    long full = resident_bytes();
    for (size_t i = 0; i < COUNT(rows); i++) {
        row_free(rows[i]);
    }
    printf("%ld %ld\n", full - before, resident_bytes() - before);
}

/* --- limit ------------------------------------------------------------------------------------ */

static void limited(void) {
    static char *rows[4000];
    size_t count = 0;
    errno = 0;
    while (count < COUNT(rows) && (rows[count] = row_new(1000)) != NULL) {
        count++;
    }
    printf("%zu %s\n", count, errno == ENOMEM ? "ENOMEM" : "no limit");
    row_free(rows[--count]);
    rows[count] = row_new(1000); /* after a free the limit has room at once */
    printf("%s\n", rows[count] != NULL ? "again" : "too little");
    char *more = row_new(1000);
    printf("%s\n", more == NULL ? "full" : "too much");
    char *other = malloc(100000); /* another call path, which has no limit */
    printf("%s\n", other != NULL ? "other" : "none");
    char *moved = realloc(rows[0], 2000);
    printf("%s\n", moved == NULL || moved == rows[0] ? "kept" : "moved to another path");
    begun();
}

/* A chunk that is resized leaves the limit's room only if the limit counts it. */
static void limited_resizes(void) {
    char *row = row_resize(row_new(600000), 1000000);
    printf("%s\n", row != NULL ? "resized" : "counted twice");
    printf("%s\n", row_resize(row, 1100000) == NULL ? "full" : "too much");
    row = row_resize(row, 600000);
    char *other = malloc(900000); /* of a call path without limit */
    printf("%s\n", row != NULL && row_resize(other, 1000000) == NULL ? "full" : "too much");
    printf("%s\n", row_resize(other, 400000) != NULL ? "resized" : "refused");
}

static void *take_rows(void *count) {
    size_t taken = 0;
    while (row_new(1000) != NULL && taken < 100000) {
        taken++;
    }
    *(size_t *)count = taken;
    return NULL;
}

static void limited_threads(void) {
    pthread_t threads[4];
    size_t counts[4], sum = 0;
    for (size_t i = 0; i < COUNT(threads); i++) {
        pthread_create(&threads[i], NULL, take_rows, &counts[i]);
    }
    for (size_t i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        sum += counts[i];
    }
    printf("%zu\n", sum);
}

static void warned(void) {
    static char *rows[1500];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT(rows); i++) {
            if (rows[i] == NULL) {
                rows[i] = row_new(1000);
            }
        }
        begun();
        row_free(rows[0]);
        rows[0] = row_new(1000);
    }
    begun();
}

/* --- zero ------------------------------------------------------------------------------------- */

/* Freed chunks must be zero, whatever their size and the way they were freed, except for the first
 * words, which the allocator uses. */
static bool is_zero_from(const volatile char *row, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        if (row[i] != 0) {
            return false;
        }
    }
    return true;
}

static void zeroed(void) {
    static const size_t sizes[] = {32, 100, 500, 1032, 4000, 8000};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char *before = row_new(sizes[i]), *row = row_new(sizes[i]), *behind = row_new(sizes[i]);
        row_free(row);
        printf("%d", is_zero_from(row, 16, sizes[i]));
        pthread_t thread;
        pthread_create(&thread, NULL, free_it, before);
        pthread_join(thread, NULL);
        printf("%d", is_zero_from(before, 16, sizes[i]));
        row_free(behind);
    }
    char *row = row_new(4000);
    if (row_resize(row, 3900) == row) {
        printf("%d", is_zero_from(row, 3900, 4000));
    }
    putchar('\n');
}

/* Frees the second of three rows of one call path, twice. Between the two rounds the test changes
 * the rules, and the path allocates nothing. */
static void zeroed_later(void) {
    char *rows[3];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT(rows); i++) {
            rows[i] = row_new(1000);
        }
        row_free(rows[1]);
        printf("%d\n", is_zero_from(rows[1], 16, 1000));
        begun();
    }
}

/* --- patterns --------------------------------------------------------------------------------- */

static void patterns(void) {
    char *rows[] = {row_new(3000), elsewhere_new(3000)};
    begun();
    for (size_t i = 0; i < COUNT(rows); i++) {
        free(rows[i]);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"overflow", overflow},
    {"overflow_of_one", overflow_of_one},
    {"overflow_read", overflow_read},
    {"overflow_in_tail", overflow_in_tail},
    {"use_after_free", use_after_free},
    {"use_long_after_free", use_long_after_free},
    {"freed_by_another", freed_by_another},
    {"double_free", double_free},
    {"own_handler", own_handler},
    {"jumping_handler", jumping_handler},
    {"sent_signal", sent_signal},
    {"ignored_signal", ignored_signal},
    {"forked", forked},
    {"many", many},
    {"past_the_bound", past_the_bound},
    {"freed_memory", freed_memory},
    {"limited", limited},
    {"limited_resizes", limited_resizes},
    {"limited_threads", limited_threads},
    {"warned", warned},
    {"zeroed", zeroed},
    {"zeroed_later", zeroed_later},
    {"patterns", patterns},
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < COUNT(cases); i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    return 2;
}
