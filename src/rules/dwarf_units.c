/* SPDX-License-Identifier: MIT */
/* Source files of code; see dwarf_units.h. */
#include "rules/dwarf_units.h"

#define ATTRIBUTES_MAX 64U /* of a unit */

enum { AT_NAME = 0x03, AT_LOW_PC = 0x11, AT_HIGH_PC = 0x12 };
enum { UNIT_SKELETON = 4, UNIT_SPLIT = 5 };
enum {
    FORM_ADDR = 0x01,
    FORM_BLOCK2 = 0x03,
    FORM_BLOCK4 = 0x04,
    FORM_DATA2 = 0x05,
    FORM_DATA4 = 0x06,
    FORM_DATA8 = 0x07,
    FORM_STRING = 0x08,
    FORM_BLOCK = 0x09,
    FORM_BLOCK1 = 0x0a,
    FORM_DATA1 = 0x0b,
    FORM_FLAG = 0x0c,
    FORM_SDATA = 0x0d,
    FORM_STRP = 0x0e,
    FORM_UDATA = 0x0f,
    FORM_SEC_OFFSET = 0x17,
    FORM_EXPRLOC = 0x18,
    FORM_FLAG_PRESENT = 0x19,
    FORM_STRX = 0x1a,
    FORM_DATA16 = 0x1e,
    FORM_LINE_STRP = 0x1f,
    FORM_IMPLICIT_CONST = 0x21,
    FORM_LOCLISTX = 0x22,
    FORM_RNGLISTX = 0x23,
    FORM_STRX1 = 0x25,
    FORM_STRX4 = 0x28,
};

struct debug { /* the sections */
    struct elf_part info, abbreviations, strings, line_strings, ranges;
};

/* What is read goes on from `at`; past the end all is zero, and `bad` set. */
struct reader {
    const uint8_t *at, *end;
    bool bad;
};

static struct reader reader_at(const struct elf_part *part, uint64_t offset) {
    const uint8_t *begin = (const uint8_t *)part->bytes;
    if (offset > part->size)
        return (struct reader){.bad = true};
    return (struct reader){.at = begin + offset, .end = begin + part->size};
}

static void skip(struct reader *reader, uint64_t bytes) {
    if (reader->bad || bytes > (uint64_t)(reader->end - reader->at))
        reader->bad = true;
    else
        reader->at += bytes;
}

static uint64_t fixed(struct reader *reader, unsigned bytes) {
    const uint8_t *from = reader->at;
    uint64_t value = 0;
    skip(reader, bytes);
    if (!reader->bad)
        __builtin_memcpy(&value, from, bytes);
    return value;
}

static uint64_t leb(struct reader *reader) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint64_t byte = fixed(reader, 1);
        value |= shift < 64 ? (byte & 127) << shift : 0;
        if (!(byte & 128) || reader->bad)
            return value;
    }
}

static const char *string(struct reader *reader) {
    const char *begin = (const char *)reader->at;
    while (fixed(reader, 1) && !reader->bad)
        ;
    return reader->bad ? "" : begin;
}

/* The length of what follows, of which the reader is not to leave; *offset_bytes: 4 or 8. */
static bool enter(struct reader *reader, unsigned *offset_bytes) {
    uint64_t length = fixed(reader, 4);
    *offset_bytes = 4;
    if (length == UINT32_MAX) {
        length = fixed(reader, 8);
        *offset_bytes = 8;
    }
    if (reader->bad || length > (uint64_t)(reader->end - reader->at))
        return false;
    reader->end = reader->at + length;
    return true;
}

struct unit {
    const char *name;
    uint64_t low, high;
    bool high_is_size;
};

struct shape { /* of a unit's values */
    unsigned offset_bytes, address_bytes, version;
};

/* A string in another section. */
static const char *string_at(const struct elf_part *section, uint64_t offset) {
    struct reader reader = reader_at(section, offset);
    return string(&reader);
}

/* Goes past a value, which is kept if it is one that tells of the unit. False: nobody knows how long it is. */
static bool take_value(struct reader *reader, const struct debug *debug, const struct shape *shape,
                       uint64_t attribute, uint64_t form, struct unit *unit) {
    uint64_t value = 0;
    const char *name = NULL;
    switch (form) {
    case FORM_ADDR: value = fixed(reader, shape->address_bytes); break;
    case FORM_DATA1:
    case FORM_FLAG:
    case FORM_STRX1: value = fixed(reader, 1); break;
    case FORM_DATA2:
    case FORM_STRX1 + 1: value = fixed(reader, 2); break;
    case FORM_STRX1 + 2: skip(reader, 3); break;
    case FORM_DATA4:
    case FORM_STRX4: value = fixed(reader, 4); break;
    case FORM_DATA8: value = fixed(reader, 8); break;
    case FORM_DATA16: skip(reader, 16); break;
    case FORM_STRING: name = string(reader); break;
    case FORM_STRP: name = string_at(&debug->strings, fixed(reader, shape->offset_bytes)); break;
    case FORM_LINE_STRP:
        name = string_at(&debug->line_strings, fixed(reader, shape->offset_bytes));
        break;
    case FORM_SEC_OFFSET: skip(reader, shape->offset_bytes); break;
    case FORM_SDATA:
    case FORM_UDATA:
    case FORM_STRX:
    case FORM_LOCLISTX:
    case FORM_RNGLISTX: value = leb(reader); break;
    case FORM_BLOCK1: skip(reader, fixed(reader, 1)); break;
    case FORM_BLOCK2: skip(reader, fixed(reader, 2)); break;
    case FORM_BLOCK4: skip(reader, fixed(reader, 4)); break;
    case FORM_BLOCK:
    case FORM_EXPRLOC: skip(reader, leb(reader)); break;
    case FORM_FLAG_PRESENT:
    case FORM_IMPLICIT_CONST: break; /* stands with the abbreviation */
    default: return false;
    }
    if (attribute == AT_NAME && name)
        unit->name = name;
    if (attribute == AT_LOW_PC && form == FORM_ADDR)
        unit->low = value;
    if (attribute == AT_HIGH_PC) {
        unit->high = value;
        unit->high_is_size = form != FORM_ADDR;
    }
    return !reader->bad;
}

/* The abbreviation with that number; the reader is then at its attributes. */
static bool find_abbreviation(struct reader *reader, uint64_t wanted) {
    for (;;) {
        uint64_t number = leb(reader);
        leb(reader); /* tag */
        skip(reader, 1);
        if (reader->bad || !number)
            return false;
        if (number == wanted)
            return true;
        uint64_t attribute, form;
        do {
            attribute = leb(reader);
            form = leb(reader);
            if (form == FORM_IMPLICIT_CONST)
                leb(reader);
        } while ((attribute || form) && !reader->bad);
    }
}

/* The unit that begins there; *next: where the one behind it does. False: it is none that is understood. */
static bool read_unit(const struct debug *debug, uint64_t offset, struct unit *unit,
                      uint64_t *next) {
    struct reader reader = reader_at(&debug->info, offset);
    struct shape shape;
    *unit = (struct unit){.name = ""};
    if (reader.bad || !enter(&reader, &shape.offset_bytes))
        return false;
    *next = (uint64_t)((const char *)reader.end - debug->info.bytes);
    shape.version = (unsigned)fixed(&reader, 2);
    unsigned type = shape.version >= 5 ? (unsigned)fixed(&reader, 1) : 0;
    if (shape.version >= 5)
        shape.address_bytes = (unsigned)fixed(&reader, 1);
    uint64_t abbreviations = fixed(&reader, shape.offset_bytes);
    if (shape.version < 5)
        shape.address_bytes = (unsigned)fixed(&reader, 1);
    if (type == UNIT_SKELETON || type == UNIT_SPLIT)
        skip(&reader, 8);
    if (shape.version < 2 || shape.version > 5 || shape.address_bytes != 8)
        return true; /* without a name */
    struct reader attributes = reader_at(&debug->abbreviations, abbreviations);
    if (!find_abbreviation(&attributes, leb(&reader)))
        return true;
    for (unsigned i = 0; i < ATTRIBUTES_MAX && !attributes.bad; i++) {
        uint64_t attribute = leb(&attributes), form = leb(&attributes);
        if (form == FORM_IMPLICIT_CONST)
            leb(&attributes);
        if ((!attribute && !form) || !take_value(&reader, debug, &shape, attribute, form, unit))
            break;
    }
    if (unit->high_is_size)
        unit->high += unit->low;
    return true;
}

/* A set of ranges of one unit. False: it is damaged, or the last one is behind. */
static bool visit_set(const struct debug *debug, struct reader *all, elf_function_visit *visit,
                      void *context) {
    struct reader set = *all;
    const uint8_t *begin = set.at;
    unsigned offset_bytes;
    struct unit unit;
    uint64_t next;
    if (set.at == set.end || !enter(&set, &offset_bytes))
        return false;
    all->at = set.end;
    uint64_t version = fixed(&set, 2), offset = fixed(&set, offset_bytes);
    uint64_t address_bytes = fixed(&set, 1), segment_bytes = fixed(&set, 1);
    if (set.bad || version != 2 || address_bytes != 8 || segment_bytes ||
        !read_unit(debug, offset, &unit, &next) || !*unit.name)
        return true;
    skip(&set, (16 - (uint64_t)(set.at - begin) % 16) % 16);
    while (!set.bad) {
        uint64_t start = fixed(&set, 8), bytes = fixed(&set, 8);
        if (!start && !bytes)
            break;
        if (!set.bad)
            visit(unit.name, start, start + bytes, context);
    }
    return true;
}

static bool visit_units(const struct debug *debug, elf_function_visit *visit, void *context) {
    struct unit unit;
    uint64_t offset = 0;
    while (offset < debug->info.size && read_unit(debug, offset, &unit, &offset))
        if (*unit.name && unit.low && unit.high > unit.low)
            visit(unit.name, unit.low, unit.high, context);
    return offset != 0;
}

static bool each_unit(struct elf_file *file, elf_function_visit *visit, void *context) {
    struct debug debug = {0};
    bool done = elf_read_section(&debug.info, file, ".debug_info") &&
                elf_read_section(&debug.abbreviations, file, ".debug_abbrev");
    if (done) { /* some compilers do without these */
        (void)elf_read_section(&debug.strings, file, ".debug_str");
        (void)elf_read_section(&debug.line_strings, file, ".debug_line_str");
        if (elf_read_section(&debug.ranges, file, ".debug_aranges")) {
            struct reader all = reader_at(&debug.ranges, 0);
            while (visit_set(&debug, &all, visit, context))
                ;
        } else {
            done = visit_units(&debug, visit, context);
        }
    }
    elf_part_free(&debug.info);
    elf_part_free(&debug.abbreviations);
    elf_part_free(&debug.strings);
    elf_part_free(&debug.line_strings);
    elf_part_free(&debug.ranges);
    return done;
}

bool dwarf_each_unit(const struct module *module, elf_function_visit *visit, void *context) {
    bool done = false;
    for (int debug = 0; debug < 2 && !done; debug++) {
        struct elf_file file;
        if (!elf_open(&file, module, debug))
            continue;
        done = each_unit(&file, visit, context);
        elf_close(&file);
    }
    return done;
}
