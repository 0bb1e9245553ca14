/*
 * Couriers: a net whose messages a thread of this process moves, while the rank that they belong to computes. Where the transport
 * copies by a processor, as tcp does, a rank of one thread does either; its host has cores for both, or it had better do without.
 */
#ifndef PEALI_COURIER_H
#define PEALI_COURIER_H

#include "net/net.h"

/*
 * A net over INNER, which takes calls of any thread and is called by nobody else while messages of this one are under way. Made,
 * destroyed and moved to another INNER while none is. PEAL_OK; PEAL_ERR_MEMORY; PEAL_ERR_SYSTEM there can be no thread (logged).
 */
PEAL_MUST_CHECK peal_status peali_courier_create(peali_net *inner, peali_net **net);
void peali_courier_move(peali_net *net, peali_net *inner);

#endif
