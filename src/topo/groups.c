/* Fewer than two ranks a group would leave no level below; a rank that is bound to no one object has no place in a level. */
#include "topo/groups.h"

#include <stdbool.h>
#include <string.h>

const char *peali_level_name(int level)
{
    static const char *const names[PEALI_LEVELS] = {"socket", "numa", "l3", "l2", "core"};
    return names[level];
}

int peali_groups_number(const void *names, size_t bytes, size_t stride, int n, int *group)
{
    const char *name = names;
    int groups = 1;
    group[0] = 0;
    for (int r = 1; r < n; r++) {
        bool same = memcmp(name + (size_t)r * stride, name + (size_t)(r - 1) * stride, bytes) == 0;
        for (int q = 0; !same && q < r - 1; q++)
            if (memcmp(name + (size_t)r * stride, name + (size_t)q * stride, bytes) == 0) {
                memset(group, 0, (size_t)n * sizeof *group);
                return 1;
            }
        groups += !same;
        group[r] = groups - 1;
    }
    return groups;
}

static bool all_seated(const peali_seat *seats, int n, int level)
{
    for (int r = 0; r < n; r++)
        if (seats[r].in[level] < 0)
            return false;
    return true;
}

int peali_groups_find(const peali_seat *seats, int n, const char *wanted, int *group)
{
    for (int level = 0; level <= (wanted ? PEALI_CORE : PEALI_L3); level++) {
        if ((wanted && strcmp(wanted, peali_level_name(level)) != 0) || !all_seated(seats, n, level))
            continue;
        int groups = peali_groups_number(&seats->in[level], sizeof seats->in[level], sizeof *seats, n, group);
        if (groups >= 2 && groups <= n / 2)
            return level;
    }
    memset(group, 0, (size_t)n * sizeof *group);
    return -1;
}
