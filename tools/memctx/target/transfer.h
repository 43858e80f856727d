/* SPDX-License-Identifier: MIT */
/*
 * transfer.h - reads and writes the bytes of a connection to a process, each within a deadline.
 *
 * Only client.c uses these functions. They know nothing of the meaning of a request.
 */
#ifndef MEMCTX_TRANSFER_H
#define MEMCTX_TRANSFER_H

#include "target/client.h"

/* a client in a hurry waits at most this long for a hello, an answer or the next byte, and as long
 * again for the rest of an answer */
#define HURRY_DEADLINE_MS 1500

enum transfer_result { IO_DONE, IO_CLOSED, IO_LATE, IO_STOPPED, IO_FAILED };

/* Waits until the descriptor is ready or the deadline is over. */
enum transfer_result transfer_wait_ready(int fd, short events, int64_t deadline);
/* Reads `bytes` bytes. Waits at most `first_ms` for the first byte. The pause before each further
 * byte may be as long, but not longer than PAUSE_DEADLINE_MS. The last byte must come before
 * `end_ms`. */
enum transfer_result transfer_read(const struct client *client, char *buffer, size_t bytes,
                                   int64_t first_ms, int64_t end_ms);
/* Returns when the last byte of an answer must have come, if its first byte may come after
 * `first_ms`. */
int64_t transfer_end_of_answer(const struct client *client, int64_t first_ms);
/* Sends all bytes. Waits at most some seconds before each part. */
enum transfer_result transfer_write(int fd, const char *bytes, size_t length);
/* Sets the failure for a result that is not IO_DONE. `what` says when it happened. */
void transfer_set_failure(const struct client *client, enum transfer_result result,
                          const char *what, struct cli_failure *failure);
#define transfer_fail(...) (transfer_set_failure(__VA_ARGS__), false)
/* Returns false, and sets the failure, unless the frame is an answer of this type from a library of
 * this version. */
bool transfer_check(const struct client *client, const struct wire_frame *frame,
                    enum wire_type type, struct cli_failure *failure);
/* Reads a body of an announced length, with a 0 byte behind it. The caller frees it. NULL: it
 * failed. */
char *transfer_read_body(const struct client *client, uint64_t length, int64_t end_ms,
                         struct cli_failure *failure);

#endif
