/* SPDX-License-Identifier: MIT */
/* pieces.c - appends records to a piece of a dump, or makes it a refusal. */
#include "figures/pieces.h"
#include "base/text.h"

void *piece_record(struct piece *piece, size_t bytes) {
    const struct wire_piece_request *request = piece->request;
    void *room = request->most && piece->count >= request->most
                     ? NULL
                     : answer_add(piece->answer, align_up(bytes, 8));
    piece->count += room != NULL;
    return room;
}

uint32_t piece_refuse(struct piece *piece, const char *why) {
    size_t length = text_length(why);
    piece->answer->length = 0;
    char *room = answer_add(piece->answer, length);
    if (room)
        __builtin_memcpy(room, why, length);
    return WIRE_REFUSED;
}
