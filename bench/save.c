/* A race as JSON: {machine, versions, commit, rows}; the keys are the same in every file under results,
 * and races on GPUs have some more. */
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include <cjson/cJSON.h>

#include <peal/version.h>

#include "report.h"

static void add_machine(cJSON *root, const peali_origin *host)
{
    cJSON *machine = cJSON_AddObjectToObject(root, "machine");
    cJSON_AddStringToObject(machine, "cpu", host->cpu);
    cJSON_AddNumberToObject(machine, "cores", host->cores);
    cJSON_AddNumberToObject(machine, "memory_bytes", (double)host->memory_bytes);
    cJSON_AddStringToObject(machine, "kernel", host->kernel);
    cJSON_AddNumberToObject(machine, "steal", peali_steal_since(host->steal));
}

/* What races on GPUs have besides. */
static void add_gpu(cJSON *root, const peali_race *race)
{
    const peali_race_gpu *gpu = race->gpu;
    cJSON *machine = cJSON_GetObjectItem(root, "machine"), *versions = cJSON_GetObjectItem(root, "versions");
    char text[32];
    cJSON_AddStringToObject(machine, "gpu", gpu->name);
    cJSON_AddNumberToObject(machine, "gpus", race->team->nranks);
    cJSON_AddNumberToObject(machine, "link_gbps", gpu->link);
    snprintf(text, sizeof text, "%d.%d", gpu->cuda_version / 1000, gpu->cuda_version / 10 % 100);
    cJSON_AddStringToObject(versions, "cuda", text);
    cJSON_AddStringToObject(versions, "driver", gpu->driver);
    if (!gpu->nccl_version)
        return;
    snprintf(text, sizeof text, "%d.%d.%d", gpu->nccl_version / 10000, gpu->nccl_version / 100 % 100, gpu->nccl_version % 100);
    cJSON_AddStringToObject(versions, "nccl", text);
    cJSON_AddStringToObject(versions, "nccl_nvls_enable", gpu->nvls);
}

/* Null where VALUE is not known, which is 0. */
static void add_known(cJSON *to, const char *name, double value)
{
    if (value > 0)
        cJSON_AddNumberToObject(to, name, value);
    else
        cJSON_AddNullToObject(to, name);
}

static void add_gpu_figures(cJSON *to, const peali_race *race, const peali_row *row)
{
    cJSON_AddNumberToObject(to, "calls", row->calls);
    cJSON_AddNumberToObject(to, "host_us", row->host_us);
    cJSON_AddNumberToObject(to, "enqueue_us", row->enqueue_us);
    cJSON_AddNumberToObject(to, "ctas", row->ctas);
    add_known(to, "link", row->link);
    if (race->flags->ulp) /* null: infinite */
        cJSON_AddNumberToObject(to, "ulp", row->ulp);
}

static void add_versions(cJSON *root, const peali_team *team)
{
    cJSON *versions = cJSON_AddObjectToObject(root, "versions");
    cJSON_AddStringToObject(versions, "peal", PEAL_VERSION);
    cJSON_AddStringToObject(versions, "compiler", peali_origin_compiler());
    if (team->library)
        cJSON_AddStringToObject(versions, "mpi", team->library);
}

static void add_figures(cJSON *to, const peali_row *row)
{
    cJSON_AddNumberToObject(to, "samples", row->samples);
    cJSON_AddNumberToObject(to, "min_us", row->min_us);
    cJSON_AddNumberToObject(to, "median_us", row->median_us);
    cJSON_AddNumberToObject(to, "p99_us", row->p99_us);
    cJSON_AddNumberToObject(to, "algbw", row->algbw);
    cJSON_AddNumberToObject(to, "busbw", row->busbw);
    add_known(to, "predicted_us", row->predicted_us);
    cJSON_AddBoolToObject(to, "verified", row->verified);
}

static void add_row(cJSON *rows, const peali_race *race, const peali_row *row, const char *run)
{
    cJSON *to = cJSON_CreateObject();
    cJSON_AddStringToObject(to, "run", run);
    cJSON_AddStringToObject(to, "collective", peal_kind_name(race->flags->kind));
    cJSON_AddNumberToObject(to, "bytes", (double)row->bytes);
    cJSON_AddStringToObject(to, "type", peal_type_name(row->type));
    cJSON_AddStringToObject(to, "op", peal_op_name(row->op));
    cJSON_AddNumberToObject(to, "nranks", race->team->nranks);
    cJSON_AddStringToObject(to, "mem", race->gpu ? "cuda" : race->flags->shared ? "shared" : "host");
    cJSON_AddStringToObject(to, "buffers", row->buffers);
    cJSON_AddStringToObject(to, "mode", row->mode);
    cJSON_AddBoolToObject(to, "inplace", row->inplace);
    cJSON_AddStringToObject(to, "transport", peal_comm_transport(race->team->comm));
    cJSON_AddStringToObject(to, "impl", row->impl);
    cJSON_AddStringToObject(to, "variant", row->variant);
    cJSON_AddBoolToObject(to, "chosen", row->chosen);
    add_figures(to, row);
    if (race->gpu)
        add_gpu_figures(to, race, row);
    cJSON_AddItemToArray(rows, to);
}

/* On a full disk what was there stays, unless FILE is no plain one, or there can be none beside it. */
static bool write_text(const char *file, const char *text)
{
    struct stat is;
    peali_flags_place at;
    peali_flags_find_place(file, &at);
    const bool plain = stat(file, &is) == 0 ? S_ISREG(is.st_mode) : lstat(file, &is) != 0;
    const bool swaps = plain && peali_flags_writable(at.beside);
    FILE *out = fopen(swaps ? at.beside : file, "w");
    bool ok = out && fputs(text, out) >= 0 && fputc('\n', out) >= 0;
    if (out && fclose(out) != 0)
        ok = false;
    if (swaps)
        ok = ok && rename(at.beside, at.file) == 0;
    if (!ok)
        perror(file);
    if (!ok && swaps)
        remove(at.beside);
    return ok;
}

bool peali_save_json(const peali_race *race, const peali_origin *host, const char *file)
{
    char run[32];
    time_t now = time(NULL);
    strftime(run, sizeof run, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    cJSON *root = cJSON_CreateObject();
    add_machine(root, host);
    add_versions(root, race->team);
    if (race->gpu)
        add_gpu(root, race);
    cJSON_AddStringToObject(root, "commit", peali_origin_commit());
    cJSON *rows = cJSON_AddArrayToObject(root, "rows");
    for (int i = 0; i < race->nrows; i++)
        add_row(rows, race, &race->rows[i], run);
    char *text = cJSON_Print(root);
    bool ok = text && write_text(file, text);
    cJSON_free(text);
    cJSON_Delete(root);
    return ok;
}
