/* SPDX-License-Identifier: MIT */
/*
 * mark_entries.h - the entries of a mark, one for each context that ever allocated anything. When
 * the bytes that a mark may take do not suffice, the contexts that hold least have no entry; the
 * mark keeps the sums over these contexts, and the most bytes that one of them held. Control thread
 * only.
 */
#ifndef MEMCTX_CONTROL_MARK_ENTRIES_H
#define MEMCTX_CONTROL_MARK_ENTRIES_H

#include "control/marks.h"

#define MARK_CLASSES 65U /* classes of live bytes, by the number of their bits */

/* A mark that is being written. Here a chunk is a struct mark_chunk; class_of gives the class. */
struct mark_writer {
    struct mark_chunk *first, *last;
    uint32_t previous;     /* id of the last entry in this chunk; 0: the chunk is empty */
    uint64_t bytes, limit; /* bytes of the chunks, so far and at most */
    uint64_t needed;       /* bytes of the chunks that all entries would need */
    uint32_t used;         /* bytes used in the last of the needed chunks */
    /* for each class, the bytes of its entries if each began a chunk */
    uint64_t alone[MARK_CLASSES];
    unsigned least; /* entries of a lower class are left out */
    uint64_t spare; /* bytes left for entries of the class `least` */
    struct wire_left_out left_out;
    bool failed; /* out of memory */
};

INTERNAL int64_t marks_bytes; /* bytes of the chunks of all marks, also of an unfinished one */

/* Finds the contexts that have room in writer->limit. */
void mark_entries_measure(struct mark_writer *writer);
/* Writes the entries of the contexts that mark_entries_measure has found into new chunks, from
 * writer->first on, and protects these contexts from eviction (TREE_MARKED). Sums the other
 * contexts up in writer->left_out. */
void mark_entries_write(struct mark_writer *writer);
void mark_entries_free(struct mark_chunk *first);
/* Protects the contexts that have an entry from eviction. */
void mark_entries_pin(const struct mark_chunk *first);
/* Writes the entries from the cursor of the request on into the piece. */
void mark_entries_tell(struct piece *piece, const struct mark_chunk *first);

#endif
