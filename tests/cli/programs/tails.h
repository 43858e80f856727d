/* SPDX-License-Identifier: MIT */
/* tails.h - the functions that the files of the program `tails` share. */
#include <stddef.h>

char *far_entry(size_t bytes);   /* tails_far.c */
char *plain_entry(size_t bytes); /* tails_plain.c, compiled without -g */
char *plain_maybe(size_t bytes); /* tails_plain.c */
char *plain_back(size_t bytes);  /* tails.c */
