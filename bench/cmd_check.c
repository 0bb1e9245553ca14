/*
 * peal check: proves schedules and programs, as the tests do. A whole run (all algorithms, every n that is tried without -n) also
 * fails where it proved fewer than tests/check.expected says, so that no algorithm or sweep gets lost unseen.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_expected.h"
#include "commands.h"
#include "study/check_programs.h"

static void usage(FILE *to)
{
    fputs("usage: peal check [--programs] [--algo NAME] [-n MAX] [--large]\n"
          "  --programs           proves what schedules are lowered to\n"
          "  --algo NAME          that algorithm alone, of all collectives that have it\n"
          "  -n MAX               for 1 to MAX ranks, of 4096 (64)\n"
          "  --large              and for some larger numbers of ranks, to 4096\n"
          "  -h, --help           this text\n"
          "NAME:", to);
    for (int i = 0; peali_algos[i]; i++)
        fprintf(to, " %s", peali_algos[i]->name);
    fputc('\n', to);
}

static int misuse(const char *what, const char *text)
{
    fprintf(stderr, "peal check: %s '%s'\n", what, text);
    usage(stderr);
    return 2;
}

static bool known(const char *name)
{
    for (int i = 0; peali_algos[i]; i++)
        if (strcmp(peali_algos[i]->name, name) == 0)
            return true;
    return false;
}

static int prove(peali_check_options *options, bool programs, bool whole)
{
    if (whole) {
        options->least_each = programs ? PEALI_EXPECTED_PROGRAMS_EACH : PEALI_EXPECTED_SCHEDULES_EACH;
        options->least = programs ? PEALI_EXPECTED_PROGRAMS : PEALI_EXPECTED_SCHEDULES;
    }
    return (programs ? peali_check_programs_all(stdout, options) : peali_check_all(stdout, options)) < 0;
}

int peali_cmd_check(int argc, char **argv)
{
    peali_check_options options = {.kind = -1, .max_ranks = PEALI_CHECK_EXACT};
    bool programs = false, whole = true;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--large") == 0) {
            options.large = true;
        } else if (strcmp(argv[i], "--programs") == 0) {
            programs = true;
        } else if (strcmp(argv[i], "--algo") == 0) {
            if (!known(options.name = value))
                return misuse("no algorithm", value);
            whole = false;
            i++;
        } else if (strcmp(argv[i], "-n") == 0) {
            char *end;
            long most = strtol(value, &end, 10);
            if (*end || most < 1 || most > 4096)
                return misuse("-n wants 1 to 4096, not", value);
            options.max_ranks = (int)most;
            whole = false;
            i++;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            usage(stdout);
            return 0;
        } else {
            return misuse("unknown flag", argv[i]);
        }
    }
    if (programs && options.large)
        return misuse("--large is of schedules, not", "--programs");
    return prove(&options, programs, whole);
}
