/* Equal speeds only: slices take the rails in turn, so two of them carry no more than twice the slower one. */
#include "comm/rails.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "topo/devices.h"

/* The network devices there are, with what the kernel says of each. */
struct devices {
    peali_ucx_list list;
    peali_device device[PEALI_UCX_LIST];
};

static void look_up(const peali_ucx_list *list, const char *sys, const peali_place *place, struct devices *found)
{
    found->list.n = 0;
    for (int i = 0; i < list->n; i++)
        if (peali_device_look_up(sys, list->name[i], place, &found->device[found->list.n]))
            memcpy(found->list.name[found->list.n++], list->name[i], PEALI_UCX_DEVICE);
}

/* The number of the device that the first LEN bytes at NAME name, or -1. */
static int find(const peali_ucx_list *list, const char *name, size_t len)
{
    for (int i = 0; i < list->n; i++)
        if (strlen(list->name[i]) == len && memcmp(list->name[i], name, len) == 0)
            return i;
    return -1;
}

static peal_status wrong(const struct devices *found, const char *wanted, const char *name, int rank, const char *what)
{
    char all[PEALI_UCX_LIST * (PEALI_UCX_DEVICE + 1)] = "";
    size_t at = 0;
    for (int i = 0; i < found->list.n; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? "," : "", found->list.name[i]);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "PEAL_NET_DEVICES %s: %.*s%s; UCX can use %s here", wanted,
              (int)strcspn(name, ","), name, what, at ? all : "no network device");
    return PEAL_ERR_CONFIG;
}

/* The devices that the comma list at WANTED behind its ^ names, in its order. */
static peal_status read_list(const struct devices *found, const char *wanted, int rank, int *chosen, int *n)
{
    *n = 0;
    for (const char *word = wanted + (wanted[0] == '^');; word += strcspn(word, ",") + 1) {
        size_t len = strcspn(word, ",");
        int i = find(&found->list, word, len);
        if (i < 0)
            return wrong(found, wanted, word, rank, " is none");
        for (int k = 0; k < *n; k++)
            if (chosen[k] == i)
                return wrong(found, wanted, word, rank, " is named twice");
        chosen[(*n)++] = i;
        if (!word[len])
            return PEAL_OK;
    }
}

static bool better(const peali_device *a, const peali_device *b)
{
    return a->kind != b->kind ? a->kind > b->kind : a->mbits > b->mbits;
}

/* Keeps of the N devices those that no other of them is better than. */
static int keep_best(const struct devices *found, int *chosen, int n)
{
    int best = 0, kept = 0;
    for (int k = 1; k < n; k++)
        if (better(&found->device[chosen[k]], &found->device[chosen[best]]))
            best = k;
    const peali_device top = n > 0 ? found->device[chosen[best]] : (peali_device){0};
    for (int k = 0; k < n; k++)
        if (!better(&top, &found->device[chosen[k]]))
            chosen[kept++] = chosen[k];
    return kept;
}

/* All but the N at LEAVE_OUT. */
static int others(const struct devices *found, const int *leave_out, int n, int *chosen)
{
    int kept = 0;
    for (int i = 0; i < found->list.n; i++) {
        bool out = false;
        for (int k = 0; k < n; k++)
            out |= leave_out[k] == i;
        if (!out)
            chosen[kept++] = i;
    }
    return kept;
}

peal_status peali_rails_choose(const peali_ucx_list *list, const char *wanted, const char *sys, const peali_place *place, int rank,
                               peali_ucx_rails *rails)
{
    struct devices found;
    int named[PEALI_UCX_LIST], chosen[PEALI_UCX_LIST], nnamed = 0, n;
    look_up(list, sys, place, &found);
    peal_status status = wanted ? read_list(&found, wanted, rank, named, &nnamed) : PEAL_OK;
    if (status != PEAL_OK)
        return status;
    bool takes = wanted && wanted[0] != '^';
    n = takes ? nnamed : keep_best(&found, chosen, others(&found, named, nnamed, chosen));
    if (wanted && n == 0)
        return wrong(&found, wanted, "", rank, "nothing is left");
    *rails = (peali_ucx_rails){.n = n < PEALI_UCX_RAILS ? n : PEALI_UCX_RAILS, .host = place->host[0]};
    for (int k = 0; k < rails->n; k++) {
        int i = takes ? named[k] : chosen[k];
        memcpy(rails->device[k], found.list.name[i], PEALI_UCX_DEVICE);
        rails->near |= (uint32_t)found.device[i].near << k;
    }
    rails->n += n == 0;
    return PEAL_OK;
}
