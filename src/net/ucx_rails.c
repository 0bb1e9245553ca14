/*
 * The ranks of a host are taken to follow each other. Where they do not, each run of them counts as a host by itself: then a rank
 * may use a rail that is nearer to another, and no more than that.
 */
#include "net/ucx_rails.h"

#include "net/net.h"

/* Ranks [FIRST, END) are those of one host. */
static void settle(peali_ucx_berth *berths, int first, int end, uint32_t all)
{
    uint32_t taken = 0;
    for (int r = first; r < end; r++)
        taken |= berths[r].near;
    for (int r = first; r < end; r++) {
        berths[r].near = (berths[r].near | ~taken) & all;
        berths[r].near = berths[r].near ? berths[r].near : all;
        berths[r].turn = (uint16_t)(r - first);
    }
}

void peali_ucx_berths(peali_ucx_berth *berths, int n, int nrails)
{
    for (int first = 0, end; first < n; first = end) {
        end = first + 1;
        while (end < n && berths[end].host == berths[first].host)
            end++;
        settle(berths, first, end, (1u << nrails) - 1);
    }
}

int peali_ucx_next_host(const peali_ucx_berth *berths, int n, int rank)
{
    int next = (rank + 1) % n;
    while (next != rank && berths[next].host == berths[rank].host)
        next = (next + 1) % n;
    return next == rank ? -1 : next;
}

int peali_ucx_rail(const peali_ucx_berth *from, const peali_ucx_berth *to, uint32_t tag)
{
    uint32_t rails = from->near, slice = tag & ((1u << PEALI_NET_SLICE_BITS) - 1), lane = tag >> PEALI_NET_SLICE_BITS;
    if (from->host == to->host || (rails & (rails - 1)) == 0)
        return from->host == to->host ? 0 : __builtin_ctz(rails);
    for (uint32_t skip = (slice + lane + from->turn) % (uint32_t)__builtin_popcount(rails); skip > 0; skip--)
        rails &= rails - 1;
    return __builtin_ctz(rails);
}
