/* The type comes last: it is trusted only under a right checksum, so a wrong one is a mistake of the sender, not damage. */
#include "net/envelope.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { MAGIC = 0x6c616550, VERSION = 1 }; /* "Peal" */

struct head {
    uint32_t magic;
    uint16_t version, type;
    uint64_t bytes;    /* of the contents */
    uint64_t checksum; /* of all, this being 0 */
};
_Static_assert(sizeof(struct head) == PEALI_ENVELOPE_HEAD, "no padding");

static uint64_t checksum(struct head head, const void *contents)
{
    head.checksum = 0;
    return XXH3_64bits_withSeed(contents, head.bytes, XXH3_64bits(&head, sizeof head));
}

void peali_envelope_seal(void *envelope, peali_envelope_type type, size_t bytes)
{
    struct head head = {.magic = MAGIC, .version = VERSION, .type = (uint16_t)type, .bytes = bytes};
    head.checksum = checksum(head, (const char *)envelope + sizeof head);
    memcpy(envelope, &head, sizeof head);
}

static const char *name_of(unsigned type)
{
    return type == PEALI_ENVELOPE_ADDRESS ? "an address" : type == PEALI_ENVELOPE_KEY ? "a key" : "something else";
}

const void *peali_envelope_open(const void *envelope, size_t room, peali_envelope_type type, size_t *bytes, char *why)
{
    struct head head = {.magic = 0};
    const char *contents = (const char *)envelope + sizeof head;
    memcpy(&head, envelope, room < sizeof head ? room : sizeof head);
    if (room < sizeof head)
        snprintf(why, PEALI_ENVELOPE_WHY, "has %zu bytes, fewer than an envelope's head", room);
    else if (head.magic == __builtin_bswap32(MAGIC))
        snprintf(why, PEALI_ENVELOPE_WHY, "comes from a machine of the other byte order");
    else if (head.magic != MAGIC)
        snprintf(why, PEALI_ENVELOPE_WHY, "is in no envelope");
    else if (head.version != VERSION)
        snprintf(why, PEALI_ENVELOPE_WHY, "is of version %u, this Peal reads %d: run one Peal on all ranks", head.version, VERSION);
    else if (head.bytes > room - sizeof head)
        snprintf(why, PEALI_ENVELOPE_WHY, "should have %llu bytes, of which %zu came", (unsigned long long)head.bytes,
                 room - sizeof head);
    else if (head.checksum != checksum(head, contents))
        snprintf(why, PEALI_ENVELOPE_WHY, "was damaged on its way: its checksum is wrong");
    else if (head.type != type)
        snprintf(why, PEALI_ENVELOPE_WHY, "is %s, not %s", name_of(head.type), name_of(type));
    else {
        *bytes = head.bytes;
        return contents;
    }
    return NULL;
}
