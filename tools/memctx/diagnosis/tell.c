/* SPDX-License-Identifier: MIT */
/* tell.c - the text of memctx doctor. */
#include "diagnosis/tell.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/look.h"
#include "formats/wrap.h"
#include "model/frames.h"
#include "model/tails.h"

#define PART_NAMED 0.1    /* the first line names the largest part if it has at least this share */
#define NEARLY_ALL 0.9    /* nearly all of a finding is this share of its bytes */
#define THROUGH_PARTS 200 /* to save time, only this many of the largest groups are read */
#define OWN_FUNCTIONS 8   /* greatest number of functions that are shown without --depth */
#define INDENT 3
#define LABEL_COLUMNS 7 /* "since: " */
#define TEXT_COLUMN (INDENT + LABEL_COLUMNS)

/* Returns the functions of one group of the finding's call paths, up to the function that all
 * groups share. */
static struct who_part part_who(const struct model *model, const struct finding *finding,
                                const struct finding_part *group) {
    struct who_part part = who_frames(model, group->example, group->frames);
    struct who_step common = who_find(model, part.from, finding->common);
    if (common.context != WIRE_NONE && group->frames >= model->contexts[group->example].level)
        part.end = common;
    /* show the common function, too: each group comes from another line of it */
    if (common.context != WIRE_NONE && !who_means(model, &part))
        part.end = who_next(model, common);
    return part;
}

/* Returns the next function from `step` outwards that tells who allocates (model/who.h); its
 * context is WIRE_NONE at the end of the part. */
static struct who_step next_meaning(const struct model *model, const struct who_part *part,
                                    struct who_step step) {
    while (step.context != WIRE_NONE &&
           (step.context != part->end.context || step.function != part->end.function)) {
        if (who_kind_of(model, step) == WHO_MEANS)
            return step;
        step = who_next(model, step);
    }
    return (struct who_step){WIRE_NONE, 0};
}

/* Returns true if a part of a path passes through the function with this key. */
static bool passes_through(const struct model *model, const struct who_part *part, uint64_t key) {
    struct who_step at = next_meaning(model, part, part->from);
    while (at.context != WIRE_NONE && who_key(model, at) != key)
        at = next_meaning(model, part, who_next(model, at));
    return at.context != WIRE_NONE;
}

/* Returns the share of the finding's largest groups that passes through a function. */
static double share_through(const struct model *model, const struct finding *finding,
                            uint64_t key) {
    double through = 0, all = 0;
    for (size_t i = 0; i < finding->part_count && i < THROUGH_PARTS; i++) {
        struct who_part part = part_who(model, finding, &finding->parts[i]);
        all += finding->parts[i].share;
        through += passes_through(model, &part, key) ? finding->parts[i].share : 0;
    }
    return all > 0 ? through / all : 0;
}

/* Finds the functions below finding->common that nearly all groups pass through, such as a list to
 * which many functions add. Returns false if there are none. */
static bool find_through(const struct model *model, const struct finding *finding,
                         struct who_part *through) {
    bool found = false;
    if (finding->part_count < 2 || finding->common.context == WIRE_NONE ||
        finding->parts[0].share >= NEARLY_ALL)
        return false;
    struct who_part first = part_who(model, finding, &finding->parts[0]);
    uint64_t common = who_key(model, finding->common);
    struct who_step at = next_meaning(model, &first, first.from);
    /* It is not known whether all groups pass through the functions that ended in a tail call. */
    *through = (struct who_part){.without_tails = true};
    for (; at.context != WIRE_NONE; at = next_meaning(model, &first, who_next(model, at))) {
        uint64_t key = who_key(model, at);
        if (key == common)
            break;
        bool passes = who_has_name(model, at) && share_through(model, finding, key) >= NEARLY_ALL;
        if (passes && !found)
            through->from = at;
        if (passes)
            through->end = who_next(model, at);
        found = found || passes;
    }
    return found;
}

/* True if two contexts have equal return addresses. */
static bool same_frame(const struct model *model, uint32_t a, uint32_t b) {
    const struct model_frame *one = model->contexts[a].frame, *other = model->contexts[b].frame;
    return one->kind == other->kind && one->address == other->address;
}

/* Returns how many of the innermost frames of two paths are equal, at most `most`. */
static uint32_t equal_frames(const struct model *model, uint32_t a, uint32_t b, uint32_t most) {
    uint32_t count = 0;
    while (count < most && a != WIRE_NONE && b != WIRE_NONE && same_frame(model, a, b)) {
        a = model->contexts[a].parent;
        b = model->contexts[b].parent;
        count++;
    }
    return count;
}

/* Returns the context of the finding's *own* frame: the innermost frame for which other paths, with
 * the same frames up to this one, have at most half as many allocations as the finding. The frames
 * nearer to malloc are functions that many callers share, such as a wrapper of malloc or a list. */
static uint32_t find_own_frame(const struct model *model, const struct finding *finding) {
    uint32_t frames = finding->frames, at = finding->example;
    int64_t *allocs = cli_alloc((size_t)frames + 1, sizeof *allocs);
    for (size_t i = 1; i < model->figures_count; i++) {
        const struct model_figures *figures = model_figures_at(model, i);
        uint32_t equal = figures->context == WIRE_NONE
                             ? 0
                             : equal_frames(model, figures->context, finding->example, frames);
        allocs[equal] = model_tame(allocs[equal] + model_tame(figures->self.allocs));
    }
    int64_t others = 0;
    uint32_t own = frames > 0 ? frames - 1 : 0;
    for (; own > 0 && model_tame(others + allocs[own]) <= allocs[frames] / 2; own--)
        others = model_tame(others + allocs[own]);
    for (uint32_t i = 0; i < own && at != WIRE_NONE; i++)
        at = model->contexts[at].parent;
    free(allocs);
    return at;
}

/* Sets *own to the function of the finding's own frame (find_own_frame), and returns how many
 * functions `who` has to show so that this function is among them. Returns 0 if the finding has no
 * such function, if the function has no name, or if it is the first that is shown. */
static int64_t find_own(const struct model *model, const struct finding *finding,
                        struct who_part *own) {
    if (finding->example == WIRE_NONE || finding->common.context != WIRE_NONE)
        return 0;
    struct who_part part = finding_who(model, finding);
    uint32_t frame = find_own_frame(model, finding), inner = finding->example;
    /* a tail call into the frames nearer to malloc may hide the own function */
    while (inner != frame && model->contexts[inner].parent != frame)
        inner = model->contexts[inner].parent;
    if (inner != frame && tails_before(model, &model->contexts[inner]))
        return 0;
    struct who_step wanted = who_first(model, frame);
    while (wanted.context != WIRE_NONE && (who_kind_of(model, wanted) == WHO_LIBRARY ||
                                           who_kind_of(model, wanted) == WHO_ALLOCATOR))
        wanted = who_next(model, wanted);
    if (wanted.context == WIRE_NONE || who_kind_of(model, wanted) != WHO_MEANS ||
        !who_has_name(model, wanted))
        return 0;
    *own = (struct who_part){.from = wanted, .end = part.end, .without_tails = true};
    int64_t count = who_count_to(model, &part, wanted);
    return count > 1 ? count : 0;
}

/* --- the verdict ----------------------------------------------------------------------------- */

/* Returns the function that a finding is about, in brackets; an empty text if it is about the whole
 * process. The caller frees it. */
static char *write_place(const struct model *model, const struct finding *finding) {
    if (finding->example == WIRE_NONE)
        return cli_copy("");
    struct who_part part = finding_who(model, finding);
    struct who_part through, own;
    struct who_step outer;
    char *name = who_write_short(model, &part), *text;
    if (who_find_caller(model, &part, &outer)) {
        char *caller = who_write_caller(model, &part, outer);
        text = cli_format(" (%s; called for %s)", name, caller);
        free(caller);
    } else if (find_through(model, finding, &through)) {
        char *inner = who_write_short(model, &through);
        text = cli_format(" (%s; nearly all through %s)", name, inner);
        free(inner);
    } else if (finding->part_count > 0 && finding->parts[0].share >= PART_NAMED) {
        struct who_part largest = part_who(model, finding, &finding->parts[0]);
        char *inner = who_write_short(model, &largest);
        text = strcmp(inner, name) != 0 && who_begins_named(model, &largest)
                   ? cli_format(" (%s; largest part: %s)", name, inner)
                   : cli_format(" (%s)", name);
        free(inner);
    } else if (find_own(model, finding, &own) > 0) {
        char *caller = who_write_short(model, &own);
        text = cli_format(" (%s; called for %s)", name, caller);
        free(caller);
    } else {
        text = cli_format(" (%s)", name);
    }
    free(name);
    return text;
}

/* Returns the sentence about a process without warnings. A finding with a verdict may become a
 * problem, and is named; findings without one are only remarks. */
static char *write_harmless(const struct model *model, const struct findings *findings) {
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        if (!finding->verdict)
            continue;
        char *place = write_place(model, finding);
        char *text = cli_format("no severe problem was found; %s%s", finding->verdict, place);
        free(place);
        return text;
    }
    if (findings->count == 0)
        return cli_copy("no memory problem was found");
    char *others =
        findings->count > 1 ? cli_format(", and %zu more", findings->count - 1) : cli_copy("");
    char *place = write_place(model, &findings->list[0]);
    char *text = cli_format("no memory problem was found; for information only: %s%s%s",
                            findings->list[0].title, place, others);
    free(place);
    free(others);
    return text;
}

char *tell_verdict(const struct findings_input *input, const struct findings *findings) {
    const struct model *model = input->model;
    char *what;
    size_t severe = 0;
    while (severe < findings->count && findings->list[severe].severity > SEVERITY_INFO)
        severe++;
    if (severe > 0) {
        const struct finding *first = &findings->list[0];
        char *place = write_place(model, first);
        char *others = severe > 1 ? cli_format("; %zu more below", severe - 1) : cli_copy("");
        what = cli_format("%s%s%s", first->verdict ? first->verdict : first->title, place, others);
        free(place);
        free(others);
    } else {
        what = write_harmless(model, findings);
    }
    /* not known in a recording that was made without /proc */
    int64_t rss_bytes = model->ledger.rss_bytes;
    char *line = cli_format("%s resident, %s in use: %s",
                            rss_bytes == WIRE_UNKNOWN ? "?" : look_bytes(input->ledger->rss_bytes),
                            look_bytes(model->totals.requested_bytes), what);
    free(what);
    return line;
}

static void print_process(const struct findings_input *input) {
    const struct model *model = input->model;
    char *line =
        cli_format("%s (pid %" PRId64 "), up %.1f s; memctx itself uses %s", model_program(model),
                   model->pid, model->uptime_s, look_bytes(memory_own_bytes(&model->ledger)));
    wrap_print(line, 0, 0);
    free(line);
}

/* Says who holds most of the memory in use. Says nothing if there is a warning, which tells more.
 */
static void print_largest(const struct findings_input *input, const struct findings *findings) {
    if (findings->largest_count == 0 ||
        (findings->count > 0 && findings->list[0].severity > SEVERITY_INFO))
        return;
    char *line = cli_copy("for information, who holds most of the memory in use");
    for (size_t i = 0; i < findings->largest_count; i++) {
        const struct finding *finding = &findings->largest[i];
        char *before = line, *place = write_place(input->model, finding);
        line = cli_format("%s%s %s%s%s%s", before, i == 0 ? ":" : ";", finding->evidence, place,
                          finding->since ? ", " : "", finding->since ? finding->since : "");
        free(place);
        free(before);
    }
    wrap_print(line, 0, 0);
    free(line);
}

/* --- one finding ----------------------------------------------------------------------------- */

/* Prints "   LABEL: TEXT" with the text in a column of its own. */
static void print_labelled(const char *label, const char *text) {
    printf("%*s%-*s", INDENT, "", LABEL_COLUMNS, label);
    wrap_print(text, TEXT_COLUMN, TEXT_COLUMN);
}

/* Prints a command unbroken in a line of its own, and its effect below. If `command` has several
 * lines, the first line is a sentence that introduces the commands. These are not indented, because
 * Python refuses lines with different indentation when both are pasted. */
static void print_command(const char *label, const char *command, const char *effect) {
    const char *line = strchr(command, '\n');
    if (line) {
        char *sentence = cli_format("%.*s", (int)(line - command), command);
        print_labelled(label, sentence);
        free(sentence);
        for (; line; line = strchr(line + 1, '\n'))
            printf("%.*s\n", (int)strcspn(line + 1, "\n"), line + 1);
    } else {
        printf("%*s%-*s%s\n", INDENT, "", LABEL_COLUMNS, label, command);
    }
    if (effect) {
        printf("%*s", TEXT_COLUMN, "");
        wrap_print(effect, TEXT_COLUMN, TEXT_COLUMN);
    }
}

static char *write_path(const struct model *model, const struct who_part *part, uint32_t context,
                        uint32_t frames, int64_t functions, const struct tell_options *options) {
    return options->full ? frames_write_path(model, context, frames)
                         : who_write(model, part, functions);
}

/* Returns the id of a context in brackets, if a command of the finding has --context; else an empty
 * text. The caller frees it. */
static char *write_number(const struct model *model, const struct finding *finding,
                          uint32_t context) {
    bool named = (finding->action && strstr(finding->action, " --context ")) ||
                 (finding->now && strstr(finding->now, " --context "));
    return named ? cli_format(" (context %" PRIu32 ")", model->contexts[context].id) : cli_copy("");
}

char *tell_who(const struct model *model, const struct finding *finding,
               const struct tell_options *options) {
    if (finding->example == WIRE_NONE)
        return NULL;
    struct who_part part = finding_who(model, finding);
    bool joined = finding->part_count > 0;
    int64_t functions = options->functions;
    /* show so many functions that the finding's own function is among them */
    if (functions == WHO_FUNCTIONS) {
        struct who_part own;
        int64_t wanted = find_own(model, finding, &own);
        functions = wanted > functions && wanted <= OWN_FUNCTIONS ? wanted : functions;
    }
    char *path = write_path(model, &part, joined ? finding->common.context : finding->example,
                            joined ? UINT32_MAX : finding->frames, functions, options);
    char *number = finding->contexts == 1 ? write_number(model, finding, finding->context) : NULL;
    struct who_part through;
    char *inner = !options->full && find_through(model, finding, &through)
                      ? who_write(model, &through, options->functions)
                      : NULL;
    char *text = number ? cli_format("%s%s", path, number)
                 : finding->contexts > 1
                     ? cli_format("%s, in %zu call paths%s%s%s", path, finding->contexts,
                                  inner ? ", nearly all through " : "", inner ? inner : "",
                                  joined ? ":" : "")
                     : cli_copy(path);
    free(inner);
    free(number);
    free(path);
    return text;
}

/* Groups of call paths with one text. */
struct told_part {
    char *path;
    double share;
    int64_t bytes;
    size_t contexts;
    uint32_t example;
};

static int by_share(const void *a, const void *b) {
    const struct told_part *left = a, *right = b;
    return left->share > right->share ? -1 : left->share < right->share;
}

/* Adds a group to the part with equal functions, or as a new part behind the others. Groups differ
 * by their return addresses, but a part shows functions only. So two groups with equal functions
 * would be printed as two equal lines. */
static size_t add_part(struct told_part *parts, size_t count, const struct finding_part *group,
                       char *path) {
    size_t i = 0;
    while (i < count && strcmp(parts[i].path, path) != 0)
        i++;
    if (i == count) {
        parts[i] =
            (struct told_part){path, group->share, group->bytes, group->contexts, group->example};
        return count + 1;
    }
    free(path);
    parts[i].share += group->share;
    parts[i].contexts += group->contexts;
    parts[i].bytes = parts[i].bytes == WIRE_UNKNOWN || group->bytes == WIRE_UNKNOWN
                         ? WIRE_UNKNOWN
                         : parts[i].bytes + group->bytes;
    return count;
}

static char *part_text(const struct model *model, const struct finding *finding,
                       const struct told_part *part) {
    char *bytes =
        part->bytes == WIRE_UNKNOWN ? cli_copy("") : cli_format(", %s", look_bytes(part->bytes));
    char *many = part->contexts > 1 ? cli_format(" (%zu call paths)", part->contexts)
                                    : write_number(model, finding, part->example);
    char *text = part->share < 0.005
                     ? cli_format("<1 %%%s: %s%s", bytes, part->path, many)
                     : cli_format("%.0f %%%s: %s%s", 100 * part->share, bytes, part->path, many);
    free(bytes);
    free(many);
    return text;
}

char **tell_parts(const struct model *model, const struct finding *finding,
                  const struct tell_options *options, size_t *count) {
    struct told_part *parts = cli_alloc(finding->part_count + 1, sizeof *parts);
    char **texts = cli_alloc(finding->part_count + 1, sizeof *texts);
    *count = 0;
    for (size_t i = 0; i < finding->part_count; i++) {
        const struct finding_part *group = &finding->parts[i];
        struct who_part part = part_who(model, finding, group);
        char *path =
            write_path(model, &part, group->example, group->frames, options->functions, options);
        *count = add_part(parts, *count, group, path);
    }
    qsort(parts, *count, sizeof *parts, by_share);
    for (size_t i = 0; i < *count; i++) {
        texts[i] = part_text(model, finding, &parts[i]);
        free(parts[i].path);
    }
    free(parts);
    return texts;
}

static void print_who(const struct model *model, const struct finding *finding, bool *explained,
                      const struct tell_options *options) {
    char *who = tell_who(model, finding, options);
    bool arrow = strstr(who, " < ") != NULL;
    print_labelled("who:", who);
    free(who);
    size_t count;
    char **texts = tell_parts(model, finding, options, &count);
    for (size_t i = 0; i < count; i++) {
        if (i == TELL_PARTS && !options->all)
            printf("%*sand %zu more\n", TEXT_COLUMN, "", count - i);
        if (i < TELL_PARTS || options->all) {
            arrow = arrow || strstr(texts[i], " < ");
            printf("%*s", TEXT_COLUMN, "");
            wrap_print(texts[i], TEXT_COLUMN, TEXT_COLUMN + 2);
        }
        free(texts[i]);
    }
    free(texts);
    if (arrow && !*explained) {
        *explained = true;
        printf("%*s(a < b: b called a)\n", TEXT_COLUMN, "");
    }
}

/* *explained: the text has already explained "<"; set after the first path with a "<". */
static void print_finding(const struct model *model, const struct finding *finding, size_t number,
                          bool *explained, const struct tell_options *options) {
    static const char *const colors[SEVERITIES] = {"\033[36m", "\033[33m", "\033[31m"};
    char head[32];
    const char *severity = severity_word(finding->severity);
    snprintf(head, sizeof head, "%zu. %s: ", number, severity);
    printf("\n%zu. %s%s%s: ", number, options->color ? colors[finding->severity] : "", severity,
           options->color ? "\033[0m" : "");
    char *amount =
        finding->bytes > 0 ? cli_format(", %s", look_bytes(finding->bytes)) : cli_copy("");
    char *title = cli_format("%s%s (%s)", finding->title, amount, finding->id);
    wrap_print(title, (unsigned)strlen(head), INDENT);
    free(title);
    free(amount);
    printf("%*s", INDENT, "");
    wrap_print(finding->evidence, INDENT, INDENT);
    if (finding->since)
        print_labelled("since:", finding->since);
    if (finding->out)
        print_labelled("out:", finding->out);
    if (finding->example != WIRE_NONE)
        print_who(model, finding, explained, options);
    print_labelled("why:", finding->why);
    if (finding->advice)
        print_labelled("fix:", finding->advice);
    if (finding->now)
        print_command("now:", finding->now, finding->now_effect);
    else if (finding->now_effect)
        print_labelled("now:", finding->now_effect);
    else if (finding->severity > SEVERITY_INFO && finding->example != WIRE_NONE &&
             look_may_act(model))
        print_labelled("now:", "no command returns this memory while these chunks are live");
    if (finding->sure)
        print_labelled("sure:", finding->sure);
    /* If nothing needs to be done, the command is not labelled as the next step. */
    bool harmless = finding->severity == SEVERITY_INFO && !finding->advice && !finding->verdict;
    if (finding->action && (!finding->now || strcmp(finding->now, finding->action) != 0))
        print_command(harmless ? "to see more: " : "next:", finding->action, NULL);
}

/* Says that there are too few marks to find leaks, and how to get more. `left_out`: number of marks
 * that samples_to_judge left out. */
static void print_few_marks(const struct findings_input *input, size_t marks, size_t left_out) {
    const struct model *model = input->model;
    bool recorded = model->recording;
    bool keeps = input->marks_kept && strcmp(input->marks_kept, "off") != 0;
    char *advice =
        recorded ? cli_copy("; a longer recording shows whether memory grows")
        : model->from_snapshot
            ? cli_copy(
                  "; a file has only the marks that its process kept, as with memctx run --marks "
                  "10m,24")
        : model->how /* no mark can be set in a process that does not answer */
            ? cli_format("; while the process does not answer, compare two files of memctx dump %s "
                         "-o FILE with memctx diff",
                         input->target)
            : keeps
                  ? cli_format("; the program keeps marks by itself (marks=%s), so look again when "
                               "it has kept three, or use --watch TIME",
                               input->marks_kept)
                  : cli_format(
                        "; set at least three, some time apart, with memctx mark %s NAME and "
                        "a new NAME each time, use --watch TIME, or let the program keep "
                        "marks: memctx set %s marks=10m,24",
                        input->target, input->target);
    char *more = left_out == 0 ? cli_copy("")
                               : cli_format(" (%zu more, set directly before another one or just "
                                            "now, %s not counted)",
                                            left_out, left_out == 1 ? "is" : "are");
    char *line =
        cli_format("%zu %s%s%s: too few to find leaks%s", marks,
                   recorded ? "earlier moment" : "mark", marks == 1 ? "" : "s", more, advice);
    putchar('\n');
    wrap_print(line, 0, 0);
    free(line);
    free(more);
    free(advice);
}

void tell_findings(const struct findings_input *input, const struct findings *findings,
                   const struct tell_options *options) {
    struct samples judged = samples_to_judge(input->samples);
    size_t marks = judged.count - 1; /* without those that show nothing */
    bool explained = false;
    char *verdict = tell_verdict(input, findings);
    free(judged.samples);
    wrap_print(verdict, 0, 0);
    free(verdict);
    print_process(input);
    print_largest(input, findings);
    for (size_t i = 0; i < findings->count; i++) {
        if (options->findings > 0 && i >= (size_t)options->findings && !options->all) {
            printf("\n%zu more: memctx doctor %s --all\n", findings->count - i, input->target);
            break;
        }
        print_finding(input->model, &findings->list[i], i + 1, &explained, options);
    }
    if (marks < 3)
        print_few_marks(input, marks, input->samples->count - judged.count);
}
