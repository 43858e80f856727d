/* SPDX-License-Identifier: MIT */
/* Rules for the placement of call paths; see rules.h. */
#include "rules/rules.h"
#include "base/options.h"
#include "context/tree.h"
#include "os/meta.h"
#include "region/policy.h"
#include "region/terms.h"
#include "rules/dwarf_units.h"
#include "rules/elf_symbols.h"
#include "rules/regex.h"

#include <link.h>

#define TEXTS_BYTES 4096U
#define NODES_PER_TURN 65536U
#define LIMITS_EVERY 10U /* turns */

enum rule_kind { OF_FUNCTIONS, OF_MODULES, OF_FILES, OF_EXPRESSIONS, OF_CONTEXT, RULE_KINDS };

struct policy_rule {
    const char *text;    /* all of it */
    const char *pattern; /* behind its kind; ended by the = */
    struct regex *regex; /* OF_EXPRESSIONS */
    uint32_t context;    /* OF_CONTEXT */
    uint8_t kind, placement;
};

struct
    range { /* of a function, or of a part of a source file, that matches, in the addresses of its object */
    uint64_t start, end;
    uint8_t rule; /* from 1 on */
};

static struct {
    struct policy_rule list[POLICY_RULES_MAX];
    uint32_t count;
    uint32_t seen;           /* contexts below it were looked at */
    char texts[TEXTS_BYTES]; /* of all rules, each ended by a 0 */
    size_t texts_used;
    bool kinds[RULE_KINDS];       /* there are such rules */
    bool clearing;                /* contexts may still have rules that were cleared */
    void *matched[PLACED_LEAVES]; /* bytes by context: the rule of its path, from 1 on */
    struct names {
        struct range *functions, *files; /* by where they start; none begins where another does */
        uint32_t function_count, file_count, function_room, file_room;
        uint8_t module_rule; /* that holds for all of it */
        bool read;
    } * modules; /* by number; MODULES_MAX of them, made with the first rule */
} state;         /* under tree_lock; of the names being read, only by who reads them */

static const char *const kind_words[RULE_KINDS] = {[OF_FUNCTIONS] = "",
                                                   [OF_MODULES] = "module:",
                                                   [OF_FILES] = "file:",
                                                   [OF_EXPRESSIONS] = "regex:",
                                                   [OF_CONTEXT] = "context:"};

static const char *const words[PLACE_COUNT] = {
    [PLACE_DEFAULT] = "default", [PLACE_SHARED] = "mixed"}; /* others are a policy's name */

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

/* A name of C++ as it stands in the source, as far as that takes no more than reading: ns::type::function, without what
 * templates are made for. `each` is called for the parts, too; true: that was it. */
static bool each_mangled(const char *symbol,
                         bool (*each)(const char *name, size_t length, const void *context),
                         const void *context) {
    char joined[256];
    struct text whole = {.bytes = joined, .capacity = sizeof joined};
    unsigned deep = 0; /* in < > */
    for (size_t i = 2; symbol[i];) {
        size_t length = 0;
        if (symbol[i] < '0' || symbol[i] > '9') {
            char c = symbol[i++];
            if (c == 'S' && symbol[i] == 't' && !deep) {
                text_add(&whole, "std");
                i++;
            } else if (c == 'I' || (deep && (c == 'N' || c == 'L' || c == 'X' || c == 'J'))) {
                deep++;
            } else if (c == 'E' && !deep) {
                break; /* its parameters follow */
            } else if (c == 'E') {
                deep--;
            }
            continue;
        }
        while (symbol[i] >= '0' && symbol[i] <= '9' && length < sizeof joined)
            length = length * 10 + (size_t)(symbol[i++] - '0');
        size_t there = 0;
        while (there < length && symbol[i + there])
            there++;
        if (!length || there < length)
            return false;
        if (each(symbol + i, length, context))
            return true;
        if (!deep) {
            text_add(&whole, whole.length ? "::" : "");
            text_add_bytes(&whole, symbol + i, length);
        }
        i += length;
        if (symbol[2] != 'N' && symbol[2] != 'S')
            break;
    }
    return whole.length && !whole.full && each(joined, whole.length, context);
}

static bool matches(const char *name, size_t length, const void *context) {
    const struct policy_rule *rule = context;
    return rule->kind == OF_EXPRESSIONS ? regex_matches(rule->regex, name, length)
                                        : glob(rule->pattern, name, length);
}

/* What compilers put behind the name of a part of a function (.part.0, .cold) is not the name's. */
static bool matches_function(const struct policy_rule *rule, const char *symbol) {
    size_t length = 0;
    while (symbol[length] && (symbol[length] != '.' || !length))
        length++;
    return matches(symbol, length, rule) ||
           (symbol[0] == '_' && symbol[1] == 'Z' && each_mangled(symbol, matches, rule));
}

static const char *base_name(const char *path) {
    const char *base = path;
    for (; *path; path++)
        if (*path == '/' && path[1])
            base = path + 1;
    return base;
}

/* The file's name, or its whole path. */
static bool matches_file(const struct policy_rule *rule, const char *path) {
    return glob(rule->pattern, base_name(path), text_length(base_name(path))) ||
           glob(rule->pattern, path, text_length(path));
}

/* --- objects ------------------------------------------------------------------------------------- */

struct reading { /* the names of an object, while they are read */
    struct range *ranges;
    uint32_t count, capacity;
    bool files;
};

static void add_range(const char *name, uint64_t start, uint64_t end, void *context) {
    struct reading *reading = context;
    for (uint32_t i = 0; i < state.count; i++) {
        const struct policy_rule *rule = &state.list[i];
        bool fits = reading->files ? rule->kind == OF_FILES && matches_file(rule, name)
                                   : (rule->kind == OF_FUNCTIONS || rule->kind == OF_EXPRESSIONS) &&
                                         matches_function(rule, name);
        if (!fits)
            continue;
        if (reading->count == reading->capacity) {
            uint32_t capacity = reading->capacity ? reading->capacity * 2 : 64;
            struct range *ranges = meta_alloc(capacity * sizeof *ranges);
            if (!ranges)
                return;
            if (reading->count)
                __builtin_memcpy(ranges, reading->ranges, reading->count * sizeof *ranges);
            meta_free(reading->ranges, reading->capacity * sizeof *ranges);
            reading->ranges = ranges;
            reading->capacity = capacity;
        }
        reading->ranges[reading->count++] = (struct range){start, end, (uint8_t)(i + 1)};
        return;
    }
}

static bool is_behind(const struct range *a, const struct range *b) {
    return a->start != b->start ? a->start > b->start : a->rule > b->rule;
}

/* Sorted by Shell's method; of several with the same start, which are names of one function, the first rule's stays. */
static void sort_ranges(struct reading *reading) {
    struct range *ranges = reading->ranges;
    uint32_t gap = 1, kept = 0;
    while (gap < reading->count / 3)
        gap = gap * 3 + 1;
    for (; gap; gap /= 3)
        for (uint32_t i = gap; i < reading->count; i++) {
            struct range moved = ranges[i];
            uint32_t at = i;
            for (; at >= gap && is_behind(&ranges[at - gap], &moved); at -= gap)
                ranges[at] = ranges[at - gap];
            ranges[at] = moved;
        }
    for (uint32_t i = 0; i < reading->count; i++)
        if (!kept || ranges[kept - 1].start != ranges[i].start)
            ranges[kept++] = ranges[i];
        else if (ranges[kept - 1].end < ranges[i].end)
            ranges[kept - 1].end = ranges[i].end;
    reading->count = kept;
}

/* The rule of the range that an address of an object is in; 0: none. */
static uint8_t rule_of_address(const struct range *ranges, uint32_t count, uint64_t address) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ranges[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < ranges[low - 1].end ? ranges[low - 1].rule : 0;
}

/* Reads the names of an object, if rules need them and it was not done yet. */
static void read_names(uint32_t module, bool may_open) {
    struct names *names = module < MODULES_MAX ? &state.modules[module] : NULL;
    if (!names || names->read)
        return;
    const struct module *object = rules_module(module);
    struct reading functions = {.files = false}, files = {.files = true};
    uint8_t module_rule = 0;
    for (uint32_t i = state.count; i-- > 0;)
        if (state.list[i].kind == OF_MODULES && glob(state.list[i].pattern, base_name(object->path),
                                                     text_length(base_name(object->path))))
            module_rule = (uint8_t)(i + 1);
    if (may_open && (state.kinds[OF_FUNCTIONS] || state.kinds[OF_EXPRESSIONS]) &&
        elf_each_function(object, add_range, &functions))
        sort_ranges(&functions);
    if (may_open && state.kinds[OF_FILES] && dwarf_each_unit(object, add_range, &files))
        sort_ranges(&files);
    lock_take(&tree_lock);
    *names = (struct names){.functions = functions.ranges,
                            .files = files.ranges,
                            .function_count = functions.count,
                            .file_count = files.count,
                            .function_room = functions.capacity,
                            .file_room = files.capacity,
                            .module_rule = module_rule,
                            .read = true};
    lock_release(&tree_lock);
}

static uint8_t first_of(uint8_t a, uint8_t b) {
    return !a || (b && b < a) ? b : a;
}

/* The first rule that holds for a frame; 0: none. */
static uint8_t rule_of_frame(const struct tree_node *node) {
    if (node->module >= MODULE_NAMED || node->module >= MODULES_MAX || !node->address)
        return 0;
    const struct names *names = &state.modules[node->module];
    if (!names->read)
        return 0;
    /* A return address may already belong to the next function. */
    uint64_t address = node->address - (node->exact ? 0 : 1) - rules_module(node->module)->bias;
    uint8_t rule = first_of(names->module_rule,
                            rule_of_address(names->functions, names->function_count, address));
    return first_of(rule, rule_of_address(names->files, names->file_count, address));
}

/* Under tree_lock. */
static void forget_names(void) {
    for (uint32_t i = 0; i < rules_module_count() && i < MODULES_MAX; i++) {
        struct names names = state.modules[i];
        state.modules[i] = (struct names){0};
        meta_free(names.functions, names.function_room * sizeof *names.functions);
        meta_free(names.files, names.file_room * sizeof *names.files);
    }
}

/* --- contexts ------------------------------------------------------------------------------------ */

unsigned policy_rules_of(uint32_t context) {
    return heap_leaf_byte(state.matched, context);
}

/* False: out of memory. */
static bool set_rule(uint32_t context, uint8_t rule) {
    uint8_t *byte = heap_leaf_place(state.matched, context, 1);
    if (byte)
        store_owner(byte, rule);
    return byte;
}

static bool is_by_hand(uint8_t rule) {
    return rule && state.list[rule - 1].kind == OF_CONTEXT;
}

static uint8_t rule_of_context(uint32_t context) {
    for (uint32_t i = state.kinds[OF_CONTEXT] ? state.count : 0; i-- > 0;)
        if (state.list[i].kind == OF_CONTEXT && state.list[i].context == context)
            return (uint8_t)(i + 1); /* the newest */
    return 0;
}

/* True: it stands elsewhere from now on, or by other terms. */
static bool place_by_rule(uint32_t context, uint8_t rule, uint8_t before) {
    bool named = tree_is_named(context); /* these have what their program asks for */
    bool moved = !named && terms_number(context) != rule && terms_set(context, rule);
    uint8_t *byte = heap_placed_byte(context);
    enum placement placement =
        rule ? (enum placement)state.list[rule - 1].placement : PLACE_DEFAULT;
    if (!byte || named || (*byte & PLACED_BY_HAND && !is_by_hand(rule)) || (!rule && !before) ||
        heap_placement(context) == placement)
        return moved;
    return heap_place(context, placement) || moved;
}

bool policy_rules_exist(void) {
    return state.count || state.clearing;
}

/* A context that is new, or is to be looked at again, after its parent. Under tree_lock. True: it is placed anew. */
static bool match(uint32_t context) {
    const struct tree_node *node = tree_node(context);
    uint8_t before = (uint8_t)policy_rules_of(context);
    uint8_t rule = context ? (uint8_t)policy_rules_of(node->parent) : 0;
    uint8_t by_hand = rule_of_context(context);
    if (by_hand)
        rule = by_hand;
    else if (!is_by_hand(rule))
        rule = first_of(rule, state.count ? rule_of_frame(node) : 0);
    return (rule || before) && set_rule(context, rule) && place_by_rule(context, rule, before);
}

static bool is_ruled(uint32_t context) {
    return policy_rules_of(context);
}

static bool is_wanted(struct tree_frame frame) {
    struct tree_node node = {
        .address = frame.address, .module = frame.module, .exact = frame.exact};
    lock_take(&tree_lock);
    bool wanted = state.count && rule_of_frame(&node);
    lock_release(&tree_lock);
    return wanted;
}

/* What is made before the control thread looks. Under tree_lock. */
static void match_new(uint32_t context) {
    match(context);
}

/* Whether the limit of a rule that only warns was passed since it was last told of. */
static void look_at_limits(void) {
    bool passed = false;
    for (unsigned i = 1; i <= state.count; i++) {
        struct terms *terms = &terms_table[i];
        int64_t live = terms->flags & TERMS_WARN ? terms_live(i) : 0;
        if (live <= terms->allowance)
            continue;
        while (terms->allowance < INT64_MAX / 2 && live > terms->allowance)
            terms->allowance *= 2; /* told of again when there is twice as much */
        add_relaxed(&terms->passed, 1);
        store_release(&terms->to_tell, 1);
        passed = true;
    }
    if (passed)
        heaps_reconsider();
}

void policy_rules_apply(bool may_open) {
    static unsigned turns;
    uint32_t count = tree_count();
    bool moved = false;
    if (count > PLACED_LEAVES * PLACED_PER_LEAF)
        count = PLACED_LEAVES * PLACED_PER_LEAF;
    if (count - state.seen > NODES_PER_TURN)
        count = state.seen + NODES_PER_TURN;   /* others wait, too */
    for (; state.seen < count; state.seen++) { /* parents come before their children */
        uint16_t module = tree_node(state.seen)->module;
        if (state.count && module < MODULE_NAMED)
            read_names(module, may_open);
        lock_take(&tree_lock);
        moved |= match(state.seen);
        lock_release(&tree_lock);
    }
    state.clearing &= state.seen < tree_count();
    if (moved)
        heaps_reconsider();
    if (turns++ % LIMITS_EVERY == 0)
        look_at_limits();
}

/* --- rules as text -------------------------------------------------------------------------------- */

static void refuse(struct text *text, const char *rule, size_t length, const char *why) {
    text_add(text, "the rule \"");
    text_add_bytes(text, rule, length > 60 ? 60 : length);
    text_add(text, "\" is not understood: ");
    text_add(text, why);
}

static const char *behind(const char *text, const char *word) {
    size_t i = 0;
    while (word[i] && text[i] == word[i])
        i++;
    return word[i] ? NULL : text + i;
}

static const char *parse_page(const char *word, struct terms *terms) {
    int64_t bytes;
    if (!text_to_number(word, &bytes) || (bytes != 16 << 10 && bytes != 64 << 10))
        return "a page has 16K or 64K";
    terms->slices = (uint8_t)(bytes / (int64_t)SLICE_BYTES);
    terms->flags |= TERMS_OWN;
    return NULL;
}

static const char *parse_limit(const char *word, struct terms *terms, uint32_t flag) {
    if (!text_to_number(word, &terms->limit) || terms->limit <= 0)
        return "a limit is a number of bytes, such as 64M";
    if (terms->flags & (TERMS_LIMIT | TERMS_WARN))
        return "it has two limits";
    terms->flags |= flag;
    terms->allowance = flag == TERMS_WARN ? terms->limit : 0;
    return NULL;
}

/* A policy, or one of the terms. NULL: done; else what is wrong. */
static const char *parse_word(const char *word, struct policy_rule *rule, struct terms *terms) {
    const char *value;
    for (unsigned i = 0; i < PLACE_COUNT; i++)
        if (text_equal(words[i] ? words[i] : policy_table[i]->name, word)) {
            if (rule->placement != PLACE_COUNT)
                return "it has two policies";
            rule->placement = (uint8_t)i;
            return NULL;
        }
    if ((value = behind(word, "page:")))
        return parse_page(value, terms);
    if ((value = behind(word, "limit:")))
        return parse_limit(value, terms, TERMS_LIMIT);
    if ((value = behind(word, "warn:")))
        return parse_limit(value, terms, TERMS_WARN);
    if (text_equal(word, "own"))
        terms->flags |= TERMS_OWN;
    else if (text_equal(word, "zero"))
        terms->flags |= TERMS_OWN | TERMS_ZERO;
    else if (text_equal(word, "guard"))
        terms->flags |= TERMS_GUARD;
    else
        return "the policies are default, aset, mixed, slab, generation, bump and simple, the "
               "options own, "
               "page:16K, page:64K, limit:BYTES, warn:BYTES, guard and zero";
    return NULL;
}

/* POLICY,OPTION,...; the commas of `wanted` become ends. */
static const char *parse_wanted(char *wanted, struct policy_rule *rule, struct terms *terms) {
    const char *wrong = NULL;
    rule->placement = PLACE_COUNT;
    for (char *word = wanted; word && !wrong;) {
        char *comma = word;
        while (*comma && *comma != ',')
            comma++;
        char *next = *comma ? comma + 1 : NULL;
        *comma = 0;
        wrong = parse_word(word, rule, terms);
        word = next;
    }
    if (rule->placement == PLACE_COUNT)
        rule->placement = PLACE_DEFAULT;
    bool own = terms->flags & TERMS_OWN;
    if (!wrong && own && rule->placement == PLACE_SHARED)
        return "mixed has no pages of its own, which these options are of";
    if (own && rule->placement == PLACE_DEFAULT)
        rule->placement = PLACE_APART;
    return wrong;
}

/* What the part in front of the = says. NULL: done. */
static const char *parse_pattern(struct policy_rule *rule) {
    int64_t number;
    rule->kind = OF_FUNCTIONS;
    for (unsigned kind = 1; kind < RULE_KINDS; kind++) {
        const char *rest = behind(rule->pattern, kind_words[kind]);
        if (!rest)
            continue;
        rule->kind = (uint8_t)kind;
        rule->pattern = rest;
        break;
    }
    if (!*rule->pattern)
        return "it has no name";
    if (rule->kind == OF_CONTEXT) {
        if (!text_to_number(rule->pattern, &number) || number < 0 || !tree_is_id((uint64_t)number))
            return "no context has that number";
        if (tree_is_named((uint32_t)number))
            return "a named context has what its program asks for";
        rule->context = (uint32_t)number;
    }
    if (rule->kind == OF_EXPRESSIONS) {
        if (!(rule->regex = meta_alloc(sizeof *rule->regex)))
            return "there is no memory for it";
        return regex_compile(rule->regex, rule->pattern);
    }
    return NULL;
}

/* False: said in `text`. */
static bool add_rule(const char *rule, size_t length, struct text *text) {
    size_t equals = length;
    while (equals && rule[equals - 1] != '=')
        equals--;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)rule[i] < ' ') {
            refuse(text, rule, 0, "it has a control character");
            return false;
        }
    if (equals < 2) {
        refuse(text, rule, length, "it is PATTERN=POLICY,OPTIONS");
        return false;
    }
    /* Its text, and once more with ends where its parts end. */
    if (state.count == POLICY_RULES_MAX || state.texts_used + 2 * (length + 1) > TEXTS_BYTES) {
        refuse(text, rule, length, "there are too many");
        return false;
    }
    if (!state.modules && !(state.modules = meta_alloc(MODULES_MAX * sizeof *state.modules))) {
        text_add(text, "no memory for rules");
        return false;
    }
    char *copy = state.texts + state.texts_used, *parts = copy + length + 1;
    __builtin_memcpy(copy, rule, length);
    __builtin_memcpy(parts, rule, length);
    copy[length] = parts[length] = parts[equals - 1] = 0;
    struct policy_rule new = {.text = copy, .pattern = parts};
    struct terms terms = {.rule = copy};
    const char *wrong = parse_pattern(&new);
    if (!wrong)
        wrong = parse_wanted(parts + equals, &new, &terms);
    if (wrong) {
        meta_free(new.regex, sizeof *new.regex);
        refuse(text, rule, length, wrong);
        return false;
    }
    lock_take(&tree_lock);
    state.texts_used += 2 * (length + 1);
    state.list[state.count] = new;
    terms_table[++state.count] = terms;
    state.kinds[new.kind] = true;
    tree_watch = match_new;
    tree_wanted = is_wanted;
    tree_is_ruled = is_ruled;
    lock_release(&tree_lock);
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

/* The objects that are there: their names are read before the program runs, so that a path is placed as it is made. */
static int learn_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            uint64_t rule = rules_find(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, true);
            if (rule_module(rule) < MODULE_NAMED)
                read_names(rule_module(rule), true);
            break;
        }
    return 0;
}

void policy_rules_begin(void) {
    if (policy_rules_exist())
        dl_iterate_phdr(learn_object, NULL);
}

static void look_again(bool may_open) {
    lock_take(&tree_lock);
    forget_names();
    lock_release(&tree_lock);
    state.seen = 0;
    policy_rules_apply(may_open);
}

static void forget_rules(void) {
    lock_take(&tree_lock);
    for (uint32_t i = 0; i < state.count; i++)
        if (state.list[i].regex)
            meta_free(state.list[i].regex, sizeof *state.list[i].regex);
    state.count = 0;
    state.texts_used = 0;
    state.clearing = true;
    __builtin_memset(state.kinds, 0, sizeof state.kinds);
    __builtin_memset(terms_table, 0,
                     TERMS_RULES *
                         sizeof *terms_table); /* contexts that still have one of these have none */
    lock_release(&tree_lock);
}

uint32_t policy_rules_count(void) {
    return state.count;
}

const char *policy_rules_text(unsigned rule) {
    return rule && rule <= state.count ? state.list[rule - 1].text : NULL;
}

bool policy_rules_add(const char *rule, struct text *text, bool may_open) {
    if (!add_rule(rule, text_length(rule), text))
        return false;
    look_again(may_open);
    return true;
}

void policy_rules_clear(bool may_open) {
    forget_rules();
    if (state.modules)
        look_again(may_open);
}
