/*
 * Which links run below what they could. A port is compared with its siblings, the active ports of cards of its model; a link of
 * PCIe with its card's best, and only where it costs something: a card of five generations may well sit in a slot of four.
 */
#include "base/arena.h"
#include "base/log.h"
#include "topo/fabric.h"

/* A lane carries 8 of 10 bits up to 5 GT/s, and 128 of 130 above. */
static int pcie_mbit(int lanes, int speed)
{
    long mbit = (long)lanes * speed * 100;
    return (int)(speed <= 50 ? mbit * 8 / 10 : mbit * 128 / 130);
}

static bool siblings(const peali_port *a, const peali_port *b)
{
    return a->pci.vendor == b->pci.vendor && a->pci.device == b->pci.device && a->ethernet == b->ethernet && b->active;
}

bool peali_fabric_slow(const peali_fabric *f, int p, char *why, size_t bytes)
{
    const peali_port *port = &f->port[p], *best = port;
    const peali_pci *pci = &port->pci;
    int slot = pcie_mbit(pci->lanes, pci->speed), most = slot;
    if (!port->active)
        return false;
    for (const peali_port *other = f->port; other < f->port + f->nports; other++) {
        if (!siblings(port, other))
            continue;
        best = other->rate_mbit > best->rate_mbit ? other : best;
        int slot_of_other = pcie_mbit(other->pci.lanes, other->pci.speed);
        most = slot_of_other > most ? slot_of_other : most;
    }
    if (best != port && port->rate_mbit > 0) {
        snprintf(why, bytes, "runs at %d Gb/s (%s), %s:%d at %d (%s): check its cable and switch", port->rate_mbit / 1000,
                 port->width, best->device, best->number, best->rate_mbit / 1000, best->width);
        return true;
    }
    if (slot >= pcie_mbit(pci->lanes_most, pci->speed_most) || (slot >= port->rate_mbit && slot >= most))
        return false;
    snprintf(why, bytes, "has a pcie link of %d.%d GT/s x%d (%d Gb/s), its card can %d.%d x%d: check its slot", pci->speed / 10,
             pci->speed % 10, pci->lanes, slot / 1000, pci->speed_most / 10, pci->speed_most % 10, pci->lanes_most);
    return true;
}

void peali_fabric_warn(const char *root, int rank)
{
    char why[256];
    peali_fabric *f = peali_fabric_read(root);
    for (int p = 0; f && p < f->nports; p++)
        if (peali_fabric_slow(f, p, why, sizeof why))
            peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "slow link: host %s port %s:%d %s", f->host, f->port[p].device,
                      f->port[p].number, why);
    peali_free(f);
}
