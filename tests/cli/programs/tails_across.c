/* SPDX-License-Identifier: MIT */
/*
 * tails_across.c - tail calls from a program into libraries, and inside of libraries. Built with
 * LIBRARY, the file is the library that the program calls; built with SECOND, it is another library
 * that also defines twin_make; else it is the program.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline, noipa))

char *lib_work(size_t bytes);
char *lib_open(size_t bytes);
char *lib_other(size_t bytes);
void *lib_make(size_t bytes);
void *twin_make(size_t bytes);
char *lib_call(char *(*function)(size_t bytes), size_t bytes);
char *lib_versioned(size_t bytes);

#if defined LIBRARY || defined SECOND
void *twin_make(size_t bytes) {
    return malloc(bytes + 3);
}
#endif

#ifdef LIBRARY

char *lib_work(size_t bytes) {
    char *chunk = malloc(bytes);
    chunk[0] = 'x';
    return chunk;
}

static APART char *inside(size_t bytes) {
    char *chunk = malloc(bytes + 1);
    chunk[0] = 'x';
    return chunk;
}

char *lib_open(size_t bytes) {
    return inside(bytes + 1); /* MARK lib_open */
}

char *lib_other(size_t bytes) {
    return inside(bytes + 2);
}

void *lib_make(size_t bytes) {
    return malloc(bytes + 1); /* MARK lib_make */
}

/* The library exports this function as lib_versioned, with version V1. */
char *lib_version_1(size_t bytes);
char *lib_version_1(size_t bytes) {
    return inside(bytes + 4);
}
__asm__(".symver lib_version_1, lib_versioned@@V1");

char *lib_call(char *(*function)(size_t bytes), size_t bytes) {
    return function(bytes + 1);
}

#elif !defined SECOND

static void *volatile keep;
static volatile int yes = 1;

APART static char *wrap(size_t bytes) {
    return lib_work(bytes + 1); /* MARK wrap */
}

APART static char *wrap_open(size_t bytes) {
    return lib_open(bytes + 1); /* MARK wrap_open */
}

APART static char *either(size_t bytes) {
    return yes ? lib_open(bytes) : lib_other(bytes);
}

/* strdup is in libc, like puts, so a tail call from puts to strdup cannot be ruled out. */
APART static char *copy(const char *text) {
    return strdup(text); /* MARK copy */
}

APART static char *called(size_t bytes) {
    char *chunk = malloc(bytes);
    chunk[0] = 'x';
    return chunk;
}

APART static char *direct(size_t bytes) {
    return called(bytes + 1);
}

APART static char *by_library(size_t bytes) {
    return yes ? lib_call(called, bytes) : direct(bytes);
}

int main(void) {
    static char text[1240];
    memset(text, 'x', sizeof text - 1);
    keep = wrap(1200);
    keep = wrap_open(1210);
    keep = lib_open(1220);
    keep = either(1230);
    keep = copy(text);
    keep = lib_make(1250);
    keep = twin_make(1260);
    keep = by_library(1270);
    keep = lib_versioned(1280);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}

#endif
