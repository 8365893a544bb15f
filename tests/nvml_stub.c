/* A stand-in for NVIDIA's management library, for machines without a GPU: the real binding loads and calls it.
 *
 * It answers out of the file $NVML_STUB, one `name value` a line, read anew whenever it has changed:
 *   util 97            of every GPU; `3.util 5` of GPU 3 alone; `3:1.mem_used 77` of instance 1 of GPU 3
 *   power error 3      that call returns the nvmlReturn_t 3; `3.all error 15` every call about GPU 3
 *   delay_ms 10000     every call about a GPU takes so long
 * What has no line is not supported. `-DOLD` leaves out what drivers before R510 do not export.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SUCCESS, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, TOO_SMALL = 7, VERSION = 25 };
enum { MOST = 512, TEXT = 224 };
typedef struct { char name[48], value[TEXT]; } Line;
typedef struct { int gpu, part; } Device; /* part -1: the whole GPU */

static Line lines[MOST];
static int count_of_lines, initialized;
static struct timespec read_at;
static off_t read_size;
static Device devices[64][9];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void refresh(void) {
    const char *path = getenv("NVML_STUB");
    struct stat now;
    if (!path || stat(path, &now)) return;
    if (now.st_mtim.tv_sec == read_at.tv_sec && now.st_mtim.tv_nsec == read_at.tv_nsec && now.st_size == read_size) return;
    FILE *file = fopen(path, "re");
    if (!file) return;
    char text[320];
    for (count_of_lines = 0; count_of_lines < MOST && fgets(text, sizeof text, file);) {
        Line *line = &lines[count_of_lines];
        line->value[0] = 0;
        if (sscanf(text, "%47s %223[^\n]", line->name, line->value) >= 1 && line->name[0] != '#') count_of_lines++;
    }
    fclose(file);
    read_at = now.st_mtim;
    read_size = now.st_size;
}

static const char *said(const char *name) {
    for (int at = count_of_lines - 1; at >= 0; at--)
        if (!strcmp(lines[at].name, name)) return lines[at].value;
    return NULL;
}

static int verdict(const char *value) { int code; return value && sscanf(value, "error %d", &code) == 1 ? code : SUCCESS; }

/* The text of a value of a device, most particular first, and what the call returns. */
static int look(const Device *device, const char *name, char *out, size_t size) {
    char key[96];
    const char *value = NULL, *delay;
    int code = initialized ? SUCCESS : UNINITIALIZED;
    pthread_mutex_lock(&lock);
    refresh();
    delay = said("delay_ms");
    long wait = device && delay ? atol(delay) : 0;
    if (!code && device) {
        snprintf(key, sizeof key, "%d.all", device->gpu);
        code = verdict(said(key));
    }
    if (!code && device && device->part >= 0) {
        snprintf(key, sizeof key, "%d:%d.%s", device->gpu, device->part, name);
        value = said(key);
    } else if (!code && device) {
        snprintf(key, sizeof key, "%d.%s", device->gpu, name);
        value = said(key);
        if (!value) value = said(name);
    } else if (!code) value = said(name);
    if (!code) code = value ? verdict(value) : NOT_SUPPORTED;
    if (!code) snprintf(out, size, "%s", value);
    pthread_mutex_unlock(&lock);
    if (wait) nanosleep(&(struct timespec){wait / 1000, wait % 1000 * 1000000}, NULL);
    return code;
}

static int whole(const Device *device, const char *name, unsigned long long *out) {
    char text[TEXT];
    int code = look(device, name, text, sizeof text);
    if (!code) *out = strtoull(text, NULL, 0);
    return code;
}

static int number(const Device *device, const char *name, unsigned *out) {
    unsigned long long wide;
    int code = whole(device, name, &wide);
    if (!code) *out = (unsigned)wide;
    return code;
}

static int text_of(const Device *device, const char *name, char *out, unsigned size) { return look(device, name, out, size); }

int nvmlInitWithFlags(unsigned flags) {
    char text[TEXT];
    (void)flags;
    initialized = 1;
    int code = look(NULL, "init", text, sizeof text);
    if (code == NOT_SUPPORTED) return SUCCESS;
    initialized = !code;
    return code;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { initialized = 0; return SUCCESS; }
const char *nvmlErrorString(int code) { static char text[32]; snprintf(text, sizeof text, "error %d", code); return text; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return text_of(NULL, "driver", out, size); }
int nvmlSystemGetNVMLVersion(char *out, unsigned size) { return text_of(NULL, "driver", out, size); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return number(NULL, "cuda", (unsigned *)out); }
int nvmlSystemGetCudaDriverVersion(int *out) { return number(NULL, "cuda", (unsigned *)out); }
int nvmlDeviceGetCount_v2(unsigned *out) { return number(NULL, "count", out); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
    unsigned count, opened;
    int code = number(NULL, "count", &count);
    if (code) return code;
    if (index >= count || index >= 64) return INVALID;
    devices[index][0] = (Device){(int)index, -1};
    *out = &devices[index][0];
    code = number(*out, "open", &opened);
    return code == NOT_SUPPORTED ? SUCCESS : code;
}

int nvmlDeviceGetIndex(Device *device, unsigned *out) { *out = (unsigned)device->gpu; return SUCCESS; }
int nvmlDeviceGetMinorNumber(Device *device, unsigned *out) { return nvmlDeviceGetIndex(device, out); }
int nvmlDeviceGetName(Device *device, char *out, unsigned size) { return text_of(device, "name", out, size); }

int nvmlDeviceGetUUID(Device *device, char *out, unsigned size) {
    int code = text_of(device, "uuid", out, size);
    if (code == NOT_SUPPORTED && device->part < 0) return snprintf(out, size, "GPU-%08d-0000", device->gpu), SUCCESS;
    return code;
}

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(Device *device, struct pci *out) {
    *out = (struct pci){.bus = (unsigned)device->gpu + 0x1b};
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Device *device, unsigned out[2]) {
    int code = number(device, "util", &out[0]);
    return code ? code : number(device, "mem_util", &out[1]);
}

int nvmlDeviceGetMemoryInfo(Device *device, unsigned long long out[3]) { /* total, free, used */
    int code = whole(device, "mem_total", &out[0]);
    if (code || (code = whole(device, "mem_used", &out[2]))) return code;
    out[1] = out[0] - out[2];
    return SUCCESS;
}

#ifndef OLD
struct memory { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(Device *device, struct memory *out) {
    unsigned long long told[3];
    if (out->version != 0x02000028u) return VERSION;
    int code = nvmlDeviceGetMemoryInfo(device, told);
    if (code) return code;
    out->total = told[0], out->reserved = 0, out->free = told[1], out->used = told[2];
    return SUCCESS;
}
int nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *out) { return whole(device, "reasons", out); }
struct temperature { unsigned version; int sensor, temperature; };
int nvmlDeviceGetTemperatureV(Device *device, struct temperature *out) {
    return out->version != 0x0100000Cu ? VERSION : number(device, "temp", (unsigned *)&out->temperature);
}
#endif

int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *out) { (void)sensor; return number(device, "temp", out); }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *out) { return whole(device, "reasons", out); }
int nvmlDeviceGetPowerUsage(Device *device, unsigned *out) { return number(device, "power", out); }
int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *out) { return number(device, "power_limit", out); }
int nvmlDeviceGetPowerManagementLimit(Device *device, unsigned *out) { return number(device, "power_limit", out); }
int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *out) { return whole(device, "energy", out); }
int nvmlDeviceGetPerformanceState(Device *device, unsigned *out) { return number(device, "pstate", out); }
int nvmlDeviceGetFanSpeed(Device *device, unsigned *out) { return number(device, "fan", out); }
int nvmlDeviceGetPersistenceMode(Device *device, unsigned *out) { return number(device, "persistence", out); }
int nvmlDeviceGetComputeMode(Device *device, unsigned *out) { return number(device, "compute_mode", out); }
int nvmlDeviceGetDisplayActive(Device *device, unsigned *out) { return number(device, "display", out); }
int nvmlDeviceGetDisplayMode(Device *device, unsigned *out) { return number(device, "display", out); }

int nvmlDeviceGetEncoderUtilization(Device *device, unsigned *out, unsigned *period) { *period = 100000; return number(device, "encoder", out); }
int nvmlDeviceGetDecoderUtilization(Device *device, unsigned *out, unsigned *period) { *period = 100000; return number(device, "decoder", out); }
int nvmlDeviceGetCurrPcieLinkGeneration(Device *device, unsigned *out) { return number(device, "pcie_generation", out); }
int nvmlDeviceGetCurrPcieLinkWidth(Device *device, unsigned *out) { return number(device, "pcie_width", out); }
int nvmlDeviceGetSerial(Device *device, char *out, unsigned size) { return text_of(device, "serial", out, size); }
int nvmlDeviceGetDriverModel(Device *device, unsigned *now, unsigned *next) { (void)device, (void)now, (void)next; return NOT_SUPPORTED; }
int nvmlDeviceGetDriverModel_v2(Device *device, unsigned *now, unsigned *next) { return nvmlDeviceGetDriverModel(device, now, next); }

static const char *CLOCKS[] = {"clock", "sm", "mem_clock", "clock"}, *MOST_CLOCKS[] = {"max_clock", "max_sm", "max_mem_clock", "max_clock"};
int nvmlDeviceGetClockInfo(Device *device, int kind, unsigned *out) { return number(device, CLOCKS[kind & 3], out); }
int nvmlDeviceGetMaxClockInfo(Device *device, int kind, unsigned *out) { return number(device, MOST_CLOCKS[kind & 3], out); }
int nvmlDeviceGetEccMode(Device *device, unsigned *now, unsigned *next) { int code = number(device, "ecc", now); *next = *now; return code; }
int nvmlDeviceGetTotalEccErrors(Device *device, int kind, int since, unsigned long long *out) {
    (void)since;
    return whole(device, kind ? "ecc_uncorrected" : "ecc_corrected", out);
}
int nvmlDeviceGetPcieThroughput(Device *device, int receives, unsigned *out) { return number(device, receives ? "pcie_rx" : "pcie_tx", out); }
int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *out) { (void)link; return number(device, "nvlink", out); }

struct field { uint32_t id, scope; int64_t at, took; int32_t type, code; union { unsigned long long wide; double real; } value; };
int nvmlDeviceGetFieldValues(Device *device, int count, struct field *fields) {
    for (int at = 0; at < count; at++) {
        char name[32];
        unsigned long long told = 0;
        snprintf(name, sizeof name, "field_%u", fields[at].id);
        fields[at].code = whole(device, name, &told);
        fields[at].type = 3; /* unsigned long long */
        fields[at].value.wide = told;
    }
    return SUCCESS;
}

struct process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };
static int processes(Device *device, const char *name, unsigned *count, struct process *out) { /* `pid:bytes pid:-` */
    char text[TEXT], *rest = text, *word;
    int code = look(device, name, text, sizeof text);
    unsigned room = *count, found = 0;
    *count = 0;
    if (code) return code == NOT_SUPPORTED ? SUCCESS : code;
    while ((word = strsep(&rest, " "))) {
        char *bytes = strchr(word, ':');
        if (!bytes) continue;
        if (out && found < room)
            out[found] = (struct process){(unsigned)atol(word), bytes[1] == '-' ? ~0ULL : strtoull(bytes + 1, NULL, 0), ~0u, ~0u};
        found++;
    }
    *count = found;
    return found && (!out || room < found) ? TOO_SMALL : SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device *device, unsigned *count, struct process *out) { return processes(device, "procs", count, out); }
#ifndef OLD
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, struct process *out) { return processes(device, "procs", count, out); }
#endif
int nvmlDeviceGetGraphicsRunningProcesses_v2(Device *device, unsigned *count, struct process *out) { return processes(device, "graphics", count, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *device, unsigned *count, struct process *out) { return processes(device, "graphics", count, out); }

struct busy { unsigned pid; unsigned long long at; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(Device *device, struct busy *out, unsigned *count, unsigned long long since) { /* `pid:sm` */
    char text[TEXT], *rest = text, *word;
    int code = look(device, "proc_util", text, sizeof text);
    unsigned room = *count, found = 0;
    (void)since;
    if (code) return code == NOT_SUPPORTED ? NOT_FOUND : code;
    while ((word = strsep(&rest, " "))) {
        char *share = strchr(word, ':');
        if (!share) continue;
        if (out && found < room) out[found] = (struct busy){(unsigned)atol(word), 1000 + found, (unsigned)atol(share + 1), 0, 0, 0};
        found++;
    }
    *count = found;
    return !out || room < found ? TOO_SMALL : SUCCESS;
}

int nvmlDeviceGetMigMode(Device *device, unsigned *now, unsigned *next) { int code = number(device, "mig", now); *next = *now; return code; }
int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *out) { return number(device, "mig_most", out); }
int nvmlDeviceIsMigDeviceHandle(Device *device, unsigned *out) { *out = device->part >= 0; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **out) {
    char text[TEXT];
    if (index > 7) return INVALID;
    devices[device->gpu][index + 1] = (Device){device->gpu, (int)index};
    *out = &devices[device->gpu][index + 1];
    return look(*out, "name", text, sizeof text) ? NOT_FOUND : SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) { (void)device; *major = 9; *minor = 0; return SUCCESS; }
