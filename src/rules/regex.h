/* SPDX-License-Identifier: MIT */
/*
 * regex.h - POSIX extended regular expressions, in time that grows with the length of the text alone and without memory
 * of the program's: regcomp and regexec of libc allocate.
 *
 * What they are: . [] [^] [:alpha:] and its kin, ( ) | * + ? {m,n} ^ $ and \ before any of them. An expression is
 * searched for; ^ and $ hold it to the ends. Cannot do: back references, collation.
 *
 * Source: Ken Thompson, "Regular Expression Search Algorithm" (1968); Rob Pike's and Russ Cox's virtual machine.
 */
#ifndef MEMCTX_REGEX_H
#define MEMCTX_REGEX_H

#include "base/text.h"

#define REGEX_STEPS_MAX 256U
#define REGEX_SETS_MAX 16U

struct regex_step {
    uint8_t kind, character; /* enum regex_kind; or the number of a set */
    int16_t first, second;   /* where it goes on, from here */
};
struct regex {
    struct regex_step steps[REGEX_STEPS_MAX];
    uint64_t sets[REGEX_SETS_MAX][4]; /* of characters, a bit each */
    uint32_t step_count, set_count;
};

/* NULL: done; else what is wrong with the expression. */
const char *regex_compile(struct regex *regex, const char *expression);
bool regex_matches(const struct regex *regex, const char *text, size_t length);

#endif
