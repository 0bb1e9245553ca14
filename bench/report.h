/* What becomes of a race: a table, a JSON file, a plot. */
#ifndef PEALI_REPORT_H
#define PEALI_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "race.h"
#include "steal.h"

/* The machine in the words of its system; unknown things are "" or 0. */
typedef struct peali_origin {
    char cpu[128];
    char kernel[160];
    int cores;
    size_t memory_bytes;
    peali_steal steal; /* when it was found */
} peali_origin;
peali_origin peali_origin_find(void);

/* The commit that this command was built from, and the compiler. */
const char *peali_origin_commit(void);
const char *peali_origin_compiler(void);

/* The table's head, in nccl-tests' order and names where these exist; one line of it; the winner of each size. */
void peali_report_head(const peali_race *race, const peali_origin *host);
void peali_report_row(const peali_race *race, const peali_row *row);
void peali_report_winners(const peali_race *race);

/* The same of a race on GPUs: report_gpu.c. */
void peali_report_gpu_head(const peali_race *race, const peali_origin *host);
void peali_report_gpu_row(const peali_race *race, const peali_row *row);
void peali_report_gpu_contests(const peali_race *race);

/* SHARE of the cores' time was stolen during the race (steal.h): says so where that is felt. */
void peali_report_steal(double share);

/* The winners, and the files that the flags ask for: by one rank. False where a file failed; a plot without gnuplot does not. */
bool peali_report_all(const peali_race *race, const peali_origin *host);

/* Writes FILE; false where that failed, which was printed. Without gnuplot there is no plot, and nothing has failed. */
bool peali_save_json(const peali_race *race, const peali_origin *host, const char *file);
bool peali_plot_svg(const peali_race *race, const peali_origin *host, const char *file);

/* A variant's name beside the others of its race. */
const char *peali_runner_label(const peali_runner *runner);

/* BYTES as people write it: "16", "4K", "64M". */
const char *peali_bytes_text(size_t bytes, char text[24]);

#endif
