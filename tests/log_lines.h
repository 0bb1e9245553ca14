/* What a log says, for tests that look into it. */
#ifndef LOG_LINES_H
#define LOG_LINES_H

#include <stdio.h>
#include <string.h>

/* In how many lines of the file LOG, which need not be there, ONE and OTHER are. */
static inline int log_lines_both(const char *log, const char *one, const char *other)
{
    char line[2048];
    int n = 0;
    FILE *f = fopen(log, "r");
    while (f && fgets(line, sizeof line, f))
        n += strstr(line, one) && strstr(line, other);
    if (f)
        fclose(f);
    return n;
}

/* In how many TEXT is. */
static inline int log_lines(const char *log, const char *text)
{
    return log_lines_both(log, text, "");
}

#endif
