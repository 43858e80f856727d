/* SPDX-License-Identifier: MIT */
/*
 * cfi_program.h - shared by cfi.c, which finds the entry for an address, and cfi_program.c, which
 * runs the entry's program: reads numbers of .eh_frame, and holds the state of a program.
 *
 * Each read stays inside the bytes of its reader. A read beyond them makes the reader `bad` and
 * gives 0.
 *
 * Threads: any, also in a signal handler.
 */
#ifndef MEMCTX_CFI_PROGRAM_H
#define MEMCTX_CFI_PROGRAM_H

#include "path/cfi.h"

enum { REG_RBP = 6, REG_RSP = 7, REG_RA = 16 };
enum { PE_PCREL = 0x10, PE_DATAREL = 0x30, PE_INDIRECT = 0x80 };
/* The two operations of expressions that parse_rbp_expression knows (DW_OP_...). */
enum { EXPRESSION_DEREF = 0x06, EXPRESSION_BREG0 = 0x70 };

enum { OP_DEF_CFA_EXPRESSION = 0x0f }; /* DW_CFA_def_cfa_expression */

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

uint64_t cfi_read_long_leb(struct reader *r, bool is_signed);

/* Reads a number of variable length (LEB128). Nearly all such numbers have one byte. */
INLINE uint64_t read_leb(struct reader *r, bool is_signed) {
    if (UNLIKELY(r->at >= r->end) || UNLIKELY(*r->at & 0x80))
        return cfi_read_long_leb(r, is_signed);
    uint64_t value = *r->at++;
    return is_signed && value & 0x40 ? value | ~0x3fUL : value;
}
/* Reads a pointer in one of the encodings of the LSB; `data` is the base of data-relative
 * pointers. */
uintptr_t cfi_read_encoded(struct reader *r, uint8_t encoding, uintptr_t data);

struct common { /* contents of a common information entry (CIE) */
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding;
    bool augmented, signal_frame, bad;
    const uint8_t *program, *end; /* program: NULL if `usual` */
    bool usual;                   /* its program gives the state usual_state */
};

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

/* Runs the program [at, end) of an entry, whose code begins at `start`, up to pc. *state becomes
 * the state that holds at pc; before, it is the state after the CIE's program. False: the program
 * is damaged, or uses an unknown operation. */
bool cfi_run(const struct common *common, const uint8_t *at, const uint8_t *end, uintptr_t start,
             uintptr_t pc, struct state *state);
/* Runs the program [at, end) of an entry, whose code is `function`, and returns the code around pc
 * in which every call has the rule that holds at pc. Code without a call may have another rule
 * there, such as the end of the function in the middle of its code. *state is the state after the
 * CIE's program. Start 0: the program is damaged, or uses an unknown operation. */
struct cfi_function cfi_run_alike(const struct common *common, const uint8_t *at,
                                  const uint8_t *end, struct cfi_function function, uintptr_t pc,
                                  const struct state *state);
/* Returns the rule of a state, without the function. */
struct cfi_rule cfi_rule_of(const struct state *state);

#endif
