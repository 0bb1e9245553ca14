# Files stay short, lines readable, and nothing is left for later. The files are those of the tree, not of build folders.
cd "$(dirname "$0")/.." || exit 1
later="TO""DO|FIX""ME"
result=0
say() {
    echo "$1"
    result=1
}
for file in src/*/*.[ch] include/peal/*.h bench/*.[ch] bench/*.sh bench/examples/*.c bench/peers/*.[ch] \
            bench/peers/*.py tests/*.[ch] tests/*.sh tests/*.f90 tests/*.py tests/models/*.pml; do
    [ -e "$file" ] || continue
    most=600
    case $file in src/algos/*) most=150 ;; esac
    lines=$(wc -l < "$file")
    [ "$lines" -le "$most" ] || say "$file: $lines lines, at most $most"
    long=$(awk 'length($0) > 132 { printf " %d", NR }' "$file")
    [ -z "$long" ] || say "$file: lines over 132 characters:$long"
    left=$(grep -nE "$later" "$file")
    [ -z "$left" ] || say "$file: $left"
    case $file in
    *.[ch] | *.pml) [ "$(head -c 2 "$file")" = "/*" ] || say "$file: begins without the comment that says what it promises" ;;
    esac
done
exit $result
