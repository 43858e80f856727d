/* SPDX-License-Identifier: MIT */
/* wire_layout.c - prints the sizes, offsets and constants of wire.h as JSON for the Python client,
 * which has none of its own. */
#include <stddef.h>
#include <stdio.h>

#include "memctx/wire.h"

#define CONSTANT(name) printf("  \"%s\": %lld,\n", #name, (long long)(name));
#define SIZE(type) printf("  \"sizeof %s\": %zu,\n", #type, sizeof(struct type));
#define FIELD(type, field)                                                                         \
    printf("  \"%s.%s\": [%zu, %zu],\n", #type, #field, offsetof(struct type, field),              \
           sizeof(((struct type *)0)->field));

static void print_constants(void) {
    CONSTANT(WIRE_MAGIC)
    CONSTANT(WIRE_VERSION)
    CONSTANT(WIRE_REQUEST_MAX)
    CONSTANT(WIRE_ANSWER_MAX)
    CONSTANT(WIRE_CLIENTS_MAX)
    CONSTANT(WIRE_DEADLINE_MS)
    CONSTANT(WIRE_MARK_NAME_MAX)
    CONSTANT(WIRE_MARKS_MAX)
    CONSTANT(WIRE_NONE)
    CONSTANT(WIRE_HELLO)
    CONSTANT(WIRE_DUMP)
    CONSTANT(WIRE_MARK)
    CONSTANT(WIRE_RESET)
    CONSTANT(WIRE_TRIM)
    CONSTANT(WIRE_SET)
    CONSTANT(WIRE_OPTIONS)
    CONSTANT(WIRE_SELF)
    CONSTANT(WIRE_PIECE)
    CONSTANT(WIRE_NOTE)
    CONSTANT(WIRE_RULES)
    CONSTANT(WIRE_RULE_RANGES)
    CONSTANT(WIRE_PLACE)
    CONSTANT(WIRE_UNFOLD)
    CONSTANT(WIRE_OK)
    CONSTANT(WIRE_REFUSED)
    CONSTANT(WIRE_NO_MEMORY)
    CONSTANT(WIRE_DUMP_RESIDENT)
    CONSTANT(WIRE_DUMP_THREADS)
    CONSTANT(WIRE_DUMP_LIGHT)
    CONSTANT(WIRE_DUMP_BEGIN)
    CONSTANT(WIRE_DUMP_END)
    CONSTANT(WIRE_DUMP_SUMS)
    CONSTANT(WIRE_PART_CONTEXTS)
    CONSTANT(WIRE_PART_MODULES)
    CONSTANT(WIRE_PART_THREADS)
    CONSTANT(WIRE_PART_REMOTES)
    CONSTANT(WIRE_PART_MARKS)
    CONSTANT(WIRE_PART_ENTRIES)
    CONSTANT(WIRE_PART_NOTES)
    CONSTANT(WIRE_PART_PAGES)
    CONSTANT(WIRE_PARTS)
    CONSTANT(WIRE_PART_BEST)
    CONSTANT(WIRE_PART_PATH)
    CONSTANT(WIRE_PART_RESIZES)
    CONSTANT(WIRE_CONTEXT_SUMS)
    CONSTANT(WIRE_FIGURE_REQUESTED)
    CONSTANT(WIRE_FIGURE_CHUNKS)
    CONSTANT(WIRE_FIGURE_ALLOCS)
    CONSTANT(WIRE_FIGURE_FREES)
}

/* The structs of the connection and of the head of a dump. */
static void print_heads(void) {
    SIZE(wire_frame)
    FIELD(wire_frame, magic)
    FIELD(wire_frame, version)
    FIELD(wire_frame, type)
    FIELD(wire_frame, status)
    FIELD(wire_frame, reserved)
    FIELD(wire_frame, length)
    SIZE(wire_hello)
    FIELD(wire_hello, pid)
    FIELD(wire_hello, start_ticks)
    FIELD(wire_hello, library_version)
    SIZE(wire_dump_request)
    FIELD(wire_dump_request, flags)
    SIZE(wire_dump)
    FIELD(wire_dump, uptime_ns)
    FIELD(wire_dump, exact)
    FIELD(wire_dump, contexts)
    FIELD(wire_dump, took_ns)
    FIELD(wire_dump, requested_bytes)
    FIELD(wire_dump, live_chunks)
}

/* The structs of the pieces of a dump. */
static void print_pieces(void) {
    SIZE(wire_piece_request)
    FIELD(wire_piece_request, part)
    FIELD(wire_piece_request, flags)
    FIELD(wire_piece_request, from)
    FIELD(wire_piece_request, most)
    FIELD(wire_piece_request, figure)
    FIELD(wire_piece_request, least)
    FIELD(wire_piece_request, ids_below)
    FIELD(wire_piece_request, mark)
    SIZE(wire_piece)
    FIELD(wire_piece, next)
    FIELD(wire_piece, count)
    FIELD(wire_piece, took_ns)
    SIZE(wire_survey)
    FIELD(wire_survey, uptime_ns)
    FIELD(wire_survey, contexts)
    FIELD(wire_survey, with_figures)
    FIELD(wire_survey, requested_bytes)
    FIELD(wire_survey, allocs)
    SIZE(wire_context)
    FIELD(wire_context, id)
    FIELD(wire_context, parent)
    FIELD(wire_context, bytes)
    FIELD(wire_context, holds)
    SIZE(wire_page)
    FIELD(wire_page, share_count)
    SIZE(wire_share)
}

/* The structs of the other requests. */
static void print_requests(void) {
    SIZE(wire_mark_request)
    SIZE(wire_reset_request)
    FIELD(wire_reset_request, context)
    SIZE(wire_trim)
    SIZE(wire_contexts_request)
    FIELD(wire_contexts_request, verb)
    FIELD(wire_contexts_request, count)
    SIZE(wire_rule_ranges)
    FIELD(wire_rule_ranges, version)
    FIELD(wire_rule_ranges, module)
    FIELD(wire_rule_ranges, at)
    FIELD(wire_rule_ranges, last)
    FIELD(wire_rule_ranges, count)
    FIELD(wire_rule_ranges, build_id_bytes)
    FIELD(wire_rule_ranges, build_id)
}

int main(void) {
    puts("{");
    print_constants();
    print_heads();
    print_pieces();
    print_requests();
    puts("  \"end\": 0\n}");
    return 0;
}
