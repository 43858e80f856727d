/* SPDX-License-Identifier: MIT */
/*
 * message.h - builds messages of protocol buffers. They have a dozen kinds of fields, so no
 * generated code is needed.
 *
 * A message is built in memory, because its length is written before it. Numbers are varints;
 * repeated numbers are packed. If memory runs out, the command ends. A struct message of zeros is
 * an empty message.
 */
#ifndef MEMCTX_MESSAGE_H
#define MEMCTX_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

struct message {
    unsigned char *bytes;
    size_t length, capacity;
};

/* Append bytes, or a varint, without a field number. */
void message_put_bytes(struct message *message, const void *bytes, size_t length);
void message_put_varint(struct message *message, uint64_t value);
/* Writes a field with a number. Writes nothing if the number is 0, because readers take a missing
 * field for 0, or if `field` is 0, because the format then has no such field. (The other functions
 * need a field number above 0.) */
void message_put_number(struct message *message, unsigned field, uint64_t value);
/* Writes a field with a number of 8 bytes (fixed64), even if it is 0. */
void message_put_fixed64(struct message *message, unsigned field, uint64_t value);
/* Writes a field with some bytes. */
void message_put_part(struct message *message, unsigned field, const void *bytes, size_t length);
/* Writes `part` as a field of `message`, and empties `part` for the next use. */
void message_put_message(struct message *message, unsigned field, struct message *part);
/* Writes a field with a string, in which bytes that are not UTF-8 are replaced. File names and
 * symbols may have such bytes, and strict readers refuse a whole message for one of them. */
void message_put_text(struct message *message, unsigned field, const char *text);
void message_free(struct message *message);

#endif
