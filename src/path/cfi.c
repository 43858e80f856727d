/* SPDX-License-Identifier: MIT */
/*
 * Call frame information: finds the entry for an address and runs the entry's program up to that
 * address.
 *
 * For: the forms that gcc, clang and rustc emit for x86-64: CFA from rsp or rbp, rbp saved on the
 * stack, realigned stacks through rbp, signal frames. Any other form (CFA in another register,
 * longer expressions) gives CFI_NONE, and the path then ends in a label. This code never guesses.
 */
#include "path/loaded.h"

#include <dlfcn.h>
#include <link.h>

enum { REG_RBP = 6, REG_RSP = 7, REG_RA = 16 };
enum { PE_PCREL = 0x10, PE_DATAREL = 0x30, PE_INDIRECT = 0x80 };
#define STATES_MAX 16

/* The operations of an entry's program, with DWARF's numbers and names (DW_CFA_...). The first
 * three have their operand in the lower six bits of the operation's byte. */
enum { OP_ADVANCE_LOC = 1 << 6, OP_OFFSET = 2 << 6, OP_RESTORE = 3 << 6 };
enum { OP_KIND = 3 << 6, OP_OPERAND = 0x3f };
enum { OP_NOP, OP_SET_LOC, OP_ADVANCE_LOC1, OP_ADVANCE_LOC2, OP_ADVANCE_LOC4 };
enum { OP_OFFSET_EXTENDED = 0x05, OP_RESTORE_EXTENDED, OP_UNDEFINED, OP_SAME_VALUE, OP_REGISTER };
enum { OP_REMEMBER_STATE = 0x0a, OP_RESTORE_STATE };
enum { OP_DEF_CFA = 0x0c, OP_DEF_CFA_REGISTER, OP_DEF_CFA_OFFSET, OP_DEF_CFA_EXPRESSION };
enum { OP_EXPRESSION = 0x10, OP_OFFSET_EXTENDED_SF, OP_DEF_CFA_SF, OP_DEF_CFA_OFFSET_SF };
enum { OP_VAL_OFFSET = 0x14, OP_VAL_OFFSET_SF, OP_VAL_EXPRESSION };
enum { OP_GNU_ARGS_SIZE = 0x2e, OP_GNU_NEGATIVE_OFFSET };
/* The two operations of expressions that parse_rbp_expression knows (DW_OP_...). */
enum { EXPRESSION_DEREF = 0x06, EXPRESSION_BREG0 = 0x70 };

struct reader {
    const uint8_t *at, *end;
    bool bad;
};

/* Reads a number of at most 8 bytes, in the processor's order (the least byte first). */
INLINE uint64_t read_fixed(struct reader *r, unsigned bytes) {
    uint64_t value = 0;
    if (UNLIKELY(r->bad) || UNLIKELY((size_t)(r->end - r->at) < bytes)) {
        r->bad = true;
        r->at = r->end;
        return 0;
    }
    __builtin_memcpy(&value, r->at, bytes);
    r->at += bytes;
    return value;
}

INLINE uint8_t read_byte(struct reader *r) {
    if (UNLIKELY(r->at >= r->end)) {
        r->bad = true;
        return 0;
    }
    return *r->at++;
}

static NOINLINE uint64_t read_long_leb(struct reader *r, bool is_signed) {
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

/* Reads a number of variable length (LEB128). Nearly all such numbers have one byte. */
INLINE uint64_t read_leb(struct reader *r, bool is_signed) {
    if (UNLIKELY(r->at >= r->end) || UNLIKELY(*r->at & 0x80))
        return read_long_leb(r, is_signed);
    uint64_t value = *r->at++;
    return is_signed && value & 0x40 ? value | ~0x3fUL : value;
}

/* Reads a pointer in one of the encodings of the LSB; `data` is the base of data-relative
 * pointers. */
static uintptr_t read_encoded(struct reader *r, uint8_t encoding, uintptr_t data) {
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

/* struct dl_find_object of glibc, whose headers have it only from 2.35 on. */
struct libc_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};
#if __GLIBC_PREREQ(2, 35)
_Static_assert(sizeof(struct libc_object) == sizeof(struct dl_find_object) &&
                   offsetof(struct libc_object, eh_frame) ==
                       offsetof(struct dl_find_object, dlfo_eh_frame),
               "as glibc has it");
#endif
extern int libc_find_object(void *pc, struct libc_object *found) __asm__("_dl_find_object")
    __attribute__((weak));

bool loaded_is_used(void) {
    return !libc_find_object;
}

static bool find_range(uintptr_t pc, struct loaded_range *range) {
    struct libc_object found;
    if (!libc_find_object)
        return loaded_find(pc, range);
    if (libc_find_object((void *)pc, &found))
        return false;
    range->start = (uintptr_t)found.map_start;
    range->end = (uintptr_t)found.map_end;
    range->link_map = found.link_map;
    range->eh_frame_header = found.eh_frame;
    return true;
}

bool cfi_find_object(uintptr_t pc, struct cfi_object *object) {
    struct loaded_range found;
    if (!find_range(pc, &found))
        return false;
    object->start = found.start;
    object->end = found.end;
    object->link_map = found.link_map;
    object->eh_frame_header = found.eh_frame_header;
    object->frames_start = object->start;
    object->frames_end = object->end;
    /* If an object has gaps between its segments, `found` is only the segment around pc, which may
     * lack the unwind information. */
    uintptr_t header = (uintptr_t)found.eh_frame_header;
    if (header && (header < object->start || header >= object->end)) {
        if (!find_range(header, &found))
            object->eh_frame_header = NULL;
        object->frames_start = found.start;
        object->frames_end = found.end;
    }
    return true;
}

#define HEADER_BYTES_MIN 4U

/* Returns the frame description entry whose range may hold pc, found by the object's sorted table,
 * and sets *start to the start of the range as the table has it. NULL: there is none. */
static const uint8_t *find_entry(const struct cfi_object *object, uintptr_t pc, uintptr_t *start) {
    const uint8_t *header = object->eh_frame_header;
    if (!header || (uintptr_t)header < object->frames_start ||
        (uintptr_t)header + HEADER_BYTES_MIN > object->frames_end || header[0] != 1 ||
        header[3] != (PE_DATAREL | 0x0b))
        return NULL;
    struct reader r = {header + 4, (const uint8_t *)object->frames_end, false};
    read_encoded(&r, header[1], (uintptr_t)header);
    uint64_t count = read_encoded(&r, header[2], (uintptr_t)header);
    if (r.bad || !count || count > (size_t)(r.end - r.at) / 8 || (uintptr_t)r.at % sizeof(int32_t))
        return NULL;
    const struct { int32_t start, entry; } *table = (const void *)r.at;
    int64_t wanted = (int64_t)(pc - (uintptr_t)header);
    size_t low = 0, high = count;
    if (table[0].start > wanted)
        return NULL;
    while (high - low > 1) { /* the last entry that starts at or before pc */
        size_t middle = low + (high - low) / 2;
        if (table[middle].start <= wanted)
            low = middle;
        else
            high = middle;
    }
    *start = (uintptr_t)header + (uintptr_t)(intptr_t)table[low].start;
    return (const uint8_t *)((uintptr_t)header + (uintptr_t)(intptr_t)table[low].entry);
}

struct common { /* contents of a common information entry (CIE) */
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding;
    bool augmented, signal_frame, bad;
    const uint8_t *program, *end;
};

/* Returns a reader of the entry's contents behind its length. The reader is `bad` if the entry is
 * not inside the object's mapped unwind information. */
static struct reader entry_reader(const uint8_t *entry, const struct cfi_object *object) {
    struct reader r = {entry, (const uint8_t *)object->frames_end, false};
    uintptr_t at = (uintptr_t)entry;
    if (at < object->frames_start || at > object->frames_end || object->frames_end - at < 8) {
        r.bad = true;
        return r;
    }
    uint64_t length = read_fixed(&r, 4);
    if (length == 0xffffffff)
        length = read_fixed(&r, 8);
    if (!length || length > (size_t)(r.end - r.at))
        r.bad = true;
    else
        r.end = r.at + length;
    return r;
}

/* Parses a common information entry. The result is `bad` if the entry is damaged or has an unknown
 * form. */
static struct common parse_common(const uint8_t *entry, const struct cfi_object *object) {
    struct common common = {.bad = true};
    struct reader r = entry_reader(entry, object);
    if (r.bad || read_fixed(&r, 4))
        return common;
    uint8_t version = (uint8_t)read_fixed(&r, 1);
    const char *augmentation = (const char *)r.at;
    while (read_fixed(&r, 1)) {
    }
    if (r.bad) /* the augmentation string has no final 0 */
        return common;
    if (version == 4)
        read_fixed(&r, 2);
    common.code_align = read_leb(&r, false);
    common.data_align = (int64_t)read_leb(&r, true);
    if ((version == 1 ? read_fixed(&r, 1) : read_leb(&r, false)) != REG_RA)
        return common;
    if (*augmentation == 'z') {
        common.augmented = true;
        uint64_t length = read_leb(&r, false);
        if (r.bad || length > (size_t)(r.end - r.at))
            return common;
        const uint8_t *program = r.at + length;
        for (const char *a = augmentation + 1; *a; a++) {
            if (*a == 'R') {
                common.encoding = (uint8_t)read_fixed(&r, 1);
            } else if (*a == 'L') {
                read_fixed(&r, 1);
            } else if (*a == 'P') {
                uint8_t encoding = (uint8_t)read_fixed(&r, 1);
                read_encoded(&r, encoding & 0x0f, 0);
            } else if (*a == 'S') {
                common.signal_frame = true;
            } else {
                return common;
            }
        }
        r.at = program;
    } else if (*augmentation) {
        return common;
    }
    common.program = r.at;
    common.end = r.end;
    common.bad = r.bad || r.at > r.end;
    return common;
}

/* A row of the table that an entry's program describes: the rules that hold from one address on. */
struct state {
    int64_t cfa_offset, rbp_offset;
    uint64_t cfa_register;
    enum { CFA_REGISTER, CFA_RBP_DEREF, CFA_UNUSABLE } cfa;
    enum cfi_rbp rbp;
    /* ra_standard: the return address is at CFA - 8; ra_undefined: the frame is the outermost one;
     * rsp_saved: the caller's stack pointer is not the CFA, because the code changes the stack */
    bool ra_standard, ra_undefined, rsp_saved;
};

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
        *location = read_encoded(&r, common->encoding, 0);
    else
        known = run_extended(&r, op, common, state, initial);
    *location += advance * common->code_align;
    *at = r.at;
    return known && !r.bad;
}

/* Runs a program until its location passes pc. False: the program is damaged, or uses an unknown
 * operation. A large function has hundreds of operations. Nearly all operations are of the kinds
 * that this function runs itself, without a call. */
static bool run(const uint8_t *at, const uint8_t *end, const struct common *common,
                uintptr_t location, uintptr_t pc, struct state *state,
                const struct state *initial) {
    struct state saved[STATES_MAX];
    unsigned depth = 0;
    while (at < end) {
        uint8_t op = *at++;
        if ((op & OP_KIND) == OP_ADVANCE_LOC) {
            location += (op & OP_OPERAND) * common->code_align;
            if (location > pc)
                return true;
        } else if (op == OP_ADVANCE_LOC1 && at < end) {
            location += *at++ * common->code_align;
            if (location > pc)
                return true;
        } else if (op == OP_DEF_CFA_OFFSET && at < end && *at < 0x80) {
            state->cfa_offset = *at++;
        } else if (op == OP_DEF_CFA_OFFSET && end - at >= 2 && at[1] < 0x80) { /* two bytes */
            state->cfa_offset = (at[0] & 0x7f) | at[1] << 7;
            at += 2;
        } else if ((op & OP_KIND) == OP_OFFSET && at < end && *at < 0x80) {
            set_register(state, op & OP_OPERAND, CFI_RBP_AT_CFA, *at++ * common->data_align);
        } else if ((op & OP_KIND) == OP_RESTORE) {
            restore_register(state, initial, op & OP_OPERAND);
        } else if (op == OP_REMEMBER_STATE) {
            if (depth == STATES_MAX)
                return false;
            saved[depth++] = *state;
        } else if (op == OP_RESTORE_STATE) {
            if (!depth)
                return false;
            *state = saved[--depth];
        } else {
            /* copies of `at` and `location`, so that these two stay in registers */
            const uint8_t *operands = at;
            uintptr_t moved = location;
            if (!run_operation(&operands, end, op, common, state, initial, &moved))
                return false;
            at = operands;
            location = moved;
            if (location > pc)
                return true;
        }
    }
    return true;
}

static struct cfi_rule rule_of(const struct state *state) {
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

/* Finds the frame description entry whose range holds pc. Sets *r to the part of the entry behind
 * the range, and *common to the entry's CIE. Returns the range; its start is 0 if there is no such
 * entry. */
static struct cfi_function find_function(const struct cfi_object *object, uintptr_t pc,
                                         struct reader *r, struct common *common) {
    const struct cfi_function none = {0};
    uintptr_t start, length;
    const uint8_t *entry = find_entry(object, pc, &start);
    if (!entry)
        return none;
    *r = entry_reader(entry, object);
    const uint8_t *id_at = r->at;
    uint64_t distance = read_fixed(r, 4);
    if (r->bad || !distance)
        return none;
    *common = parse_common((const uint8_t *)((uintptr_t)id_at - distance), object);
    if (common->bad)
        return none;
    start = read_encoded(r, common->encoding, 0);
    length = read_encoded(r, common->encoding & 0x0f, 0);
    if (r->bad || pc < start || pc - start >= length)
        return none;
    return (struct cfi_function){start, length < UINT32_MAX ? (uint32_t)length : UINT32_MAX};
}

/* The usual frame description entry: its length, the distance to its CIE, the start of its range of
 * code, relative to the address of this field, and the range's number of bytes. */
struct usual_entry {
    uint32_t length, distance;
    int32_t start;
    uint32_t bytes;
};

struct cfi_function cfi_find_function(const struct cfi_object *object, uintptr_t pc) {
    const struct cfi_function none = {0};
    struct reader r;
    struct common common;
    struct usual_entry usual;
    uintptr_t start, at = (uintptr_t)find_entry(object, pc, &start);
    if (at < object->frames_start || at > object->frames_end ||
        object->frames_end - at < sizeof usual)
        return none;
    __builtin_memcpy(&usual, (const void *)at, sizeof usual);
    /* Only the CIE says for certain how an entry is encoded. But if the entry, read in the usual
     * form, gives the start that the sorted table has, then it has this form, and the CIE need not
     * be read. */
    if (at + offsetof(struct usual_entry, start) + (uintptr_t)(intptr_t)usual.start == start)
        return pc - start < usual.bytes ? (struct cfi_function){start, usual.bytes} : none;
    return find_function(object, pc, &r, &common);
}

/* True if the entry's program gives the CFA as libc's signal return does: by an expression for the
 * stack pointer that the kernel saved in the signal frame. Other code that is marked as a signal
 * frame switches stacks by itself, and has usual rules. */
static bool is_kernel_frame(const uint8_t *program, const uint8_t *end) {
    static const uint8_t cfa[] = {OP_DEF_CFA_EXPRESSION,      4, /* bytes of the expression */
                                  EXPRESSION_BREG0 + REG_RSP, (CFI_SIGNAL_SP & 0x7f) | 0x80,
                                  CFI_SIGNAL_SP >> 7,         EXPRESSION_DEREF};
    for (; end - program >= (ptrdiff_t)sizeof cfa; program++)
        if (!__builtin_memcmp(program, cfa, sizeof cfa))
            return true;
    return false;
}

struct cfi_rule cfi_find_rule(const struct cfi_object *object, uintptr_t pc) {
    struct cfi_rule none = {.kind = CFI_NONE}, rule;
    struct reader r;
    struct common common;
    uintptr_t start = find_function(object, pc, &r, &common).start;
    if (!start)
        return none;
    none.function = start;
    if (common.signal_frame && is_kernel_frame(r.at, r.end))
        return (struct cfi_rule){.kind = CFI_SIGNAL, .function = start};
    if (common.augmented) {
        uint64_t skip = read_leb(&r, false);
        if (skip > (size_t)(r.end - r.at))
            return none;
        r.at += skip;
    }
    struct state state = {.cfa = CFA_UNUSABLE};
    struct state initial = state;
    if (!run(common.program, common.end, &common, 0, UINTPTR_MAX, &state, &initial))
        return none;
    initial = state;
    if (!run(r.at, r.end, &common, start, pc, &state, &initial))
        return none;
    rule = rule_of(&state);
    rule.function = start;
    return rule;
}
