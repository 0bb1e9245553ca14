#!/bin/sh
# Writes the header FILE with a checksum of what libpeal under ROOT is made of:
#
#     sh sources.sh ROOT FILE
sum=$(cd "$1" && find include src -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.txt' \) | LC_ALL=C sort |
    xargs cat | cksum) || exit 1
new=$(printf '/* Written at build time. */\n#define PEALI_SOURCES "sources %010d"' "${sum%% *}")
[ "$new" = "$(cat "$2" 2> /dev/null)" ] || printf '%s\n' "$new" > "$2"
