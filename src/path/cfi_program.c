/* SPDX-License-Identifier: MIT */
/*
 * Runs the program of an entry of .eh_frame up to an address.
 *
 * For: the forms that gcc, clang and rustc emit for x86-64: CFA from rsp or rbp, rbp saved on the
 * stack, realigned stacks through rbp, signal frames. Any other form (CFA in another register,
 * longer expressions) gives CFI_NONE, and the path then ends in a label. This code never guesses.
 */
#include "path/cfi_program.h"

#define STATES_MAX 16

/* The operations of an entry's program, with DWARF's numbers and names (DW_CFA_...). The first
 * three have their operand in the lower six bits of the operation's byte. */
enum { OP_ADVANCE_LOC = 1 << 6, OP_OFFSET = 2 << 6, OP_RESTORE = 3 << 6 };
enum { OP_KIND = 3 << 6, OP_OPERAND = 0x3f };
enum { OP_NOP, OP_SET_LOC, OP_ADVANCE_LOC1, OP_ADVANCE_LOC2, OP_ADVANCE_LOC4 };
enum { OP_OFFSET_EXTENDED = 0x05, OP_RESTORE_EXTENDED, OP_UNDEFINED, OP_SAME_VALUE, OP_REGISTER };
enum { OP_REMEMBER_STATE = 0x0a, OP_RESTORE_STATE };
enum { OP_DEF_CFA = 0x0c, OP_DEF_CFA_REGISTER, OP_DEF_CFA_OFFSET };
enum { OP_EXPRESSION = 0x10, OP_OFFSET_EXTENDED_SF, OP_DEF_CFA_SF, OP_DEF_CFA_OFFSET_SF };
enum { OP_VAL_OFFSET = 0x14, OP_VAL_OFFSET_SF, OP_VAL_EXPRESSION };
enum { OP_GNU_ARGS_SIZE = 0x2e, OP_GNU_NEGATIVE_OFFSET };

uint64_t cfi_read_long_leb(struct reader *r, bool is_signed) {
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = read_byte(r);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (is_signed && shift < 64 && byte & 0x40)
        value |= ~0UL << shift;
    return value;
}

uintptr_t cfi_read_encoded(struct reader *r, uint8_t encoding, uintptr_t data) {
    uintptr_t base = (encoding & 0x70) == PE_PCREL     ? (uintptr_t)r->at
                     : (encoding & 0x70) == PE_DATAREL ? data
                                                       : 0;
    uintptr_t value;
    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c: value = read_fixed(r, 8); break;
    case 0x01: value = read_leb(r, false); break;
    case 0x09: value = read_leb(r, true); break;
    case 0x02: value = read_fixed(r, 2); break;
    case 0x0a: value = (uintptr_t)(int16_t)read_fixed(r, 2); break;
    case 0x03: value = read_fixed(r, 4); break;
    case 0x0b: value = (uintptr_t)(int32_t)read_fixed(r, 4); break;
    default: r->bad = true; return 0;
    }
    if (encoding & PE_INDIRECT)
        r->bad = true;
    return value ? value + base : 0;
}
/* Reads an offset in units of the CIE's data alignment factor. An offset that does not fit wraps
 * around. */
static int64_t read_factored(struct reader *r, bool is_signed, const struct common *common) {
    return (int64_t)(read_leb(r, is_signed) * (uint64_t)common->data_align);
}

/* Parses an expression of the form `breg6 offset [deref]`, which compilers emit for realigned
 * stacks. */
static bool parse_rbp_expression(const uint8_t *at, const uint8_t *end, bool deref,
                                 int64_t *offset) {
    struct reader r = {at, end, false};
    if (read_fixed(&r, 1) != EXPRESSION_BREG0 + REG_RBP)
        return false;
    *offset = (int64_t)read_leb(&r, true);
    if (deref && read_fixed(&r, 1) != EXPRESSION_DEREF)
        return false;
    return !r.bad && r.at == end;
}

/* Notes how a register is saved. Registers other than rbp, rsp and the return address do not matter
 * for a walk. */
static void set_register(struct state *state, uint64_t reg, enum cfi_rbp rule, int64_t offset) {
    if (reg == REG_RBP) {
        state->rbp = rule;
        state->rbp_offset = offset;
    } else if (reg == REG_RA) {
        state->ra_standard = rule == CFI_RBP_AT_CFA && offset == -8;
        state->ra_undefined = false;
    } else if (reg == REG_RSP) {
        state->rsp_saved = true;
    }
}

static void restore_register(struct state *state, const struct state *initial, uint64_t reg) {
    if (reg == REG_RBP) {
        state->rbp = initial->rbp;
        state->rbp_offset = initial->rbp_offset;
    } else if (reg == REG_RA) {
        state->ra_standard = initial->ra_standard;
        state->ra_undefined = initial->ra_undefined;
    } else if (reg == REG_RSP) {
        state->rsp_saved = initial->rsp_saved;
    }
}

/* Runs an operation that says where the CFA is. False: the program is damaged. */
static bool run_cfa_operation(struct reader *r, uint8_t op, const struct common *common,
                              struct state *state) {
    uint64_t length;
    switch (op) {
    case OP_DEF_CFA:
    case OP_DEF_CFA_SF:
        state->cfa = CFA_REGISTER;
        state->cfa_register = read_leb(r, false);
        state->cfa_offset =
            op == OP_DEF_CFA ? (int64_t)read_leb(r, false) : read_factored(r, true, common);
        return true;
    case OP_DEF_CFA_REGISTER:
        if (state->cfa != CFA_REGISTER)
            return false;
        state->cfa_register = read_leb(r, false);
        return true;
    case OP_DEF_CFA_OFFSET: state->cfa_offset = (int64_t)read_leb(r, false); return true;
    case OP_DEF_CFA_OFFSET_SF: state->cfa_offset = read_factored(r, true, common); return true;
    default: /* OP_DEF_CFA_EXPRESSION */
        length = read_leb(r, false);
        if (length > (size_t)(r->end - r->at))
            return false;
        state->cfa = parse_rbp_expression(r->at, r->at + length, true, &state->cfa_offset)
                         ? CFA_RBP_DEREF
                         : CFA_UNUSABLE;
        r->at += length;
        return true;
    }
}

/* Runs an operation that says how a register is saved. Reads the register's number. False: the
 * operation is unknown, or the program is damaged. */
static bool run_register_operation(struct reader *r, uint8_t op, const struct common *common,
                                   struct state *state) {
    uint64_t length, reg = read_leb(r, false);
    int64_t offset;
    switch (op) {
    case OP_OFFSET_EXTENDED:
    case OP_OFFSET_EXTENDED_SF:
        offset = read_factored(r, op == OP_OFFSET_EXTENDED_SF, common);
        set_register(state, reg, CFI_RBP_AT_CFA, offset);
        return true;
    case OP_GNU_NEGATIVE_OFFSET:
        offset = (int64_t)(0 - (uint64_t)read_factored(r, false, common));
        set_register(state, reg, CFI_RBP_AT_CFA, offset);
        return true;
    case OP_UNDEFINED:
        set_register(state, reg, CFI_RBP_LOST, 0);
        if (reg == REG_RA)
            state->ra_undefined = true;
        return true;
    case OP_SAME_VALUE: set_register(state, reg, CFI_RBP_SAME, 0); return true;
    case OP_REGISTER:
    case OP_VAL_OFFSET:
    case OP_VAL_OFFSET_SF:
        read_leb(r, op == OP_VAL_OFFSET_SF);
        set_register(state, reg, CFI_RBP_LOST, 0);
        return true;
    case OP_EXPRESSION: /* the register was saved at the address that the expression gives */
    case OP_VAL_EXPRESSION:
        length = read_leb(r, false);
        if (length > (size_t)(r->end - r->at))
            return false;
        if (op == OP_EXPRESSION && parse_rbp_expression(r->at, r->at + length, false, &offset))
            set_register(state, reg, CFI_RBP_AT_RBP, offset);
        else
            set_register(state, reg, CFI_RBP_LOST, 0);
        r->at += length;
        return true;
    default: return false;
    }
}

/* Runs an operation whose first byte holds no operand. False: the operation is unknown, or the
 * program is damaged. */
static bool run_extended(struct reader *r, uint8_t op, const struct common *common,
                         struct state *state, const struct state *initial) {
    switch (op) {
    case OP_NOP: return true;
    case OP_GNU_ARGS_SIZE: read_leb(r, false); return true;
    case OP_RESTORE_EXTENDED: restore_register(state, initial, read_leb(r, false)); return true;
    case OP_DEF_CFA:
    case OP_DEF_CFA_SF:
    case OP_DEF_CFA_REGISTER:
    case OP_DEF_CFA_OFFSET:
    case OP_DEF_CFA_OFFSET_SF:
    case OP_DEF_CFA_EXPRESSION: return run_cfa_operation(r, op, common, state);
    default: return run_register_operation(r, op, common, state);
    }
}

/* Reads the operands of an operation that `run` does not run itself, and runs the operation. May
 * change *location. False: the program is damaged, or the operation is unknown. */
static NOINLINE bool run_operation(const uint8_t **at, const uint8_t *end, uint8_t op,
                                   const struct common *common, struct state *state,
                                   const struct state *initial, uintptr_t *location) {
    struct reader r = {*at, end, false};
    uint64_t advance = 0;
    bool known = true;
    if ((op & OP_KIND) == OP_OFFSET)
        set_register(state, op & OP_OPERAND, CFI_RBP_AT_CFA, read_factored(&r, false, common));
    else if (op >= OP_ADVANCE_LOC1 && op <= OP_ADVANCE_LOC4) /* with 1, 2 or 4 bytes */
        advance = read_fixed(&r, 1U << (op - OP_ADVANCE_LOC1));
    else if (op == OP_SET_LOC)
        *location = cfi_read_encoded(&r, common->encoding, 0);
    else
        known = run_extended(&r, op, common, state, initial);
    *location += advance * common->code_align;
    *at = r.at;
    return known && !r.bad;
}

/* A program under way. */
struct machine {
    const uint8_t *at, *end; /* the next operation, and the end of the program */
    const struct common *common;
    uintptr_t location; /* `state` holds from here up to where the next operation advances */
    struct state state;
    const struct state *initial;
    unsigned depth; /* number of states in `saved` */
    struct state saved[STATES_MAX];
};

/* Runs a program until an operation would advance past pc; this operation is then the next one.
 * False: the program is damaged, or uses an unknown operation. A large function has hundreds of
 * operations, nearly all of which this function runs itself, without a call. Most often the stack
 * pointer has moved where an operation advances, so the next operation tells the CFA's offset. */
static bool run(struct machine *machine, uintptr_t pc) {
    const uint8_t *at = machine->at, *end = machine->end;
    uintptr_t location = machine->location, code_align = machine->common->code_align;
    struct state *state = &machine->state;
    int64_t cfa_offset = state->cfa_offset; /* the state's, while this function runs */
    while (at < end) {
        const uint8_t *operation = at;
        uint8_t op = *at++, operand = op - OP_ADVANCE_LOC; /* of an operation that advances */
        uintptr_t next;
        if (operand <= OP_OPERAND) {
            next = location + operand * code_align;
        } else if (op == OP_ADVANCE_LOC1 && at < end) {
            next = location + *at++ * code_align;
        } else if (op == OP_DEF_CFA_OFFSET && at < end && *at < 0x80) {
            cfa_offset = *at++;
            continue;
        } else if (op == OP_DEF_CFA_OFFSET && end - at >= 2 && at[1] < 0x80) { /* two bytes */
            cfa_offset = (at[0] & 0x7f) | at[1] << 7;
            at += 2;
            continue;
        } else if ((op & OP_KIND) == OP_OFFSET && at < end && *at < 0x80) {
            /* unsigned: with the factor of a damaged library the product wraps around */
            set_register(state, op & OP_OPERAND, CFI_RBP_AT_CFA,
                         (int64_t)(*at++ * (uint64_t)machine->common->data_align));
            continue;
        } else if ((op & OP_KIND) == OP_RESTORE) {
            restore_register(state, machine->initial, op & OP_OPERAND);
            continue;
        } else if (op == OP_REMEMBER_STATE) {
            if (machine->depth == STATES_MAX)
                return false;
            state->cfa_offset = cfa_offset;
            machine->saved[machine->depth++] = *state;
            continue;
        } else if (op == OP_RESTORE_STATE) {
            if (!machine->depth)
                return false;
            *state = machine->saved[--machine->depth];
            cfa_offset = state->cfa_offset;
            continue;
        } else {
            /* copies of `at` and `location`, so that these two stay in registers */
            const uint8_t *operands = at;
            uintptr_t moved = location;
            state->cfa_offset = cfa_offset;
            if (!run_operation(&operands, end, op, machine->common, state, machine->initial,
                               &moved))
                return false;
            cfa_offset = state->cfa_offset;
            at = operands;
            next = moved;
        }
        if (next > pc) {
            at = operation;
            break;
        }
        location = next;
        if (end - at >= 2 && at[0] == OP_DEF_CFA_OFFSET && at[1] < 0x80) {
            cfa_offset = at[1];
            at += 2;
        }
    }
    state->cfa_offset = cfa_offset;
    machine->at = at;
    machine->location = location;
    return true;
}
/* --- waypoints -------------------------------------------------------------------------------- */

/* A program of at least this many bytes is long. */
#define LONG_BYTES 512
/* The code of a function with a long program is divided into at most PIECES_MAX pieces, of at least
 * 1 << PIECE_SHIFT bytes each. */
#define PIECE_SHIFT 11U
#define PIECES_MAX 1024U
#define WAYPOINTS 256U /* a power of two */

/* A large function calls others in hundreds of places, and each return address has a rule of its
 * own. So that not each of these rules runs the program from its beginning, a waypoint keeps the
 * place and the state that the program had reached at the start of a piece of the code. */
struct waypoint {
    uintptr_t code;          /* start of the piece */
    const uint8_t *at, *end; /* the next operation, and the end of the program */
    uintptr_t location;
    struct state state;
};
static struct {
    /* Atomic: a thread uses the waypoints. Meanwhile other threads and signal handlers run programs
     * without waypoints. If another thread forks meanwhile, `taken` stays true in the child for
     * ever, so the child runs all programs without waypoints. */
    bool taken;
    uint32_t generation; /* value of waypoint_generation when the waypoints were set */
    struct waypoint at[WAYPOINTS];
} waypoints;
static uint32_t waypoint_generation = 1; /* atomic */

void cfi_forget_programs(void) {
    add_relaxed(&waypoint_generation, 1);
}

static bool waypoints_take(void) {
    if (exchange_acq_rel(&waypoints.taken, true))
        return false;
    uint32_t generation = load_acquire(&waypoint_generation);
    if (waypoints.generation != generation) {
        __builtin_memset(waypoints.at, 0, sizeof waypoints.at);
        waypoints.generation = generation;
    }
    return true;
}

/* Returns the waypoint for a piece of the code. Pieces of a function have waypoints side by side.
 */
static struct waypoint *waypoint_of(uintptr_t start, uintptr_t piece) {
    return &waypoints.at[(hash_mix(start, 0) + piece) % WAYPOINTS];
}

/* Runs a long program for code that begins at `start`. */
static bool run_long(struct machine *machine, uintptr_t start, uintptr_t pc) {
    unsigned shift = PIECE_SHIFT;
    while ((pc - start) >> shift >= PIECES_MAX)
        shift++;
    uintptr_t last = (pc - start) >> shift, piece = last;
    if (!last || !waypoints_take())
        return run(machine, pc);
    for (; piece; piece--) {
        const struct waypoint *waypoint = waypoint_of(start, piece);
        if (waypoint->code != start + (piece << shift) || waypoint->end != machine->end)
            continue;
        machine->at = waypoint->at;
        machine->location = waypoint->location;
        machine->state = waypoint->state;
        break;
    }
    bool right = true;
    while (right && piece++ < last) {
        uintptr_t code = start + (piece << shift);
        right = run(machine, code);
        if (right && !machine->depth)
            *waypoint_of(start, piece) = (struct waypoint){code, machine->at, machine->end,
                                                           machine->location, machine->state};
    }
    store_release(&waypoints.taken, false);
    return right && run(machine, pc);
}

/* Prepares a run of the program [at, end) for code that begins at `start`. The states in
 * machine->saved stay unset, because there are many. */
static void machine_begin(struct machine *machine, const struct common *common, const uint8_t *at,
                          const uint8_t *end, uintptr_t start, const struct state *initial) {
    machine->at = at;
    machine->end = end;
    machine->common = common;
    machine->location = start;
    machine->state = *initial;
    machine->initial = initial;
    machine->depth = 0;
}

bool cfi_run(const struct common *common, const uint8_t *at, const uint8_t *end, uintptr_t start,
             uintptr_t pc, struct state *state) {
    struct state initial = *state;
    struct machine machine;
    machine_begin(&machine, common, at, end, start, &initial);
    bool right = end - at < LONG_BYTES ? run(&machine, pc) : run_long(&machine, start, pc);
    *state = machine.state;
    return right;
}

/* The program has run up to machine->location. Returns where its next row begins; `end` of the code
 * if there is no further row. 0: the program is damaged, or uses an unknown operation. */
static uintptr_t next_row(const struct machine *machine, uintptr_t end) {
    const uint8_t *at = machine->at;
    if (at == machine->end)
        return end;
    uint8_t op = *at++;
    uintptr_t next = machine->location;
    struct state state = machine->state; /* an operation that advances changes no state */
    if ((op & OP_KIND) == OP_ADVANCE_LOC)
        next += (op & OP_OPERAND) * machine->common->code_align;
    else if (!run_operation(&at, machine->end, op, machine->common, &state, machine->initial,
                            &next))
        return 0;
    return next < end ? next : end;
}

/* True if a call may end in this code. A byte that looks like the first one of a call, e8 or ff
 * with /2 or /3, may also be a part of another instruction. */
static bool may_call(const uint8_t *code, const uint8_t *end) {
    /* bytes of the shortest call by ff, for each mode of its operand */
    static const uint8_t least_bytes[] = {2, 3, 6, 2};
    for (; code < end; code++)
        if ((*code == 0xe8 && end - code >= 5) ||
            (*code == 0xff && end - code >= 2 && (code[1] >> 3 & 6) == 2 &&
             end - code >= least_bytes[code[1] >> 6]))
            return true;
    return false;
}

static bool rules_are_equal(struct cfi_rule a, struct cfi_rule b) {
    return a.kind == b.kind && a.rbp == b.rbp && a.cfa_offset == b.cfa_offset &&
           a.rbp_offset == b.rbp_offset;
}

struct cfi_function cfi_run_alike(const struct common *common, const uint8_t *at,
                                  const uint8_t *end, struct cfi_function function, uintptr_t pc,
                                  const struct state *state) {
    const struct cfi_function none = {0};
    struct state there = *state;
    struct machine machine;
    uintptr_t code_end = function.start + function.bytes, next;
    uintptr_t first = 0, last = 0; /* bounds of the present piece of code with the rule */
    if (!cfi_run(common, at, end, function.start, pc, &there))
        return none;
    struct cfi_rule wanted = cfi_rule_of(&there);
    machine_begin(&machine, common, at, end, function.start, state);
    for (uintptr_t row = function.start; row < code_end; row = next) {
        if (!run(&machine, row) || (next = next_row(&machine, code_end)) <= row)
            return none;
        if (rules_are_equal(cfi_rule_of(&machine.state), wanted)) {
            first = first ? first : row;
            last = next;
        } else if (may_call((const uint8_t *)row, (const uint8_t *)next)) {
            if (first && pc >= first && pc < last)
                break;
            first = 0;
        }
    }
    if (!first || pc < first || pc >= last)
        return none;
    return (struct cfi_function){first, (uint32_t)(last - first)};
}

struct cfi_rule cfi_rule_of(const struct state *state) {
    struct cfi_rule rule = {.kind = CFI_NONE, .rbp = state->rbp};
    int64_t cfa = state->cfa_offset, rbp = state->rbp_offset;
    if (state->ra_undefined)
        return (struct cfi_rule){.kind = CFI_END};
    if (!state->ra_standard || state->rsp_saved || cfa > INT32_MAX || cfa < INT32_MIN)
        return rule;
    if (rbp & 7 || rbp > 4096 || rbp < -4096) {
        rule.rbp = CFI_RBP_LOST;
        rbp = 0;
    }
    if (state->cfa == CFA_REGISTER && state->cfa_register == REG_RSP)
        rule.kind = CFI_SP;
    else if (state->cfa == CFA_REGISTER && state->cfa_register == REG_RBP)
        rule.kind = CFI_RBP;
    else if (state->cfa == CFA_RBP_DEREF)
        rule.kind = CFI_RBP_DEREF;
    rule.cfa_offset = (int32_t)cfa;
    rule.rbp_offset = (int32_t)rbp;
    return rule;
}
