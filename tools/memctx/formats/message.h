/* SPDX-License-Identifier: MIT */
/*
 * message.h - builds messages of protocol buffers by hand, because a dozen kinds of fields need no
 * generator.
 *
 * A message is built in memory, because its length is written before it. Numbers are varints;
 * repeated numbers are packed. A field number of 0 means that the format has no such field: nothing
 * is written. If memory runs out, the command ends. A struct message of zeros is an empty message.
 */
#ifndef MEMCTX_MESSAGE_H
#define MEMCTX_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

struct message {
    unsigned char *bytes;
    size_t length, capacity;
};

void message_put_bytes(struct message *message, const void *bytes, size_t length);
void message_put_varint(struct message *message, uint64_t value);
/* Writes a number. A 0 is not written: readers take a missing field for 0. */
void message_put_number(struct message *message, unsigned field, uint64_t value);
/* Writes a number as fixed64, even if it is 0. */
void message_put_fixed64(struct message *message, unsigned field, uint64_t value);
void message_put_part(struct message *message, unsigned field, const void *bytes, size_t length);
/* Appends `part` to `message`, and empties `part` for the next use. */
void message_put_message(struct message *message, unsigned field, struct message *part);
/* Writes a string, with bytes that are not UTF-8 replaced. File names and symbols may have any
 * bytes, but strict readers refuse a whole message for one string that is not UTF-8. */
void message_put_text(struct message *message, unsigned field, const char *text);
void message_free(struct message *message);

#endif
