/* SPDX-License-Identifier: MIT */
/* Prints the sizes, offsets and constants of wire.h as JSON: the Python client has none itself. */
#include <stddef.h>
#include <stdio.h>

#include "memctx/wire.h"

#define CONSTANT(name) printf("  \"%s\": %lld,\n", #name, (long long)(name));
#define SIZE(type) printf("  \"sizeof %s\": %zu,\n", #type, sizeof(struct type));
#define FIELD(type, field)                                                                         \
    printf("  \"%s.%s\": [%zu, %zu],\n", #type, #field, offsetof(struct type, field),              \
           sizeof(((struct type *)0)->field));

int main(void) {
    puts("{");
    CONSTANT(WIRE_MAGIC)
    CONSTANT(WIRE_VERSION)
    CONSTANT(WIRE_REQUEST_MAX)
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
    CONSTANT(WIRE_PAGES)
    CONSTANT(WIRE_NOTE)
    CONSTANT(WIRE_PLACE)
    CONSTANT(WIRE_OK)
    CONSTANT(WIRE_REFUSED)
    CONSTANT(WIRE_NO_MEMORY)
    CONSTANT(WIRE_DUMP_RESIDENT)
    CONSTANT(WIRE_DUMP_THREADS)
    CONSTANT(WIRE_DUMP_PINNED)
    SIZE(wire_frame)
    FIELD(wire_frame, magic)
    FIELD(wire_frame, version)
    FIELD(wire_frame, type)
    FIELD(wire_frame, status)
    FIELD(wire_frame, reserved)
    FIELD(wire_frame, length)
    SIZE(wire_hello)
    FIELD(wire_hello, pid)
    FIELD(wire_hello, depth)
    FIELD(wire_hello, start_ticks)
    FIELD(wire_hello, library_version)
    SIZE(wire_dump_request)
    FIELD(wire_dump_request, flags)
    FIELD(wire_dump_request, mark)
    SIZE(wire_dump)
    FIELD(wire_dump, uptime_ns)
    FIELD(wire_dump, build_ns)
    FIELD(wire_dump, pid)
    FIELD(wire_dump, exact)
    FIELD(wire_dump, contexts)
    FIELD(wire_dump, strings)
    SIZE(wire_section)
    FIELD(wire_section, offset)
    FIELD(wire_section, count)
    SIZE(wire_context)
    FIELD(wire_context, id)
    FIELD(wire_context, parent)
    FIELD(wire_context, self)
    SIZE(wire_totals)
    SIZE(wire_mark_request)
    SIZE(wire_reset_request)
    FIELD(wire_reset_request, context)
    SIZE(wire_trim)
    SIZE(wire_pages_request)
    SIZE(wire_contexts_request)
    FIELD(wire_contexts_request, verb)
    FIELD(wire_contexts_request, count)
    puts("  \"end\": 0\n}");
    return 0;
}
