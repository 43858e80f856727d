/* SPDX-License-Identifier: MIT */
/* settings.h - the MEMCTX_* settings as the command knows them (include/memctx/options.h). */
#ifndef MEMCTX_SETTINGS_H
#define MEMCTX_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct settings_entry {
    const char *variable; /* MEMCTX_NAME */
    const char *help;
    const char *const *words; /* words of an enum, in the order of their values; NULL: a number */
    int64_t initial, minimum, maximum;
    bool size;     /* the value is a number of bytes, or a percentage as a negative number */
    bool settable; /* can be changed while the program runs */
};

extern const struct settings_entry settings_table[];
extern const size_t settings_count;

/* Returns the entry's name, which is NAME in lower case, as the library prints it. The text stays
 * valid until the next call. */
const char *settings_name(const struct settings_entry *entry);
/* Returns the entry of this name, in lower or upper case; NULL: there is none. */
const struct settings_entry *settings_find(const char *name);
/* Returns "; did you mean NAME?" for a misspelled name, or for a name with MEMCTX_; if no name is
 * near, returns `otherwise`. */
const char *settings_suggest(const char *name, const char *otherwise);
/* Warns of each environment variable that seems to be a misspelled setting, or a misspelled
 * variable such as MEMCTX_RULES. */
void settings_warn_of_misspelled(void);
/* Returns true if the text is a valid value of the entry. */
bool settings_accepts(const struct settings_entry *entry, const char *text);
/* Returns the syntax of the entry's values in words; NULL: the entry's range or list of words says
 * enough. */
const char *settings_syntax(const struct settings_entry *entry);
/* Returns the values of the entry in words, for a message. The caller frees the text. */
char *settings_describe(const struct settings_entry *entry);
/* Returns a value as text, a number or a word. The text stays valid until the next call. */
const char *settings_text(const struct settings_entry *entry, int64_t value);

#endif
