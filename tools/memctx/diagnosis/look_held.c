/* SPDX-License-Identifier: MIT */
/* look_held.c - finds memory that the process holds but does not use. */
#include <inttypes.h>
#include <stdlib.h>

#include "diagnosis/look.h"

/* tell_pages does not mention that less than 1/SHARED_PART of the empty bytes are shared */
#define SHARED_PART 50

/* offer_trim does not mention a freelist of less than 1/FREELIST_PART of what comes back */
#define FREELIST_PART 20

static enum severity empty_severity(const struct look *look, int64_t bytes) {
    return bytes >= floor_of(look, 64 * MIB, 40)                         ? SEVERITY_CRITICAL
           : bytes >= floor_of(look, 16 * MIB, 20) || bytes >= KIB * MIB ? SEVERITY_WARNING
                                                                         : SEVERITY_INFO;
}

/* The figures of a suspect that come from the page records. */
struct pages_look {
    uint32_t oldest;    /* age of the oldest chunk, in units of WIRE_AGE_NS */
    int64_t alone;      /* bytes of pages that become empty when the suspect frees all its chunks */
    int64_t alone_free; /* free bytes in these pages */
    int64_t empty;      /* bytes of empty OS pages in the pages that the suspect keeps in use */
    int64_t trim, isolate; /* bytes that memctx trim and memctx isolate would save */
};

static struct pages_look look_at_pages(const struct look *look,
                                       const struct blame_suspect *suspect) {
    struct pages_look pages = {0};
    bool *members = cli_alloc(look->model->context_count, sizeof *members);
    blame_widen(&look->paths, suspect, members);
    for (size_t i = 0; i < suspect->count; i++) {
        const struct holder *holder = holders_of(&look->holders, look->model, suspect->members[i]);
        pages.oldest = holder->oldest > pages.oldest ? holder->oldest : pages.oldest;
    }
    pages.trim = holders_trim(look->model, members);
    pages.empty = holders_punch(look->model, members);
    pages.alone = holders_alone(look->model, members, &pages.alone_free);
    pages.isolate = holders_isolate(look->model, members);
    free(members);
    return pages;
}

/* Sets the command for a trim that returns `bytes` of pages. The trim also returns the freelist,
 * although that soon goes back to the kernel by itself; the text says so. `ends` ends the text. */
static void offer_trim(const struct look *look, struct finding *finding, int64_t bytes,
                       const char *ends) {
    int64_t freelist = model_tame(look->model->ledger.freelist_bytes);
    int64_t sum = model_tame(bytes + freelist);
    char *anyway =
        freelist > sum / FREELIST_PART
            ? cli_format(", of which %s would soon go back by itself", look_bytes(freelist))
            : cli_copy("");
    finding_helps(look, finding, "trim", "", sum,
                  cli_format("returns %s%s%s", look_bytes(sum), anyway, ends));
    free(anyway);
}

/* Sets the finding's age of the oldest chunk, and the command that would help. */
static void tell_of_pages(const struct look *look, struct finding *finding,
                          const struct pages_look *pages) {
    finding->since =
        cli_format("the oldest of these chunks is %s old", holders_age(look->model, pages->oldest));
    if (pages->isolate > finding->bytes / 4) {
        finding_helps(look, finding, "isolate", "", pages->isolate,
                      cli_format("puts the next chunks into pages of their own; from the start, "
                                 "that would have saved %s; nothing comes back at once",
                                 look_bytes(pages->isolate)));
    } else if (pages->empty > finding->bytes / 10) {
        offer_trim(look, finding, pages->trim,
                   "; if a thread is busy in malloc or free at that moment, its part follows with "
                   "its next malloc");
    }
}

/* All memory that a script keeps is joined to one suspect at the interpreter's loop, even if it has
 * several causes. So the severity of such a suspect follows from its largest group of paths. */
static enum severity severity_of_suspect(const struct look *look,
                                         const struct blame_suspect *suspect) {
    bool loop = suspect->joined && who_kind_of(look->model, suspect->common) == WHO_INTERPRETER;
    return empty_severity(look, loop ? suspect->parts[0].figure : suspect->figure);
}

/* Returns a text: how much is empty in the pages of a suspect, and how much comes back if it frees
 * its chunks. If other contexts have chunks in these pages, less comes back than is empty:
 * `alone_free` is the part of `empty` that comes back. `least`: pages that only contexts of
 * the suspect share are not known, so more may come back. */
static char *tell_pages(const struct look *look, int64_t chunks, int64_t asked, int64_t empty,
                        int64_t alone, int64_t alone_free, bool least) {
    double per_cent = 100 * share(empty, look->rss_bytes);
    if (alone >= empty && alone_free >= empty - empty / SHARED_PART)
        return cli_format(
            "%" PRId64 " chunks, %s in all, keep %s of pages in use, of which %s are otherwise "
            "empty, %.0f %% of the resident set; freeing all these chunks returns "
            "these pages",
            chunks, look_bytes(asked), look_bytes(alone), look_bytes(empty), per_cent);
    if (least)
        return cli_format(
            "%" PRId64 " chunks, %s in all, help to keep %s of otherwise empty space in pages, "
            "%.0f %% of the resident set; freeing all these chunks returns at least "
            "%s of pages: the recording does not say which pages they share with each "
            "other only",
            chunks, look_bytes(asked), look_bytes(empty), per_cent, look_bytes(alone));
    return cli_format("%" PRId64
                      " chunks, %s in all, help to keep %s of otherwise empty space in pages, %.0f "
                      "%% of the resident set; freeing all these chunks returns %s of pages, "
                      "because chunks of other call paths stand in the rest",
                      chunks, look_bytes(asked), look_bytes(empty), per_cent, look_bytes(alone));
}

/* Finds contexts with more free than used bytes in their pages. A large chunk has pages of its own,
 * which have no room for others, so such chunks do not count. */
void look_for_empty_pages(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *pinned = cli_alloc(model->figures_count, sizeof *pinned);
    for (size_t i = 0; i < model->figures_count; i++) {
        const struct model_totals self = look_totals(look, i);
        int64_t bytes = self.pinned_bytes, used = self.block_bytes;
        if (look->holders.list) {
            const struct holder *holder = &look->holders.list[i];
            bytes = holder->alone_free + holder->shared_free;
            used = holder->block_bytes - holders_own(&look->holders, i)->large_bytes;
        }
        pinned[i] = used > 0 && bytes > used ? bytes : 0;
    }
    struct blame blame;
    look_blame(look, &blame, pinned, floor_of(look, 8 * MIB, 5));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t blocks = SUM_OVER(look, suspect, block_bytes), bytes = suspect->figure;
        int64_t alone = SUM_OVER(look, suspect, sole_pinned_bytes), alone_free = alone;
        int64_t chunks = SUM_OVER(look, suspect, live_chunks);
        struct finding *finding = finding_on(look, rule, severity_of_suspect(look, suspect),
                                             suspect, bytes, share(bytes, bytes + blocks));
        if (look->holders.list) {
            struct pages_look pages = look_at_pages(look, suspect);
            tell_of_pages(look, finding, &pages);
            alone = pages.alone;
            alone_free = pages.alone_free;
        }
        finding->verdict = cli_format("%s of free memory are held by %" PRId64 " live chunks",
                                      look_bytes(bytes), chunks);
        finding->evidence =
            tell_pages(look, chunks, SUM_OVER(look, suspect, requested_bytes), bytes, alone,
                       alone_free, holders_know_least(model, suspect->members, suspect->count));
        finding->action = look_closer(look, "frag", "", finding);
    }
    blame_free(&blame);
    free(pinned);
}

#define BLOCK_MAX 9216 /* larger chunks take whole OS pages, whatever the policy */
#define OS_PAGE 4096
#define ALIGNMENT 16

/* Sets the command for the policy that would save most of the suspect's rounding, or says that no
 * policy would. */
static void tell_cure_of_rounding(const struct look *look, struct finding *finding,
                                  const struct blame_suspect *suspect, int64_t mean_bytes) {
    int64_t slab = 0, serial = 0;
    if (!look->holders.list)
        return;
    for (size_t i = 0; i < suspect->count; i++) {
        size_t number = look->model->contexts[suspect->members[i]].figures->number;
        const struct holder_own *own = holders_own(&look->holders, number);
        slab = model_tame(slab + own->slab_bytes);
        serial = model_tame(serial + own->generation_bytes);
    }
    if (slab > suspect->figure / 2) {
        finding_helps(look, finding, "set", " policy=slab", slab,
                      cli_format("gives the next chunks blocks of exactly their size, which would "
                                 "save %s; live chunks stay where they are",
                                 look_bytes(slab)));
    } else if (serial > suspect->figure / 2) {
        finding_helps(look, finding, "set", " policy=generation", serial,
                      cli_format("puts the next chunks one behind the other, which would save %s, "
                                 "if they are freed in the order of allocation; live chunks stay "
                                 "where they are",
                                 look_bytes(serial)));
    } else if (mean_bytes > BLOCK_MAX && mean_bytes % OS_PAGE > 0) {
        finding->now_effect = cli_format("no policy saves this memory, because chunks above %d "
                                         "bytes take whole OS pages",
                                         BLOCK_MAX);
        finding->advice = cli_format("%" PRId64 " bytes less in each chunk, on average, would save "
                                     "the difference.",
                                     mean_bytes % OS_PAGE);
    } else {
        finding->now_effect = cli_copy("no policy is known to save most of this memory; other "
                                       "sizes of the chunks would");
    }
}

/* Returns the difference between a context's blocks and chunks. The blocks are read after the
 * chunks. If chunks were allocated between the two readings, the sizes of these are not known. Then
 * the result is at most what the known chunks can lose: a third of each, or 15 bytes. */
static int64_t rounding_of_chunks(const struct look *look, size_t number) {
    const struct model_totals self = look_totals(look, number);
    int64_t bytes = self.block_bytes - self.requested_bytes;
    if (look->holders.list[number].chunks <= self.live_chunks)
        return bytes;
    int64_t most = model_add(self.requested_bytes / 3, model_share(ALIGNMENT, self.live_chunks, 1));
    return bytes < most ? bytes : most;
}

/* Returns the resident part of the difference between a context's blocks and chunks. The rest of a
 * block may be OS pages that were never touched, such as behind an aligned chunk. */
static int64_t rounding_in_memory(const struct look *look, size_t number) {
    const struct model_totals self = look_totals(look, number);
    if (!look->holders.list)
        return self.block_bytes - self.requested_bytes;
    int64_t bytes = rounding_of_chunks(look, number);
    int64_t most = larger(0, look->holders.list[number].held_bytes - self.requested_bytes);
    return bytes < most ? bytes : most;
}

/* Returns the part of a context's rounding that is beyond the next multiple of ALIGNMENT. Each
 * block has such a size, because malloc has to return addresses that are multiples of it. */
static int64_t rounding_beyond_alignment(const struct look *look, size_t number, int64_t rounding) {
    const struct model_totals self = look_totals(look, number);
    int64_t chunks = larger(1, self.live_chunks);
    int64_t mean = (self.requested_bytes + chunks - 1) / chunks;
    int64_t aligned = (mean + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return larger(0, rounding - model_share(aligned - mean, chunks, 1));
}

/* True if realloc makes the context's chunks larger, and they are large. Behind such a chunk is
 * room for its growth, and the chunk may have grown between the reading of its size and of its
 * block. */
static bool are_room_to_grow(const struct look *look, size_t number) {
    const struct model_totals self = look_totals(look, number);
    return self.block_bytes / larger(1, self.live_chunks) >= MIB &&
           look_resizes(look, number).grows >= self.allocs / 2;
}

/* Returns the difference between a context's blocks and chunks, if it is more than an eighth of the
 * blocks, or if the policy slab would save more than a sixteenth of the blocks. Else 0. */
static int64_t rounding_worth_telling(const struct look *look, size_t number) {
    int64_t bytes = rounding_in_memory(look, number),
            blocks = look_totals(look, number).block_bytes;
    int64_t slab = look->holders.list ? holders_own(&look->holders, number)->slab_bytes : 0;
    return (bytes > blocks / 8 || slab > blocks / 16) && !are_room_to_grow(look, number) ? bytes
                                                                                         : 0;
}

/* Tells of a suspect whose chunks are much smaller than their blocks. */
static void tell_rounding(struct look *look, const struct rule *rule,
                          const struct blame_suspect *suspect, enum severity severity) {
    int64_t chunks = larger(1, SUM_OVER(look, suspect, live_chunks));
    int64_t blocks = SUM_OVER(look, suspect, block_bytes);
    struct finding *finding =
        finding_on(look, rule, severity, suspect, suspect->figure, share(suspect->figure, blocks));
    int64_t mean = SUM_OVER(look, suspect, requested_bytes) / chunks;
    tell_cure_of_rounding(look, finding, suspect, mean);
    const char *in_memory =
        suspect->figure < (blocks - SUM_OVER(look, suspect, requested_bytes)) / 10 * 9
            ? "in memory, the difference"
            : "the difference";
    finding->verdict = cli_format("%s are lost between the sizes of chunks and of their blocks",
                                  look_bytes(suspect->figure));
    finding->evidence =
        cli_format("%" PRId64 " chunks of %" PRId64 " bytes on average occupy blocks of %" PRId64
                   " bytes; %s is %s in all, %.0f %% of the resident set",
                   chunks, mean, blocks / chunks, in_memory, look_bytes(suspect->figure),
                   100 * share(suspect->figure, look->rss_bytes));
    finding->action = look_closer(look, "frag", " --sort waste", finding);
}

/* Finds chunks that are much smaller than their blocks: first the suspects with `floor`, then among
 * the other contexts those with `floor_beyond` beyond the alignment. With the lower floor alone, a
 * sum of several callers above `floor` would be divided into parts below it. */
void look_for_rounding(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *rounding = cli_alloc(model->figures_count, sizeof *rounding);
    for (size_t i = 0; i < model->figures_count; i++)
        rounding[i] = rounding_worth_telling(look, i);
    int64_t floor = floor_of(look, 8 * MIB, 5), floor_beyond = floor_of(look, 4 * MIB, 4);
    for (int pass = 0; pass < 2; pass++) {
        struct blame blame;
        look_blame(look, &blame, rounding, pass == 0 ? floor : floor_beyond);
        for (size_t i = 0; i < blame.count; i++) {
            const struct blame_suspect *suspect = &blame.suspects[i];
            int64_t beyond = 0;
            for (size_t k = 0; k < suspect->count; k++) {
                uint32_t number = blame_number(&look->paths, suspect->members[k]);
                beyond += rounding_beyond_alignment(look, number, rounding[number]);
                rounding[number] = 0;
            }
            if (pass == 0 || beyond >= floor_beyond)
                tell_rounding(look, rule, suspect,
                              beyond >= floor ? SEVERITY_WARNING : SEVERITY_INFO);
        }
        blame_free(&blame);
    }
    free(rounding);
}

/* Returns the number of threads that have not exited. The threads that have exited share one entry,
 * with the tid 0. */
static size_t count_threads(const struct model *model) {
    size_t count = 0;
    for (size_t i = 0; i < model->thread_count; i++)
        count += model->threads[i].tid != 0;
    return count;
}

/* A pool of few threads, or of many that keep little, is info only. */
#define THREADS_MIN 8
#define THREADS_MANY 32

void look_for_thread_memory(struct look *look, const struct rule *rule) {
    /* Only resident bytes count: most of a page that a thread has just begun is untouched. */
    int64_t bytes = look->holders.list ? look->holders.mixed_free_bytes
                                       : look_ledger_line(look, "mixed_free_bytes");
    int64_t kept = look->holders.list ? look->holders.kept_bytes : 0;
    int64_t back = look->holders.list ? look->holders.returned_bytes : 0;
    size_t threads = count_threads(look->model);
    if (threads < THREADS_MIN || bytes < floor_of(look, 8 * MIB, 20))
        return;
    bool many = threads >= THREADS_MANY && bytes >= 32 * MIB;
    struct finding *finding = finding_new(look, rule, many ? SEVERITY_WARNING : SEVERITY_INFO,
                                          bytes, share(bytes, look->rss_bytes));
    finding->verdict =
        cli_format("%s lie free in the pages of %zu threads", look_bytes(bytes), threads);
    char *empty = kept > 0 ? cli_format("; pages in which no chunk is alive have %s: each thread "
                                        "keeps its last page of each size",
                                        look_bytes(kept))
                           : cli_copy("");
    finding->evidence =
        cli_format("%zu threads have mixed pages of their own, which call paths share; %s in these "
                   "pages is free, %.0f %% of the resident set%s",
                   threads, look_bytes(bytes), 100 * finding->ratio, empty);
    free(empty);
    if (back > bytes / 4)
        offer_trim(look, finding, back,
                   "; threads that sleep keep the OS pages of the blocks that they freed last");
    finding->action = cli_format("memctx dump %s --threads", look->input->target);
}

void look_for_huge_pages(struct look *look, const struct rule *rule) {
    const struct model_mappings *mappings = &look->model->mappings;
    int64_t bytes = look_ledger_line(look, "not_resident_bytes");
    if (!look->model->has_mappings || model_tame(mappings->huge_bytes) < bytes ||
        bytes < floor_of(look, 32 * MIB, 20))
        return;
    struct finding *finding =
        finding_new(look, rule, SEVERITY_WARNING, bytes, share(bytes, look->rss_bytes));
    finding->verdict = cli_format("%s are resident only because of huge pages", look_bytes(bytes));
    finding->evidence = cli_format(
        "%s more is resident than the program ever touched; at most %s of the process is "
        "in huge pages",
        look_bytes(bytes), look_bytes(mappings->huge_bytes));
    finding->action = cli_copy("start the program again, with MEMCTX_THP=never, then compare");
}

/* Finds large chunks that are mostly untouched. An array that grows by the factor 2 is at most half
 * untouched, which is not reported. */
void look_for_untouched(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *untouched = cli_alloc(model->figures_count, sizeof *untouched);
    for (size_t i = 0; i < model->figures_count && look->holders.list; i++) {
        int64_t asked = look_totals(look, i).requested_bytes;
        int64_t bytes = holders_own(&look->holders, i)->absent_bytes; /* of the chunks' blocks */
        untouched[i] = bytes <= asked / 2 ? 0 : bytes < asked ? bytes : asked;
    }
    struct blame blame;
    look_blame(look, &blame, untouched, floor_of(look, 32 * MIB, 25));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t bytes = suspect->figure, chunks = SUM_OVER(look, suspect, live_chunks);
        int64_t swapped = look_swapped(model);
        if (!model->has_mappings ||
            swapped > bytes / 2) /* the chunks may be in use but swapped out */
            continue;
        struct finding *finding =
            finding_on(look, rule, SEVERITY_INFO, suspect, bytes, share(bytes, look->rss_bytes));
        char *swap = swapped > 0 ? cli_format(", except for what is in swap (%s of the process)",
                                              look_bytes(swapped))
                                 : cli_copy("");
        finding->evidence = cli_format(
            "%" PRId64 " chunk%s, %s in all: %s of that take no memory, because nothing was "
            "written there%s",
            chunks, chunks == 1 ? "" : "s", look_bytes(SUM_OVER(look, suspect, requested_bytes)),
            look_bytes(bytes), swap);
        free(swap);
        finding->action = look_closer(look, "dump", " --flat", finding);
    }
    blame_free(&blame);
    free(untouched);
}
