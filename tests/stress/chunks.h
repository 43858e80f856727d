/* SPDX-License-Identifier: MIT */
/*
 * chunks.h - the chunks of the stress program: a record for each, the operations on it, and the
 * books that count all operations for each call path.
 *
 * A record, or the index of one, is used by one thread at a time; the books and the exchange are
 * atomic. Each operation ends the program if the pattern of a chunk is damaged, if there is no
 * memory, or if the allocator breaks another promise. Signal handlers may call all functions but
 * books_write.
 */
#ifndef STRESS_CHUNKS_H
#define STRESS_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

enum { EXCHANGE = 512 };
#define NO_RECORD UINT32_MAX

struct record { /* belongs to the slot or exchange cell that holds its index */
    unsigned char *pointer;
    size_t size;
    uint32_t path;
    uint32_t seed;
};

/* Cells that hold indexes of records, through which slots hand each other chunks. */
extern _Atomic uint32_t exchange[EXCHANGE];

/* Prints a line and exits with 3. record: NULL if no chunk is meant. */
_Noreturn void die(const char *what, const struct record *record);
uint64_t next_random(uint64_t *state);

/* Makes a chunk of random size on a random call path. */
void record_alloc(struct record *record, uint64_t *random);
void record_alloc_in_handler(struct record *record, uint64_t *random);
void record_free(struct record *record);
void record_realloc(struct record *record, uint64_t *random);
void record_check(const struct record *record);
/* Swaps the index in *place with that of a random cell of the exchange. */
void record_exchange(uint32_t *place, uint64_t random);

/* Writes a line for each call path that was used: its functions, live bytes and chunks,
 * allocations, frees, bytes ever allocated. All other threads stand still. */
void books_write(const char *path);

#endif
