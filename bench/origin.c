/* Where and from what a figure came. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "commit.h"
#include "report.h"

static void cpu_model(char *to, size_t size)
{
    char line[256];
    FILE *from = fopen("/proc/cpuinfo", "r");
    while (from && fgets(line, sizeof line, from)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        snprintf(to, size, "%s", colon + 2);
        to[strcspn(to, "\n")] = 0;
        break;
    }
    if (from)
        fclose(from);
}

peali_origin peali_origin_find(void)
{
    struct utsname name;
    peali_origin host = {.cores = (int)sysconf(_SC_NPROCESSORS_ONLN), .steal = peali_steal_read("/proc/stat")};
    host.memory_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    cpu_model(host.cpu, sizeof host.cpu);
    if (uname(&name) == 0) {
        if (!host.cpu[0])
            snprintf(host.cpu, sizeof host.cpu, "%s", name.machine);
        snprintf(host.kernel, sizeof host.kernel, "%s %s", name.sysname, name.release);
    }
    return host;
}

const char *peali_origin_commit(void)
{
    return PEALI_COMMIT;
}

const char *peali_origin_compiler(void)
{
#if defined(__clang__)
    return __VERSION__;
#else
    return "gcc " __VERSION__;
#endif
}
