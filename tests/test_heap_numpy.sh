#!/bin/sh
# Python with numpy and libpeal_heap in front: test_heap_numpy.sh LIBPEAL_HEAP LIBPEAL [ROUNDS]
heap=$1
shift
for python in /usr/bin/python3 python3; do
    "$python" -c 'import numpy' 2>/dev/null || continue
    LD_PRELOAD=$heap exec "$python" "$(dirname "$0")/heap_numpy.py" "$@"
done
echo "skipped: no numpy: apt-get install python3-numpy"
exit 77
