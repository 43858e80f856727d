/* SPDX-License-Identifier: MIT */
/* foreign.c - a library without debug information (compiled with -DLIBRARY) that parses documents,
 * and a program that never frees them. The program prints "look" and waits for a line, for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP __attribute__((noinline))

void *document_read(const char *text);

#ifdef LIBRARY

KEEP void *node_new(const char *text) {
    char *node = malloc(strlen(text) + 200);
    strcpy(node, text);
    return node;
}

KEEP void *document_parse(const char *text) {
    void *node = node_new(text);
    __asm__ volatile("");
    return node;
}

KEEP void *document_open(const char *text) {
    void *document = document_parse(text);
    __asm__ volatile("");
    return document;
}

void *document_read(const char *text) {
    void *document = document_open(text);
    __asm__ volatile("");
    return document;
}

#else

KEEP static void feed_load(void) {
    if (!document_read("a feed"))
        exit(1);
    __asm__ volatile("");
}

int main(void) {
    char line[8];
    for (;;) {
        for (int i = 0; i < 2000; i++)
            feed_load();
        puts("look");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin))
            return 0;
    }
}

#endif
