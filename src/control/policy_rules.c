/* SPDX-License-Identifier: MIT */
/* Rules for the placement of call paths; see policy_rules.h. */
#include "control/policy_rules.h"
#include "base/options.h"
#include "context/tree.h"
#include "control/elf_symbols.h"
#include "os/meta.h"
#include "region/heap.h"

#define TEXTS_BYTES 4096U
#define NODES_PER_TURN 65536U
#define MODULES_MAX 4096U /* names in others match no rule */

struct policy_rule {
    const char *pattern; /* ended by a 0, behind it the policy */
    bool of_modules;
    uint8_t placement;
};

struct range { /* of a function that matches, in the addresses of its file */
    uint64_t start, end;
    uint8_t rule; /* from 1 on */
};

static struct {
    struct policy_rule list[POLICY_RULES_MAX];
    uint32_t count;
    uint32_t seen;           /* contexts below it were looked at */
    char texts[TEXTS_BYTES]; /* of all rules, each ended by a 0 */
    size_t texts_used;
    uint8_t *matched[PLACED_LEAVES]; /* by context: the rule of its path, from 1 on */
    struct names {
        struct range *ranges; /* by where they start; none begins where another does */
        uint32_t count, capacity;
        uint8_t module_rule; /* that holds for all of it */
        bool read;
    } * modules; /* by number; MODULES_MAX of them, made with the first rule */
} state;

static const char *const words[PLACE_COUNT] = {
    [PLACE_DEFAULT] = "default",       [PLACE_APART] = "aset",
    [PLACE_SHARED] = "mixed",          [PLACE_SLAB] = "slab",
    [PLACE_GENERATION] = "generation", [PLACE_BUMP] = "bump"};

/* --- patterns ------------------------------------------------------------------------------------ */

/* * and ?, of the first `length` bytes of a name. */
static bool glob(const char *pattern, const char *name, size_t length) {
    const char *star = NULL, *from = name, *end = name + length;
    while (name < end) {
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*pattern && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

/* The parts of a mangled name that are names themselves: each has its length in front. */
static bool glob_mangled(const char *pattern, const char *symbol) {
    size_t all = text_length(symbol);
    for (size_t i = 2; i < all;) {
        size_t length = 0, digits = i;
        while (symbol[digits] >= '0' && symbol[digits] <= '9' && length < all)
            length = length * 10 + (size_t)(symbol[digits++] - '0');
        if (digits == i || !length || length > all - digits) {
            i = digits == i ? i + 1 : digits;
            continue;
        }
        if (glob(pattern, symbol + digits, length))
            return true;
        i = digits + length;
    }
    return false;
}

/* What compilers put behind the name of a part of a function (.part.0, .cold) is not the name's. */
static bool matches_function(const char *pattern, const char *symbol) {
    size_t length = 0;
    while (symbol[length] && (symbol[length] != '.' || !length))
        length++;
    if (symbol[0] == '_' && symbol[1] == 'Z' && glob_mangled(pattern, symbol))
        return true;
    return glob(pattern, symbol, length);
}

static const char *base_name(const char *path) {
    const char *base = path;
    for (; *path; path++)
        if (*path == '/' && path[1])
            base = path + 1;
    return base;
}

/* --- objects ------------------------------------------------------------------------------------- */

static void add_range(const char *name, uint64_t start, uint64_t end, void *context) {
    struct names *names = context;
    for (uint32_t i = 0; i < state.count; i++) {
        if (state.list[i].of_modules || !matches_function(state.list[i].pattern, name))
            continue;
        if (names->count == names->capacity) {
            uint32_t capacity = names->capacity ? names->capacity * 2 : 64;
            struct range *ranges = meta_alloc(capacity * sizeof *ranges);
            struct range *before = names->ranges;
            size_t bytes = names->capacity * sizeof *ranges;
            if (!ranges)
                return;
            if (names->count)
                __builtin_memcpy(ranges, before, names->count * sizeof *ranges);
            names->ranges = ranges; /* first: a fork may come at any time */
            names->capacity = capacity;
            meta_free(before, bytes);
        }
        names->ranges[names->count++] = (struct range){start, end, (uint8_t)(i + 1)};
        return;
    }
}

static bool is_behind(const struct range *a, const struct range *b) {
    return a->start != b->start ? a->start > b->start : a->rule > b->rule;
}

/* Sorted by Shell's method; of several with the same start, which are names of one function, the first rule's stays. */
static void sort_ranges(struct names *names) {
    struct range *ranges = names->ranges;
    uint32_t gap = 1, kept = 0;
    while (gap < names->count / 3)
        gap = gap * 3 + 1;
    for (; gap; gap /= 3)
        for (uint32_t i = gap; i < names->count; i++) {
            struct range moved = ranges[i];
            uint32_t at = i;
            for (; at >= gap && is_behind(&ranges[at - gap], &moved); at -= gap)
                ranges[at] = ranges[at - gap];
            ranges[at] = moved;
        }
    for (uint32_t i = 0; i < names->count; i++)
        if (!kept || ranges[kept - 1].start != ranges[i].start)
            ranges[kept++] = ranges[i];
        else if (ranges[kept - 1].end < ranges[i].end)
            ranges[kept - 1].end = ranges[i].end;
    names->count = kept;
}

/* The rule of the function that an address of a file is in; 0: none. */
static uint8_t rule_of_address(const struct names *names, uint64_t address) {
    uint32_t low = 0, high = names->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (names->ranges[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < names->ranges[low - 1].end ? names->ranges[low - 1].rule : 0;
}

static struct names *names_of(uint32_t module) {
    struct names *names = module < MODULES_MAX ? &state.modules[module] : NULL;
    if (!names || names->read)
        return names;
    const struct module *object = rules_module(module);
    names->count = 0; /* a fork may have come while it was read */
    for (uint32_t i = state.count; i-- > 0;)
        if (state.list[i].of_modules && glob(state.list[i].pattern, base_name(object->path),
                                             text_length(base_name(object->path))))
            names->module_rule = (uint8_t)(i + 1);
    /* Not with the program's descriptors, which it may close. */
    if (control_has_own_descriptors() && elf_each_function(object, add_range, names))
        sort_ranges(names);
    names->read = true;
    return names;
}

static uint8_t first_of(uint8_t a, uint8_t b) {
    return !a || (b && b < a) ? b : a;
}

/* The first rule that holds for a frame; 0: none. */
static uint8_t rule_of_frame(const struct tree_node *node) {
    const struct names *names =
        node->module < MODULE_NAMED && node->address ? names_of(node->module) : NULL;
    if (!names)
        return 0;
    /* A return address may already belong to the next function. */
    uint64_t address = node->address - (node->exact ? 0 : 1) - rules_module(node->module)->bias;
    return first_of(names->module_rule, rule_of_address(names, address));
}

static void forget_names(void) {
    for (uint32_t i = 0; i < rules_module_count() && i < MODULES_MAX; i++) {
        struct names *names = &state.modules[i];
        struct range *before = names->ranges;
        size_t bytes = names->capacity * sizeof *before;
        *names = (struct names){0};
        if (before)
            meta_free(before, bytes);
    }
}

/* --- contexts ------------------------------------------------------------------------------------ */

unsigned policy_rules_of(uint32_t context) {
    const uint8_t *leaf =
        context / PLACED_PER_LEAF < PLACED_LEAVES ? state.matched[context / PLACED_PER_LEAF] : NULL;
    return leaf ? leaf[context % PLACED_PER_LEAF] : 0;
}

/* False: out of memory. */
static bool set_rule(uint32_t context, uint8_t rule) {
    uint8_t **leaf = &state.matched[context / PLACED_PER_LEAF];
    if (!*leaf && !(*leaf = meta_alloc(PLACED_PER_LEAF)))
        return false;
    (*leaf)[context % PLACED_PER_LEAF] = rule;
    return true;
}

/* True: it stands elsewhere from now on. */
static bool place_by_rule(uint32_t context, uint8_t rule, uint8_t before) {
    uint8_t *byte = heap_placed_byte(context);
    enum placement placement =
        rule ? (enum placement)state.list[rule - 1].placement : PLACE_DEFAULT;
    if (!byte || *byte & PLACED_BY_HAND || (!rule && !before) ||
        heap_placement(context) == placement)
        return false;
    return heap_place(context, placement);
}

bool policy_rules_exist(void) {
    return state.count;
}

void policy_rules_apply(void) {
    uint32_t count = tree_count();
    bool moved = false;
    if (count > PLACED_LEAVES * PLACED_PER_LEAF)
        count = PLACED_LEAVES * PLACED_PER_LEAF;
    if (count - state.seen > NODES_PER_TURN)
        count = state.seen + NODES_PER_TURN;   /* others wait, too */
    for (; state.seen < count; state.seen++) { /* parents come before their children */
        const struct tree_node *node = tree_node(state.seen);
        uint8_t before = (uint8_t)policy_rules_of(state.seen);
        uint8_t rule = state.seen ? (uint8_t)policy_rules_of(node->parent) : 0;
        rule = first_of(rule, state.count ? rule_of_frame(node) : 0);
        if ((rule || before) && set_rule(state.seen, rule))
            moved |= place_by_rule(state.seen, rule, before);
    }
    if (!moved)
        return;
    lock_take(&heap_global.lock);
    heaps_reconsider();
    lock_release(&heap_global.lock);
}

/* --- rules as text -------------------------------------------------------------------------------- */

static void refuse(struct text *text, const char *rule, size_t length, const char *why) {
    text_add(text, "the rule \"");
    text_add_bytes(text, rule, length > 60 ? 60 : length);
    text_add(text, "\" is not understood: ");
    text_add(text, why);
}

/* False: said in `text`. */
static bool add_rule(const char *rule, size_t length, struct text *text) {
    static const char modules[] = "module:";
    size_t equals = length;
    while (equals && rule[equals - 1] != '=')
        equals--;
    struct policy_rule *new = &state.list[state.count];
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)rule[i] < ' ') {
            refuse(text, rule, 0, "it has a control character");
            return false;
        }
    if (equals < 2) {
        refuse(text, rule, length, "it is PATTERN=POLICY");
        return false;
    }
    if (state.count == POLICY_RULES_MAX || state.texts_used + length + 1 > TEXTS_BYTES) {
        refuse(text, rule, length, "there are too many");
        return false;
    }
    char *copy = state.texts + state.texts_used;
    __builtin_memcpy(copy, rule, length);
    copy[length] = copy[equals - 1] = 0;
    size_t skip = 0;
    while (skip < sizeof modules - 1 && copy[skip] == modules[skip])
        skip++;
    bool of_modules = skip == sizeof modules - 1;
    *new = (struct policy_rule){.pattern = of_modules ? copy + skip : copy,
                                .of_modules = of_modules,
                                .placement = PLACE_COUNT};
    for (unsigned i = 0; i < PLACE_COUNT; i++)
        if (text_equal(words[i], copy + equals))
            new->placement = (uint8_t)i;
    if (new->placement == PLACE_COUNT || !*new->pattern) {
        refuse(text, rule, length,
               *new->pattern ? "the policies are default, aset, mixed, slab, generation and bump"
                             : "it has no name");
        return false;
    }
    if (!state.modules && !(state.modules = control_map(MODULES_MAX * sizeof *state.modules))) {
        text_add(text, "no memory for rules");
        return false;
    }
    state.texts_used += length + 1;
    state.count++;
    return true;
}

void policy_rules_init(const char *rules, struct text *warnings) {
    while (rules && *rules) {
        size_t length = 0;
        while (*rules == ' ' || *rules == '\n' || *rules == '\t')
            rules++;
        while (rules[length] && rules[length] != ';' && rules[length] != '\n')
            length++;
        if (length) {
            size_t before = warnings->length;
            text_add(warnings, "memctx: MEMCTX_RULES: ");
            if (add_rule(rules, length, warnings))
                warnings->length = before;
            else
                text_add(warnings, "\n");
        }
        rules += length + (rules[length] != 0);
    }
}

static void look_again(void) {
    forget_names();
    state.seen = 0;
    policy_rules_apply();
}

static void describe(struct text *text) {
    int64_t contexts[POLICY_RULES_MAX + 1] = {0}, bytes[POLICY_RULES_MAX + 1] = {0};
    int64_t chunks[POLICY_RULES_MAX + 1] = {0};
    struct sums sums;
    if (!sums_collect(&sums, false))
        return;
    for (uint32_t i = 0; i < sums.count; i++) {
        const struct sum *sum = &sums.rows[i];
        unsigned rule = policy_rules_of(i);
        if (rule > state.count || (!sum->allocs && !sum->frees))
            continue;
        contexts[rule]++;
        bytes[rule] += sum->live_bytes;
        chunks[rule] += sum->allocs - sum->frees;
    }
    sums_free(&sums);
    for (uint32_t i = 0; i < state.count; i++) {
        const struct policy_rule *rule = &state.list[i];
        text_add(text, rule->of_modules ? "module:" : "");
        text_add(text, rule->pattern);
        text_add(text, "=");
        text_add(text, words[rule->placement]);
        const int64_t figures[] = {contexts[i + 1], bytes[i + 1], chunks[i + 1]};
        for (int k = 0; k < 3; k++) {
            text_add(text, "\t");
            text_add_number(text, figures[k]);
        }
        text_add(text, "\n");
    }
}

uint32_t policy_rules_run(const char *body, struct text *text) {
    if (text_equal(body, "list")) {
        policy_rules_apply();
        describe(text);
        return WIRE_OK;
    }
    if (text_equal(body, "clear")) {
        state.count = 0;
        state.texts_used = 0;
        if (state.modules)
            look_again();
        text_add(text, "no rules");
        return WIRE_OK;
    }
    if (!add_rule(body, text_length(body), text))
        return WIRE_REFUSED;
    look_again();
    text_add(text, "added");
    return WIRE_OK;
}
