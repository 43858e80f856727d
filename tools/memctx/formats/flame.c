/* SPDX-License-Identifier: MIT */
/* flame.c - merges call paths by function names, and draws them as boxes. */
#include "formats/flame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/output.h"
#include "formats/profile.h"
#include "formats/render.h"

#define WIDTH 1200.0
#define MARGIN 10.0
/* Greatest number of boxes above one another. Boxes are drawn recursively, and frames of a damaged
 * snapshot may have very many inlined functions. */
#define LEVELS_MAX 8192U
#define BOX_HEIGHT 17.0
#define HEAD_HEIGHT 46.0
#define NARROWEST 0.1
#define LETTER_WIDTH 6.6 /* largest width of a letter in the font below, in pixels */

struct box {
    const char *name;
    int64_t figure; /* sum over the box and all boxes above it */
    struct box *parent, *first, *next;
};

struct drawing {
    FILE *file;
    double height, scale; /* scale: pixels for one unit of the figure */
    int64_t whole;
    const char *unit;
};

/* All boxes, in a hash table by parent and name, because a box may have very many children. */
struct boxes {
    struct box **slots; /* NULL: the slot is free */
    size_t count, mask;
};

static struct box **find_slot(const struct boxes *boxes, const struct box *parent,
                              const char *name) {
    uint64_t hash = (uintptr_t)parent;
    for (const char *at = name; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3U;
    hash ^= hash >> 32;
    for (size_t at = hash & boxes->mask;; at = (at + 1) & boxes->mask) {
        struct box *box = boxes->slots[at];
        if (!box || (box->parent == parent && strcmp(box->name, name) == 0))
            return &boxes->slots[at];
    }
}

static void make_room(struct boxes *boxes) {
    struct boxes old = *boxes;
    if (2 * old.count < old.mask)
        return;
    boxes->mask = old.mask > 0 ? 2 * old.mask + 1 : 1023;
    boxes->slots = cli_alloc(boxes->mask + 1, sizeof(struct box *));
    for (size_t i = 0; old.slots && i <= old.mask; i++)
        if (old.slots[i])
            *find_slot(boxes, old.slots[i]->parent, old.slots[i]->name) = old.slots[i];
    free(old.slots);
}

/* Returns the child of this name, or makes one. */
static struct box *child_of(struct boxes *boxes, struct box *parent, const char *name) {
    make_room(boxes);
    struct box **slot = find_slot(boxes, parent, name), *child = *slot;
    if (child)
        return child;
    child = *slot = cli_alloc(1, sizeof *child);
    *child = (struct box){.name = name, .parent = parent, .next = parent->first};
    boxes->count++;
    return parent->first = child;
}

static int64_t add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static struct box *make_boxes(const struct model *model, enum view_sort metric) {
    struct box *root = cli_alloc(1, sizeof *root);
    struct boxes boxes = {.count = 0};
    root->name = "all";
    for (uint32_t i = 0; i < model->context_count; i++) {
        int64_t figure = view_key(&model->contexts[i].figures->self, metric);
        size_t count;
        if (figure <= 0)
            continue;
        const struct profile_frame *frames = profile_path(model, i, &count);
        struct box *box = root;
        root->figure = add(root->figure, figure);
        for (size_t k = count; k-- > 0 && count - k <= LEVELS_MAX;) {
            box = child_of(&boxes, box, frames[k].function);
            box->figure = add(box->figure, figure);
        }
    }
    free(boxes.slots);
    return root;
}

static int compare_boxes(const void *a, const void *b) {
    const struct box *left = *(struct box *const *)a, *right = *(struct box *const *)b;
    return left->figure != right->figure ? (left->figure > right->figure ? -1 : 1)
                                         : strcmp(left->name, right->name);
}

/* Sorts the children by falling figure, so that the picture does not depend on the order of
 * contexts. */
static void sort_children(struct box *box) {
    size_t count = 0;
    for (struct box *child = box->first; child; child = child->next)
        count++;
    struct box **children = cli_alloc(count, sizeof *children);
    count = 0;
    for (struct box *child = box->first; child; child = child->next)
        children[count++] = child;
    qsort(children, count, sizeof *children, compare_boxes);
    box->first = NULL;
    while (count-- > 0) {
        children[count]->next = box->first;
        box->first = children[count];
    }
    free(children);
}

static unsigned levels_of(const struct box *box, int64_t narrowest) {
    unsigned most = 0;
    for (const struct box *child = box->first; child; child = child->next) {
        unsigned levels = child->figure >= narrowest ? levels_of(child, narrowest) : 0;
        most = levels > most ? levels : most;
    }
    return most + 1;
}

/* Returns how many bytes the letter at `text` has. A byte that is not UTF-8 counts as a letter. */
static size_t letter_bytes(const char *text) {
    size_t bytes = json_utf8_length(text);
    return bytes > 0 ? bytes : 1;
}

/* Returns how many bytes the first `letters` letters of a text have. */
static size_t bytes_of(const char *text, size_t letters) {
    const char *at = text;
    while (letters-- > 0 && *at != '\0')
        at += letter_bytes(at);
    return (size_t)(at - text);
}

static void draw_box(struct drawing *drawing, const struct box *box, double left, unsigned level) {
    FILE *file = drawing->file;
    double width = (double)box->figure * drawing->scale;
    double top = drawing->height - MARGIN - (level + 1) * BOX_HEIGHT;
    unsigned hue = 0;
    char figure[RENDER_NUMBER_BYTES];
    bool bytes = drawing->unit[0] == '\0';
    for (const char *at = box->name; *at != '\0'; at++)
        hue = hue * 31 + (unsigned char)*at;
    fputs("<g><title>", file);
    output_put_html(file, box->name, strlen(box->name));
    fprintf(file, ": %s%s, %.2f %%</title>", render_bytes(figure, box->figure, bytes),
            drawing->unit, 100 * (double)box->figure / (double)drawing->whole);
    fprintf(file,
            "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" rx=\"2\" "
            "fill=\"hsl(%u,%u%%,%u%%)\"/>",
            left, top, width, BOX_HEIGHT - 1, 12 + hue % 42, 70 + hue / 42 % 20,
            62 + hue / 840 % 10);
    size_t letters = (size_t)((width - 6) / LETTER_WIDTH);
    if (width > 6 + 3 * LETTER_WIDTH) {
        fprintf(file, "<text x=\"%.2f\" y=\"%.0f\">", left + 3, top + 12);
        bool whole = box->name[bytes_of(box->name, letters)] == '\0';
        output_put_html(file, box->name, bytes_of(box->name, whole ? letters : letters - 2));
        fputs(whole ? "</text>" : "..</text>", file);
    }
    fputs("</g>\n", file);
}

static void draw(struct drawing *drawing, struct box *box, double left, unsigned level) {
    if ((double)box->figure * drawing->scale < NARROWEST)
        return;
    draw_box(drawing, box, left, level);
    sort_children(box);
    for (struct box *child = box->first; child; child = child->next) {
        draw(drawing, child, left, level + 1);
        left += (double)child->figure * drawing->scale;
    }
}

void flame_write(const struct model *model, FILE *file, enum view_sort metric) {
    struct box *root = make_boxes(model, metric);
    bool bytes =
        metric != VIEW_SORT_ALLOCS && metric != VIEW_SORT_FREES && metric != VIEW_SORT_CHUNKS;
    struct drawing drawing = {
        .file = file,
        .whole = root->figure,
        .scale = root->figure > 0 ? (WIDTH - 2 * MARGIN) / (double)root->figure : 0,
        .unit = bytes ? "" : " in number"};
    int64_t narrowest = drawing.scale > 0 ? (int64_t)(NARROWEST / drawing.scale) : INT64_MAX;
    char figure[RENDER_NUMBER_BYTES];
    drawing.height = HEAD_HEIGHT + 2 * MARGIN + levels_of(root, narrowest) * BOX_HEIGHT;
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\">\n"
            "<style>text{font:11px monospace;fill:#1b1b1b;pointer-events:none}"
            "g:hover rect{stroke:#000}.head{font-size:15px}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fdfbf5\"/>\n"
            "<text class=\"head\" x=\"%.0f\" y=\"26\">",
            WIDTH, drawing.height, WIDTH, drawing.height, MARGIN);
    output_put_html(file, model->exe, bytes_of(model->exe, 80));
    fprintf(file, " (pid %" PRId64 "): %s, %s%s</text>\n", model->pid, view_sort_word(metric),
            render_bytes(figure, root->figure, bytes), drawing.unit);
    draw(&drawing, root, MARGIN, 0);
    fputs("</svg>\n", file);
}
