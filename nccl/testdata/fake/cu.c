// What gorgonia.org/cu calls of libcuda beyond cuda.c: contexts other than the
// primary one, copies that wait, and questions. scripts/cuda-headers compiles
// cuda.c with its cuCtxSetCurrent renamed, because the one here knows more
// contexts.
#include <stddef.h>
#include <string.h>

enum { OK = 0, INVALID_VALUE = 1, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, OWN = 100, MAX_OWN = 64 };

int fake_primary_set_current(long ctx);
int cuDevicePrimaryCtxRetain(long *ctx, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuStreamCreateWithPriority(void **s, unsigned flags, int priority);
int cuMemcpyHtoDAsync_v2(char *dst, const char *src, size_t n, void *stream);
int cuMemcpyDtoHAsync_v2(char *dst, const char *src, size_t n, void *stream);

int cuDeviceGetCount(int *n);

static int no_device(int device) {
  int n = 0;
  cuDeviceGetCount(&n);
  return device < 0 || device >= n;
}

static __thread long current;
static int device_of[MAX_OWN]; // and 1; 0: none. Tests make few, one at a time

int cuCtxSetCurrent(long ctx) {
  long below = ctx;
  if (ctx >= OWN) {
    if (ctx - OWN >= MAX_OWN || !device_of[ctx - OWN]) return INVALID_CONTEXT;
    below = device_of[ctx - OWN];
  }
  int code = fake_primary_set_current(below);
  if (code == OK) current = ctx;
  return code;
}

int cuCtxGetCurrent(long *ctx) {
  *ctx = current;
  return OK;
}

int cuCtxGetDevice(int *device) {
  if (!current) return INVALID_CONTEXT;
  *device = (current >= OWN ? device_of[current - OWN] : current) - 1;
  return OK;
}

int cuCtxCreate_v2(long *ctx, unsigned flags, int device) {
  (void)flags;
  long primary;
  int code = cuDevicePrimaryCtxRetain(&primary, device);
  if (code) return code;
  for (int i = 0; i < MAX_OWN; i++)
    if (!device_of[i]) {
      device_of[i] = device + 1;
      *ctx = OWN + i;
      return cuCtxSetCurrent(*ctx); // as the real one: current on this thread
    }
  return INVALID_VALUE;
}

int cuCtxDestroy_v2(long ctx) {
  if (ctx < OWN || ctx - OWN >= MAX_OWN || !device_of[ctx - OWN]) return INVALID_CONTEXT;
  int device = device_of[ctx - OWN] - 1;
  device_of[ctx - OWN] = 0;
  if (current == ctx) cuCtxSetCurrent(0);
  return cuDevicePrimaryCtxRelease_v2(device);
}

int cuCtxSynchronize(void) { return current ? OK : INVALID_CONTEXT; }

int cuDeviceGet(int *device, int ordinal) {
  if (no_device(ordinal)) return INVALID_DEVICE;
  *device = ordinal;
  return OK;
}

int cuDriverGetVersion(int *v) {
  *v = 12040;
  return OK;
}

int cuMemcpyHtoD_v2(char *dst, const char *src, size_t n) { return cuMemcpyHtoDAsync_v2(dst, src, n, NULL); }
int cuMemcpyDtoH_v2(char *dst, const char *src, size_t n) { return cuMemcpyDtoHAsync_v2(dst, src, n, NULL); }

int cuMemsetD8_v2(char *p, unsigned char v, size_t n) {
  if (!current) return INVALID_CONTEXT;
  memset(p, v, n);
  return OK;
}

int cuStreamCreate(void **s, unsigned flags) { return cuStreamCreateWithPriority(s, flags, 0); }

int cuDeviceGetName(char *name, int n, int device) {
  if (no_device(device) || n < 1) return INVALID_VALUE;
  strncpy(name, "fake", n - 1);
  name[n - 1] = 0;
  return OK;
}

int cuDeviceTotalMem_v2(size_t *n, int device) {
  if (no_device(device)) return INVALID_DEVICE;
  *n = 1UL << 36;
  return OK;
}
