/*
 * Programs as text, one instruction a line (two-shot of rank 1, all four ranks within reach):
 *
 *     program allreduce two_shot rank 1 of 4
 *     reach 1 of 4 pull
 *     blocks 4 lanes 1 flags 2
 *     cuts 0 1 2 3 4
 *     scratch 1 0 1 0 1
 *     stores-to
 *     knows 0 1 2 3
 *     0 enter flag 0
 *     1 reduce [1:2) in@0 + in + in@2 + in@3 -> out, out@2, out@3, out@0 await 3:0, 2:0, 0:0 flag 1
 *     2 exit await 0:1, 3:1, 2:1
 *     end
 *
 * Ranges are blocks. `reach` is this rank's place among the ranks within reach; @2, and the first number of `await 2:0` (wait for
 * flag 0 of 2), count there too. `flags` is the most that any of them has. `scratch` gives the blocks that each scratch buffer
 * holds, and tmp0(2) is one whose contents begin at block 2 and not at the range's. land1@2 is landing slot 1 of rank 2, whose
 * range is on the line `land 2` (push). One source is a copy, none a wait; `after 3, 5` waits for the messages of instructions 3
 * and 5. There is one text for each program: what is read is printed as the same bytes.
 */
#ifndef PEALI_PROGRAM_TEXT_H
#define PEALI_PROGRAM_TEXT_H

#include <stdio.h>

#include "base/scan.h"
#include "lower/lower.h"

/* Writes PROGRAM to TO; errors of the stream stay there (ferror). */
void peali_program_print(const peali_program *program, FILE *to);

/*
 * Reads one program, the whole text: *OUT is freed with peali_program_free. All that one program can tell is checked: ranges lie
 * between cuts, operands within their scratch or landing slot, waits name messages before them, flags count up from 0. The
 * algorithm is a registered one. Memory: at most 64 times the text, and 1 MiB.
 *
 * Returns: PEAL_OK; PEAL_ERR_INVALID, and WHY (PEALI_SCAN_WHY bytes) says line and cause, nothing is logged; PEAL_ERR_MEMORY.
 * Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_program_read(const char *text, size_t length, peali_program **out, char *why);

#endif
