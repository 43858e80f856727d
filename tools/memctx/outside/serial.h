/* SPDX-License-Identifier: MIT */
/*
 * serial.h - reads the chunks of a serial page, in which chunks stand one behind the other.
 *
 * The counterpart of serial_next in src/region/serial.c; src/region/serial.h has the layout of the
 * page. A page may change while it is read, so every number is checked against the page.
 */
#ifndef MEMCTX_OUTSIDE_SERIAL_H
#define MEMCTX_OUTSIDE_SERIAL_H

#include "outside/tables.h"

struct serial_chunk {
    uint32_t offset, bytes; /* offset: distance from the page's start */
    bool live;
    bool freed; /* another thread freed the chunk, and the owner has not collected it yet */
};

/* A walk over the chunks of a page in order. */
struct serial_walk {
    const struct tables *tables;
    uint64_t run;            /* page.run: the last run of chunks, and the number of records */
    uint32_t units, records; /* units of the whole page; number of record words */
    uint32_t *words;         /* record words by rising address: the first record stands last */
    uint64_t *gone;          /* page.gone; NULL: all chunks are alive */
    size_t gone_words;       /* words of each of the two tables in `gone` */
    uint32_t number; /* number of record words that were read, plus one after the last run */
    /* the chunks of the current run that were not visited yet: their number, the first unit of the
     * first one, and the units of each */
    uint32_t left, first, each;
};

/* Returns the bytes of the records of a page. `run`: page.run. */
uint64_t serial_record_bytes(const struct tables *tables, uint64_t run);
/* Begins a walk. `start`, `bytes`: the page; `run`, `gone`: page.run and page.gone. Returns false
 * if memory cannot be read. Otherwise call serial_end after the walk. */
bool serial_begin(struct serial_walk *walk, struct tables *tables, uint64_t start, uint64_t bytes,
                  uint64_t run, uint64_t gone);
/* Returns false after the last chunk, and where a record makes no sense. */
bool serial_next(struct serial_walk *walk, struct serial_chunk *chunk);
void serial_end(struct serial_walk *walk);

#endif
