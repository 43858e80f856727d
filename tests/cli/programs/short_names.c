/* SPDX-License-Identifier: MIT */
/* short_names.c - prints each line of its input as shorten_to_name has it: for text, and plain. */
#include <stdio.h>
#include <string.h>

#include "model/shorten.h"

int main(void) {
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        printf("%s\t%s\n", shorten_to_name(line, false), shorten_to_name(line, true));
    }
    return 0;
}
