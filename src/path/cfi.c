/* SPDX-License-Identifier: MIT */
/*
 * Call frame information: finds the entry for an address, and has its program run up to that
 * address (cfi_program.c, which says which forms it knows).
 */
#include "path/cfi_program.h"
#include "path/loaded.h"

#include <dlfcn.h>
#include <link.h>

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
    cfi_read_encoded(&r, header[1], (uintptr_t)header);
    uint64_t count = cfi_read_encoded(&r, header[2], (uintptr_t)header);
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
                cfi_read_encoded(&r, encoding & 0x0f, 0);
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
/* The usual CIEs of C and of C++. The 4 bytes with the address of C++'s personality routine, which
 * differ from object to object, are left out. Both programs say that the CFA is rsp + 8, and that
 * the return address is at CFA - 8. */
static const uint8_t usual_c[] = {0x14, 0,    0,      0, 0,    0,    0,       0, 1,    'z', 'R', 0,
                                  1,    0x78, REG_RA, 1, 0x1b, 0x0c, REG_RSP, 8, 0x90, 1,   0,   0};
static const uint8_t usual_cpp[] = {0x1c, 0,   0,   0, 0, 0,    0,      0, 1,   'z',
                                    'P',  'L', 'R', 0, 1, 0x78, REG_RA, 7, 0x9b};
#define PERSONALITY_BYTES 4
static const uint8_t usual_cpp_end[] = {0x1b, 0x1b, 0x0c, REG_RSP, 8, 0x90, 1, 0, 0};
#define USUAL_BYTES (sizeof usual_cpp + PERSONALITY_BYTES + sizeof usual_cpp_end)
static const struct common usual_common = {
    .code_align = 1, .data_align = -8, .encoding = 0x1b, .augmented = true, .usual = true};
static const struct state usual_state = {
    .cfa = CFA_REGISTER, .cfa_register = REG_RSP, .cfa_offset = 8, .ra_standard = true};

static bool is_usual_common(uintptr_t at, const struct cfi_object *object) {
    const uint8_t *entry = (const uint8_t *)at;
    if (at < object->frames_start || at > object->frames_end ||
        object->frames_end - at < USUAL_BYTES)
        return false;
    return !__builtin_memcmp(entry, usual_c, sizeof usual_c) ||
           (!__builtin_memcmp(entry, usual_cpp, sizeof usual_cpp) &&
            !__builtin_memcmp(entry + sizeof usual_cpp + PERSONALITY_BYTES, usual_cpp_end,
                              sizeof usual_cpp_end));
}

/* The usual frame description entry: its length, the distance to its CIE, the start of its range of
 * code, relative to the address of this field, and the range's number of bytes. */
struct usual_entry {
    uint32_t length, distance;
    int32_t start;
    uint32_t bytes;
};

/* Reads an entry in the usual form. False: it has another form. Only the CIE says for certain how
 * an entry is encoded. But if the entry, read in the usual form, gives the start that the sorted
 * table has, then it has this form, and the CIE need not be read. */
static bool read_usual(const struct cfi_object *object, uintptr_t at, uintptr_t start,
                       struct usual_entry *usual) {
    if (at < object->frames_start || at > object->frames_end ||
        object->frames_end - at < sizeof *usual)
        return false;
    __builtin_memcpy(usual, (const void *)at, sizeof *usual);
    return at + offsetof(struct usual_entry, start) + (uintptr_t)(intptr_t)usual->start == start;
}

/* Reads a frame description entry. Sets *r to the part of the entry behind its range of code, and
 * *common to the entry's CIE. Returns the range; its start is 0 if the range does not hold pc, or
 * the entry is damaged. */
static struct cfi_function read_entry(const struct cfi_object *object, const uint8_t *entry,
                                      uintptr_t pc, struct reader *r, struct common *common) {
    const struct cfi_function none = {0};
    *r = entry_reader(entry, object);
    const uint8_t *id_at = r->at;
    uint64_t distance = read_fixed(r, 4);
    if (r->bad || !distance)
        return none;
    *common = parse_common((const uint8_t *)((uintptr_t)id_at - distance), object);
    if (common->bad)
        return none;
    uintptr_t start = cfi_read_encoded(r, common->encoding, 0);
    uintptr_t length = cfi_read_encoded(r, common->encoding & 0x0f, 0);
    if (r->bad || pc < start || pc - start >= length)
        return none;
    return (struct cfi_function){start, length < UINT32_MAX ? (uint32_t)length : UINT32_MAX};
}

/* Finds the frame description entry whose range holds pc, and reads it as read_entry does. */
static struct cfi_function find_function(const struct cfi_object *object, uintptr_t pc,
                                         struct reader *r, struct common *common) {
    const struct cfi_function none = {0};
    struct usual_entry usual;
    uintptr_t start;
    const uint8_t *entry = find_entry(object, pc, &start);
    if (!entry)
        return none;
    uintptr_t id_at = (uintptr_t)entry + offsetof(struct usual_entry, distance);
    if (!read_usual(object, (uintptr_t)entry, start, &usual) ||
        usual.length < sizeof usual - sizeof usual.length ||
        usual.length > object->frames_end - id_at ||
        !is_usual_common(id_at - usual.distance, object))
        return read_entry(object, entry, pc, r, common);
    *r = (struct reader){entry + sizeof usual, (const uint8_t *)id_at + usual.length, false};
    *common = usual_common;
    return pc - start < usual.bytes ? (struct cfi_function){start, usual.bytes} : none;
}

struct cfi_function cfi_find_function(const struct cfi_object *object, uintptr_t pc) {
    struct reader r;
    struct common common;
    struct usual_entry usual;
    uintptr_t start;
    const uint8_t *entry = find_entry(object, pc, &start);
    if (!entry)
        return (struct cfi_function){0};
    if (!read_usual(object, (uintptr_t)entry, start, &usual))
        return read_entry(object, entry, pc, &r, &common);
    return pc - start < usual.bytes ? (struct cfi_function){start, usual.bytes}
                                    : (struct cfi_function){0};
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

/* Moves *r, which is behind an entry's range of code, to the entry's program, and sets *state to
 * the state after the CIE's program. False: the entry or its CIE is damaged. */
static bool begin_program(struct reader *r, const struct common *common, struct state *state) {
    if (common->augmented) {
        uint64_t skip = read_leb(r, false);
        if (skip > (size_t)(r->end - r->at))
            return false;
        r->at += skip;
    }
    *state = usual_state;
    if (common->usual)
        return true;
    *state = (struct state){.cfa = CFA_UNUSABLE};
    return cfi_run(common, common->program, common->end, 0, UINTPTR_MAX, state);
}

struct cfi_rule cfi_find_rule(const struct cfi_object *object, uintptr_t pc) {
    struct cfi_rule none = {.kind = CFI_NONE}, rule;
    struct reader r;
    struct common common;
    struct state state;
    uintptr_t start = find_function(object, pc, &r, &common).start;
    if (!start)
        return none;
    none.function = start;
    if (common.signal_frame && is_kernel_frame(r.at, r.end))
        return (struct cfi_rule){.kind = CFI_SIGNAL, .function = start};
    if (!begin_program(&r, &common, &state) || !cfi_run(&common, r.at, r.end, start, pc, &state))
        return none;
    rule = cfi_rule_of(&state);
    rule.function = start;
    return rule;
}

struct cfi_function cfi_find_alike(const struct cfi_object *object, uintptr_t pc) {
    const struct cfi_function none = {0};
    struct reader r;
    struct common common;
    struct state state;
    struct cfi_function function = find_function(object, pc, &r, &common);
    if (!function.start || common.signal_frame || !begin_program(&r, &common, &state))
        return none;
    /* A damaged entry may claim more code than there is. */
    if (function.start < object->start || pc >= object->end)
        return none;
    if (function.bytes > object->end - function.start)
        function.bytes = (uint32_t)(object->end - function.start);
    return cfi_run_alike(&common, r.at, r.end, function, pc, &state);
}
