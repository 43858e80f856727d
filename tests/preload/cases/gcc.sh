# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# Compilers: the object files must be equal byte for byte. cc1 allocates everything by one xmalloc,
# has its own garbage collector, and has the deepest stacks of all tested programs.

big_c() { # FUNCTIONS NAME: the file $T/NAME.c
    awk -v functions="$1" -v name="$2" -f "$programs_dir/generate_c.awk" >"$T/$2.c"
}

test_gcc_optimised() {
    need gcc
    big_c 120 big
    same bash -c "gcc -O2 -g -c -o big.o '$T/big.c' && gcc -O0 -S -o big.s '$T/big.c' &&
        gcc -shared -o big.so big.o && cksum big.o big.s big.so"
}

test_gcc_templates() {
    need g++
    same bash -c "g++ -std=c++17 -O1 -c -o big.o '$programs_dir/templates.cpp' && cksum big.o"
}

test_gcc_errors() {
    need gcc
    printf 'int main(void) {\n    return nonsense(1, "two") + missing;\n' >"$T/bad.c"
    same_status 1 gcc -Wall -O2 -c "$T/bad.c"
    grep -q nonsense "$T/ours.err" || fail "no diagnostics"
}

test_gcc_lto() {
    need gcc ar
    big_c 60 one
    big_c 70 two
    same bash -c "gcc -O2 -flto -frandom-seed=1 -c '$T/one.c' '$T/two.c' &&
        ar rcD both.a one.o two.o &&
        gcc -O2 -flto=2 -frandom-seed=1 -shared -Wl,--build-id=none -o both.so \
            -Wl,--whole-archive both.a -Wl,--no-whole-archive &&
        nm both.so | grep -c ' [tT] ' && ls"
}

test_gcc_make() {
    need gcc make
    local i
    mkdir "$T/project"
    for i in $(seq 24); do
        awk -v functions=8 -v name="part_$i" -f "$programs_dir/generate_c.awk" \
            >"$T/project/part_$i.c"
    done
    cat >"$T/project/Makefile" <<'EOT'
sources := $(wildcard $(from)/*.c)
objects := $(notdir $(sources:.c=.o))
library.so: $(objects)
	@$(CC) -shared -o $@ $(sort $^)
%.o: $(from)/%.c
	@$(CC) -O1 -c -o $@ $<
EOT
    same bash -c "make -j2 -f '$T/project/Makefile' from='$T/project' && cksum *.o *.so"
}
