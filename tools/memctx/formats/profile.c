/* SPDX-License-Identifier: MIT */
/* profile.c - makes lists of functions of call paths, and writes the formats that are text. */
#include "formats/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/frames.h"
#include "model/memory.h"
#include "model/tails.h"

/* --- paths ----------------------------------------------------------------------------------- */

/* The path that profile_path, profile_frames or profile_tail_frames returned last, and made-up
 * names. */
static struct {
    struct profile_frame *frames;
    size_t count, capacity;
    char **names; /* text of each context's frame without a name; NULL: not made yet */
    const struct model *model;
} path;

static void add_frame(const char *function, const char *file, int64_t line) {
    if (path.count == path.capacity) {
        path.capacity = 2 * path.capacity + 64;
        path.frames = cli_grow(path.frames, path.capacity, sizeof *path.frames);
    }
    path.frames[path.count++] = (struct profile_frame){function, line > 0 ? file : NULL, line};
}

static const char *made_up_name(const struct model *model, uint32_t context) {
    if (path.model != model) {
        path.names = cli_alloc(model->context_count, sizeof *path.names);
        path.model = model;
    }
    if (!path.names[context])
        path.names[context] = frames_write_frame(model, model->contexts[context].frame, false);
    return path.names[context];
}

static void add_names(const struct model_names *names) {
    for (uint32_t k = 1; k <= names->count; k++) { /* the frame's own function comes last */
        const struct model_function *function = &names->functions[k % names->count];
        add_frame(function->name ? function->name : "?", function->file, function->line);
    }
}

static void add_frames_of(const struct model *model, uint32_t index) {
    const struct model_names *names = model->contexts[index].frame->names;
    if (names && names->functions[0].name)
        add_names(names);
    else
        add_frame(made_up_name(model, index), NULL, 0);
}

static void add_tails(const struct model_tails *tails) {
    for (uint32_t i = 0; tails && i < tails->count; i++)
        if (tails->frames[i].names)
            add_names(tails->frames[i].names);
}

const struct profile_frame *profile_path(const struct model *model, uint32_t index, size_t *count) {
    path.count = 0;
    add_tails(tails_to_malloc(model, &model->contexts[index]));
    for (uint32_t at = index; at != WIRE_NONE; at = model->contexts[at].parent) {
        if (model->contexts[at].frame->kind == WIRE_KIND_ROOT && at != index)
            break;
        add_frames_of(model, at);
        add_tails(tails_before(model, &model->contexts[at]));
    }
    *count = path.count;
    return path.frames;
}

const struct profile_frame *profile_frames(const struct model *model, uint32_t index,
                                           size_t *count) {
    path.count = 0;
    add_frames_of(model, index);
    *count = path.count;
    return path.frames;
}

const struct profile_frame *profile_tail_frames(const struct model_frame *tail, size_t *count) {
    path.count = 0;
    if (tail->names)
        add_names(tail->names);
    *count = path.count;
    return path.frames;
}

/* --- text ------------------------------------------------------------------------------------ */

/* Writes the letter at `text`, and returns its length in bytes. Writes U+FFFD for a byte that is
 * not UTF-8, because readers refuse a whole file with such a byte. */
static size_t put_letter(FILE *file, const char *text) {
    size_t length = json_utf8_length(text);
    if (length == 1)
        putc_unlocked(*text, file);
    else
        fwrite_unlocked(length > 0 ? text : "\xef\xbf\xbd", 1, length > 0 ? length : 3, file);
    return length > 0 ? length : 1;
}

/* --- folded stacks --------------------------------------------------------------------------- */

void profile_write_folded(const struct model *model, FILE *file, enum view_sort metric) {
    for (uint32_t i = 0; i < model->context_count; i++) {
        int64_t figure = view_key(&model->contexts[i].figures->self, metric);
        size_t count;
        if (figure <= 0)
            continue;
        const struct profile_frame *frames = profile_path(model, i, &count);
        for (size_t k = count; k-- > 0;) {
            for (const char *at = frames[k].function; *at != '\0';)
                at += put_letter(file, *at == ';' || *at == '\n' ? ":" : at);
            putc_unlocked(k > 0 ? ';' : ' ', file);
        }
        fprintf(file, "%" PRId64 "\n", figure);
    }
}

/* --- speedscope ------------------------------------------------------------------------------ */

struct numbered {
    struct profile_frame frame;
    uint32_t number; /* from 1 on; 0: the slot is free */
};

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static uint64_t hash_text(uint64_t hash, const char *text) {
    for (; text && *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3U;
    return hash;
}

static struct numbered *find_number(struct profile_numbers *numbers,
                                    const struct profile_frame *frame) {
    uint64_t at = hash_text(hash_text((uint64_t)frame->line, frame->function), frame->file);
    for (;; at++) {
        struct numbered *slot = &numbers->slots[at & numbers->mask];
        if (slot->number == 0 ||
            (slot->frame.line == frame->line && same_text(slot->frame.function, frame->function) &&
             same_text(slot->frame.file, frame->file)))
            return slot;
    }
}

uint32_t profile_frame_number(struct profile_numbers *numbers, const struct profile_frame *frame,
                              bool *fresh) {
    if (numbers->count * 2 >= numbers->mask) {
        struct profile_numbers old = *numbers;
        size_t slots = old.slots ? (old.mask + 1) * 4 : 1024;
        *numbers =
            (struct profile_numbers){cli_alloc(slots, sizeof *old.slots), slots - 1, old.count};
        for (size_t i = 0; old.slots && i <= old.mask; i++)
            if (old.slots[i].number != 0)
                *find_number(numbers, &old.slots[i].frame) = old.slots[i];
        free(old.slots);
    }
    struct numbered *slot = find_number(numbers, frame);
    *fresh = slot->number == 0;
    if (*fresh)
        *slot = (struct numbered){*frame, (uint32_t)++numbers->count};
    return slot->number;
}

uint32_t profile_string_number(struct profile_numbers *numbers, const char *text, bool *fresh) {
    struct profile_frame key = {.function = text};
    *fresh = false;
    return text && text[0] != '\0' ? profile_frame_number(numbers, &key, fresh) : 0;
}

static const struct {
    const char *name, *unit;
    enum view_sort metric;
    bool of_pages; /* left out if the model has no sums over pages */
} profiles[] = {
    {"requested", "bytes", VIEW_SORT_REQUESTED, false},
    {"waste", "bytes", VIEW_SORT_WASTE, true},
    {"pinned", "bytes", VIEW_SORT_PINNED, true},
    {"live chunks", "none", VIEW_SORT_CHUNKS, false},
    {"allocations", "none", VIEW_SORT_ALLOCS, false},
};

static void write_samples(struct json_writer *json, const struct model *model,
                          struct profile_numbers *numbers, enum view_sort metric) {
    bool fresh;
    size_t count;
    json_put_open(json, "samples", '[');
    for (uint32_t i = 0; i < model->context_count; i++) {
        if (view_key(&model->contexts[i].figures->self, metric) > 0) {
            const struct profile_frame *frames = profile_path(model, i, &count);
            json_put_open(json, NULL, '[');
            for (size_t k = count; k-- > 0;)
                json_put_integer(json, NULL, profile_frame_number(numbers, &frames[k], &fresh) - 1);
            json_put_close(json, ']');
        }
    }
    json_put_close(json, ']');
    json_put_newline(json);
    json_put_open(json, "weights", '[');
    for (uint32_t i = 0; i < model->context_count; i++) {
        int64_t figure = view_key(&model->contexts[i].figures->self, metric);
        if (figure > 0)
            json_put_integer(json, NULL, figure);
    }
    json_put_close(json, ']');
}

void profile_write_speedscope(const struct model *model, FILE *file) {
    struct json_writer json = {.file = file};
    struct profile_numbers numbers = {0};
    bool fresh;
    size_t count;
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_put_text(&json, "exporter", "memctx " CLI_VERSION);
    json_put_text(&json, "name", model->exe);
    json_put_open(&json, "shared", '{');
    json_put_open(&json, "frames", '[');
    for (uint32_t i = 0; i < model->context_count; i++) {
        if (!model_totals_any(&model->contexts[i].figures->self))
            continue;
        const struct profile_frame *frames = profile_path(model, i, &count);
        for (size_t k = 0; k < count; k++) {
            profile_frame_number(&numbers, &frames[k], &fresh);
            if (fresh) {
                json_put_newline(&json);
                json_put_open(&json, NULL, '{');
                json_put_text(&json, "name", frames[k].function);
                if (frames[k].file) {
                    json_put_text(&json, "file", frames[k].file);
                    json_put_integer(&json, "line", frames[k].line);
                }
                json_put_close(&json, '}');
            }
        }
    }
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    json_put_newline(&json);
    json_put_open(&json, "profiles", '[');
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        int64_t sum = 0;
        if (profiles[i].of_pages && model_has_sums_only(model))
            continue;
        for (uint32_t k = 0; k < model->context_count; k++) {
            int64_t figure = view_key(&model->contexts[k].figures->self, profiles[i].metric);
            sum = figure > 0 ? model_add(sum, figure) : sum;
        }
        json_put_newline(&json);
        json_put_open(&json, NULL, '{');
        json_put_text(&json, "type", "sampled");
        json_put_text(&json, "name", profiles[i].name);
        json_put_text(&json, "unit", profiles[i].unit);
        json_put_integer(&json, "startValue", 0);
        json_put_integer(&json, "endValue", sum);
        write_samples(&json, model, &numbers, profiles[i].metric);
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    putc('\n', file);
    free(numbers.slots);
}

/* --- CSV ------------------------------------------------------------------------------------- */

static void put_field(FILE *file, const char *text) {
    bool quoted = text && strpbrk(text, ",\"\r\n");
    if (quoted)
        putc('"', file);
    for (const char *at = text ? text : ""; *at != '\0';) {
        if (*at == '"')
            putc('"', file);
        at += put_letter(file, at);
    }
    if (quoted)
        putc('"', file);
}

void profile_write_csv(const struct model *model, FILE *file) {
    fputs("id,parent,kind,policy,function,file,line,module,address", file);
#define X(name) fputs("," #name, file);
    MODEL_TOTALS(X)
#undef X
    fputs("\r\n", file);
    for (uint32_t i = 0; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        const struct model_function *function =
            context->frame->names ? &context->frame->names->functions[0] : NULL;
        bool named = function && function->name;
        fprintf(file, "%u,", context->id);
        if (context->parent != WIRE_NONE)
            fprintf(file, "%u", model->contexts[context->parent].id);
        fprintf(file, ",%s,%s,", model_kind_word(context), model_policy_word(context->policy));
        put_field(file, named ? function->name : made_up_name(model, i));
        putc(',', file);
        put_field(file, named ? function->file : NULL);
        putc(',', file);
        if (named && function->line > 0)
            fprintf(file, "%" PRId64, function->line);
        putc(',', file);
        put_field(file, context->frame->module != WIRE_NONE
                            ? model->modules[context->frame->module].path
                            : NULL);
        fprintf(file, ",0x%" PRIx64, context->frame->address);
#define X(name)                                                                                    \
    if (context->figures->self.name == WIRE_UNKNOWN) {                                             \
        putc(',', file);                                                                           \
    } else {                                                                                       \
        fprintf(file, ",%" PRId64, context->figures->self.name);                                   \
    }
        MODEL_TOTALS(X)
#undef X
        fputs("\r\n", file);
    }
}

/* --- heaptrack ------------------------------------------------------------------------------- */

static uint32_t heaptrack_string(struct profile_numbers *numbers, FILE *file, const char *text) {
    bool fresh;
    uint32_t number = profile_string_number(numbers, text, &fresh);
    if (fresh) {
        fputs("s ", file);
        for (const char *at = text; *at != '\0';)
            at += put_letter(file, *at == '\n' ? " " : at);
        putc('\n', file);
    }
    return number;
}

/* Writes the line of an instruction pointer, with the functions at this address. */
static void heaptrack_instruction(const struct model *model, const struct model_frame *from,
                                  const struct profile_frame *frames, size_t count,
                                  struct profile_numbers *strings, FILE *file) {
    const char *module = from->module != WIRE_NONE ? model->modules[from->module].path : NULL;
    uint32_t module_string = heaptrack_string(strings, file, module);
    uint32_t *numbers = cli_alloc(2 * count, sizeof *numbers);
    for (size_t i = 0; i < count; i++) { /* innermost first, as addr2line gives them */
        numbers[2 * i] = heaptrack_string(strings, file, frames[i].function);
        numbers[2 * i + 1] = heaptrack_string(strings, file, frames[i].file);
    }
    fprintf(file, "i %" PRIx64 " %x", from->address, module_string);
    for (size_t i = 0; i < count; i++)
        fprintf(file, " %x %x %" PRIx64, numbers[2 * i], numbers[2 * i + 1], frames[i].line);
    putc('\n', file);
    free(numbers);
}

#define HEAPTRACK_CHUNKS_MAX (1UL << 31) /* a file of some 16 GiB */

/* heaptrack numbers instructions and trace nodes in the order of their lines, from 1 on. Here each
 * node gets an instruction of its own, so both have the same number. */
struct heaptrack {
    const struct model *model;
    struct profile_numbers strings;
    FILE *file;
    uint32_t count;
};

static uint32_t heaptrack_node(struct heaptrack *heaptrack, const struct model_frame *from,
                               const struct profile_frame *frames, size_t count, uint32_t parent) {
    heaptrack_instruction(heaptrack->model, from, frames, count, &heaptrack->strings,
                          heaptrack->file);
    fprintf(heaptrack->file, "t %x %x\n", ++heaptrack->count, parent);
    return heaptrack->count;
}

/* Writes trace nodes for functions that ended in tail calls, from the node `parent` inwards.
 * Returns the number of the innermost node. */
static uint32_t heaptrack_tails(struct heaptrack *heaptrack, const struct model_tails *tails,
                                uint32_t parent) {
    for (uint32_t i = tails ? tails->count : 0; i-- > 0;) {
        size_t count;
        const struct profile_frame *frames = profile_tail_frames(&tails->frames[i], &count);
        parent = heaptrack_node(heaptrack, &tails->frames[i], frames, count, parent);
    }
    return parent;
}

/* Writes the live chunks of a context with its mean size, because the sizes of single chunks are
 * not known. Some chunks get one byte more, so that the sum is exact. */
static void heaptrack_chunks(struct heaptrack *heaptrack, const struct model_totals *self,
                             uint32_t node, uint32_t *infos) {
    int64_t chunks = self->live_chunks, bytes = self->requested_bytes;
    int64_t size = bytes / chunks,
            larger = bytes % chunks; /* `larger` chunks have size + 1 bytes */
    for (int part = 0; part < 2; part++) {
        int64_t count = part ? larger : chunks - larger;
        if (count <= 0)
            continue;
        fprintf(heaptrack->file, "a %" PRIx64 " %x\n", (uint64_t)(size + part), node);
        for (int64_t k = 0; k < count; k++)
            fprintf(heaptrack->file, "+ %x\n", *infos);
        ++*infos;
    }
}

/* Writes a trace node for each context but the root, which is node 0. */
void profile_write_heaptrack(const struct model *model, FILE *file) {
    struct heaptrack heaptrack = {.model = model, .file = file};
    uint32_t infos = 0;
    uint64_t chunks = 0;
    for (uint32_t i = 1; i < model->context_count; i++) {
        int64_t live = model->contexts[i].figures->self.live_chunks;
        chunks += live > 0 ? (uint64_t)live : 0;
        if (chunks > HEAPTRACK_CHUNKS_MAX)
            cli_die(CLI_REFUSED,
                    "%s: more than %lu live chunks, and heaptrack's format has a line for each; "
                    "take another format, such as --speedscope",
                    model->source, HEAPTRACK_CHUNKS_MAX);
    }
    uint32_t *nodes = cli_alloc(model->context_count, sizeof *nodes);
    fprintf(file, "v 10400 2\nX %s\nI 1000 0\n", model->exe);
    for (uint32_t i = 1; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        uint32_t parent =
            heaptrack_tails(&heaptrack, tails_before(model, context), nodes[context->parent]);
        size_t count;
        const struct profile_frame *frames = profile_frames(model, i, &count);
        nodes[i] = heaptrack_node(&heaptrack, context->frame, frames, count, parent);
    }
    for (uint32_t i = 1; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        if (context->figures->self.live_chunks <= 0 || context->figures->self.requested_bytes < 0)
            continue;
        uint32_t node = heaptrack_tails(&heaptrack, tails_to_malloc(model, context), nodes[i]);
        heaptrack_chunks(&heaptrack, &context->figures->self, node, &infos);
    }
    int64_t rss = model_tame(model->ledger.rss_bytes) - memory_own_bytes(&model->ledger);
    fprintf(file, "c %" PRIx64 "\nR %" PRIx64 "\n", (uint64_t)(model->uptime_s * 1000),
            (uint64_t)(rss > 0 ? rss / 4096 : 0));
    free(nodes);
    free(heaptrack.strings.slots);
}
