/* peal check: proves schedules, as the tests do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "study/check.h"

static int misuse(const char *what, const char *text)
{
    fprintf(stderr, "peal check: %s '%s'\nusage: peal check [--algo NAME] [-n MAX] [--large]\n  NAME:", what, text);
    for (int i = 0; peali_algos[i]; i++)
        fprintf(stderr, " %s", peali_algos[i]->name);
    fputc('\n', stderr);
    return 2;
}

static bool known(const char *name)
{
    for (int i = 0; peali_algos[i]; i++)
        if (strcmp(peali_algos[i]->name, name) == 0)
            return true;
    return false;
}

int peali_cmd_check(int argc, char **argv)
{
    peali_check_options options = {.kind = -1, .max_ranks = PEALI_CHECK_EXACT};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--large") == 0) {
            options.large = true;
        } else if (strcmp(argv[i], "--algo") == 0) {
            if (!known(options.name = value))
                return misuse("no algorithm", value);
            i++;
        } else if (strcmp(argv[i], "-n") == 0) {
            options.max_ranks = atoi(value);
            if (options.max_ranks < 1 || options.max_ranks > 4096)
                return misuse("-n wants 1 to 4096, not", value);
            i++;
        } else {
            return misuse("unknown flag", argv[i]);
        }
    }
    return peali_check_all(stdout, &options) < 0;
}
