/* SPDX-License-Identifier: MIT */
/*
 * dictionary.h - the tables that pprof's profile.proto and OTLP profiles share: strings, mappings,
 * functions and locations. The elements of each table are numbered from 1 on, in the order of the
 * file; string 0 is the empty string.
 *
 * Readers that keep profiles (Parca, Pyroscope) check more than pprof does, and tell frames apart
 * by mapping and address. So each address has one location, which all paths with this address
 * share, and every location has a mapping. A context that is not a frame (a named context,
 * [truncated]) gets an address in a made-up mapping. The address is a hash of the context's name,
 * so the context has the same address in the next profile.
 *
 * In OTLP the number is an index into the table, and element 0 of each table is empty.
 * dictionary_begin writes the empty string; the caller writes the other empty elements before it
 * calls dictionary_put_modules.
 */
#ifndef MEMCTX_DICTIONARY_H
#define MEMCTX_DICTIONARY_H

#include "formats/message.h"
#include "formats/profile.h"
#include "model/tails.h"

/* The field numbers of a format; 0: the format has no such field. */
struct dictionary_layout {
    /* fields of the message that contains the tables */
    unsigned mappings, locations, functions, strings, attributes;
    struct {
        unsigned id, start, end, file, build_id, first_claim, last_claim, attribute_indices;
    } mapping;
    struct {
        unsigned id, mapping, address, line;
    } location;
    struct {
        unsigned id, name, system_name, file;
    } function;
};

/* Mappings without a file. */
enum dictionary_made_up { MADE_UP_CODE, MADE_UP_LABELS, MADE_UP_MAPPINGS };

struct dictionary {
    const struct model *model;
    const struct dictionary_layout *layout;
    const char *root_name; /* name of the root context; set by the caller */
    bool merged;           /* small samples were added to the root (condense_rows) */
    struct message body;   /* the tables without the strings */
    /* The fields below belong to dictionary.c. */
    struct message location, part; /* messages that are being built */
    struct dictionary_strings {
        struct message text; /* encoded strings */
        struct profile_numbers numbers;
    } strings;
    struct profile_numbers functions;
    uint64_t *module_mappings; /* number of each module's mapping */
    uint64_t made_up_mappings[MADE_UP_MAPPINGS], mapping_count, attribute_count;
    uint64_t *context_locations; /* number of each context's location; 0: not written yet */
    struct dictionary_location *slots;
    size_t mask, location_count;
};

/* Makes an empty dictionary, with the empty string as string 0. */
void dictionary_begin(struct dictionary *dict, const struct model *model,
                      const struct dictionary_layout *layout);
/* Writes the mappings of all modules. The program's mapping comes first, because readers take the
 * first mapping for the program. */
void dictionary_put_modules(struct dictionary *dict);
/* Returns the number of a string, which is written at its first use; 0 for NULL and an empty
 * string. */
uint64_t dictionary_string(struct dictionary *dict, const char *text);
/* Appends the numbers of the locations of a context's path, innermost first, to `numbers`. */
void dictionary_put_path(struct dictionary *dict, uint32_t index, struct message *numbers);
void dictionary_free(struct dictionary *dict);

#endif
