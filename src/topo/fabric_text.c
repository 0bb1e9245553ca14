/*
 * A screen in four parts: the host, what GPU memory needs to be read by the network directly and what is missing, the ports, the
 * GPUs. What the files do not show is not claimed: a way that has all it needs "may" work.
 */
#include <stdint.h>
#include <string.h>

#include "topo/fabric.h"

static bool older(const int *version, int major, int minor)
{
    return version[0] < major || (version[0] == major && version[1] < minor);
}

static bool has_ucx(const peali_fabric_here *here)
{
    return here->ucx[0] > 0;
}

static void print_host(const peali_fabric *f, const peali_fabric_here *here, FILE *to)
{
    char driver[96] = "no nvidia driver", ucx[48] = "no ucx";
    if (f->driver[0])
        snprintf(driver, sizeof driver, "nvidia driver %s (%s kernel module)", f->driver, f->driver_is_open ? "open" : "closed");
    if (has_ucx(here))
        snprintf(ucx, sizeof ucx, "ucx %d.%d.%d", here->ucx[0], here->ucx[1], here->ucx[2]);
    fprintf(to, "host %s, linux %s, %s, %s\n", f->host, f->kernel, driver, ucx);
    if (f->nports > 0 && here->locked_bytes != SIZE_MAX)
        fprintf(to, "this process may lock %zu KiB of memory, so more cannot be registered: raise `ulimit -l` to unlimited\n",
                here->locked_bytes >> 10);
}

/* What keeps GPU memory from being registered as a dma-buf; NULL: nothing. */
static const char *no_dma_buf(const peali_fabric *f, const peali_fabric_here *here)
{
    int kernel[2];
    if (sscanf(f->kernel, "%d.%d", &kernel[0], &kernel[1]) != 2)
        return "the version of the kernel is not known";
    if (older(kernel, 5, 12))
        return "the kernel is older than 5.12";
    if (!f->driver_is_open)
        return "it needs the open kernel module of the nvidia driver, 515 or newer";
    return has_ucx(here) && older(here->ucx, 1, 14) ? "it needs ucx 1.14 or newer" : NULL;
}

static const char *no_peer_memory(const peali_fabric *f)
{
    return f->peer_memory ? NULL : "the module nvidia_peermem is not loaded";
}

/* What keeps UCX from using the ports; NULL: nothing. */
static const char *no_rdma(const peali_fabric_here *here)
{
    return !has_ucx(here) ? "there is no ucx" : !here->ucx_ib ? "ucx has no module ib" : NULL;
}

/* What keeps UCX from handing GPU memory to them; NULL: nothing. */
static const char *no_modules(const peali_fabric_here *here)
{
    return no_rdma(here) ? no_rdma(here) : !here->ucx_cuda ? "ucx has no module cuda" : NULL;
}

static const char *unusable(const peali_port *port)
{
    if (!port->active)
        return "its link is not active";
    return port->may_open ? NULL : "this process may not open its device";
}

const char *peali_fabric_no_direct(const peali_fabric *f, const peali_fabric_here *here)
{
    bool any = false;
    for (int p = 0; p < f->nports; p++)
        any |= !unusable(&f->port[p]);
    if (!any)
        return f->nports ? "no network port can be used" : "there is no rdma device";
    if (!f->driver[0])
        return "no nvidia driver is loaded";
    if (no_modules(here))
        return no_modules(here);
    return no_dma_buf(f, here) && no_peer_memory(f) ? "neither dma-buf nor peer memory is there" : NULL;
}

static void print_way(const char *name, const char *why_not, const char *else_what, FILE *to)
{
    fprintf(to, "  %-12s %s%s\n", name, why_not ? "no: " : "", why_not ? why_not : else_what);
}

static void print_direct(const peali_fabric *f, const peali_fabric_here *here, FILE *to)
{
    const char *why = peali_fabric_no_direct(f, here);
    if (f->ngpus == 0)
        return;
    fputs("\nthe network and GPU memory\n", to);
    print_way("dma-buf", no_dma_buf(f, here), "may work", to);
    print_way("peer memory", no_peer_memory(f), "may work", to);
    print_way("ucx", no_modules(here), "has the modules ib and cuda", to);
    fprintf(to, "  so GPU memory %s%s\n", why ? "goes through host memory: " : "may go directly (PEAL_GDR=auto: where PIX or PXB)",
            why ? why : "");
}

static void print_link(const peali_pci *pci, FILE *to)
{
    char text[64] = "-", of[32] = "";
    if (pci->lanes > 0)
        snprintf(text, sizeof text, "%d.%d GT/s x%d", pci->speed / 10, pci->speed % 10, pci->lanes);
    if (pci->lanes < pci->lanes_most || pci->speed < pci->speed_most)
        snprintf(of, sizeof of, " of %d.%d x%d", pci->speed_most / 10, pci->speed_most % 10, pci->lanes_most);
    strncat(text, of, sizeof text - strlen(text) - 1);
    fprintf(to, "%-25s ", text);
}

static const char *number_or_dash(int number, char text[16])
{
    snprintf(text, 16, number < 0 ? "-" : "%d", number);
    return text;
}

static void print_rate(const peali_port *port, FILE *to)
{
    char text[48] = "-", tenth[8] = "";
    if (port->rate_mbit % 1000)
        snprintf(tenth, sizeof tenth, ".%d", port->rate_mbit % 1000 / 100);
    if (port->rate_mbit)
        snprintf(text, sizeof text, "%d%s Gb/s %s", port->rate_mbit / 1000, tenth, port->width);
    fprintf(to, "%-16s ", text);
}

static void print_port(const peali_fabric *f, int p, FILE *to)
{
    const peali_port *port = &f->port[p];
    char name[80], numa[16], gid[16], why[256];
    snprintf(name, sizeof name, "%s:%d", port->device, port->number);
    fprintf(to, "  %-14s %-5s ", name, port->ethernet ? "roce" : "ib");
    print_rate(port, to);
    print_link(&port->pci, to);
    fprintf(to, "%4s %4s  ", number_or_dash(port->pci.numa, numa), number_or_dash(port->gid, gid));
    if (!port->active)
        fprintf(to, "no: its state is %s\n", port->state);
    else if (!port->may_open)
        fprintf(to, "no: this process may not open %s\n", port->node[0] ? port->node : "it");
    else if (port->ethernet && port->gid < 0)
        fputs("no gid of RoCE v2 over IPv4\n", to);
    else
        fputs(peali_fabric_slow(f, p, why, sizeof why) ? "slow\n" : "yes\n", to);
}

static void print_ports(const peali_fabric *f, const peali_fabric_here *here, FILE *to)
{
    char why[256];
    fputs("\nnetwork ports\n", to);
    if (f->nports == 0) {
        fputs("  none: /sys/class/infiniband has no device, so messages go over tcp\n", to);
        return;
    }
    fprintf(to, "  %-14s %-5s %-16s %-25s %4s %4s  %s\n", "port", "kind", "rate", "pcie", "numa", "gid", "usable");
    for (int p = 0; p < f->nports; p++)
        print_port(f, p, to);
    for (int p = 0; p < f->nports; p++)
        if (peali_fabric_slow(f, p, why, sizeof why))
            fprintf(to, "  %s:%d %s\n", f->port[p].device, f->port[p].number, why);
    if (no_rdma(here))
        fprintf(to, "  %s, so messages go over tcp\n", no_rdma(here));
}

static int column(const peali_port *port)
{
    int length = (int)strlen(port->device);
    return length < 4 ? 4 : length;
}

/* Columns are devices, not ports: those of a device are at one place. */
static bool first_of_device(const peali_fabric *f, int p)
{
    return p == 0 || strcmp(f->port[p].device, f->port[p - 1].device) != 0;
}

static const peali_port *nearest(const peali_fabric *f, const peali_pci *gpu)
{
    const peali_port *best = NULL;
    for (const peali_port *port = f->port; port < f->port + f->nports; port++)
        if (!unusable(port) &&
            (!best || peali_fabric_distance(gpu, &port->pci) < peali_fabric_distance(gpu, &best->pci)))
            best = port;
    return best;
}

static void print_gpu(const peali_fabric *f, int g, FILE *to)
{
    const peali_pci *gpu = &f->gpu[g];
    const peali_port *near = nearest(f, gpu);
    char numa[16];
    fprintf(to, "  %-2d %-12s %4s  %-8s", g, gpu->address, number_or_dash(gpu->numa, numa), near ? near->device : "-");
    for (int p = 0; p < f->nports; p++)
        if (first_of_device(f, p))
            fprintf(to, " %*s", column(&f->port[p]), peali_distance_name(peali_fabric_distance(gpu, &f->port[p].pci)));
    fputs("\n", to);
}

static void print_gpus(const peali_fabric *f, FILE *to)
{
    fputs("\nGPUs\n", to);
    if (f->ngpus == 0) {
        fputs("  none\n", to);
        return;
    }
    fprintf(to, "  %-2s %-12s %4s  %-8s", "", "address", "numa", "nearest");
    for (int p = 0; p < f->nports; p++)
        if (first_of_device(f, p))
            fprintf(to, " %*s", column(&f->port[p]), f->port[p].device);
    fputs("\n", to);
    for (int g = 0; g < f->ngpus; g++)
        print_gpu(f, g, to);
    if (f->nports > 0)
        fputs("  PIX: behind one PCIe switch, PXB: several, PHB: one host bridge, NODE: one NUMA node, SYS: across them\n", to);
}

void peali_fabric_print(const peali_fabric *f, const peali_fabric_here *here, FILE *to)
{
    print_host(f, here, to);
    print_direct(f, here, to);
    print_ports(f, here, to);
    print_gpus(f, to);
}
