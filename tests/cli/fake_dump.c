/* SPDX-License-Identifier: MIT */
/* fake_dump.c - makes the dump that fake_server.c sends; see fake_dump.h. */
#include "fake_dump.h"

#include <string.h>

#define DEEP_CONTEXTS 1100
#define UPTIME_NS 1500000000

const char *fault;
struct fake_piece piece;
size_t records_bytes;

bool is(const char *name) {
    return strcmp(fault, name) == 0;
}

static void *add(const void *bytes, size_t length) {
    void *to = piece.records + records_bytes;
    memcpy(to, bytes, length);
    records_bytes += length;
    return to;
}

static void pad(void) {
    while (records_bytes % 8 != 0) {
        piece.records[records_bytes++] = '\0';
    }
}

/* --- contexts -------------------------------------------------------------------------------- */

static struct wire_context *begin_context(uint32_t id, uint32_t parent, uint8_t kind) {
    struct wire_context context = {
        .id = id, .parent = parent, .kind = kind, .module = WIRE_NONE, .recursive_from = WIRE_NONE};
    piece.head.count++;
    return add(&context, sizeof(context));
}

static struct wire_sums *add_sums(struct wire_context *context, int64_t bytes) {
    struct wire_sums sums = {.requested_bytes = bytes,
                             .live_chunks = bytes != 0,
                             .allocs = bytes != 0,
                             .requested_cum_bytes = bytes,
                             .peak_requested_bytes = bytes};
    context->holds = WIRE_CONTEXT_SUMS;
    return add(&sums, sizeof(sums));
}

static void add_view(struct wire_context *context, uint32_t heap, int64_t allocs, int64_t frees) {
    struct wire_view view = {.heap = heap, .sums = {.allocs = allocs, .frees = frees}};
    context->views++;
    add(&view, sizeof(view));
}

static void end_context(struct wire_context *context) {
    pad();
    context->bytes = (uint16_t)(piece.records + records_bytes - (char *)context);
}

/* Four contexts: the root, a label with terminal escapes, a frame of code made at run time
 * (0x5000001) and a frame in the vDSO. */
static void make_contexts(uint32_t flags) {
    static const char label[] = "\033[31mred\nlabel";
    bool threads = (flags & WIRE_DUMP_THREADS) != 0;
    if (is("no-contexts")) {
        return;
    }
    struct wire_context *root = begin_context(0, WIRE_NONE, WIRE_KIND_ROOT);
    root->parent = is("no-root") ? 1 : WIRE_NONE;
    root->holds = is("further-first") ? WIRE_CONTEXT_FURTHER : 0;
    end_context(root);
    struct wire_context *red = begin_context(1, 0, WIRE_KIND_UNKNOWN);
    struct wire_sums *sums = add_sums(red, 100);
    if (is("extreme")) {
        sums->requested_bytes = WIRE_UNKNOWN;
        sums->peak_requested_bytes = INT64_MIN + 1;
    }
    if (threads) {
        add_view(red, 99, 0, 2);
    }
    char *text = add(label, sizeof(label));
    red->label_bytes = is("label-outside") ? 60000 : sizeof(label);
    end_context(red);
    if (is("label-open")) {
        memset(text, 'x', sizeof(label));
    }
    struct wire_context *made = begin_context(2, 0, WIRE_KIND_PATH);
    made->parent = is("parent-later")    ? 3
                   : is("parent-itself") ? 2
                   : is("two-roots")     ? WIRE_NONE
                                         : 0;
    made->address = 0x5000001;
    sums = add_sums(made, 200);
    if (is("extreme")) {
        memset(sums, 0x7f, sizeof(*sums));
    }
    end_context(made);
    struct wire_context *vdso =
        begin_context(is("id-twice") ? 2 : 3, is("parent-missing") ? 999 : 2, WIRE_KIND_PATH);
    vdso->address = 0x7ff00123;
    vdso->module = is("module") ? 7 : 0;
    vdso->kind = is("kind") ? 200 : WIRE_KIND_PATH;
    sums = add_sums(vdso, 300);
    if (is("extreme")) {
        memset(sums, 0x7f, sizeof(*sums));
    }
    if (threads) {
        add_view(vdso, 1, 5, 0);
    }
    end_context(vdso);
    vdso->views = is("views-outside") ? 5000 : vdso->views;
    vdso->bytes = is("record-large")   ? 60000
                  : is("record-small") ? 8
                  : is("record-odd")   ? vdso->bytes - 1
                                       : vdso->bytes;
}

/* Keeps only the records that the request asks for: request->most of them, from an id on. */
static void choose_contexts(const struct wire_piece_request *request) {
    uint32_t first = (uint32_t)(request->from >> 16), count = 0;
    size_t kept = 0;
    for (size_t at = 0; at < records_bytes;) {
        struct wire_context context;
        memcpy(&context, piece.records + at, sizeof(context));
        if (context.id >= first && (request->most == 0 || count < request->most)) {
            memmove(piece.records + kept, piece.records + at, context.bytes);
            kept += context.bytes;
            count++;
        }
        at += context.bytes;
    }
    records_bytes = kept;
    piece.head.count = count;
}

/* Adds the survey with the sums of all contexts. It stands before the contexts. */
static void make_survey(void) {
    struct wire_survey survey = {.uptime_ns = UPTIME_NS,
                                 .contexts = 4,
                                 .with_figures = 3,
                                 .requested_bytes = 600,
                                 .live_chunks = 3,
                                 .allocs = 3,
                                 .requested_cum_bytes = 600,
                                 .root_peak_bytes = WIRE_UNKNOWN};
    add(&survey, sizeof(survey));
}

/* Returns the id of a context's parent; WIRE_NONE: no record has the context. */
static uint32_t find_parent(uint32_t id) {
    struct wire_context context;
    for (size_t at = 0; at < records_bytes; at += context.bytes) {
        memcpy(&context, piece.records + at, sizeof(context));
        if (context.id == id) {
            return context.parent;
        }
    }
    return WIRE_NONE;
}

/* Keeps only the records that the request asks for: the root and the path to a context. */
static void choose_path(const struct wire_piece_request *request) {
    uint32_t path[8] = {0}, count = 0, id = (uint32_t)(request->from >> 16);
    size_t kept = 0;
    for (int i = 1; i < 8; i++, id = id != WIRE_NONE ? find_parent(id) : id) {
        path[i] = id;
    }
    for (size_t at = 0; at < records_bytes;) {
        struct wire_context context;
        memcpy(&context, piece.records + at, sizeof(context));
        for (int i = 0; i < 8; i++) {
            if (context.id == path[i]) {
                memmove(piece.records + kept, piece.records + at, context.bytes);
                kept += context.bytes;
                count++;
                break;
            }
        }
        at += context.bytes;
    }
    records_bytes = kept;
    piece.head.count = count;
}

/* Makes a piece of a chain of contexts, a hundred of them. */
static void make_deep(uint64_t from) {
    uint32_t id = (uint32_t)(from >> 16);
    for (uint32_t end = id + 100; id < end && id < DEEP_CONTEXTS; id++) {
        end_context(begin_context(id, id > 0 ? id - 1 : WIRE_NONE,
                                  id > 0 ? WIRE_KIND_PATH : WIRE_KIND_ROOT));
    }
    piece.head.next = id < DEEP_CONTEXTS ? WIRE_FROM_ID(id) : 0;
}

static void make_modules(void) {
    static const char path[] = "[vdso]";
    struct wire_module module = {.start = 0x7ff00000,
                                 .end = 0x7ff01000,
                                 .bias = 0x7ff00000,
                                 .index = is("module-missing"),
                                 .path_bytes = is("path-outside") ? 60000 : sizeof(path),
                                 .build_id_bytes = is("build-id") ? 1000 : 0};
    piece.head.count = 1;
    add(&module, sizeof(module));
    char *text = add(path, sizeof(path));
    if (is("path-open")) {
        memset(text, 'x', sizeof(path));
    }
    pad();
}

/* --- pages ----------------------------------------------------------------------------------- */

/* Makes a page for each context with figures; the page has as many bytes as the context. Tests of
 * `dump` expect these pages. */
static void make_simple_pages(void) {
    for (uint32_t i = 1; i < 4; i++) {
        struct wire_page page = {.start = 0x700000000000 + i * 16384UL,
                                 .bytes = i * 100,
                                 .touched_bytes = i * 100,
                                 .live_bytes = i * 100,
                                 .resident_bytes = i * 100,
                                 .context = i,
                                 .block_bytes = 100,
                                 .live = i,
                                 .capacity = i,
                                 .pages = 1,
                                 .kind = WIRE_PAGE_OWN};
        if (is("extreme")) {
            page.bytes = page.touched_bytes = page.live_bytes = UINT64_MAX - i;
            page.live = page.capacity = page.pages = UINT32_MAX;
        }
        piece.head.count++;
        add(&page, sizeof(page));
    }
}

/* Makes a page of context 3, a page that contexts 2 and 3 share, and a page of a context that does
 * not exist. */
static void make_pages(void) {
    const struct wire_share shares[] = {{2, 10, 10}, {3, 5, 5}};
    for (uint32_t i = 0; i < 3; i++) {
        struct wire_page page = {.start = 0x700000000000 + i * 16384UL,
                                 .bytes = 16384,
                                 .touched_bytes = 16384,
                                 .resident_bytes = WIRE_UNKNOWN,
                                 .context = i == 0   ? 3
                                            : i == 1 ? WIRE_NONE
                                                     : 99,
                                 .block_bytes = 64,
                                 .live = 15,
                                 .live_bytes = 15 * 64,
                                 .capacity = 240,
                                 .pages = 1,
                                 .share_count = i == 1 ? 2 : 0,
                                 .kind = i == 1 ? WIRE_PAGE_MIXED : WIRE_PAGE_OWN};
        if (i == 1) {
            page.share_count = is("pages-shares") ? 4000 : 2;
        } else if (is("pages-share")) {
            page.share_count = 1;
        }
        page.further = (is("pages-further") && i == 0) || (is("pages-further-own") && i == 2);
        if (is("pages-further") && i == 0) {
            page.context = WIRE_NONE;
        }
        piece.head.count++;
        add(&page, sizeof(page));
        if (i == 1) {
            add(shares, sizeof(shares));
        }
    }
    piece.head.count = is("pages-count") ? UINT32_MAX : piece.head.count;
    piece.head.next = is("pages-loop") ? 1 << 22 : 0;
}

/* --- the rest -------------------------------------------------------------------------------- */

static void make_threads(void) {
    struct wire_thread thread = {.heap = is("thread-heap") ? 1U << 30 : 1, .tid = 77};
    strcpy(thread.name, "worker");
    piece.head.count = 1;
    add(&thread, sizeof(thread));
}

static void make_marks(void) {
    struct wire_mark mark = {.uptime_ns = 1000000000};
    strcpy(mark.name, "first");
    piece.head.count = is("marks") ? WIRE_MARKS_ALL + 1 : 1;
    for (uint32_t i = 0; i < piece.head.count; i++) {
        add(&mark, sizeof(mark));
    }
}

static void make_entries(void) {
    struct wire_mark_entry entry = {.context = 3, .requested_bytes = 50, .allocs = 1};
    if (is("extreme")) {
        memset(&entry.requested_bytes, 0x80, sizeof(entry.requested_bytes));
    }
    piece.head.count = 1;
    add(&entry, sizeof(entry));
}

void make_piece(const struct wire_piece_request *request) {
    memset(&piece, 0, sizeof(piece));
    records_bytes = 0;
    switch (request->part) {
    case WIRE_PART_CONTEXTS:
        if (is("deep")) {
            make_deep(request->from);
        } else {
            make_contexts(request->flags);
            if (request->from > 0 || request->most > 0) {
                choose_contexts(request);
            }
        }
        break;
    case WIRE_PART_BEST:
        make_survey();
        make_contexts(request->flags);
        break;
    case WIRE_PART_PATH:
        make_contexts(request->flags);
        choose_path(request);
        break;
    case WIRE_PART_MODULES:
        if (request->from == 0) {
            make_modules();
        }
        break;
    case WIRE_PART_THREADS: make_threads(); break;
    case WIRE_PART_MARKS: make_marks(); break;
    case WIRE_PART_ENTRIES: make_entries(); break;
    case WIRE_PART_PAGES:
        if (strncmp(fault, "pages", 5) == 0) {
            make_pages();
        } else if (!is("deep")) {
            make_simple_pages();
        }
        break;
    default: break;
    }
    if (is("piece-count")) {
        piece.head.count = UINT32_MAX;
    }
}

void make_head(struct wire_dump *head) {
    *head = (struct wire_dump){.uptime_ns = UPTIME_NS,
                               .depth = 32,
                               .exact = 1,
                               .contexts = 4,
                               .requested_bytes = 600,
                               .ledger = {.rss_bytes = 1 << 20}};
    strcpy(head->exe, "/nowhere/fake");
    if (is("exe-open")) {
        memset(head->exe, 'x', sizeof(head->exe));
    } else if (is("extreme")) {
        memset(&head->ledger, 0x7f, sizeof(head->ledger));
        head->ledger.segments_resident = INT64_MIN + 1;
    }
}
