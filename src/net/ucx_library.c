/* The library is never closed: UCX leaves hooks and threads behind that outlive a dlclose. */
#include "net/ucx_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/symbols.h"

/* Filled once, constant afterwards. */
static peali_ucx_library library;
static char failure[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const peali_symbol symbols[] = {
#define SYMBOL(name) {#name, &library.name},
    PEALI_UCX_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/*
 * UCX stands still while it connects over tcp, for minutes where the link is down, unless its environment says otherwise: there is
 * no call for it. Where tcp is not in use, UCX would print on the program's output that it has no use for that. Once, and before
 * any worker of Peal's.
 */
static void load(void)
{
    unsigned major, minor, release;
    setenv("UCX_TCP_CONN_NB", "y", 0);
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
    void *handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(failure, sizeof(failure), "%s", dlerror());
        return;
    }
    const char *lacks = peali_symbols_find(handle, symbols, sizeof(symbols) / sizeof(symbols[0]));
    if (lacks) {
        snprintf(failure, sizeof(failure), "libucp.so.0 has no %s", lacks);
        return;
    }
    library.ucp_get_version(&major, &minor, &release);
    if (major != PEALI_UCX_MAJOR || minor < PEALI_UCX_MINOR)
        snprintf(failure, sizeof(failure), "libucp.so.0 is UCX %u.%u.%u, not %d.%d or newer", major, minor, release,
                 PEALI_UCX_MAJOR, PEALI_UCX_MINOR);
    else
        peali_log(PEALI_LOG_INFO, PEALI_SUB_NET, -1, "ucx %u.%u.%u", major, minor, release);
}

const peali_ucx_library *peali_ucx_library_get(const char **why)
{
    pthread_once(&once, load);
    *why = failure;
    return failure[0] ? NULL : &library;
}

/* A worker with shared memory takes 8 (ucx_hub.h), a connection 2; peers may connect meanwhile. */
bool peali_ucx_has_descriptors(void)
{
    enum { LEAST = 16 };
    int fds[LEAST], n = 0;
    while (n < LEAST && (fds[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
        n++;
    bool enough = n == LEAST;
    while (n > 0)
        close(fds[--n]);
    return enough;
}
