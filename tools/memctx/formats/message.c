/* SPDX-License-Identifier: MIT */
/* message.c - encodes fields of protocol buffers into memory that grows. */
#include "formats/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "base/json.h"
#include "base/varint.h"

void message_put_bytes(struct message *message, const void *bytes, size_t length) {
    if (length == 0)
        return;
    if (message->capacity - message->length < length) {
        message->capacity = 2 * (message->capacity + length);
        message->bytes = cli_grow(message->bytes, message->capacity, 1);
    }
    memcpy(message->bytes + message->length, bytes, length);
    message->length += length;
}

void message_put_varint(struct message *message, uint64_t value) {
    uint8_t bytes[VARINT_MAX];
    message_put_bytes(message, bytes, varint_put(bytes, value));
}

void message_put_number(struct message *message, unsigned field, uint64_t value) {
    if (field != 0 && value != 0) {
        message_put_varint(message, (uint64_t)field << 3);
        message_put_varint(message, value);
    }
}

void message_put_fixed64(struct message *message, unsigned field, uint64_t value) {
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    message_put_varint(message, (uint64_t)field << 3 | 1);
    message_put_bytes(message, bytes, sizeof bytes);
}

void message_put_part(struct message *message, unsigned field, const void *bytes, size_t length) {
    message_put_varint(message, (uint64_t)field << 3 | 2);
    message_put_varint(message, length);
    message_put_bytes(message, bytes, length);
}

void message_put_message(struct message *message, unsigned field, struct message *part) {
    message_put_part(message, field, part->bytes, part->length);
    part->length = 0;
}

void message_put_text(struct message *message, unsigned field, const char *text) {
    struct message clean = {0};
    for (size_t length = 0; *text != '\0'; text += length) {
        length = json_utf8_length(text);
        message_put_bytes(&clean, length > 0 ? text : "\xef\xbf\xbd", length > 0 ? length : 3);
        length += length == 0;
    }
    message_put_message(message, field, &clean);
    message_free(&clean);
}

void message_free(struct message *message) {
    free(message->bytes);
    *message = (struct message){0};
}
