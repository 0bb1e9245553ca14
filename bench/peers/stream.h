/* The memory reference: what an allreduce of BYTES has to move and nothing else, reading IN and streaming it to OUT. */
#ifndef PEERS_STREAM_H
#define PEERS_STREAM_H

#include <stdbool.h>
#include <stddef.h>

bool stream(const void *in, void *out, size_t bytes);

#endif
