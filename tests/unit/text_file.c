/* SPDX-License-Identifier: MIT */
/* Tests of the stream that collects text in memory (tools/memctx/base/text_file.c). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cli.h"
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

/* Writes 256 MiB to a stream in a process that may map 64 MiB. */
static void write_too_much(void) {
    char *text = NULL;
    size_t length;
    FILE *file = text_file_open(&text, &length);
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit))
        _exit(2);
    limit.rlim_cur = 64UL << 20;
    if (setrlimit(RLIMIT_AS, &limit))
        _exit(3);
    for (size_t i = 0; i < (256UL << 20) / (sizeof line - 1); i++)
        fputs(line, file);
    fclose(file);
    _exit(0);
}

Test(text_file, ends_the_command_when_memory_runs_out) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip("the sanitizers need more address space themselves");
#endif
    int status, said[2];
    char message[256] = "";
    cr_assert_eq(pipe(said), 0);
    pid_t child = fork();
    if (!child) {
        dup2(said[1], STDERR_FILENO);
        write_too_much();
    }
    close(said[1]);
    cr_assert_gt(read(said[0], message, sizeof message - 1), 0);
    cr_assert_not_null(strstr(message, "memory"), "%s", message);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == CLI_REFUSED, "status %x", status);
}
