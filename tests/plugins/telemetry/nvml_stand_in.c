/* A stand-in for libnvidia-ml.so: GPUs that only exist in the tests, with signals that are functions of a time.

   stand_in_set_time(seconds) sets the time; without it the clock of the machine is used. Power is 500 W and a sine of
   150 W with a period of 7 s; for the first 3 of every 10 s the power limit slows the clock from 1980 to 1410 MHz. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define GPUS 8
#define NOT_SUPPORTED 3

static double set_time = -1, began = -1;
static int xid_gpu = -1, xid = 0, supports_energy = 1;
static int handles[GPUS];

typedef struct { unsigned id, scope; long long time, latency; unsigned kind, error; unsigned long long value; } field;
typedef struct { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event;

static double machine_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
static double now(void) {
  if (set_time >= 0) return set_time;
  if (began < 0) began = machine_time();
  return machine_time() - began;
}
static int number(void *handle) { return (int)((int *)handle - handles); }

void stand_in_set_time(double seconds) { set_time = seconds; }
void stand_in_raise_xid(int gpu, int code) { xid_gpu = gpu, xid = code; }
void stand_in_support_energy(int yes) { supports_energy = yes; }
double stand_in_power(double t) { return 500 + 150 * sin(2 * M_PI * t / 7); }
double stand_in_energy(double t) { return 500 * t + 150 * 7 / (2 * M_PI) * (1 - cos(2 * M_PI * t / 7)); }
double stand_in_throttled(double t) { double rest = fmod(t, 10); return 3 * floor(t / 10) + (rest < 3 ? rest : 3); }
static int throttled(void) { return fmod(now(), 10) < 3; }

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = GPUS; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned n, void **handle) { *handle = &handles[n]; return n < GPUS ? 0 : 6; }
int nvmlDeviceGetName(void *h, char *text, unsigned n) { snprintf(text, n, "Stand-in GPU"); return 0; }
int nvmlDeviceGetUUID(void *h, char *text, unsigned n) { snprintf(text, n, "GPU-stand-in-%d", number(h)); return 0; }
int nvmlDeviceGetMinorNumber(void *h, unsigned *value) { *value = number(h); return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *value) { *value = 700000; return 0; }
int nvmlDeviceGetPowerManagementDefaultLimit(void *h, unsigned *value) { *value = 700000; return 0; }
int nvmlDeviceGetMaxClockInfo(void *h, int kind, unsigned *value) { *value = kind == 1 ? 1980 : 2619; return 0; }
int nvmlDeviceGetClockInfo(void *h, int kind, unsigned *value) {
  *value = kind == 2 ? 2619 : throttled() ? 1410 : 1980;
  return 0;
}
int nvmlDeviceGetTemperature(void *h, int kind, unsigned *value) { *value = 60 + number(h); return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *value) {
  *value = throttled() ? 4 : 0;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *h, unsigned long long *value) {
  *value = (unsigned long long)(1000 * stand_in_energy(now()));
  return supports_energy ? 0 : NOT_SUPPORTED;
}
int nvmlDeviceGetCpuAffinity(void *h, unsigned size, unsigned long *words) {
  words[0] = number(h) < GPUS / 2 ? 0xfful : 0xff00ul;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void *h, unsigned *values) { values[0] = 97, values[1] = 40; return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *h, unsigned long long *values) {
  if ((unsigned)values[0] != (40 | 2 << 24)) return 2;
  values[1] = 80ull << 30, values[2] = 1ull << 30, values[3] = 20ull << 30, values[4] = 59ull << 30;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void *h, unsigned long long *values) {
  values[0] = 80ull << 30, values[1] = 20ull << 30, values[2] = 60ull << 30;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, void *infos) { *count = 0; return 0; }
int nvmlDeviceGetFieldValues(void *h, int count, field *fields) {
  for (int n = 0; n < count; n++) {
    fields[n].kind = 3, fields[n].error = 0;
    switch (fields[n].id) {
      case 186: fields[n].kind = 1, fields[n].value = (unsigned)(1000 * stand_in_power(now())); break;
      case 74: fields[n].value = (unsigned long long)(1e9 * stand_in_throttled(now())); break;
      case 75: case 76: case 77: case 79: case 3: case 4: case 94: case 142: case 143: fields[n].value = 0; break;
      case 197: case 198: fields[n].value = (unsigned long long)(1e6 * now()); break;
      case 138: case 139: fields[n].value = (unsigned long long)(1e7 * now()); break;
      default: fields[n].error = NOT_SUPPORTED;
    }
  }
  return 0;
}
int nvmlEventSetCreate(void **set) { *set = &xid; return 0; }
int nvmlDeviceRegisterEvents(void *h, unsigned long long types, void *set) { return 0; }
int nvmlEventSetWait_v2(void *set, event *data, unsigned ms) {
  if (xid_gpu < 0) return 10; /* timeout */
  memset(data, 0, sizeof *data);
  data->device = &handles[xid_gpu], data->type = 8, data->data = xid;
  xid_gpu = -1;
  return 0;
}
