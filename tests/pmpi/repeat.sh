#!/bin/sh
# Sums that depend on their order have the same bits in repeated runs, whatever carries them. repeat.sh NRANKS LIBRARY PROGRAM
run=$(dirname "$0")/run.sh
first=
for pml in ob1 ob1 ucx; do
    said=$(sh "$run" "$1" "$pml" "$2" "$3")
    case $? in 0) ;; 77) continue ;; *) echo "$said"; exit 1 ;; esac
    bits=$(echo "$said" | grep '^bits ')
    [ -n "$bits" ] || { echo "FAILED: the program printed no bits"; exit 1; }
    [ "${first:=$bits}" = "$bits" ] || { echo "FAILED: $first"; echo "then $bits over $pml"; exit 1; }
done
echo "$first"
