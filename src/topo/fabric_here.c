/*
 * What this process has of UCX: its modules are plugins in a folder beside libucp, and no call lists them. libucp is looked for by
 * name, as the transport does it, so that a build without UCX tells the same.
 */
#include "topo/fabric.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static bool has_module(const char *folder, const char *name)
{
    char pattern[PATH_MAX + 64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/libuct_%s.so*", folder, name);
    bool any = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return any;
}

static void find_ucx(peali_fabric_here *here)
{
    char folder[PATH_MAX];
    unsigned version[3];
    Dl_info of;
    void (*get_version)(unsigned *, unsigned *, unsigned *);
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL), *found = library ? dlsym(library, "ucp_get_version") : NULL;
    if (!found || !dladdr(found, &of))
        return;
    memcpy(&get_version, &found, sizeof get_version);
    get_version(&version[0], &version[1], &version[2]);
    for (int i = 0; i < 3; i++)
        here->ucx[i] = (int)version[i];
    const char *set = getenv("UCX_MODULE_DIR"), *end = strrchr(of.dli_fname, '/');
    snprintf(folder, sizeof folder, "%.*s/ucx", end ? (int)(end - of.dli_fname) : 1, end ? of.dli_fname : ".");
    here->ucx_ib = has_module(set ? set : folder, "ib");
    here->ucx_cuda = has_module(set ? set : folder, "cuda");
}

peali_fabric_here peali_fabric_look_here(void)
{
    peali_fabric_here here = {.locked_bytes = SIZE_MAX};
    struct rlimit most;
    if (getrlimit(RLIMIT_MEMLOCK, &most) == 0 && most.rlim_cur != RLIM_INFINITY)
        here.locked_bytes = most.rlim_cur;
    find_ucx(&here);
    return here;
}
