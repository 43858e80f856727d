/* SPDX-License-Identifier: MIT */
/* short_names.c - prints for each line of its input the two results of shorten_to_name, with
 * `plain` false and true. */
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
