/* SPDX-License-Identifier: MIT */
/* rules.c - the rules for the placement of call paths; see rules.h. */
#include "rules/rules.h"
#include "context/tree.h"
#include "os/meta.h"
#include "region/terms.h"
#include "rules/objects.h"
#include "rules/parse.h"
#include "rules/resolved.h"

#include <link.h>

#define TEXTS_BYTES 4096U     /* room for the texts of all rules */
#define NODES_PER_TURN 65536U /* contexts that one call of policy_rules_apply looks at */
#define LIMITS_EVERY 10U      /* every 10th call of policy_rules_apply checks the limits */

struct rule_list rule_list;

/* The control thread or the constructor writes these fields. Any thread that makes a node writes
 * `matched`, under tree_lock. */
static struct {
    uint32_t seen; /* id that the present look at the contexts has reached */
    bool ended;    /* the look has reached the last context */
    /* Smallest id of the contexts that were made before the names of their object were read; 0:
     * none. The next look begins there: an id that is used again may be lower than `seen`. */
    uint32_t unread;
    char texts[TEXTS_BYTES]; /* the texts of all rules, each stored twice and ended by a 0 */
    size_t texts_used;       /* bytes */
    bool clearing;           /* some contexts may still have a rule that was cleared */
    /* a byte for each context: number of the rule that counts for it, from 1 on, and RULE_IDLE */
    void *matched[PLACED_LEAVES];
} state;
void *const *const rules_matched_shown = state.matched;

/* --- contexts --------------------------------------------------------------------------------- */

/* A flag beside the number of a context's rule: nothing that the rule asks for holds for the
 * context. A byte with the flag is greater than the number of any rule, so the command's
 * outside/answer_contexts.c takes it for no rule. */
#define RULE_IDLE 128U
_Static_assert(POLICY_RULES_MAX < RULE_IDLE, "a number and the flag are one byte");

unsigned policy_rules_of(uint32_t context) {
    return heap_leaf_byte(state.matched, context) & ~RULE_IDLE;
}

unsigned policy_rules_held(uint32_t context) {
    unsigned rule = heap_leaf_byte(state.matched, context);
    return rule & RULE_IDLE ? 0 : rule;
}

/* Notes the rule of a context. False: out of memory. */
static bool set_rule(uint32_t context, uint8_t rule) {
    uint8_t *byte = heap_leaf_entry(state.matched, context, 1);
    if (byte)
        store_owner(byte, rule);
    return byte;
}

/* True for a rule that names one context by its number. */
static bool names_context(uint8_t rule) {
    return rule && rule_list.rules[rule - 1].kind == OF_CONTEXT;
}

static uint8_t rule_of_context(uint32_t context) {
    const struct tree_node *node = tree_node(context);
    for (uint32_t i = rule_list.kinds[OF_CONTEXT] ? rule_list.count : 0; i-- > 0;) {
        const struct policy_rule *rule = &rule_list.rules[i];
        if (rule->kind == OF_CONTEXT && rule->context == context &&
            rule->address == node->address && rule->parent == node->parent)
            return (uint8_t)(i + 1); /* the newest rule */
    }
    return 0;
}

static bool is_by_hand(uint32_t context) {
    return heap_leaf_byte(heap_placed, context) & PLACED_BY_HAND;
}

/* Returns the placement for a context that gets `rule` in place of the rule `before`. */
static enum placement placement_by_rule(uint32_t context, uint8_t rule, uint8_t before) {
    static const struct policy_rule none = {.placement = PLACE_DEFAULT};
    const struct policy_rule *asked = rule ? &rule_list.rules[rule - 1] : &none;
    enum placement now = heap_placement(context);
    if (!is_by_hand(context))
        return (enum placement)asked->placement;
    /* A new rule with a policy that names this context, or one above it, by number replaces what
     * was placed by hand. */
    if (names_context(rule) && rule != before && asked->names_policy) {
        and_release(heap_placed_byte(context), (uint8_t)~PLACED_BY_HAND);
        return (enum placement)asked->placement;
    }
    /* Terms such as `zero` need pages of the context's own, so the chunks may not go to mixed
     * pages. */
    return now < PLACE_SLAB && terms_table[rule].flags & TERMS_OWN ? PLACE_APART : now;
}

/* Gives a context the placement and the terms of `rule`, in place of those of the rule `before`.
 * True: the context has a new placement, or new terms. */
static bool place_by_rule(uint32_t context, uint8_t rule, uint8_t before) {
    if (tree_is_named(context)) /* the context keeps the placement that its program asks for */
        return false;
    bool moved = terms_number(context) != rule && terms_set(context, rule);
    if (!heap_placed_byte(context))
        return moved;
    enum placement placement = placement_by_rule(context, rule, before);
    return (heap_placement(context) != placement && heap_set_placement(context, placement)) ||
           moved;
}

/* Notes the context's rule, and whether the rule holds. True: the context has a new placement, or
 * new terms. Under tree_lock. */
static bool apply_rule(uint32_t context, uint8_t rule, uint8_t before) {
    bool named = tree_is_named(context);
    if (!set_rule(context, rule))
        return false;
    bool moved = place_by_rule(context, rule, before);
    /* From checks in the calls above, gcc 16 infers ids that do not exist. Such an id given to
     * tree_is_named here would be an error (-Wstringop-overflow). */
    bool idle = named || (is_by_hand(context) && !terms_table[rule].flags);
    if (rule && idle)
        set_rule(context, rule | RULE_IDLE);
    return moved;
}

bool policy_rules_exist(void) {
    return rule_list.count || state.clearing;
}

/* Finds the rule of a context that is new or must be looked at again, and applies the rule. The
 * context's parent must have been matched before. True: the context has a new placement, or new
 * terms. Under tree_lock. */
static bool match(uint32_t context) {
    const struct tree_node *node = tree_node(context);
    uint8_t before = (uint8_t)policy_rules_of(context);
    uint8_t rule = context ? (uint8_t)policy_rules_of(node->parent) : 0;
    uint8_t own = rule_of_context(context);
    if (own)
        rule = own;
    else if (!names_context(rule))
        rule = rule_first(rule, rule_list.count ? objects_rule_of(node) : 0);
    return (rule || before) && apply_rule(context, rule, before);
}

void policy_rules_placed(uint32_t context) {
    lock_take(&tree_lock);
    uint8_t rule = (uint8_t)policy_rules_of(context);
    if (rule)
        apply_rule(context, rule, rule);
    lock_release(&tree_lock);
}

static bool is_ruled(uint32_t context) {
    return policy_rules_of(context);
}

/* For tree_wanted (context/tree.h): true when a rule names the frame's code. Without rules, as
 * after the last one was cleared, takes no lock: each waiting path asks for each of its frames. */
static bool is_wanted(struct tree_frame frame) {
    struct tree_node node = {
        .address = frame.address, .module = frame.module, .exact = frame.exact};
    if (!load_relaxed(&rule_list.count))
        return false;
    lock_take(&tree_lock);
    bool wanted = rule_list.count && objects_rule_of(&node);
    lock_release(&tree_lock);
    return wanted;
}

/* Called for each new context as it is made, under tree_lock. */
static void match_new(uint32_t context) {
    match(context);
    if ((!state.unread || context < state.unread) && !objects_is_read(tree_node(context)->module))
        state.unread = context;
}

/* Lets all contexts be looked at again, because the rules have changed, or are resolved. */
static void match_all_contexts(void) {
    state.seen = 0;
    state.ended = false;
}

/* Returns the live bytes of all contexts of a rule. The lock keeps the views of an ending thread
 * from being counted twice, or not at all, while they are folded. */
static int64_t live_of(unsigned rule) {
    lock_take(&heap_global.lock);
    int64_t live = terms_live(rule);
    lock_release(&heap_global.lock);
    return live;
}

/* Warns when the live bytes of all contexts of a rule with `warn:` have passed the rule's limit,
 * and again each time that these bytes have doubled. */
static void look_at_limits(void) {
    bool passed = false;
    for (unsigned i = 1; i <= rule_list.count; i++) {
        struct terms *terms = &terms_table[i];
        int64_t live = terms->flags & TERMS_WARN ? live_of(i) : 0;
        if (live <= terms->allowance)
            continue;
        while (terms->allowance < INT64_MAX / 2 && live > terms->allowance)
            terms->allowance *= 2; /* the next warning comes at twice as many bytes */
        add_relaxed(&terms->passed, 1);
        store_release(&terms->to_tell, 1);
        passed = true;
    }
    if (passed)
        heaps_reconsider();
}

/* Goes back to the contexts that were made before the names of their object were read. */
static void begin_look(void) {
    lock_take(&tree_lock);
    if (state.unread && state.unread < state.seen)
        state.seen = state.unread;
    state.unread = 0;
    lock_release(&tree_lock);
}

void policy_rules_apply(bool may_open) {
    static unsigned turns;
    uint32_t count = tree_count();
    bool moved = false;
    if (count > PLACED_LEAVES * PLACED_PER_LEAF)
        count = PLACED_LEAVES * PLACED_PER_LEAF;
    /* Only when a look has ended, so that contexts with high ids have their turn, too. */
    if (state.ended)
        begin_look();
    uint32_t all = count;
    if (count - state.seen > NODES_PER_TURN)
        /* One call looks at a bounded number, because other threads need tree_lock, too. */
        count = state.seen + NODES_PER_TURN;
    for (; state.seen < count; state.seen++) { /* a parent has a lower id than its children */
        uint16_t module = tree_node(state.seen)->module;
        if (rule_list.count && module < MODULE_NAMED)
            objects_read(module, may_open);
        lock_take(&tree_lock);
        moved |= match(state.seen);
        lock_release(&tree_lock);
    }
    state.ended = state.seen == all;
    state.clearing &= !state.ended;
    if (!policy_rules_exist() && tree_watch) {
        lock_take(&tree_lock);
        tree_watch = NULL;
        lock_release(&tree_lock);
    }
    if (moved)
        heaps_reconsider();
    if (turns++ % LIMITS_EVERY == 0)
        look_at_limits();
}

void policy_rules_apply_all(bool may_open) {
    do
        policy_rules_apply(may_open);
    while (!state.ended);
}

/* --- rules as text ---------------------------------------------------------------------------- */

/* Returns how many bytes the texts of a rule take: the rule, and a second copy with a 0 at the end
 * of each part. */
static size_t texts_bytes(size_t length) {
    return 2 * (length + 1);
}

/* Reads a rule into *new and *terms, and stores its texts from `copy` on. False: refused, with the
 * reason in `text`. */
static bool read_rule(const char *rule, size_t length, char *copy, struct policy_rule *new,
                      struct terms *terms, struct text *text) {
    size_t equals = length;
    while (equals && rule[equals - 1] != '=')
        equals--;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)rule[i] < ' ') {
            parse_refuse(text, rule, 0, "it has a control character");
            return false;
        }
    if (equals < 2) {
        parse_refuse(text, rule, length, "a rule is PATTERN=POLICY,OPTIONS");
        return false;
    }
    if (!objects_begin()) {
        text_add(text, "no memory for rules");
        return false;
    }
    char *parts = copy + length + 1;
    __builtin_memcpy(copy, rule, length);
    __builtin_memcpy(parts, rule, length);
    copy[length] = parts[length] = parts[equals - 1] = 0;
    *new = (struct policy_rule){.text = copy, .pattern = parts};
    *terms = (struct terms){.rule = copy};
    const char *wrong = parse_pattern(new);
    if (!wrong)
        wrong = parse_wanted(parts + equals, new, terms);
    if (wrong)
        parse_refuse(text, rule, length, wrong);
    return !wrong;
}

/* Adds a rule to the list. False: refused, with the reason in `text`. */
static bool add_rule_in_force(const char *rule, size_t length, struct text *text) {
    struct policy_rule new;
    struct terms terms;
    if (rule_list.count == POLICY_RULES_MAX ||
        state.texts_used + texts_bytes(length) > TEXTS_BYTES) {
        parse_refuse(text, rule, length, "there are too many rules");
        return false;
    }
    if (!read_rule(rule, length, state.texts + state.texts_used, &new, &terms, text))
        return false;
    lock_take(&tree_lock);
    state.texts_used += texts_bytes(length);
    rule_list.rules[rule_list.count] = new;
    terms_table[rule_list.count + 1] = terms;
    store_owner(&rule_list.count, rule_list.count + 1);
    rule_list.kinds[new.kind] = true;
    rule_list.version++;
    if (new.kind == OF_FUNCTIONS || new.kind == OF_FILES || new.kind == OF_EXPRESSIONS)
        rule_list.needs_command = rule_list.count;
    rule_list.command_alone += new.kind == OF_FILES || new.kind == OF_EXPRESSIONS;
    tree_watch = match_new;
    tree_wanted = is_wanted;
    tree_is_ruled = is_ruled;
    lock_release(&tree_lock);
    return true;
}

void policy_rules_init(const char *rules, bool are_resolved, struct text *warnings) {
    while (rules && *rules) {
        size_t length = 0;
        while (*rules == ' ' || *rules == '\n' || *rules == '\t')
            rules++;
        while (rules[length] && rules[length] != ';' && rules[length] != '\n')
            length++;
        if (length) {
            size_t before = warnings->length;
            text_add(warnings, "memctx: MEMCTX_RULES: ");
            if (add_rule_in_force(rules, length, warnings))
                warnings->length = before;
            else
                text_add(warnings, "; this rule is ignored\n");
        }
        rules += length + (rules[length] != 0);
    }
    if (rule_list.command_alone && !are_resolved)
        text_add(warnings, "memctx: MEMCTX_RULES: its regex: and file: rules have no effect; only "
                           "the command resolves them; start the program with memctx run, or use "
                           "memctx rules TARGET --again\n");
}

/* Called for each object that is loaded before the program runs. Reads the object's names, so that
 * a path through its code is placed when the path is made. */
static int learn_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            uint64_t rule = unwind_rules_find(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, true);
            if (rule_module(rule) < MODULE_NAMED)
                objects_read(rule_module(rule), true);
            break;
        }
    return 0;
}

void policy_rules_begin(const char *ranges) {
    if (!policy_rules_exist())
        return;
    dl_iterate_phdr(learn_object, NULL);
    resolved_read(ranges);
}

static void forget_rules(void) {
    lock_take(&tree_lock);
    rule_list.version++;
    store_owner(&rule_list.count, 0);
    rule_list.needs_command = rule_list.command_alone = 0;
    state.texts_used = 0;
    state.clearing = true;
    __builtin_memset(rule_list.kinds, 0, sizeof rule_list.kinds);
    /* A context that still has one of the cleared rules has no terms from now on. */
    __builtin_memset(terms_table, 0, TERMS_RULES * sizeof *terms_table);
    objects_forget();
    lock_release(&tree_lock);
}

uint32_t policy_rules_count(void) {
    return rule_list.count;
}

const char *policy_rules_text(unsigned rule) {
    return rule && rule <= rule_list.count ? rule_list.rules[rule - 1].text : NULL;
}

bool policy_rules_check(const char *rule, struct text *text) {
    char texts[2 * (WIRE_REQUEST_MAX + 1)];
    struct policy_rule new;
    struct terms terms;
    size_t length = text_length(rule);
    return texts_bytes(length) <= sizeof texts &&
           read_rule(rule, length, texts, &new, &terms, text);
}

bool policy_rules_add(const char *rule, struct text *text, bool may_open) {
    /* The new rule may get the number of a cleared one, so no context may still have that number.
     */
    if (state.clearing)
        policy_rules_apply_all(may_open);
    if (!add_rule_in_force(rule, text_length(rule), text))
        return false;
    match_all_contexts();
    policy_rules_apply_all(may_open);
    return true;
}

void policy_rules_clear(bool may_open) {
    forget_rules();
    match_all_contexts();
    policy_rules_apply(may_open);
}

bool policy_rules_resolve(const struct wire_rule_ranges *request, struct text *text) {
    bool taken = resolved_take(request, text);
    if (taken && request->last)
        match_all_contexts();
    return taken;
}
