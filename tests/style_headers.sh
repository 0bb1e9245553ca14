# Each public header compiles alone, as C11 and as C++. CC is the compiler; MPI_INCLUDE is empty where there is no MPI.
cd "$(dirname "$0")/.." || exit 1
: "${CC:=cc}"
strict="-Wall -Wextra -Werror -pedantic"
result=0
compile() {
    # shellcheck disable=SC2086
    printf '#include <peal/%s>\nextern int used;\n' "$2" | $CC -fsyntax-only -x "$1" $3 -Iinclude $strict $4 - && return
    echo "$2 does not compile as $1"
    result=1
}
cxx=1
echo 'int x;' | $CC -fsyntax-only -x c++ - 2>/dev/null || cxx=0
for path in include/peal/*.h; do
    header=${path##*/} flags=
    if [ "$header" = mpi.h ]; then
        [ -n "$MPI_INCLUDE" ] || continue
        flags="-isystem $MPI_INCLUDE"
    fi
    compile c "$header" "-std=c11" "$flags"
    [ $cxx = 0 ] || compile c++ "$header" "-std=c++11" "$flags"
done
[ $result = 0 ] && [ $cxx = 0 ] && { echo "no C++ compiler beside $CC: headers were compiled as C only"; exit 77; }
exit $result
