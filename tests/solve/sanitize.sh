#!/bin/sh
# The fuzz once under AddressSanitizer and UBSan, and a small one under valgrind: sanitize.sh PYTHON
set -e
case $1 in /*) python=$1 ;; *) python=$PWD/$1 ;; esac # the work is done elsewhere
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp -r src tests "$place"
cd "$place"
export PYTHONPATH="$place/src:$place" OMP_NUM_THREADS=1 PYTHONMALLOC=malloc

CFLAGS="-g -fsanitize=address,undefined -fno-sanitize-recover=all" CC="${CC:-gcc}" \
    "$python" src/fedsched/solve/kernel/build.py
# Python itself leaves memory behind; leaks of the kernel are valgrind's to find.
checked() {
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
        ASAN_OPTIONS=detect_leaks=0 "$python" "$@"
}
checked -m tests.solve.fuzz --count "${COUNT:-100000}" --twin 0
checked -m pytest -q -p no:cacheprovider tests/solve/test_step.py
echo "AddressSanitizer and UBSan found nothing"

CFLAGS=-g "$python" src/fedsched/solve/kernel/build.py
# What Python and NumPy do by design is not ours: only what names a file of the kernel counts.
valgrind --log-file="$place/valgrind.log" --leak-check=full \
    "$python" -m tests.solve.fuzz --count "${VALGRIND_COUNT:-300}" --twin 0
parts=$(cd src/fedsched/solve/kernel && ls ./*.c | sed 's/^\.\///; s/\.c$//' | paste -sd '|')
if grep -E "_kernel\.abi3|\(($parts)\.c:" "$place/valgrind.log"; then exit 1; fi
echo "valgrind found nothing in the kernel"
