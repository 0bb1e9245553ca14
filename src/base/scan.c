/* A failure moves to the end of the text, where nothing more can be found. */
#include "base/scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void peali_scan_begin(peali_scan *s, const char *text, size_t length, char *why)
{
    *s = (peali_scan){.at = text, .end = text + length, .line = 1, .why = why};
    why[0] = '\0';
    if (length > INT32_MAX)
        peali_scan_fail(s, "the text has %zu bytes, at most %d are read", length, INT32_MAX);
}

void peali_scan_fail(peali_scan *s, const char *format, ...)
{
    if (peali_scan_failed(s))
        return;
    int at = snprintf(s->why, PEALI_SCAN_WHY, "line %d: ", (int)s->line);
    va_list args;
    va_start(args, format);
    vsnprintf(s->why + at, PEALI_SCAN_WHY - (size_t)at, format, args);
    va_end(args);
    s->at = s->end;
}

bool peali_scan_try(peali_scan *s, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0)
        return false;
    for (const char *c = word; *c; c++)
        s->line += *c == '\n';
    s->at += length;
    return true;
}

/* "'xyz'": what comes next on this line, cut short and printable. */
static const char *next(const peali_scan *s, char text[32])
{
    if (s->at == s->end)
        return "the end of the text";
    if (*s->at == '\n')
        return "the end of the line";
    int n = 0;
    text[n++] = '\'';
    for (const char *c = s->at; c < s->end && *c != '\n' && n < 24; c++)
        text[n++] = *c >= ' ' && *c <= '~' ? *c : '?';
    text[n++] = '\'';
    text[n] = '\0';
    return text;
}

void peali_scan_want(peali_scan *s, const char *word)
{
    char found[32];
    if (peali_scan_failed(s) || peali_scan_try(s, word))
        return;
    if (*word == '\n')
        peali_scan_fail(s, "the line ends here, not in %s", next(s, found));
    else
        peali_scan_fail(s, "'%.*s' comes here, not %s", (int)strcspn(word, "\n"), word, next(s, found));
}

static bool digit(const peali_scan *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

int32_t peali_scan_number(peali_scan *s, const char *what, int32_t least, int32_t most)
{
    const char *start = s->at;
    char found[32];
    int64_t value = 0;
    while (digit(s) && value <= INT32_MAX)
        value = 10 * value + (*s->at++ - '0');
    bool plain = s->at > start && (*start != '0' || s->at == start + 1);
    if (plain && !digit(s) && value >= least && value <= most)
        return (int32_t)value;
    s->at = start;
    if (least > most)
        peali_scan_fail(s, "%s: there is none, not %s", what, next(s, found));
    else
        peali_scan_fail(s, "%s is a number from %d to %d, not %s", what, (int)least, (int)most, next(s, found));
    return least;
}

void peali_scan_name(peali_scan *s, const char *what, char name[PEALI_SCAN_NAME])
{
    char found[32];
    int n = 0;
    while (s->at + n < s->end && n < PEALI_SCAN_NAME && strchr("abcdefghijklmnopqrstuvwxyz0123456789_", s->at[n]) && s->at[n])
        n++;
    name[0] = '\0';
    if (n == 0 || n == PEALI_SCAN_NAME) {
        peali_scan_fail(s, "%s is a name of 1 to %d letters, not %s", what, PEALI_SCAN_NAME - 1, next(s, found));
        return;
    }
    memcpy(name, s->at, (size_t)n);
    name[n] = '\0';
    s->at += n;
}

void peali_scan_end(peali_scan *s)
{
    char found[32];
    if (s->at < s->end)
        peali_scan_fail(s, "the text ends here, not in %s", next(s, found));
}
