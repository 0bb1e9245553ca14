/* A node is known by its name, not by ranks, which are others in each communicator. */
#include "comm/nodes.h"

#include "base/log.h"

/* The digits at *AT, which moves behind them; more than MOST only tells that it is more. */
static int read_size(const char **at, int most)
{
    int size = 0;
    while (**at >= '0' && **at <= '9' && size <= most)
        size = 10 * size + (*(*at)++ - '0');
    return size;
}

static peal_status wrong(const char *map, int place, int places)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, place,
              "nodes %s (PEAL_NODES) are not the %d ranks there are; write sizes like 4+4+3 that add up to them", map, places);
    return PEAL_ERR_CONFIG;
}

peal_status peali_nodes_look_up(const char *map, int place, int places, int *number)
{
    const char *at = map;
    int first = 0, found = 0;
    for (int node = 0;; node++, at++) {
        int size = read_size(&at, places - first);
        if (size == 0 || size > places - first)
            return wrong(map, place, places);
        if (place >= first)
            found = node;
        first += size;
        if (*at != '+')
            break;
    }
    if (*at || first < places)
        return wrong(map, place, places);
    *number = found;
    return PEAL_OK;
}
