#!/bin/sh
# HPC Challenge under Peal: every check it makes of its own results passes. hpcc.sh LIBRARY
library=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
command -v hpcc >/dev/null || skip "no hpcc: apt-get install hpcc"
ldd "$(command -v hpcc)" | grep -q 'libmpi\.so' || skip "this hpcc was not built for Open MPI"

cp "$here/hpccinf.txt" "$dir" && cd "$dir" || exit 1
ranks_peal 4 hpcc >out 2>&1 || broke "hpcc ended with $?"
[ -e hpccoutf.txt ] || fail "hpcc wrote no hpccoutf.txt"
grep -E 'PASSED|FAILED|^Success' hpccoutf.txt
grep -q '^Success=1' hpccoutf.txt || fail "hpcc does not say Success=1"
grep -q 'FAILED' hpccoutf.txt && fail "hpcc says FAILED"
grep -q 'PASSED' hpccoutf.txt || fail "hpcc does not say PASSED"
grep -q '1 tests completed and passed residual checks' hpccoutf.txt || fail "HPL did not pass"
want_taken allreduce broadcast reduce
