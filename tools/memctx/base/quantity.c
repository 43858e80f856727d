/* SPDX-License-Identifier: MIT */
/* quantity.c - reads sizes and times that a user writes. */
#include "base/quantity.h"

#include <string.h>

bool quantity_read_number(const char *text, int64_t unit, int64_t *value, const char **end) {
    int64_t whole = 0, part = 0, divisor = 1;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (whole > (INT64_MAX - 9) / 10)
            return false;
        whole = 10 * whole + (*at - '0');
    }
    if (at == text)
        return false;
    if (at[0] == '.' && at[1] >= '0' && at[1] <= '9') {
        for (at++; *at >= '0' && *at <= '9'; at++) {
            if (divisor < 1000000) { /* digits behind the sixth are ignored */
                part = 10 * part + (*at - '0');
                divisor *= 10;
            }
        }
    }
    *end = at;
    if (unit > 0 && whole > (INT64_MAX / 2) / unit)
        return false;
    *value = whole * unit + (int64_t)((double)part * (double)unit / (double)divisor);
    return true;
}

/* Returns the first character behind the number, before its unit is known. */
static const char *skip_number(const char *text) {
    return text + strspn(text, "0123456789.");
}

bool quantity_read_size(const char *text, const char *end, int64_t *bytes) {
    const char *unit = skip_number(text), *stop;
    int shift = 0;
    if (unit < end && *unit != '\0' && strchr("kKmMgGtT", *unit)) {
        shift = strchr("kK", *unit) ? 10 : strchr("mM", *unit) ? 20 : strchr("gG", *unit) ? 30 : 40;
        unit++;
        if (end - unit == 2 && memcmp(unit, "iB", 2) == 0)
            unit += 2;
    }
    if (end - unit == 1 && *unit == 'B')
        unit++;
    return unit == end && quantity_read_number(text, INT64_C(1) << shift, bytes, &stop) &&
           stop == skip_number(text);
}

bool quantity_read_time(const char *text, const char *end, int64_t *us) {
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"us", 1},
                 {"ms", 1000},
                 {"s", QUANTITY_US_PER_S},
                 {"", QUANTITY_US_PER_S},
                 {"m", INT64_C(60) * QUANTITY_US_PER_S},
                 {"h", INT64_C(3600) * QUANTITY_US_PER_S}};
    const char *unit = skip_number(text), *stop;
    size_t length = unit <= end ? (size_t)(end - unit) : 0;
    if (unit > end)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i].name) == length && strncmp(units[i].name, unit, length) == 0)
            return quantity_read_number(text, units[i].us, us, &stop) && stop == unit;
    return false;
}
