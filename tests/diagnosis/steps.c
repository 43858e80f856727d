/* SPDX-License-Identifier: MIT */
/* steps.c - chunks that grow by realloc: a log by 3 bytes a call, many lines by 1 byte; healthy
 * ones by a factor or in few calls. Chunks that grow by malloc, memcpy and free. Rows that reserve
 * far more bytes than they use. It prints "look" and waits for a line. */
#include "looks.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

/* --- one chunk, a few bytes a call --- */

static char *log_text;

static NOINLINE void log_add(size_t length) {
    log_text = realloc(log_text, length);
    memset(log_text + length - 3, 'x', 3);
}

static void log_grows(void) {
    for (size_t length = 3; length <= 3 * 400000; length += 3)
        log_add(length);
}

/* --- many lines, each of which grows by one byte a call --- */

enum { LINES = 3000, LINE_BYTES = 900 };

static NOINLINE char *line_read(void) {
    char *line = NULL;
    for (size_t length = 1; length <= LINE_BYTES; length++) {
        line = realloc(line, length);
        line[length - 1] = 'y';
    }
    return line;
}

static char *lines[LINES];

static void lines_grow(void) {
    for (size_t i = 0; i < LINES; i++)
        lines[i] = line_read();
}

/* --- large chunks: fewer calls, many of which copy the whole chunk --- */

static NOINLINE char *table_extend(char *table, size_t length) {
    return realloc(table, length);
}

enum { TABLES = 300 };

static char *tables[TABLES];

/* All tables grow in turns, so that none can grow in place. */
static void tables_grow(void) {
    for (size_t length = 2048; length <= 200 << 10; length += 2048) {
        for (int i = 0; i < TABLES; i++) {
            tables[i] = table_extend(tables[i], length);
            tables[i][length - 1] = 1;
        }
    }
}

/* --- growth by malloc, memcpy and free --- */

static NOINLINE char *text_push(char *text, size_t length) {
    char *longer = malloc(length);
    if (text)
        memcpy(longer, text, length - 1);
    longer[length - 1] = 'z';
    free(text);
    return longer;
}

static void text_is_copied(void) {
    for (size_t length = 1; length <= 6000; length++)
        log_text = text_push(log_text, length);
}

/* Text i grows to 2 * i bytes. */
static void texts_are_copied(void) {
    for (size_t length = 1; length <= 600; length++) {
        for (size_t i = 0; i < 300; i++)
            if (length <= 2 * i)
                lines[i] = text_push(lines[i], length);
    }
}

static NOINLINE char *message_new(bool stays) {
    size_t length = stays ? 1000 : 500;
    char *message = malloc(length);
    memset(message, 'm', length);
    return message;
}

/* Healthy: of 101 messages one stays. It has 1000 bytes, the others 500. */
static void messages_come_and_go(void) {
    static char *sent[101];
    for (int i = 0; i < 300; i++) {
        for (int k = 0; k <= 100; k++)
            sent[k] = message_new(k == 100);
        for (int k = 0; k < 100; k++)
            free(sent[k]);
        lines[i] = sent[100];
    }
}

/* --- memory that is reserved --- */

static NOINLINE char *rows_reserve(size_t length, size_t used) {
    char *rows = malloc(length);
    memset(rows, 'r', used);
    return rows;
}

static NOINLINE char *array_half_full(void) {
    char *array = malloc(72 << 20);
    memset(array, 'a', 37 << 20);
    return array;
}

static void rows_are_reserved(void) {
    for (int i = 0; i < 40; i++)
        lines[i] = rows_reserve(i % 2 ? 2 << 20 : 64 << 10, 1000);
    lines[40] = array_half_full();
}

static NOINLINE char *buffer_make(void) {
    return malloc(20000);
}

static void buffers_are_not_used(void) {
    for (int i = 0; i < 4000; i++)
        buffer_make();
}

/* --- healthy --- */

static NOINLINE char *array_double(char *array, size_t length) {
    return realloc(array, length);
}

/* A million calls, each of which doubles an array. */
static void arrays_double(void) {
    for (int i = 0; i < 100000; i++) {
        char *array = NULL;
        for (size_t length = 16; length <= 8192; length *= 2)
            array = array_double(array, length);
        array[0] = 1;
        if (i % 1000)
            free(array);
        else
            lines[i / 1000] = array;
    }
}

/* A hundred arrays that double in turns, so that none grows in place, and stay. */
static void arrays_stay(void) {
    for (size_t length = 16; length <= 512 << 10; length *= 2) {
        for (int i = 0; i < 100; i++)
            lines[i] = array_double(lines[i], length);
    }
}

static NOINLINE char *list_grow(char *list, size_t length) {
    return realloc(list, length);
}

/* Lists that grow by an eighth, like those of Python. */
static void lists_grow(void) {
    for (int i = 0; i < 4000; i++) {
        char *list = NULL;
        for (size_t length = 64; length < 1 << 20; length += length / 8)
            list = list_grow(list, length);
        list[0] = 1;
        free(list);
    }
}

/* 20 000 calls that add 1 byte each: too few to matter. */
static void few_steps(void) {
    for (size_t length = 1; length < 20000; length++)
        log_text = realloc(log_text, length);
    log_text[0] = 1;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"log", log_grows},
                 {"lines", lines_grow},
                 {"tables", tables_grow},
                 {"text", text_is_copied},
                 {"texts", texts_are_copied},
                 {"messages", messages_come_and_go},
                 {"reserved", rows_are_reserved},
                 {"unused", buffers_are_not_used},
                 {"doubles", arrays_double},
                 {"lists", lists_grow},
                 {"few", few_steps},
                 {"stay", arrays_stay}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc == 2 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            look();
            return 0;
        }
    }
    return 2;
}
