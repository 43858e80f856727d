/* SPDX-License-Identifier: MIT */
/* wrap.c - breaks lines between words. */
#include "formats/wrap.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/terminal.h"

/* Returns how many columns some bytes of UTF-8 take. */
static unsigned count_columns(const char *text, size_t bytes) {
    unsigned columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

/* True if a word begins with a unit, such as "MiB" or "MiB/s". */
static bool is_unit(const char *word) {
    static const char *const units[] = {"B",   "bytes", "KiB", "MiB", "GiB",
                                        "TiB", "%",     "s",   "min", "h"};
    size_t length = strcspn(word, " ,;:)(/");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i]) == length && strncmp(units[i], word, length) == 0)
            return true;
    return false;
}

/* Returns how many bytes there are up to the next space at which a line may end: not one between a
 * number and its unit. */
static size_t next_length(const char *text) {
    size_t length = strcspn(text, " ");
    while (length > 0 && text[length] == ' ' && isdigit((unsigned char)text[length - 1]) &&
           is_unit(text + length + 1))
        length += 1 + strcspn(text + length + 1, " ");
    return length;
}

void wrap_print(const char *text, unsigned column, unsigned indent) {
    unsigned width = terminal_columns();
    for (bool first = true; *text != '\0'; first = false) {
        size_t length = next_length(text);
        unsigned columns = count_columns(text, length);
        if (!first && column + 1 + columns > width) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            putchar(' ');
            column++;
        }
        fwrite(text, 1, length, stdout);
        column += columns;
        text += length;
        text += strspn(text, " ");
    }
    putchar('\n');
}
