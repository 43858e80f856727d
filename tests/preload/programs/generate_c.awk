# SPDX-License-Identifier: MIT
# Writes a C file of `functions` functions that call each other, with structs, switches and loops.
BEGIN {
    print "#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n"
    print "struct point { int64_t x, y; struct point *next; char name[16]; };"
    state = 11
    for (f = 0; f < functions; f++) {
        printf "static int64_t work_%d(struct point *p, int64_t n)\n{\n", f
        printf "    int64_t sum = n * %d, table[%d] = {%d, %d};\n", f, 4 + f % 13, f % 7,
            f % 11
        printf "    for (int i = 0; i < %d; i++) {\n", 3 + f % 9
        printf "        switch ((sum + i) & 7) {\n"
        for (c = 0; c < 8; c++) {
            state = (state * 69069 + 1) % 4294967296
            printf "        case %d: sum ^= table[i %% %d] + %dLL * p->x - (p->y >> %d); break;\n",
                c, 4 + f % 13, state % 100000, state % 31
        }
        printf "        }\n        if (p->next && sum %% %d == 0) {\n", 2 + f % 5
        printf "            p = p->next;\n            memcpy(p->name, \"name%d\", 6);\n        }\n",
            f % 10
        printf "    }\n"
        if (f > 0) {
            printf "    return n > 0 ? sum + work_%d(p, n - 1) : sum + work_%d(p, 0);\n}\n\n",
                f - 1, int(f / 2)
        } else {
            print "    return sum + (int64_t)strlen(p->name);\n}\n"
        }
    }
    printf "int64_t entry_%s(struct point *p, int64_t n)\n{\n    return work_%d(p, n);\n}\n",
        name, functions - 1
}
