/* Reading goes line by line into a table of fixed size: nothing is allocated, so no table is missing for want of memory. */
#include "sched/tuning.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/config.h"
#include "base/log.h"

/* tuning.txt, a line each; generated. */
extern const char *const peali_tuning_lines[];

typedef struct reading {
    peali_tuning *to;
    int first; /* row of this text */
    int32_t line;
    char *why;
} reading;

__attribute__((format(printf, 2, 3))) static bool broken(const reading *r, const char *format, ...)
{
    va_list args;
    int at = snprintf(r->why, PEALI_TUNING_WHY, "line %d: ", (int)r->line);
    va_start(args, format);
    vsnprintf(r->why + at, (size_t)(PEALI_TUNING_WHY - at), format, args);
    va_end(args);
    return false;
}

int peali_tuning_kind(const char *name)
{
    for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++)
        if (strcmp(name, peal_kind_name((peal_kind)kind)) == 0)
            return kind;
    return -1;
}

bool peali_tuning_transport(const char *name)
{
    static const char *const names[] = {"*", "loop", "mpi", "ucx", "shm", "direct", "hosts"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* A number of at most 12 digits, with k, m or g (large or small) behind it where UNITS. */
static bool number(const char *text, bool units, size_t *out)
{
    size_t digits = strspn(text, "0123456789");
    const char *all = "kmg", *unit = units && text[digits] ? strchr(all, text[digits] | 0x20) : NULL;
    if (digits == 0 || digits > 12 || (text[digits] && (!unit || text[digits + 1])))
        return false;
    return !__builtin_mul_overflow((size_t)strtoull(text, NULL, 10), (size_t)1 << (unit ? 10 * (unit - all + 1) : 0), out);
}

static bool together(const peali_tuning_row *a, const peali_tuning_row *b)
{
    return a->kind == b->kind && a->ranks == b->ranks && strcmp(a->transport, b->transport) == 0;
}

/* The last row of a group holds for all sizes. */
static bool closed(const reading *r)
{
    const peali_tuning_row *last = &r->to->rows[r->to->nrows - 1];
    return r->to->nrows == r->first || last->bytes == SIZE_MAX ||
           broken(r, "the rows of %s %s %d before it end without inf", peal_kind_name(last->kind), last->transport,
                  (int)last->ranks);
}

static bool in_order(const reading *r, const peali_tuning_row *row)
{
    const peali_tuning_row *rows = r->to->rows;
    int n = r->to->nrows;
    if (n > r->first && together(&rows[n - 1], row))
        return row->bytes >= rows[n - 1].bytes || broken(r, "its bytes are below those of the row before");
    for (int i = r->first; i < n; i++)
        if (together(&rows[i], row))
            return broken(r, "the rows of %s %s %d are not together", peal_kind_name(row->kind), row->transport, (int)row->ranks);
    return closed(r);
}

/* WORD: collective, transport, ranks, bytes, algorithm, slice_bytes. */
static bool fill(const reading *r, char word[6][64], peali_tuning_row *row)
{
    int kind = peali_tuning_kind(word[0]);
    size_t ranks = 0;
    if (kind < 0)
        return broken(r, "no collective %s", word[0]);
    *row = (peali_tuning_row){.kind = (peal_kind)kind, .line = r->line, .bytes = SIZE_MAX};
    if (!peali_tuning_transport(word[1]))
        return broken(r, "no transport %s; it is loop, mpi, ucx, shm, direct, hosts or *", word[1]);
    strcpy(row->transport, word[1]);
    if (!number(word[2], false, &ranks) || ranks < 1 || ranks > 1000000000)
        return broken(r, "ranks %s is not a number from 1", word[2]);
    row->ranks = (int32_t)ranks;
    if (strcmp(word[3], "inf") != 0 && !number(word[3], true, &row->bytes))
        return broken(r, "bytes %s is no number, with k, m or g, nor inf", word[3]);
    row->algo = peali_algo_find(row->kind, word[4]);
    if (!row->algo)
        return broken(r, "no algorithm %s of %s; `peal info` lists them", word[4], word[0]);
    if (!number(word[5], true, &row->slice_bytes))
        return broken(r, "slice_bytes %s is no number, with k, m or g", word[5]);
    return true;
}

static bool take(reading *r, const char *line)
{
    char word[6][64], more[2];
    peali_tuning_row row;
    r->line++;
    int n = sscanf(line, "%63s %63s %63s %63s %63s %63s %1s", word[0], word[1], word[2], word[3], word[4], word[5], more);
    if (n < 1 || word[0][0] == '#')
        return true;
    if (n != 6)
        return broken(r, "it has not the 6 words: collective transport ranks bytes algorithm slice_bytes");
    if (!fill(r, word, &row) || !in_order(r, &row))
        return false;
    if (r->to->nrows == PEALI_TUNING_ROWS)
        return broken(r, "these are more than %d rows", PEALI_TUNING_ROWS);
    r->to->rows[r->to->nrows++] = row;
    return true;
}

static bool take_file(reading *r, FILE *file)
{
    char line[256];
    while (fgets(line, sizeof line, file)) {
        bool whole = strchr(line, '\n') || feof(file);
        if (!take(r, line))
            return false;
        if (!whole)
            return broken(r, "it is longer than %zu bytes, or has a zero byte", sizeof line - 2);
    }
    if (ferror(file)) {
        snprintf(r->why, PEALI_TUNING_WHY, "it cannot be read: %s", strerror(errno));
        return false;
    }
    r->line++; /* the end of the text */
    return closed(r);
}

static bool read_file(peali_tuning *tuning, const char *path, char *why)
{
    reading r = {tuning, 0, 0, why};
    FILE *file = fopen(path, "r");
    if (!file) {
        snprintf(why, PEALI_TUNING_WHY, "it cannot be read: %s", strerror(errno));
        return false;
    }
    bool ok = take_file(&r, file);
    fclose(file);
    tuning->ngiven = tuning->nrows;
    for (int i = 0; i < tuning->ngiven; i++)
        tuning->rows[i].given = true;
    return ok;
}

bool peali_tuning_read(const char *path, peali_tuning *tuning, char why[PEALI_TUNING_WHY])
{
    tuning->nrows = tuning->ngiven = 0;
    if (path && !read_file(tuning, path, why))
        return false;
    reading r = {tuning, tuning->nrows, 0, why};
    for (int i = 0; peali_tuning_lines[i]; i++)
        if (!take(&r, peali_tuning_lines[i])) {
            snprintf(why, PEALI_TUNING_WHY, "its %d rows and the built-in ones are more than %d", tuning->ngiven,
                     PEALI_TUNING_ROWS);
            return false;
        }
    return closed(&r);
}

/* Written once, by get_once. */
static peali_tuning table;
static const peali_tuning *found;

static bool known(const char *algo)
{
    for (const peal_algo *const *a = peali_algos; *a; a++)
        if (strcmp((*a)->name, algo) == 0)
            return true;
    return false;
}

static void get_once(void)
{
    const char *path = peali_config_get()->tuning, *algo = peali_config_get()->algo;
    char why[PEALI_TUNING_WHY];
    if (algo && !known(algo))
        peali_log(PEALI_LOG_WARN, PEALI_SUB_TUNE, -1, "PEAL_ALGO %s is no algorithm; `peal info` lists them", algo);
    else if (peali_tuning_read(path, &table, why))
        found = &table;
    else
        peali_log(PEALI_LOG_WARN, PEALI_SUB_TUNE, -1, "PEAL_TUNING %s: %s; mend it, or unset PEAL_TUNING for the built-in table",
                  path ? path : "auto", why);
}

const peali_tuning *peali_tuning_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, get_once);
    return found;
}

uint64_t peali_tuning_hash(const peali_tuning *tuning)
{
    uint64_t hash = 0;
    for (int i = 0; i < tuning->nrows; i++) {
        const peali_tuning_row *r = &tuning->rows[i];
        char text[160];
        int n = snprintf(text, sizeof text, "%d %s %d %zu %s %zu", r->kind, r->transport, (int)r->ranks, r->bytes, r->algo->name,
                         r->slice_bytes);
        hash = XXH3_64bits_withSeed(text, (size_t)n, hash);
    }
    return hash;
}

/* Is A ranks nearer to N than B, by ratio? */
static bool nearer(int64_t a, int64_t b, int64_t n)
{
    int64_t most_a = a > n ? a : n, least_a = a < n ? a : n, most_b = b > n ? b : n, least_b = b < n ? b : n;
    return most_a * least_b < most_b * least_a;
}

/* The nearest group among rows RANGE; of equally near ones the first that names TRANSPORT. Rows of `*` do not count hosts. */
static peali_tuning_span nearest(const peali_tuning *t, const int range[2], peal_kind kind, const char *transport, int nranks)
{
    peali_tuning_span best = {NULL, 0};
    for (int i = range[0]; i < range[1]; i++) {
        const peali_tuning_row *row = &t->rows[i];
        bool named = strcmp(row->transport, transport) == 0;
        if (row->kind != kind || (!named && (row->transport[0] != '*' || strcmp(transport, "hosts") == 0)))
            continue;
        if (best.nrows && together(best.rows, row)) {
            best.nrows++;
            continue;
        }
        bool better = !best.nrows || nearer(row->ranks, best.rows->ranks, nranks);
        if (better || (named && best.rows->transport[0] == '*' && !nearer(best.rows->ranks, row->ranks, nranks)))
            best = (peali_tuning_span){row, 1};
    }
    return best;
}

peali_tuning_span peali_tuning_find(const peali_tuning *tuning, peal_kind kind, const char *transport, int nranks, int nhosts)
{
    const int ranges[2][2] = {{0, tuning->ngiven}, {tuning->ngiven, tuning->nrows}};
    peali_tuning_span span = {NULL, 0};
    for (int i = 0; i < 2 && !span.nrows; i++) {
        if (nhosts > 1)
            span = nearest(tuning, ranges[i], kind, "hosts", nhosts);
        if (!span.nrows)
            span = nearest(tuning, ranges[i], kind, transport, nranks);
    }
    return span;
}

peali_tuning_span peali_tuning_find_seen(const peali_tuning *tuning, peal_kind kind, const char *transport, int nranks, int nhosts)
{
    const peali_tuning_span any = peali_tuning_find(tuning, kind, transport, nranks, nhosts);
    const peali_tuning_span direct = peali_tuning_find(tuning, kind, "direct", nranks, 1);
    const bool has = direct.nrows > 0 && strcmp(direct.rows->transport, "direct") == 0;
    return has && direct.rows->given >= any.rows->given ? direct : any;
}

/* On one node levels only add rounds. */
static bool suits(const peal_algo *algo, const peal_problem *problem)
{
    bool levels = strncmp(algo->name, "hierarchical", strlen("hierarchical")) == 0;
    return peali_algo_fits(algo, problem) && !(levels && problem->nnodes == 1);
}

peali_tuning_choice peali_tuning_choose(peali_tuning_span span, const peal_problem *problem, size_t bytes)
{
    for (const peali_tuning_row *row = span.rows; row < span.rows + span.nrows; row++)
        if (bytes <= row->bytes && suits(row->algo, problem))
            return (peali_tuning_choice){row->algo, row->slice_bytes, row};
    for (const peal_algo *const *a = peali_algos; *a; a++)
        if ((*a)->kind == problem->kind && suits(*a, problem))
            return (peali_tuning_choice){*a, 0, NULL};
    return (peali_tuning_choice){NULL, 0, NULL};
}
