/* SPDX-License-Identifier: MIT */
/* Tests of the stream that collects text in memory (tools/memctx/base/text_file.c). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text_file.h"

static const char line[] = "0123456789abcdefghijklmnopqrstuvwxyz\n";

Test(text_file, holds_what_was_written) {
    /* around the sizes of the stream's own buffer, and of the first text */
    static const size_t lengths[] = {0, 1, 255, 256, 257, 4095, 4096, 8191, 8192, 8193, 1000000};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char *text = NULL;
        size_t length = 1;
        FILE *file = text_file_open(&text, &length);
        for (size_t k = 0; k < lengths[i]; k++)
            putc(line[k % (sizeof line - 1)], file);
        cr_assert_eq(fclose(file), 0);
        cr_assert_eq(length, lengths[i]);
        cr_assert_eq(strlen(text), length);
        for (size_t k = 0; k < length; k++)
            cr_assert_eq(text[k], line[k % (sizeof line - 1)], "byte %zu of %zu", k, length);
        free(text);
    }
}

/* 256 MiB do not fit into the 64 MiB that the process may map. */
Test(text_file, ends_the_command_when_memory_runs_out, .exit_code = 1) {
    char *text = NULL;
    size_t length;
    FILE *file = text_file_open(&text, &length);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = 64UL << 20;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    for (size_t i = 0; i < (256UL << 20) / (sizeof line - 1); i++)
        fputs(line, file);
    fclose(file);
}
