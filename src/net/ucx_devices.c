/* What UCX would use is what it prints of a context: it has no call that lists devices. */
#include "net/net_ucx.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/ucx_library.h"

static int by_name(const void *a, const void *b)
{
    return strverscmp(a, b);
}

/* Keeps the device of "tcp/eth0", once. */
static void note(const char *resource, peali_ucx_list *list)
{
    const char *device = strchr(resource, '/');
    if (!device || !device[1] || strlen(device + 1) >= PEALI_UCX_DEVICE || list->n == PEALI_UCX_LIST)
        return;
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->name[i], device + 1) == 0)
            return;
    strcpy(list->name[list->n++], device + 1);
}

/* Filled once, constant afterwards; FAILURE NULL: it worked. */
static peali_ucx_list all, by_tcp;
static const char *failure;

/* "#      resource 3  :  md 3  dev 3  flags -- tcp/eth0": the last word of each such line. */
static void read_print(char *print)
{
    char *rest = NULL;
    for (char *line = strtok_r(print, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *end = line + strlen(line);
        while (end > line && end[-1] == ' ')
            *--end = '\0';
        const char *word = strrchr(line, ' ');
        if (!word || !strstr(line, " resource "))
            continue;
        note(word + 1, &all);
        if (strncmp(word + 1, "tcp/", 4) == 0)
            note(word + 1, &by_tcp);
    }
    qsort(all.name, (size_t)all.n, sizeof all.name[0], by_name);
}

static void list_devices(const peali_ucx_library *ucp, ucp_context_h context)
{
    char *print = NULL;
    size_t bytes;
    FILE *f = open_memstream(&print, &bytes);
    if (!f)
        return;
    ucp->ucp_context_print_info(context, f);
    fclose(f);
    if (print)
        read_print(print);
    free(print);
}

static void find_all(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG | UCP_FEATURE_AM};
    ucp_context_h context;
    const peali_ucx_library *ucp = peali_ucx_library_get(&failure);
    if (ucp && !peali_ucx_has_descriptors())
        failure = PEALI_UCX_NO_DESCRIPTORS;
    if (!ucp || failure[0])
        return;
    ucs_status_t status = ucp->ucp_init_version(PEALI_UCX_MAJOR, PEALI_UCX_MINOR, &params, NULL, &context);
    failure = status == UCS_OK ? NULL : ucp->ucs_status_string(status);
    if (failure)
        return;
    list_devices(ucp, context);
    ucp->ucp_cleanup(context);
}

const peali_ucx_list *peali_net_ucx_devices(const char **why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_all);
    *why = failure;
    return failure ? NULL : &all;
}

bool peali_net_ucx_there(void)
{
    const char *why;
    return peali_ucx_library_get(&why);
}

bool peali_ucx_by_tcp(const char *device)
{
    const char *why;
    bool found = peali_net_ucx_devices(&why) && !device[0] && by_tcp.n > 0;
    for (int i = 0; i < by_tcp.n; i++)
        found |= strcmp(by_tcp.name[i], device) == 0;
    return found;
}
