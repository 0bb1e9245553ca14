/* Of a file that cannot be read, nothing is known: containers hide some, and older kernels do not have all. */
#include "topo/fabric.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"

/* Reads the first line of the file at the path that FORMAT makes into LINE; false, and "", where there is none. */
__attribute__((format(printf, 3, 4))) static bool read_line(char *line, size_t bytes, const char *format, ...)
{
    char path[PATH_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    FILE *f = fopen(path, "re");
    bool read = f && fgets(line, (int)bytes, f);
    if (f)
        fclose(f);
    if (!read)
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return read;
}

/* The number in such a file, as C writes numbers; NONE where there is none. */
static long read_number(const char *dir, const char *name, long none)
{
    char line[64], *end;
    if (!read_line(line, sizeof line, "%s/%s", dir, name))
        return none;
    long value = strtol(line, &end, 0);
    return end > line ? value : none;
}

/* "16.0 GT/s PCIe" in units of 0.1; by hand, because strtod knows other commas. */
static int read_speed(const char *dir, const char *name)
{
    char line[64];
    int whole = 0, tenth = 0;
    read_line(line, sizeof line, "%s/%s", dir, name);
    return sscanf(line, "%d.%1d", &whole, &tenth) >= 1 ? whole * 10 + tenth : 0;
}

/* The device whose folder DIR (a link, or not) is. */
static void read_pci(const char *dir, peali_pci *pci)
{
    char real[PATH_MAX];
    *pci = (peali_pci){.numa = -1};
    if (!realpath(dir, real))
        return;
    const char *path = strstr(real, "/devices/"), *last = strrchr(real, '/');
    if (!path || strlen(path + 9) >= sizeof pci->path || strlen(last + 1) >= sizeof pci->address)
        return;
    strcpy(pci->path, path + 9);
    strcpy(pci->address, last + 1);
    pci->vendor = (unsigned)read_number(real, "vendor", 0);
    pci->device = (unsigned)read_number(real, "device", 0);
    pci->numa = (int)read_number(real, "numa_node", -1);
    pci->lanes = (int)read_number(real, "current_link_width", 0);
    pci->lanes_most = (int)read_number(real, "max_link_width", 0);
    pci->speed = read_speed(real, "current_link_speed");
    pci->speed_most = read_speed(real, "max_link_speed");
    if (pci->lanes == 0 || pci->speed == 0) /* as of a virtual function, which tells what its card can, and no more */
        pci->lanes = pci->lanes_most = pci->speed = pci->speed_most = 0;
}

typedef int order(const struct dirent **a, const struct dirent **b);

static int by_byte(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The names in DIR; the caller frees them and their list. */
static int names_in(const char *dir, order *in_order, struct dirent ***names)
{
    int n = scandir(dir, names, NULL, in_order);
    if (n < 0)
        *names = NULL;
    return n < 0 ? 0 : n;
}

static void free_names(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* "400 Gb/sec (4X NDR)" */
static void read_rate(const char *dir, peali_port *port)
{
    char line[64];
    int whole = 0, tenth = 0;
    read_line(line, sizeof line, "%s/rate", dir);
    if (sscanf(line, "%d.%1d", &whole, &tenth) < 1)
        return;
    port->rate_mbit = whole * 1000 + tenth * 100;
    const char *open = strchr(line, '(');
    if (open)
        snprintf(port->width, sizeof port->width, "%.*s", (int)strcspn(open + 1, ")"), open + 1);
}

/* What most networks route: an IPv4 address, which a GID holds behind "ffff", in a packet of RoCE v2. */
static int find_gid(const char *dir)
{
    enum { GIDS = 256 };
    char line[64];
    for (int i = 0; i < GIDS && read_line(line, sizeof line, "%s/gids/%d", dir, i); i++)
        if (strncmp(line, "0000:0000:0000:0000:0000:ffff:", 30) == 0 &&
            read_line(line, sizeof line, "%s/gid_attrs/types/%d", dir, i) && strcmp(line, "RoCE v2") == 0)
            return i;
    return -1;
}

static void read_port(const char *dir, peali_port *port)
{
    char line[64];
    read_line(line, sizeof line, "%s/state", dir);
    if (sscanf(line, "%*d: %15s", port->state) != 1)
        strcpy(port->state, "UNKNOWN");
    port->active = strcmp(port->state, "ACTIVE") == 0;
    read_line(line, sizeof line, "%s/link_layer", dir);
    port->ethernet = strcmp(line, "Ethernet") == 0;
    read_rate(dir, port);
    port->gid = port->ethernet ? find_gid(dir) : -1;
}

/* Where programs open the device of folder DIR. */
static void find_node(const char *root, const char *dir, peali_port *port)
{
    char path[PATH_MAX];
    struct dirent **names;
    snprintf(path, sizeof path, "%s/device/infiniband_verbs", dir);
    int n = names_in(path, versionsort, &names);
    for (int i = 0; i < n; i++)
        if (strncmp(names[i]->d_name, "uverbs", 6) == 0 && strlen(names[i]->d_name) < 32)
            snprintf(port->node, sizeof port->node, "/dev/infiniband/%.32s", names[i]->d_name);
    free_names(names, n);
    snprintf(path, sizeof path, "%s%s", root, port->node);
    port->may_open = port->node[0] && access(path, R_OK | W_OK) == 0;
}

static void read_ports_of(const char *root, const char *device, peali_fabric *f)
{
    char dir[PATH_MAX - 300], path[PATH_MAX];
    peali_port of = {.gid = -1};
    struct dirent **names;
    if (strlen(device) >= sizeof of.device)
        return;
    strcpy(of.device, device);
    snprintf(dir, sizeof dir, "%s/sys/class/infiniband/%s", root, device);
    snprintf(path, sizeof path, "%s/device", dir);
    read_pci(path, &of.pci);
    find_node(root, dir, &of);
    snprintf(path, sizeof path, "%s/ports", dir);
    int n = names_in(path, versionsort, &names);
    for (int i = 0; i < n && f->nports < PEALI_FABRIC_PORTS; i++) {
        of.number = atoi(names[i]->d_name);
        if (of.number <= 0)
            continue;
        peali_port *port = &f->port[f->nports++];
        *port = of;
        snprintf(path, sizeof path, "%s/ports/%d", dir, of.number);
        read_port(path, port);
    }
    free_names(names, n);
}

static void read_ports(const char *root, peali_fabric *f)
{
    char dir[PATH_MAX];
    struct dirent **names;
    snprintf(dir, sizeof dir, "%s/sys/class/infiniband", root);
    int n = names_in(dir, versionsort, &names);
    for (int i = 0; i < n; i++)
        if (names[i]->d_name[0] != '.')
            read_ports_of(root, names[i]->d_name, f);
    free_names(names, n);
}

static void read_gpus(const char *root, peali_fabric *f)
{
    enum { NVIDIA = 0x10de, DISPLAY = 0x03 };
    char dir[PATH_MAX - 300], path[PATH_MAX];
    struct dirent **names;
    snprintf(dir, sizeof dir, "%s/sys/bus/pci/devices", root);
    int n = names_in(dir, by_byte, &names);
    for (int i = 0; i < n && f->ngpus < PEALI_FABRIC_GPUS; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        if (read_number(path, "vendor", 0) == NVIDIA && read_number(path, "class", 0) >> 16 == DISPLAY)
            read_pci(path, &f->gpu[f->ngpus++]);
    }
    free_names(names, n);
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (...)": the first word of digits and dots. */
static void read_driver(const char *root, peali_fabric *f)
{
    char line[256], *kept = NULL;
    if (!read_line(line, sizeof line, "%s/proc/driver/nvidia/version", root))
        return;
    f->driver_is_open = strstr(line, "Open Kernel Module") != NULL;
    snprintf(f->driver, sizeof f->driver, "unknown");
    for (char *word = strtok_r(line, " \t", &kept); word; word = strtok_r(NULL, " \t", &kept))
        if (strchr(word, '.') && strspn(word, "0123456789.") == strlen(word)) {
            snprintf(f->driver, sizeof f->driver, "%s", word);
            return;
        }
}

peali_fabric *peali_fabric_read(const char *root)
{
    char path[PATH_MAX];
    peali_fabric *f = peali_alloc(1, sizeof *f);
    if (!f)
        return NULL;
    if (!read_line(f->host, sizeof f->host, "%s/proc/sys/kernel/hostname", root))
        strcpy(f->host, "unknown");
    if (!read_line(f->kernel, sizeof f->kernel, "%s/proc/sys/kernel/osrelease", root))
        strcpy(f->kernel, "unknown");
    read_driver(root, f);
    snprintf(path, sizeof path, "%s/sys/module/nvidia_peermem", root);
    f->peer_memory = access(path, F_OK) == 0;
    read_ports(root, f);
    read_gpus(root, f);
    return f;
}

/* How many bridges lead both to A and to B; what follows of each. */
static int common(const char *a, const char *b, int *rest_a, int *rest_b)
{
    int same = 0;
    for (;;) {
        size_t length = strcspn(a, "/");
        if (!a[length] || strcspn(b, "/") != length || strncmp(a, b, length + 1) != 0)
            break;
        same++;
        a += length + 1;
        b += length + 1;
    }
    *rest_a = *rest_b = 1;
    for (; *a; a++)
        *rest_a += *a == '/';
    for (; *b; b++)
        *rest_b += *b == '/';
    return same;
}

/*
 * The path of a device names its host bridge first, then root port, then for each switch the port upwards and one downwards. So
 * behind one switch two devices share its port upwards, and what follows are a port downwards and the device.
 */
peali_distance peali_fabric_distance(const peali_pci *a, const peali_pci *b)
{
    int rest_a, rest_b, same = common(a->path, b->path, &rest_a, &rest_b);
    if (!a->path[0] || !b->path[0])
        return PEALI_SYS;
    if (same >= 2)
        return rest_a <= 2 && rest_b <= 2 ? PEALI_PIX : PEALI_PXB;
    if (same == 1)
        return PEALI_PHB;
    return a->numa >= 0 && a->numa == b->numa ? PEALI_NODE : PEALI_SYS;
}
