/* Every text that the registered algorithms give: schedules, and programs with messages only and with ranks within reach. */
#ifndef TEXT_SAMPLES_H
#define TEXT_SAMPLES_H

#include "lower/lower.h"

/* Called for each schedule with PROGRAM NULL, and for each program with SCHED NULL. */
typedef void text_sample(const peal_sched *sched, const peali_program *program, void *ctx);

/* All algorithms, roots 0 and n-1, on N ranks: on one node, and on nodes of at most three ranks. */
void text_samples(int n, text_sample *each, void *ctx);

#endif
