/* SPDX-License-Identifier: MIT */
/* blame.c - groups contexts by the innermost frames of their paths. */
#include "diagnosis/blame.h"

#include <stdlib.h>
#include <string.h>

#include "model/folding.h"

/* --- folded paths ---------------------------------------------------------------------------- */

static int compare_frames(const struct model *model, uint32_t a, uint32_t b) {
    if (a == WIRE_NONE || b == WIRE_NONE)
        return (a == WIRE_NONE) - (b == WIRE_NONE);
    const struct model_frame *left = model->contexts[a].frame, *right = model->contexts[b].frame;
    if (left == right)
        return 0;
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    if (left->kind != WIRE_KIND_PATH)
        return strcmp(left->label ? left->label : "", right->label ? right->label : "");
    return left->address < right->address ? -1 : left->address > right->address;
}

static bool has_any(const struct model_figures *figures) {
    return figures->context != WIRE_NONE &&
           (model_totals_any(&figures->self) || figures->self.pinned_bytes > 0);
}

bool blame_is_generated(const struct model_frame *frame) {
    static const char *const begins[] = {"Builtins_", "v8::internal::Builtin_",
                                         "v8::internal::FunctionCallbackArguments::"};
    const char *name =
        frame->names && frame->names->count > 0 ? frame->names->functions[0].name : NULL;
    for (size_t i = 0; name && i < sizeof begins / sizeof begins[0]; i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return !name && frame->kind == WIRE_KIND_PATH && frame->module == WIRE_NONE;
}

/* Returns a key of the source lines of a frame. Without these, the key is that of the address.
 * Returns 0 for generated code. */
static uint64_t source_of(const struct model_frame *frame) {
    uint64_t hash = folding_function_key(frame);
    if (blame_is_generated(frame))
        return 0;
    if (frame->kind != WIRE_KIND_PATH)
        return hash;
    for (uint32_t i = 0; frame->names && i < frame->names->count; i++) {
        const struct model_function *function = &frame->names->functions[i];
        if (function->line <= 0 || !function->name)
            return folding_mix(hash, frame->address);
        hash = folding_mix(folding_mix(hash, who_function_key(frame, i)), (uint64_t)function->line);
    }
    return frame->names ? hash : folding_mix(hash, frame->address);
}

/* Returns how many frames of a path are compared: those farther in than generated code. */
static uint32_t compared_frames(const struct blame_paths *paths, const uint64_t *sources,
                                uint32_t number) {
    uint32_t count = paths->first[number + 1] - paths->first[number];
    const uint32_t *frames = paths->frames + paths->first[number];
    for (uint32_t i = 1; i < count; i++)
        if (sources[paths->model->contexts[frames[i]].frame->number] == 0)
            return i;
    return count;
}

/* Returns the key of frame number `i` of a path. Generated code that calls malloc itself is the
 * only frame that is compared, so its key is that of the address. */
static uint64_t key_at(const struct blame_paths *paths, const uint64_t *sources, uint32_t number,
                       uint32_t i) {
    const struct model_frame *frame =
        paths->model->contexts[paths->frames[paths->first[number] + i]].frame;
    uint64_t source = sources[frame->number];
    return source || i ? source : folding_mix(folding_function_key(frame), frame->address);
}

static bool are_alike(const struct blame_paths *paths, const uint64_t *sources, uint32_t a,
                      uint32_t b) {
    uint32_t count = compared_frames(paths, sources, a);
    if (compared_frames(paths, sources, b) != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (key_at(paths, sources, a, i) != key_at(paths, sources, b, i))
            return false;
    return true;
}

/* Finds the figures with equal folded paths, and fills in paths->same, paths->alike and
 * paths->next.
 */
static void find_alike(struct blame_paths *paths) {
    const struct model *model = paths->model;
    size_t slots = 1024;
    while (slots < 2 * model->figures_count)
        slots *= 2;
    /* hash table: number of figures + 1; 0: the slot is free */
    uint32_t *table = cli_alloc(slots, sizeof *table);
    uint64_t *sources = cli_alloc(model->frame_count, sizeof *sources);
    for (const struct model_frame *frame = model->frames; frame; frame = frame->next)
        sources[frame->number] = source_of(frame);
    for (uint32_t i = 0; i < model->figures_count; i++) {
        uint64_t hash = 0;
        paths->same[i] = i;
        if (paths->first[i + 1] == paths->first[i])
            continue;
        for (uint32_t k = 0, count = compared_frames(paths, sources, i); k < count; k++)
            hash = folding_mix(hash, key_at(paths, sources, i, k));
        size_t slot = hash & (slots - 1);
        while (table[slot] != 0 && !are_alike(paths, sources, table[slot] - 1, i))
            slot = (slot + 1) & (slots - 1);
        if (table[slot] == 0)
            table[slot] = i + 1;
        uint32_t same = table[slot] - 1;
        paths->same[i] = same;
        paths->alike[same]++;
        if (same != i) {
            paths->next[i] = paths->next[same];
            paths->next[same] = i;
        }
    }
    free(sources);
    free(table);
}

void blame_paths_make(struct blame_paths *paths, const struct model *model) {
    struct folding_paths folding;
    uint32_t path[MODEL_LEVELS_MAX + 1];
    size_t count = 0, capacity = 0;
    *paths = (struct blame_paths){.model = model};
    paths->first = cli_alloc(model->figures_count + 1, sizeof *paths->first);
    paths->plain = cli_alloc(model->figures_count, sizeof *paths->plain);
    paths->same = cli_alloc(model->figures_count, sizeof *paths->same);
    paths->alike = cli_alloc(model->figures_count, sizeof *paths->alike);
    paths->next = cli_alloc(model->figures_count, sizeof *paths->next);
    folding_paths_begin(&folding, model);
    for (uint32_t i = 0; i < model->figures_count; i++) {
        const struct model_figures *figures = model_figures_at(model, i);
        size_t frames = 0;
        if (has_any(figures))
            frames = folding_fold_path(&folding, figures->context, path, &paths->plain[i]);
        if (capacity - count < frames) {
            capacity = 2 * capacity + MODEL_LEVELS_MAX + 1;
            paths->frames = cli_grow(paths->frames, capacity, sizeof *paths->frames);
        }
        if (frames > 0)
            memcpy(paths->frames + count, path, frames * sizeof *path);
        count += frames;
        paths->first[i + 1] = (uint32_t)count;
    }
    folding_paths_end(&folding);
    find_alike(paths);
}

void blame_paths_free(struct blame_paths *paths) {
    free(paths->frames);
    free(paths->first);
    free(paths->plain);
    free(paths->same);
    free(paths->alike);
    free(paths->next);
}

/* --- suspects -------------------------------------------------------------------------------- */

/* A context that belongs to no suspect yet, and the place in paths->frames of the frame to compare
 * next. */
struct walk {
    uint32_t number, place;
};

struct search {
    const struct blame_paths *paths;
    const int64_t *figures;
    int64_t floor;
    struct blame *blame;
    size_t capacity;
};

static uint32_t context_of(const struct search *search, uint32_t number) {
    return model_figures_at(search->paths->model, number)->context;
}

static int64_t add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static const struct search *sorting; /* argument of the comparison functions */

static int by_falling_figure(const void *a, const void *b) {
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    const struct model_context *contexts = sorting->paths->model->contexts;
    int64_t x = sorting->figures[contexts[left].figures->number];
    int64_t y = sorting->figures[contexts[right].figures->number];
    return x != y ? (x > y ? -1 : 1) : left < right ? -1 : left > right;
}

static int by_suspect(const void *a, const void *b) {
    const struct blame_suspect *left = a, *right = b;
    if (left->figure != right->figure)
        return left->figure > right->figure ? -1 : 1;
    return left->members[0] < right->members[0] ? -1 : left->members[0] > right->members[0];
}

/* Returns the node of the walk's next frame; WIRE_NONE if the path has ended. */
static uint32_t frame_of(const struct walk *walk) {
    const struct blame_paths *paths = sorting->paths;
    return walk->place < paths->first[walk->number + 1] ? paths->frames[walk->place] : WIRE_NONE;
}

static int compare_walks(const struct walk *a, const struct walk *b) {
    return compare_frames(sorting->paths->model, frame_of(a), frame_of(b));
}

static int by_frame(const void *a, const void *b) {
    const struct walk *left = a, *right = b;
    int order = compare_walks(left, right);
    return order != 0 ? order : (left->number < right->number ? -1 : left->number > right->number);
}

static void accuse(struct search *search, const struct walk *walks, size_t count, int64_t figure,
                   uint32_t frames) {
    struct blame *blame = search->blame;
    if (blame->count == search->capacity) {
        search->capacity = 2 * search->capacity + 16;
        blame->suspects = cli_grow(blame->suspects, search->capacity, sizeof *blame->suspects);
    }
    struct blame_suspect *suspect = &blame->suspects[blame->count++];
    *suspect = (struct blame_suspect){.figure = figure, .count = count};
    suspect->members = cli_alloc(count, sizeof *suspect->members);
    for (size_t i = 0; i < count; i++)
        suspect->members[i] = context_of(search, walks[i].number);
    qsort(suspect->members, count, sizeof *suspect->members, by_falling_figure);
    /* `frames` counts frames of the folded path. Readers of suspect->frames count frames of the
     * whole path, which has further frames after the first `plain` ones. */
    uint32_t plain = search->paths->plain[blame_number(search->paths, suspect->members[0])];
    suspect->frames = count > 1 && plain < frames ? plain : frames;
}

static int64_t sum_of(const struct search *search, const struct walk *walks, size_t count) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = add(sum, search->figures[walks[i].number]);
    return sum;
}

static uint32_t level_of(const struct search *search, uint32_t number) {
    return search->paths->model->contexts[context_of(search, number)].level;
}

/* Makes suspects of contexts (walks) that share their innermost `frames` frames. Moves the walks
 * that belong to no suspect to the front of the array and returns their number. */
static size_t divide(struct search *search, struct walk *walks, size_t count, uint32_t frames) {
    if (count == 0 || sum_of(search, walks, count) < search->floor)
        return count;
    if (count == 1) {
        accuse(search, walks, 1, search->figures[walks[0].number],
               level_of(search, walks[0].number));
        return 0;
    }
    size_t left = 0;
    qsort(walks, count, sizeof *walks, by_frame);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && compare_walks(&walks[end], &walks[first]) == 0;
             end++) {
        }
        size_t kept = end - first;
        if (frame_of(&walks[first]) != WIRE_NONE) {
            for (size_t i = first; i < end; i++)
                walks[i].place++;
            kept = divide(search, walks + first, kept, frames + 1);
        }
        memmove(walks + left, walks + first, kept * sizeof *walks);
        left += kept;
    }
    int64_t figure = sum_of(search, walks, left);
    if (frames == 0 || figure < search->floor)
        return left;
    accuse(search, walks, left, figure, frames);
    return 0;
}

void blame_make(struct blame *blame, const struct blame_paths *paths, const int64_t *figures,
                int64_t floor) {
    const struct model *model = paths->model;
    struct search search = {
        .paths = paths, .figures = figures, .floor = floor > 0 ? floor : 1, .blame = blame};
    struct walk *walks = cli_alloc(model->figures_count, sizeof *walks);
    size_t count = 0;
    *blame = (struct blame){0};
    for (size_t i = 1; i < model->figures_count; i++)
        if (figures[i] > 0)
            walks[count++] = (struct walk){(uint32_t)i, paths->first[i]};
    sorting = &search;
    divide(&search, walks, count, 0);
    free(walks);
    if (blame->count > 0)
        qsort(blame->suspects, blame->count, sizeof *blame->suspects, by_suspect);
    sorting = NULL;
}

/* Returns how many of the innermost frames of two folded paths have equal addresses. */
static uint32_t shared_frames(const struct blame_paths *paths, uint32_t a, uint32_t b) {
    uint32_t count = paths->first[a + 1] - paths->first[a], shared = 0;
    while (shared < count && compare_frames(paths->model, paths->frames[paths->first[a] + shared],
                                            paths->frames[paths->first[b] + shared]) == 0)
        shared++;
    return shared;
}

bool blame_has_copies(const struct blame_paths *paths, uint32_t number) {
    uint32_t whole = paths->first[number + 1] - paths->first[number];
    for (uint32_t i = paths->next[number]; i != 0; i = paths->next[i])
        if (shared_frames(paths, number, i) < whole)
            return true;
    return false;
}

void blame_add_alike(const struct blame_paths *paths, struct blame_suspect *suspect) {
    uint32_t number = blame_number(paths, suspect->members[0]), shared = paths->plain[number];
    uint32_t whole = paths->first[number + 1] - paths->first[number];
    bool copies = false;
    if (suspect->count > 1 || paths->alike[number] < 2)
        return;
    for (uint32_t i = paths->next[number]; i != 0; i = paths->next[i]) {
        uint32_t equal = shared_frames(paths, number, i);
        copies |= equal < whole;
        shared = equal < shared ? equal : shared;
    }
    suspect->frames = paths->alike[number] <= BLAME_LISTED ? paths->plain[number] : shared;
    if (!copies) {
        suspect->frames = shared;
        suspect->alike = paths->alike[number];
        return;
    }
    suspect->members = cli_grow(suspect->members, paths->alike[number], sizeof *suspect->members);
    for (uint32_t i = paths->next[number]; i != 0; i = paths->next[i])
        suspect->members[suspect->count++] = model_figures_at(paths->model, i)->context;
}

void blame_widen(const struct blame_paths *paths, const struct blame_suspect *suspect,
                 bool *members) {
    const struct model *model = paths->model;
    bool *meant = cli_alloc(model->figures_count, sizeof *meant);
    for (size_t i = 0; i < suspect->count; i++) {
        members[suspect->members[i]] = true;
        meant[paths->same[blame_number(paths, suspect->members[i])]] = true;
    }
    for (size_t i = 1; i < model->figures_count; i++) {
        uint32_t context = model_figures_at(model, i)->context;
        if (context != WIRE_NONE && meant[paths->same[i]])
            members[context] = true;
    }
    free(meant);
}

static void free_suspect(struct blame_suspect *suspect) {
    for (size_t i = 0; i < suspect->part_count; i++)
        free(suspect->parts[i].members);
    free(suspect->parts);
    free(suspect->members);
}

void blame_drop(struct blame *blame, const bool *dropped) {
    size_t left = 0;
    for (size_t i = 0; i < blame->count; i++)
        if (dropped[i])
            free_suspect(&blame->suspects[i]);
        else
            blame->suspects[left++] = blame->suspects[i];
    blame->count = left;
}

/* Appends a suspect, or its parts. */
static void add_parts(struct blame_suspect *sum, struct blame_suspect *part) {
    size_t count = part->joined ? part->part_count : 1;
    sum->parts = cli_grow(sum->parts, sum->part_count + count, sizeof *sum->parts);
    memcpy(sum->parts + sum->part_count, part->joined ? part->parts : part,
           count * sizeof *sum->parts);
    sum->part_count += count;
    sum->members = cli_grow(sum->members, sum->count + part->count, sizeof *sum->members);
    memcpy(sum->members + sum->count, part->members, part->count * sizeof *sum->members);
    sum->count += part->count;
    sum->figure = model_tame(sum->figure + model_tame(part->figure));
    if (part->joined) {
        free(part->parts);
        free(part->members);
    }
}

/* Sorts the parts of a joined suspect, and its members in the order of the parts. */
static void sort_parts(struct blame_suspect *sum) {
    size_t count = 0;
    qsort(sum->parts, sum->part_count, sizeof *sum->parts, by_suspect);
    for (size_t i = 0; i < sum->part_count; i++) {
        const struct blame_suspect *part = &sum->parts[i];
        memcpy(sum->members + count, part->members, part->count * sizeof *sum->members);
        count += part->count;
    }
}

void blame_join(const struct model *model, struct blame_suspect *one, struct blame_suspect *other,
                struct who_step common) {
    struct blame_suspect sum = {.group = one->group, .joined = true, .common = common};
    add_parts(&sum, one);
    add_parts(&sum, other);
    sort_parts(&sum);
    sum.frames = model->contexts[sum.members[0]].level;
    struct who_step found = who_find(model, who_first(model, sum.members[0]), common);
    if (found.context != WIRE_NONE)
        sum.common = found;
    *one = sum;
    other->count = 0;
}

void blame_tidy(struct blame *blame) {
    size_t left = 0;
    for (size_t i = 0; i < blame->count; i++)
        if (blame->suspects[i].count > 0)
            blame->suspects[left++] = blame->suspects[i];
    blame->count = left;
    if (left > 0)
        qsort(blame->suspects, left, sizeof *blame->suspects, by_suspect);
}

void blame_free(struct blame *blame) {
    for (size_t i = 0; i < blame->count; i++)
        free_suspect(&blame->suspects[i]);
    free(blame->suspects);
    *blame = (struct blame){0};
}
