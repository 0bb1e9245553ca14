/* Which pairs of a GPU and a network device pass the host by. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "topo/fabric.h"

const char *peali_distance_name(peali_distance distance)
{
    static const char *const names[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};
    return names[distance];
}

/* UCX names a port as "mlx5_0:1". */
static const peali_port *find_port(const peali_fabric *f, const char *rail)
{
    size_t length = strcspn(rail, ":");
    int number = rail[length] ? atoi(rail + length + 1) : 1;
    for (const peali_port *port = f->port; port < f->port + f->nports; port++)
        if (strncmp(port->device, rail, length) == 0 && !port->device[length] && port->number == number)
            return port;
    return NULL;
}

static const peali_pci *find_gpu(const peali_fabric *f, const char *address)
{
    for (const peali_pci *gpu = f->gpu; gpu < f->gpu + f->ngpus; gpu++)
        if (strcasecmp(gpu->address, address) == 0)
            return gpu;
    return NULL;
}

bool peali_fabric_direct(const peali_fabric *f, const peali_fabric_here *here, const char *gpu, const char *rail, char *why,
                         size_t bytes)
{
    const peali_port *port = find_port(f, rail);
    const peali_pci *pci = find_gpu(f, gpu);
    const char *no = peali_fabric_no_direct(f, here);
    why[0] = '\0';
    if (!port)
        snprintf(why, bytes, "%s is no rdma device", rail[0] ? rail : "what UCX takes by itself");
    else if (no)
        snprintf(why, bytes, "%s", no);
    else if (!pci)
        snprintf(why, bytes, "/sys does not show GPU %s", gpu);
    else if (peali_fabric_distance(pci, &port->pci) > PEALI_PXB)
        snprintf(why, bytes, "GPU %s and %s are not behind the same switches (%s); PEAL_NET_DEVICES can name a nearer device", gpu,
                 rail, peali_distance_name(peali_fabric_distance(pci, &port->pci)));
    return !why[0];
}
