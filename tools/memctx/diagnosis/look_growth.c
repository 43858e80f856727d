/* SPDX-License-Identifier: MIT */
/* look_growth.c - finds call paths whose memory keeps growing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/forecast.h"
#include "diagnosis/garbage.h"
#include "diagnosis/growth.h"
#include "diagnosis/join.h"
#include "diagnosis/origin.h"
#include "diagnosis/paired.h"
#include "diagnosis/replaced.h"
#include "diagnosis/rhythm.h"
#include "diagnosis/tell_growth.h"
#include "diagnosis/turns.h"

#define LOADER_MOST MIB         /* growth of the dynamic loader's memory by less is no leak */
#define SUSPECT_BYTES (4 * KIB) /* paths that grew by less are judged only together with others */
#define CHUNKS_MIN 16 /* growth by fewer chunks than this must reach a higher floor of bytes */
/* if CHUNKS_MIN chunks or more became larger, by LARGER_BYTES in all, their growth is judged like
 * growth by new chunks */
#define LARGER_BYTES (256 * KIB)
#define EVEN_CHUNKS 64 /* even growth by fewer chunks than this is not told if it is small */
/* Limits for growth that is spread over many paths: least and most number of paths (the search
 * takes time), least number of intervals; SPREAD_PART: one path has at most 1/SPREAD_PART of all
 * growth. */
#define SPREAD_PATHS 8
#define SPREAD_PATHS_MOST 50000
#define SPREAD_INTERVALS 3
#define SPREAD_PART 16
/* Spread growth is told with another finding only if that finding is AROUND_TIMES times as large.
 */
#define AROUND_TIMES 2
#define NOISE_PART 1000 /* growth by less than 1/NOISE_PART of the resident set is no warning */
/* If a finding's chunks take less than this for each new thread, the threads' stacks may be larger.
 * The rate of the chunks then does not tell when memory will be used up. */
#define CHUNKS_BELOW_STACK (64 * KIB)
/* An array has been filled if no element is new for FILLED_INTERVALS. Paths that grew by less than
 * 1/FILLED_PART of the last step are not looked at. By chance, elements change by 1/FILLED_CHANGED.
 */
#define FILLED_INTERVALS 3
#define FILLED_PART 16
#define FILLED_CHANGED 64

static enum severity growth_severity(const struct look *look, size_t intervals,
                                     const struct growth *growth) {
    if (growth->slowing || growth->by_load || growth->garbage || growth->seldom || growth->swings ||
        intervals < 3 || growth->a_day < 64.0 * (double)MIB)
        return SEVERITY_INFO; /* the program may still be starting or filling a cache */
    if (growth->kind == TREND_STEPS && !growth->line.steady)
        return SEVERITY_INFO; /* a table may have reached its full size */
    /* so small a part may come and go by chance; a longer watch shows whether it stays */
    if (growth->bytes < look->rss_bytes / NOISE_PART)
        return SEVERITY_INFO;
    return growth->bytes >= floor_of(look, 16 * MIB, 10) && !growth_may_be_filling(growth)
               ? SEVERITY_CRITICAL
               : SEVERITY_WARNING;
}

/* True if many chunks became larger, though they grew by less than the floor for few chunks. */
static bool are_many_larger(const struct growth *growth) {
    return growth->kind != TREND_STEPS && growth->live >= CHUNKS_MIN &&
           growth->bytes >= LARGER_BYTES && growth_made_chunks_larger(growth);
}

/* Returns the straight growth of a suspect. The rate is 0 if the growth is not straight or slows
 * down. */
static struct forecast forecast_of(const struct series *series, const struct growth *growth) {
    const struct trend_line *line = &growth->line;
    if (!line->steady || growth->slowing || growth->by_load || growth->swings)
        return (struct forecast){0};
    return (struct forecast){.bytes_per_s = line->slope,
                             .since_s = series->seconds[line->from],
                             .step_s =
                                 series->seconds[line->from + 1] - series->seconds[line->from],
                             .began = line->from > 0,
                             .rough = growth->kind == TREND_STEPS};
}

/* If the growth is straight, tells its rate, and adds it to finding->use, from which
 * forecast_tell_ends makes the texts `out`. `ends`: this finding gets such a text, too. */
static void tell_forecast(struct look *look, struct finding *finding, const struct series *series,
                          const struct blame_suspect *suspect, const struct growth *growth,
                          bool ends) {
    struct forecast forecast = forecast_of(series, growth);
    if (forecast.bytes_per_s <= 0)
        return;
    forecast_measure(look, suspect, &forecast);
    forecast_tell_rate(look, finding, &forecast);
    forecast_use(finding, &forecast);
    finding->use.ends = ends;
}

/* True if growth that is too small for a warning is told all the same. Chance hardly adds about as
 * many chunks in each of many intervals: such growth may be a leak of a few chunks in a large
 * program. */
static bool is_certain(const struct growth *growth) {
    return growth->even && !growth->slowing && !growth->by_load && !growth->garbage &&
           !growth->swings && growth->chunks >= EVEN_CHUNKS;
}

/* True if the growth in steps is that of a list or a table of a script, while the memory of all
 * other paths did not grow in the second half of the time. The objects in such a list are chunks of
 * their own, so a list to which a script adds objects does not grow alone. But a table whose
 * entries are replaced grows in steps, too, when its places for new entries are used up. */
static bool is_list_alone(const struct look *look, const struct series *series,
                          const struct blame_suspect *suspect, const struct growth *growth) {
    size_t last = series->samples->count - 1, middle = last / 2;
    if (growth->kind != TREND_STEPS || !origin_is_script(look, suspect))
        return false;
    int64_t others = 0;
    for (size_t i = 0; i < look->model->figures_count; i++)
        if (look->paths.same[i] == i)
            others = model_tame(others + series->rows[last][i].requested_bytes -
                                series->rows[middle][i].requested_bytes);
    for (size_t k = 0; k < suspect->count; k++) {
        uint32_t number = blame_number(&look->paths, suspect->members[k]);
        if (look->paths.same[number] == number)
            others = model_tame(others - series->rows[last][number].requested_bytes +
                                series->rows[middle][number].requested_bytes);
    }
    return others < growth->bytes / 4;
}

/* Returns the innermost function of the program on a path; its context is WIRE_NONE if there is
 * none. */
static struct who_step find_meaning(const struct model *model, uint32_t context) {
    struct who_step step = who_first(model, context);
    while (step.context != WIRE_NONE && who_kind_of(model, step) != WHO_MEANS)
        step = who_next(model, step);
    return step;
}

/* The rows of `number` have the bytes of an array. Returns the newest sample, at most `last`, at
 * which they differ from those of the sample before; 0: at none. */
static size_t find_step(const struct series *series, size_t number, size_t last) {
    while (last > 0 && series->rows[last][number].requested_bytes ==
                           series->rows[last - 1][number].requested_bytes)
        last--;
    return last;
}

static int64_t bytes_between(const struct series *series, size_t number, size_t from, size_t to) {
    return series->rows[to][number].requested_bytes - series->rows[from][number].requested_bytes;
}

/* True if the growth in steps is that of an array that the program has filled: between the last two
 * steps other memory grew below the function that makes the array larger, half as much as the last
 * step or more, and has not changed since then. A load of data ends like this: its elements own
 * memory, and there are no new elements. */
static bool has_been_filled(const struct look *look, const struct series *series,
                            const struct blame_suspect *suspect, const struct growth *growth) {
    uint32_t own = blame_number(&look->paths, suspect->members[0]);
    size_t last = series->samples->count - 1, step = find_step(series, own, last);
    size_t before = step > 0 ? find_step(series, own, step - 1) : 0;
    struct who_step function = find_meaning(look->model, suspect->members[0]);
    if (growth->kind != TREND_STEPS || suspect->count > 1 || last - step < FILLED_INTERVALS ||
        before == 0 || function.context == WIRE_NONE)
        return false;
    int64_t rise = bytes_between(series, own, step - 1, step), grown = 0, changed = 0;
    for (size_t i = 1; i < look->model->figures_count; i++) {
        int64_t more = bytes_between(series, i, before, step);
        uint32_t context = model_figures_at(look->model, i)->context;
        if (look->paths.same[i] != i || i == own || context == WIRE_NONE ||
            more < rise / FILLED_PART ||
            who_find(look->model, who_first(look->model, context), function).context == WIRE_NONE)
            continue;
        int64_t since = bytes_between(series, i, step, last);
        grown = model_tame(grown + more);
        changed = model_tame(changed + (since < 0 ? -since : since));
    }
    return grown >= rise / 2 && changed <= grown / FILLED_CHANGED;
}

/* Adds a finding for each suspect. */
static void tell_all(struct look *look, const struct rule *rule, const struct blame *blame,
                     struct series *series, const struct growth *growths) {
    size_t intervals = look->input->samples->count - 1;
    int64_t floor = floor_of(look, MIB, 1);
    for (size_t i = 0; i < blame->count; i++) {
        const struct blame_suspect *suspect = &blame->suspects[i];
        struct growth growth = growth_of_suspect(look, series, growths, suspect);
        enum severity severity = growth_severity(look, intervals, &growth);
        if (growth.bytes < LOADER_MOST && origin_is_loader(look, suspect))
            severity = SEVERITY_INFO; /* plug-ins that are loaded one after the other */
        if (is_list_alone(look, series, suspect, &growth) ||
            has_been_filled(look, series, suspect, &growth))
            severity = SEVERITY_INFO;
        if (severity == SEVERITY_INFO && growth.bytes < floor && !is_certain(&growth))
            continue;
        struct finding *finding = tell_growth(look, rule, severity, suspect, &growth);
        bool with_stacks =
            growth.per_thread > 0 && growth.bytes / growth.threads < CHUNKS_BELOW_STACK;
        tell_forecast(look, finding, series, suspect, &growth, !with_stacks);
    }
}

static int64_t bytes_grown(const struct series *series, size_t number) {
    return series->rows[series->samples->count - 1][number].requested_bytes -
           series->rows[0][number].requested_bytes;
}

static bool is_little(const struct sample_row *from, const struct sample_row *to, int64_t floor) {
    int64_t chunks = to->live_chunks - from->live_chunks;
    int64_t bytes = to->requested_bytes - from->requested_bytes;
    return chunks < CHUNKS_MIN && chunks > -CHUNKS_MIN && bytes < floor && bytes > -floor;
}

/* True if the path's change is too small for a finding of its own. A path with several addresses of
 * one source line is small if the change is small at each of them. */
static bool is_small(const struct look *look, const struct series *series, size_t number,
                     int64_t floor) {
    const struct sample *first = &series->samples->samples[0];
    const struct sample *last = &series->samples->samples[series->samples->count - 1];
    bool little = is_little(&series->rows[0][number],
                            &series->rows[series->samples->count - 1][number], floor);
    if (little || !blame_has_copies(&look->paths, (uint32_t)number))
        return little;
    for (uint32_t i = (uint32_t)number; i != 0; i = look->paths.next[i])
        if (!is_little(&first->rows[i], &last->rows[i], floor))
            return false;
    return bytes_grown(series, number) < floor;
}

/* Returns the most bytes by which a path of spread growth may grow or shrink: 1/SPREAD_PART of the
 * growth of all paths that are not `taken`. A path that grew in one interval only is no suspect,
 * but may be one of many paths that grow in turns. */
static int64_t one_of_many(const struct look *look, const struct series *series,
                           const bool *taken) {
    int64_t grown = 0;
    for (size_t i = 1; i < look->model->figures_count; i++)
        if (look->paths.same[i] == i && !taken[i])
            grown = model_tame(grown + larger(0, bytes_grown(series, i)));
    return grown / SPREAD_PART;
}

/* Sums the growth of the paths that are not `taken` and are small (is_small) or at most
 * one_of_many. Sets figures[i] to the growth of such a path in bytes, or 0. Paths that are not
 * small set *little if they changed by less than SUSPECT_BYTES, else *at_once. Returns the growth
 * of the sum; its kind is TREND_NONE if paths shrank by more than a quarter of the growth, or if
 * the sum grew in waves. */
static struct growth add_small(const struct look *look, struct series *series, const bool *taken,
                               int64_t floor, int64_t *figures, bool *at_once, bool *little) {
    int64_t grown = 0, lost = 0, most = one_of_many(look, series, taken);
    *at_once = *little = false;
    for (size_t i = 1; i < look->model->figures_count; i++) {
        int64_t bytes = bytes_grown(series, i);
        bool small = is_small(look, series, i, floor);
        figures[i] = 0;
        if (look->paths.same[i] != i || taken[i] || (!small && (bytes > most || bytes < -most)))
            continue;
        bool few_bytes = bytes < SUSPECT_BYTES && bytes > -SUSPECT_BYTES;
        *at_once |= !small && !few_bytes;
        *little |= !small && few_bytes;
        figures[i] = larger(bytes, 0);
        grown = model_tame(grown + figures[i]);
        lost = model_tame(lost + larger(-bytes, 0));
        series_add(series, i);
    }
    struct growth growth = growth_of(series, series->sum);
    if (lost > grown / 4 || growth.kind == TREND_WAVES)
        growth.kind = TREND_NONE;
    return growth;
}

/* Returns the command that shows how each path grew: memctx diff with the first look. Returns NULL
 * if the first look is not a mark, or a shell would change the mark's name. The caller frees the
 * text. */
static char *diff_since_first(const struct look *look) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    double first_s = look->input->samples->samples[0].uptime_s;
    for (size_t i = 0; i < look->model->mark_count; i++) {
        const struct model_mark *mark = &look->model->marks[i];
        if (mark->uptime_s == first_s && mark->name[strspn(mark->name, plain)] == '\0')
            /* the marks of a recording have names such as -2h05m00s */
            return mark->name[0] == '-' ? cli_format("memctx diff %s --limit 100 -- %s",
                                                     look->input->target, mark->name)
                                        : cli_format("memctx diff %s %s --limit 100",
                                                     look->input->target, mark->name);
    }
    return NULL;
}

/* Returns a finding about growth that is at least AROUND_TIMES times as large as the suspect, at
 * least as severe as `severity`, and whose function also has the suspect's paths below it. NULL:
 * there is none. */
static struct finding *find_around(const struct look *look, const struct rule *rule,
                                   const struct blame_suspect *suspect, enum severity severity) {
    for (size_t i = 0; i < look->findings->count; i++) {
        struct finding *finding = &look->findings->list[i];
        if (strcmp(finding->id, rule->id) == 0 && finding->part_count > 0 &&
            finding->severity >= severity && finding->bytes / AROUND_TIMES >= suspect->figure &&
            who_find(look->model, suspect->common, finding->common).context != WIRE_NONE)
            return finding;
    }
    return NULL;
}

/* Adds a sentence to a finding that has the same cause as a suspect whose growth is straight. Takes
 * over `sentence`. */
static void tell_around(struct look *look, struct finding *around, const struct series *series,
                        const struct blame_suspect *suspect, const struct growth *growth,
                        char *sentence) {
    char *before = around->evidence;
    around->evidence = cli_format("%s; %s", before, sentence);
    free(before);
    free(sentence);
    struct forecast forecast = forecast_of(series, growth);
    if (forecast.bytes_per_s > 0) {
        forecast_measure(look, suspect, &forecast);
        forecast_use(around, &forecast);
    }
}

/* Returns the name of the function that a joined suspect's paths share. The caller frees it. */
static char *name_common(const struct look *look, const struct blame_suspect *suspect) {
    const struct who_part part = {
        .from = suspect->common, .end = {.context = WIRE_NONE}, .keeps_first = true};
    return who_write_short(look->model, &part);
}

/* Adds a finding for each suspect whose paths make chunks larger in turn (turns.h). If a suspect
 * has the same cause as another finding, adds a sentence to that finding instead. */
static void tell_turns(struct look *look, const struct rule *rule, struct series *series,
                       const struct growth *growths, const struct blame *turns) {
    size_t intervals = series->samples->count - 1;
    int64_t floor = floor_of(look, MIB, 1);
    for (size_t i = 0; i < turns->count; i++) {
        const struct blame_suspect *suspect = &turns->suspects[i];
        struct growth growth = growth_of_suspect(look, series, growths, suspect);
        enum severity severity = growth_severity(look, intervals, &growth);
        if (growth.bytes < floor && !are_many_larger(&growth))
            continue;
        struct finding *around = find_around(look, rule, suspect, severity);
        if (around) {
            char *function = name_common(look, suspect);
            tell_around(look, around, series, suspect, &growth,
                        cli_format("chunks that %s makes larger grew by %s", function,
                                   look_bytes(growth.bytes)));
            free(function);
            continue;
        }
        struct finding *finding = tell_growth(look, rule, severity, suspect, &growth);
        char *before = finding->evidence;
        finding->evidence = cli_format("%s; these call paths make the same chunks larger in turn, "
                                       "so each path has them only for a while",
                                       before);
        free(before);
        tell_forecast(look, finding, series, suspect, &growth, true);
    }
}

/* Adds a finding for growth that is spread over the suspect's paths. If it has the same cause as
 * another finding, adds a sentence to that finding instead. */
static void tell_spread(struct look *look, const struct rule *rule, struct series *series,
                        const struct blame_suspect *suspect, struct growth *growth, bool at_once,
                        bool little) {
    enum severity severity = growth_severity(look, series->samples->count - 1, growth);
    struct finding *around = find_around(look, rule, suspect, severity);
    if (around) {
        char *function = name_common(look, suspect);
        tell_around(look, around, series, suspect, growth,
                    cli_format("below the function that these paths share, %zu more call paths "
                               "(%s) grew by %s in all, each too little or too unevenly to be "
                               "judged alone",
                               suspect->count, function, look_bytes(suspect->figure)));
        free(function);
        return;
    }
    struct finding *finding = tell_growth(look, rule, severity, suspect, growth);
    char *evidence = finding->evidence;
    finding->evidence =
        at_once && !little
            ? cli_format("%s; it is spread: none of the %zu call paths alone grew in each "
                         "interval, but many in turns",
                         evidence, finding->contexts)
        : at_once ? cli_format(
                        "%s; it is spread: each of the %zu call paths alone grew too little or too "
                        "unevenly to be judged alone",
                        evidence, finding->contexts)
                  : cli_format("%s; it is spread: each of the %zu call paths alone grew by fewer "
                               "than %d chunks and %s%s",
                               evidence, finding->contexts, CHUNKS_MIN,
                               look_bytes(floor_of(look, MIB, 1)),
                               little ? ", or by less than 4.0 KiB" : "");
    free(evidence);
    char *diff = look_is_python(look->model) ? NULL : diff_since_first(look);
    if (diff) {
        free(finding->action);
        finding->action = diff;
    }
    tell_forecast(look, finding, series, suspect, growth, true);
}

/* Adds a finding for growth that is spread over many call paths, none of which is large enough for
 * its own finding. `taken`: the paths that are judged alone, as members of a suspect. Needs at
 * least four looks. */
static void look_for_spread(struct look *look, const struct rule *rule, struct series *series,
                            const bool *taken) {
    size_t intervals = series->samples->count - 1, paths = 0;
    int64_t floor = floor_of(look, MIB, 1);
    int64_t *figures = cli_alloc(look->model->figures_count, sizeof *figures);
    bool at_once, little;
    struct growth growth = add_small(look, series, taken, floor, figures, &at_once, &little);
    for (size_t i = 0; i < look->model->figures_count; i++)
        paths += figures[i] > 0;
    struct blame blame = {.count = 0};
    if (intervals >= SPREAD_INTERVALS && growth.kind != TREND_NONE && !growth.slowing &&
        !growth.by_load && growth.bytes >= floor && paths >= SPREAD_PATHS &&
        paths <= SPREAD_PATHS_MOST) {
        blame_make(&blame, &look->paths, figures, 1);
        join_everything(&blame, &look->paths, figures);
    }
    struct blame_suspect *suspect = blame.suspects;
    if (blame.count > 0 && suspect->joined && suspect->figure >= floor) {
        double part = (double)suspect->figure / (double)growth.bytes;
        growth.a_day *= part;
        growth.chunks = (int64_t)((double)growth.chunks * part);
        growth.bytes = suspect->figure;
        growth.garbage = garbage_may_be(look, series, suspect, &growth);
        tell_spread(look, rule, series, suspect, &growth, at_once, little);
    }
    blame_free(&blame);
    free(figures);
}

/* Sets `taken` for the paths of all suspects. */
static void take_members(const struct look *look, const struct blame *blame, bool *taken) {
    for (size_t i = 0; i < blame->count; i++)
        for (size_t k = 0; k < blame->suspects[i].count; k++)
            taken[blame_number(&look->paths, blame->suspects[i].members[k])] = true;
}

void look_for_growth(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    size_t intervals = look->input->samples->count - 1;
    int64_t floor = floor_of(look, MIB, 1);
    if (intervals == 0)
        return;
    struct series series;
    series_make(&series, look);
    struct growth *growths = cli_alloc(model->figures_count, sizeof *growths);
    int64_t *figures = cli_alloc(model->figures_count, sizeof *figures);
    for (size_t i = 0; i < model->figures_count; i++) {
        if (look->paths.same[i] == i)
            growths[i] = growth_of(&series, i);
        if ((growths[i].chunks >= CHUNKS_MIN && !is_small(look, &series, i, floor)) ||
            growths[i].bytes >= floor ||
            (are_many_larger(&growths[i]) && look_resizes(look, i).grows >= CHUNKS_MIN))
            figures[i] = growths[i].bytes;
    }
    struct blame blame, turns;
    turns_find(look, &series, growths, figures, &turns);
    paired_find(look, &series, growths, figures);
    blame_make(&blame, &look->paths, figures, SUSPECT_BYTES);
    bool *taken = cli_alloc(model->figures_count, sizeof *taken);
    take_members(look, &turns, taken);
    take_members(look, &blame, taken);
    bool *dropped = replaced_find(look, &series, growths, &turns);
    blame_drop(&turns, dropped);
    free(dropped);
    dropped = replaced_find(look, &series, growths, &blame);
    for (size_t i = 0; i < blame.count; i++) {
        struct blame_suspect *suspect = &blame.suspects[i];
        /* Beside such a path the load swings, so other paths shrink for that reason. */
        dropped[i] = dropped[i] && !growths[blame_number(&look->paths, suspect->members[0])].beside;
        blame_add_alike(&look->paths, suspect);
        /* A cache that fills, or memory that follows the load, is not joined with a leak. */
        struct growth growth = growth_of_suspect(look, &series, growths, suspect);
        suspect->group = growth.slowing || growth.by_load;
    }
    blame_drop(&blame, dropped);
    free(dropped);
    rhythm_divide(look, &series, &blame);
    int64_t *chunks = cli_alloc(model->figures_count, sizeof *chunks);
    for (size_t i = 0; i < model->figures_count; i++)
        chunks[i] = growths[i].chunks;
    join_suspects(&blame, &look->paths, figures, chunks);
    free(chunks);
    rhythm_join(look, &series, &blame);
    tell_all(look, rule, &blame, &series, growths);
    tell_turns(look, rule, &series, growths, &turns);
    look_for_spread(look, rule, &series, taken);
    look_filling(look, rule, taken);
    free(taken);
    blame_free(&blame);
    blame_free(&turns);
    series_free(&series);
    free(growths);
    free(figures);
}
