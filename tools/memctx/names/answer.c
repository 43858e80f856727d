/* SPDX-License-Identifier: MIT */
/* answer.c - writes and reads the names of addresses on a pipe. */
#include "names/answer.h"

#include <string.h>

#define FUNCTIONS_MAX 64 /* greatest number of functions of one address, inlined ones included */
#define NAME_MAX_BYTES (1 << 20)

static void put_text(FILE *answer, const char *text) {
    uint32_t length = text ? (uint32_t)strnlen(text, NAME_MAX_BYTES - 1) : UINT32_MAX;
    fwrite(&length, sizeof length, 1, answer);
    if (text)
        fwrite(text, 1, length, answer);
}

void answer_put_function(FILE *answer, const char *name, const char *file, int64_t line) {
    putc('f', answer);
    fwrite(&line, sizeof line, 1, answer);
    put_text(answer, name);
    put_text(answer, file);
}

void answer_put_end(FILE *answer) {
    putc('.', answer);
}

void answer_put_tails(FILE *answer, size_t count) {
    putc((int)count, answer);
}

bool answer_get_tails(FILE *answer, size_t *count) {
    int number = getc(answer);
    *count = number > 0 ? (size_t)number : 0;
    return number >= 0 && number <= ANSWER_TAILS_MAX;
}

void answer_put_address(FILE *answer, uint32_t module, uint64_t address) {
    fwrite(&module, sizeof module, 1, answer);
    fwrite(&address, sizeof address, 1, answer);
}

bool answer_get_address(FILE *answer, uint32_t *module, uint64_t *address) {
    return fread(module, sizeof *module, 1, answer) == 1 &&
           fread(address, sizeof *address, 1, answer) == 1;
}

static bool get_text(FILE *answer, char **text) {
    uint32_t length;
    *text = NULL;
    if (fread(&length, sizeof length, 1, answer) != 1)
        return false;
    if (length == UINT32_MAX)
        return true;
    if (length >= NAME_MAX_BYTES)
        return false;
    *text = cli_alloc(length + 1, 1);
    if (fread(*text, 1, length, answer) != length)
        return false;
    cli_clean(*text);
    return true;
}

bool answer_get_names(FILE *answer, struct model_names **names) {
    struct model_function functions[FUNCTIONS_MAX];
    uint32_t count = 0;
    int mark;
    while ((mark = getc(answer)) == 'f') {
        struct model_function function = {0};
        if (fread(&function.line, sizeof function.line, 1, answer) != 1 ||
            !get_text(answer, &function.name) || !get_text(answer, &function.file))
            return false;
        if (count < FUNCTIONS_MAX)
            functions[count++] = function;
    }
    *names = NULL;
    if (mark == '.' && count > 0) {
        *names = cli_alloc(1, sizeof **names);
        (*names)->count = count;
        (*names)->functions = cli_alloc(count, sizeof functions[0]);
        memcpy((*names)->functions, functions, count * sizeof functions[0]);
    }
    return mark == '.';
}
