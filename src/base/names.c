/* Names and sizes of the enumerations in peal.h and status.h. */
#include <peal/peal.h>

#define PICK(table, index) ((unsigned)(index) < sizeof(table) / sizeof((table)[0]) ? (table)[index] : "?")

const char *peal_kind_name(peal_kind kind)
{
    static const char *const names[PEAL_KIND_COUNT] = {
        "allreduce", "allgather", "reduce_scatter", "broadcast", "reduce", "barrier",
    };
    return PICK(names, kind);
}

const char *peal_type_name(peal_type type)
{
    static const char *const names[PEAL_TYPE_COUNT] = {
        "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "byte", "bool", "fp8_e4m3", "fp8_e5m2", "fp16",
        "bf16", "float", "double", "long_double", "complex_float", "complex_double", "complex_long_double",
    };
    return PICK(names, type);
}

const char *peal_op_name(peal_op op)
{
    static const char *const names[] = {
        "sum", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor", "avg", "premul_sum",
    };
    return PICK(names, op);
}

size_t peal_type_bytes(peal_type type)
{
    static const size_t bytes[PEAL_TYPE_COUNT] = {
        1, 1, 2, 2, 4, 4, 8, 8, 1, 1, 1, 1, 2, 2, sizeof(float), sizeof(double), sizeof(long double),
        2 * sizeof(float), 2 * sizeof(double), 2 * sizeof(long double),
    };
    return (unsigned)type < PEAL_TYPE_COUNT ? bytes[type] : 0;
}

int peal_op_takes(peal_op op, peal_type type)
{
    if ((unsigned)op > PEAL_PREMUL_SUM || (unsigned)type >= PEAL_TYPE_COUNT)
        return 0;
    int logical = op >= PEAL_LAND && op <= PEAL_LXOR, bitwise = op >= PEAL_BAND && op <= PEAL_BXOR;
    switch (type) {
    case PEAL_BYTE: return bitwise;
    case PEAL_BOOL: return logical;
    case PEAL_COMPLEX_FLOAT: case PEAL_COMPLEX_DOUBLE: case PEAL_COMPLEX_LONG_DOUBLE:
        return op == PEAL_SUM || op == PEAL_PROD || op == PEAL_AVG || op == PEAL_PREMUL_SUM;
    default: return type < PEAL_BYTE || (!logical && !bitwise);
    }
}

const char *peal_status_text(peal_status status)
{
    switch (status) {
    case PEAL_OK: return "ok";
    case PEAL_IN_PROGRESS: return "in progress: ask again";
    case PEAL_ERR_INVALID: return "invalid: an argument breaks its rule; nothing was started";
    case PEAL_ERR_MEMORY: return "memory: there is none left";
    case PEAL_ERR_UNSUPPORTED: return "unsupported: right, but not to be had here; the log says why";
    case PEAL_ERR_CONFIG: return "config: a PEAL_* variable is wrong, or differs between ranks, as may libpeal; the log says";
    case PEAL_ERR_NET: return "net: a transport failed; the communicator is of no more use";
    case PEAL_ERR_TIMEOUT: return "timeout: a wait outlasted PEAL_TIMEOUT; the communicator is of no more use";
    case PEAL_ERR_MISMATCH: return "mismatch: the ranks' calls differ; the communicator is of no more use";
    case PEAL_ERR_ABORTED: return "aborted: another thread aborted the communicator";
    case PEAL_ERR_SYSTEM: return "system: the operating system refused; the log says what";
    case PEAL_ERR_CUDA: return "cuda: the CUDA driver refused; the log says what";
    case PEAL_ERR_CAPTURE: return "capture: not while a stream is captured; the log says what, and the capture is valid";
    }
    return "unknown: this value is no peal_status";
}
