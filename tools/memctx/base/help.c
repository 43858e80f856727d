/* SPDX-License-Identifier: MIT */
/*
 * help.c - prints help texts for terminals of any width.
 *
 * A help text consists of blocks: a paragraph, or an option ("  --json") and, from a certain column
 * on, its description. A line that begins at that column belongs to the block before it.
 */
#include "base/help.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/terminal.h"

/* The manual page indents a table by 5 columns, so a table of this width fits 80 columns. */
#define COLUMNS_OF_FILE 75

static size_t longest_line(const char *text) {
    size_t longest = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        longest = length > longest ? length : longest;
        text += length + (text[length] != '\0');
    }
    return longest;
}

/* Returns the column at which the text of a line begins: behind "usage:", behind the last two
 * blanks in a row, or behind the line's indentation. */
static size_t text_column(const char *line, size_t length) {
    static const char usage[] = "usage: ";
    size_t column = strspn(line, " ");
    if (strncmp(line, usage, strlen(usage)) == 0)
        return strlen(usage);
    for (size_t i = column; i + 2 < length; i++)
        if (line[i] == ' ' && line[i + 1] == ' ' && line[i + 2] != ' ')
            column = i + 2;
    return column;
}

/* Prints words from column `column` on; *at is the column where the cursor stands. */
static void print_words(const char *text, const char *end, size_t column, size_t width,
                        size_t *at) {
    while (text < end) {
        size_t length = 0;
        while (text + length < end && text[length] != ' ')
            length++;
        if (*at > column && *at + 1 + length > width) {
            printf("\n%*s", (int)column, "");
            *at = column;
        } else if (*at > column) {
            putchar(' ');
            ++*at;
        }
        printf("%.*s", (int)length, text);
        *at += length;
        text += length + (text + length < end);
    }
}

void help_print(const char *text) {
    size_t width = terminal_is_output() ? terminal_columns() : COLUMNS_OF_FILE, column = 0, at = 0;
    bool in_block = false;
    if (longest_line(text) <= width) {
        fputs(text, stdout);
        return;
    }
    while (*text) {
        size_t length = strcspn(text, "\n"), begins = text_column(text, length);
        bool goes_on = in_block && length > 0 && begins == column && strspn(text, " ") == column;
        if (in_block && !goes_on)
            putchar('\n');
        if (length == 0) {
            putchar('\n');
        } else if (!goes_on) {
            printf("%.*s", (int)begins, text);
            column = at = begins;
        }
        print_words(text + begins, text + length, column, width, &at);
        in_block = length > 0;
        text += length + (text[length] != '\0');
    }
    if (in_block)
        putchar('\n');
}
