/* SPDX-License-Identifier: MIT */
/* serving.h - reads files with secrets, times and TARGETs for memctx serve and memctx push. */
#ifndef MEMCTX_SERVING_H
#define MEMCTX_SERVING_H

#include "serve/fleet.h"

/* Returns the content of a file, or of a pipe that ends within 10 s, with a certificate in PEM, or,
 * if `private`, with a key that needs no password. Warns if other users may read a key. Ends the
 * command with a usage error if the content is neither, or if `path` cannot be read, or is a
 * directory or a device. */
char *serving_read_pem(const char *option, const char *path, bool private);
/* Checks a file as serving_read_pem does, but keeps nothing: libcurl reads the file for each new
 * connection. So a pipe is an error, too. */
void serving_check_pem(const char *option, const char *path, bool private);
/* Returns the first line of the file of --token-file. */
char *serving_read_token(const char *path);
/* Returns the milliseconds of --every: 100 to `most_ms`. `range`: the greatest value in words, and
 * an example, for the message of a usage error. */
int64_t serving_parse_every(const char *text, int64_t most_ms, const char *range);
/* Ends the command with a usage error unless it has either TARGETs, or --all or --match or both. */
void serving_check_wanted(const struct fleet_wanted *wanted);
/* For each TARGET that cannot be asked now, such as a stopped process, prints the message with
 * which other verbs end. Ends the command if no TARGET can be asked. A name that several processes
 * have is no mistake here. */
void serving_check_targets(const struct fleet_wanted *wanted);

#endif
