/*
 * Libraries that keep memory registered, and watch what is unmapped, hear of what a fork parts from peers and of what is freed: UCX
 * here, as an MPI has it for its own messages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <ucm/api/ucm.h>

#include <peal/peal.h>

enum { BYTES = 4 << 20 };

static char *block;
static size_t heard; /* bytes of the block, from its start on */

static void hear(ucm_event_type_t type, ucm_event_t *event, void *arg)
{
    const char *from = event->vm_unmapped.address, *to = from + event->vm_unmapped.size;
    if (from <= block + heard && to > block + heard)
        heard = (size_t)(to - block) < BYTES ? (size_t)(to - block) : BYTES;
}

static void hears_of_all(void **state)
{
    block = peal_mem_alloc(BYTES);
    assert_non_null(block);
    memset(block, 1, BYTES);
    assert_int_equal(ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, 0, hear, NULL), UCS_OK);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(heard, BYTES);
    heard = 0;
    peal_mem_free(block);
    assert_int_equal(heard, BYTES);
    ucm_unset_event_handler(UCM_EVENT_VM_UNMAPPED, hear, NULL);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
    return 77; /* TSan's mmap and UCX's do not bear each other */
#endif
    const struct CMUnitTest tests[] = {cmocka_unit_test(hears_of_all)};
    return cmocka_run_group_tests_name("fork hooks", tests, NULL, NULL);
}
