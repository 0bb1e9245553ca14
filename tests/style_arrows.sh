# The rooms of src/ include only what their arrows allow; first this test shows that it refuses a planted violation.
# Arrows carry on: who may include sched may include what sched may. The public headers are free to all but the algorithms.
cd "$(dirname "$0")/.." || exit 1

allowed() {
    case $1 in
    base)  echo base ;;
    sched) echo base sched ;;
    algos) echo ;;
    topo)  echo base topo ;;
    lower) echo base sched topo lower ;;
    study) echo base sched topo lower study ;;
    net)   echo base net ;;
    exec)  echo base sched topo lower net exec ;;
    cuda)  echo base sched topo lower cuda ;;
    heap)  echo base exec heap ;; # of exec the pool alone, below
    comm)  echo base sched topo lower net exec cuda comm ;;
    pmpi)  echo base comm pmpi ;; # of comm what libpeal exports for it, and what speaks MPI as it does, below
    bench) echo base sched topo lower study cuda comm ;; # of cuda the driver, of comm what libpeal exports, below
    esac
}

# Prints each include of FILE (in room ROOM, named WHERE) that no arrow allows.
refused() {
    room=$1 file=$2 where=$3
    sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\(["<][^">]*\)[">].*/\1/p' "$file" | while read -r name; do
        case $name in
        '"'*/*) target=${name#?}; target=${target%%/*}
            case " $(allowed "$room") " in *" $target "*) ;; *) echo "$where: $name" ;; esac
            [ "$room" = heap ] && [ "$target" = exec ] && [ "$name" != '"exec/pool.h' ] && echo "$where: $name"
            [ "$room" = bench ] && [ "$target" = cuda ] && [ "$name" != '"cuda/driver.h' ] && echo "$where: $name"
            [ "$room" = bench ] && [ "$target" = comm ] && [ "$name" != '"comm/comm.h' ] && echo "$where: $name"
            [ "$room" = pmpi ] && [ "$target" = comm ] && case $name in
                '"comm/comm.h'|'"comm/roll_mpi.h') ;;
                *) echo "$where: $name" ;; esac ;;
        '<mpi.h'|'<peal/mpi.h') case $where in
            src/pmpi/*|src/net/net_mpi.[ch]|src/comm/comm_mpi.c|src/comm/roll_mpi.[ch]|bench/team_mpi.c|bench/examples/*) ;;
            *) echo "$where: $name" ;; esac ;;
        '<peal/algo.h') ;;
        *) [ "$room" = algos ] && echo "$where: $name" ;;
        esac
    done
}

planted=$(mktemp) || exit 1
trap 'rm -f "$planted"' EXIT
plant() {
    echo "$3" > "$planted"
    [ -n "$(refused "$1" "$planted" "$2")" ] || { echo "a planted violation was not refused: $3 in $2"; exit 1; }
}
plant sched src/sched/build.c '#include "lower/program.h"'
plant net src/net/net_loop.c '  #  include "sched/sched.h"'
plant algos src/algos/allreduce_ring.c '#include <stdlib.h>'
plant algos src/algos/allreduce_ring.c '#include "base/log.h"'
plant exec src/exec/run.c '#include <mpi.h>'
plant heap src/heap/block.c '#include "exec/plan.h"'
plant pmpi src/pmpi/hooks.c '#include "net/net.h"'
plant pmpi src/pmpi/hooks.c '#include "comm/nodes.h"'
plant bench bench/race.c '#include "exec/run.h"'
plant bench bench/race.c '#include "cuda/team.h"'
plant bench bench/race.c '#include "comm/nodes.h"'

found=$(for file in src/*/*.[ch] src/*/*.in bench/*.[ch]; do
    [ -e "$file" ] || continue
    room=${file#src/}
    case $file in src/algos/registry.c.in) continue ;; bench/*) room=bench ;; *) room=${room%%/*} ;; esac
    [ "$room" = algos ] || [ -n "$(allowed "$room")" ] || echo "$file: a room without arrows"
    refused "$room" "$file" "$file"
done)
[ -z "$found" ] && exit 0
echo "includes that no arrow allows:"
echo "$found"
exit 1
