/* A race as a picture, drawn by gnuplot: size against median time, one line per variant, a ring where Peal would choose it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "report.h"

/* Only the first problem is drawn: a picture of several types or ops would show none of them well. */
static bool drawn(const peali_race *race, int i)
{
    const peali_row *a = &race->rows[0], *b = &race->rows[i];
    return a->type == b->type && a->op == b->op && a->inplace == b->inplace;
}

/* The sizes, every second one where they are many. */
static void ticks(FILE *to, const peali_race *race)
{
    int every = race->nrows / race->nrunners > 16 ? 2 : 1, k = 0;
    const char *comma = "";
    fprintf(to, "set xrange [%g:%g]\nset xtics (", (double)race->rows[0].bytes / 1.5,
            (double)race->rows[race->nrows - 1].bytes * 1.5);
    for (int i = 0; i < race->nrows; i += race->nrunners) {
        char text[24];
        if (!drawn(race, i) || k++ % every != 0)
            continue;
        fprintf(to, "%s\"%s\" %zu", comma, peali_bytes_text(race->rows[i].bytes, text), race->rows[i].bytes);
        comma = ", ";
    }
    fputs(")\n", to);
}

static void points(FILE *to, const peali_race *race, int which, bool chosen_only)
{
    fprintf(to, "$%s%d << E\n", chosen_only ? "chosen" : "line", which);
    for (int i = which; i < race->nrows; i += race->nrunners)
        if (drawn(race, i) && (!chosen_only || race->rows[i].chosen))
            fprintf(to, "%zu %.4f\n", race->rows[i].bytes, race->rows[i].median_us);
    fputs("E\n", to);
}

static bool ever_chosen(const peali_race *race, int which)
{
    for (int i = which; i < race->nrows; i += race->nrunners)
        if (drawn(race, i) && race->rows[i].chosen)
            return true;
    return false;
}

static void lines(FILE *to, const peali_race *race)
{
    bool told = false;
    for (int k = 0; k < race->nrunners; k++) {
        points(to, race, k, false);
        points(to, race, k, true);
    }
    fputs("plot", to);
    for (int k = 0; k < race->nrunners; k++)
        fprintf(to, "%s $line%d using 1:2 with linespoints lw 2 pt 7 ps 0.5 lc %d title \"%s\" noenhanced", k ? "," : "", k,
                k + 1, peali_runner_label(&race->runners[k]));
    for (int k = 0; k < race->nrunners; k++) {
        if (!ever_chosen(race, k))
            continue;
        fprintf(to, ", $chosen%d using 1:2 with points pt 6 ps 1.4 lw 1.5 lc rgb \"black\" %s", k,
                told ? "notitle" : "title \"taken by Peal itself\"");
        told = true;
    }
    fputs("\n", to);
}

/* In single quotes, of which two stand for one: gnuplot takes all else as it is. */
static void quote(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', to);
        fputc(*text, to);
    }
    fputc('\'', to);
}

static void script(FILE *to, const peali_race *race, const peali_origin *host, const char *file)
{
    const peali_row *row = &race->rows[0];
    fputs("set terminal svg size 900,560 font \"sans,13\" background rgb \"white\"\nset output ", to);
    quote(to, file);
    fprintf(to, "\nset title \"%s %s %s, %d ranks%s\\n%s, %d %s\" noenhanced\n", peal_kind_name(race->flags->kind),
            peal_type_name(row->type), peal_op_name(row->op), race->team->nranks, row->inplace ? ", in place" : "",
            race->gpu ? race->gpu->name : host->cpu, race->gpu ? race->team->nranks : host->cores, race->gpu ? "GPUs" : "cores");
    fputs("set logscale xy\nset grid\nset key top left reverse Left\n"
          "set xlabel \"size of the vector (bytes)\"\n"
          "set ylabel \"median time of the slowest rank (us)\"\nset format y \"%g\"\n", to);
    ticks(to, race);
    lines(to, race);
}

/* gnuplot does not say that a disk was full. What is no file, as a pipe, cannot be read again. */
static bool complete(const char *file)
{
    char end[16] = "";
    struct stat is;
    if (stat(file, &is) != 0 || !S_ISREG(is.st_mode))
        return true;
    FILE *from = fopen(file, "r");
    bool whole = from && fseek(from, 1 - (long)sizeof end, SEEK_END) == 0 && fread(end, 1, sizeof end - 1, from) > 0 &&
                 strstr(end, "</svg>");
    if (from)
        fclose(from);
    return whole;
}

bool peali_plot_svg(const peali_race *race, const peali_origin *host, const char *file)
{
    signal(SIGPIPE, SIG_IGN); /* gnuplot may be missing: the pipe then has no reader */
    FILE *to = race->nrows ? popen("gnuplot", "w") : NULL;
    if (to)
        script(to, race, host, file);
    int status = to ? pclose(to) : -1;
    if (status == 0 && complete(file))
        return true;
    const bool missing = status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 127;
    if (missing)
        fprintf(stderr, "peal bench: no plot: gnuplot is not installed (Debian: apt-get install gnuplot-nox)\n");
    else
        fprintf(stderr, "peal bench: no plot: %s %s\n", status == 0 ? "a full disk has cut" : "gnuplot failed on", file);
    return missing;
}
