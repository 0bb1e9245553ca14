/*
 * What a peer sends to be handed to a library that would believe every byte of it: an address, a key. UCX unpacks both without a
 * length. So they travel in an envelope, with type, version, length and a checksum, and are used only when all of them are right.
 * It guards against damage and mistakes, not against malice.
 *
 * Threads: any.
 */
#ifndef PEALI_ENVELOPE_H
#define PEALI_ENVELOPE_H

#include <stddef.h>

typedef enum peali_envelope_type { PEALI_ENVELOPE_ADDRESS = 1, PEALI_ENVELOPE_KEY } peali_envelope_type;

enum { PEALI_ENVELOPE_HEAD = 24, PEALI_ENVELOPE_WHY = 128 };

/* Closes the ENVELOPE whose BYTES of contents the caller has put PEALI_ENVELOPE_HEAD bytes behind its start. */
void peali_envelope_seal(void *envelope, peali_envelope_type type, size_t bytes);

/*
 * The contents of an envelope of TYPE at the start of the ROOM bytes at ENVELOPE, and how many BYTES they are. NULL where they are
 * not what was sealed: WHY, with room for PEALI_ENVELOPE_WHY bytes, then ends a sentence on them. No alignment is asked or given.
 */
const void *peali_envelope_open(const void *envelope, size_t room, peali_envelope_type type, size_t *bytes, char *why);

#endif
