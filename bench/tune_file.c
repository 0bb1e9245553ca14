/*
 * A row holds up to the middle, by ratio, between its size and the next. Each collective begins with a comment that says where it
 * was measured; that comment goes when its rows are replaced.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "tune.h"

bool peali_tune_same(const peali_tune_step *a, const peali_tune_step *b)
{
    return a->best.algo == b->best.algo && a->best.slice_bytes == b->best.slice_bytes && a->flat.algo == b->flat.algo &&
           a->flat.slice_bytes == b->flat.slice_bytes;
}

static void print_pick(const peali_tune_result *t, const peali_tune_pick *pick, const char *bytes, FILE *to)
{
    char slice[24];
    if (pick->algo)
        fprintf(to, "%-14s %-4s %5d %8s %-21s %s\n", peal_kind_name(pick->algo->kind), t->transport, t->ranks, bytes,
                pick->algo->name, peali_bytes_text(pick->slice_bytes, slice));
}

static void print_kind(const peali_tune_result *t, peal_kind kind, FILE *to)
{
    peali_origin host = peali_origin_find();
    const peali_tune_step *steps = t->steps[kind];
    const char *library = t->team->library ? t->team->library : "threads";
    fprintf(to, "# %s %s %d: peal tune on %s, %d cores, %.*s\n", peal_kind_name(kind), t->transport, t->ranks, host.cpu,
            host.cores, (int)strcspn(library, ","), library);
    for (int i = 0; i < t->nsteps[kind]; i++) {
        bool last = i + 1 == t->nsteps[kind];
        char bytes[24] = "inf";
        if (!last && peali_tune_same(&steps[i], &steps[i + 1]))
            continue;
        if (!last)
            peali_bytes_text((size_t)((double)steps[i].bytes * sqrt(t->factor)), bytes);
        print_pick(t, &steps[i].best, bytes, to);
        if (steps[i].flat.algo != steps[i].best.algo)
            print_pick(t, &steps[i].flat, bytes, to);
    }
}

void peali_tune_print(const peali_tune_result *result, FILE *to)
{
    for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++)
        if (result->nsteps[kind])
            print_kind(result, (peal_kind)kind, to);
}

/* Is LINE a row, or the first comment, of what was tuned anew? */
static bool replaced(const peali_tune_result *t, const char *line)
{
    char kind[32], transport[8];
    int ranks, found;
    line += strspn(line, "# ");
    if (sscanf(line, "%31s %7s %d", kind, transport, &ranks) != 3)
        return false;
    found = peali_tuning_kind(kind);
    return found >= 0 && t->nsteps[found] && strcmp(transport, t->transport) == 0 && ranks == t->ranks;
}

static void copy(const peali_tune_result *t, FILE *from, FILE *to)
{
    char line[256];
    while (from && fgets(line, sizeof line, from))
        if (!replaced(t, line))
            fprintf(to, "%s%s", line, strchr(line, '\n') ? "" : "\n"); /* the last one may have no end */
    if (!from)
        fputs("# collective, transport, ranks, bytes up to which the row holds, algorithm, slice_bytes (0: one slice)\n", to);
}

static bool complain(const char *what, const char *file)
{
    fprintf(stderr, "peal tune: cannot %s %s: %s\n", what, file, strerror(errno));
    return false;
}

/* What is there is merged with: it must not count as nothing only because it cannot be read. */
static bool readable(const char *file)
{
    struct stat is;
    return lstat(file, &is) != 0 ? errno == ENOENT : access(file, R_OK) == 0;
}

/* A link that leads nowhere is refused. */
bool peali_tune_may_merge(const char *file)
{
    struct stat is;
    peali_flags_place at;
    peali_flags_find_place(file, &at);
    if (!readable(file))
        return complain("read", file);
    if (stat(file, &is) != 0 || S_ISREG(is.st_mode))
        return peali_flags_writable(at.beside) || complain("write", file);
    fprintf(stderr, "peal tune: %s is no regular file, so no table can be merged into it\n", file);
    return false;
}

/* Together with the built-in rows. */
static bool is_table(const peali_flags_place *at)
{
    static peali_tuning tuning; /* too large for a stack */
    char why[PEALI_TUNING_WHY];
    if (peali_tuning_read(at->beside, &tuning, why))
        return true;
    fprintf(stderr, "peal tune: %s stays as it was: with these rows, %s\n", at->file, why);
    return false;
}

/* What copied FROM has for others stays. */
static bool swap(const peali_flags_place *at, FILE *from, FILE *to)
{
    struct stat is;
    bool ok = !ferror(to) && (!from || (fstat(fileno(from), &is) == 0 && fchmod(fileno(to), is.st_mode & 07777) == 0));
    if (fclose(to) != 0 || !ok)
        return complain("write", at->file);
    return is_table(at) && (rename(at->beside, at->file) == 0 || complain("write", at->file));
}

bool peali_tune_merge(const peali_tune_result *result, const char *file)
{
    peali_flags_place at;
    peali_flags_find_place(file, &at);
    FILE *from = fopen(at.file, "r");
    if (!from && errno != ENOENT)
        return complain("read", file);
    FILE *to = fopen(at.beside, "w");
    bool ok = to || complain("write", file);
    if (to) {
        copy(result, from, to);
        peali_tune_print(result, to);
        ok = swap(&at, from, to);
    }
    if (to && !ok)
        remove(at.beside);
    if (from)
        fclose(from);
    return ok;
}
