// A libcuda for machines without a GPU: device memory is host memory, a stream
// is a thread with a queue. It is strict where the real one is: calls that need
// a current context fail without one, and events have one owner.
#define _GNU_SOURCE
#include "fake.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101,
       INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_READY = 600, NOT_SUPPORTED = 801 };

enum { DEVICES = 4, MAX_BLOCKS = 4096 };

static int initialised;
static long retained[DEVICES];
static __thread long current; // device + 1
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct block { char *p; size_t size; int fd; } blocks[MAX_BLOCKS];
static long live_events, live_streams, live_blocks;
static long live_shared, live_imported; // interprocess events made here, and opened here

#define NEED_CONTEXT() do { if (!current) return INVALID_CONTEXT; } while (0)

long fake_live(void) { return __atomic_load_n(&live_events, __ATOMIC_SEQ_CST) * 1000000 + __atomic_load_n(&live_streams, __ATOMIC_SEQ_CST) * 1000 + __atomic_load_n(&live_blocks, __ATOMIC_SEQ_CST); }

int cuInit(unsigned flags) {
  if (getenv("FAKE_CUDA_NO_DEVICE")) return 100;
  initialised = 1;
  return flags ? INVALID_VALUE : OK;
}

int cuGetErrorName(int code, const char **name) {
  switch (code) {
  case OK: *name = "CUDA_SUCCESS"; break;
  case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
  case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
  case NOT_INITIALIZED: *name = "CUDA_ERROR_NOT_INITIALIZED"; break;
  case 100: *name = "CUDA_ERROR_NO_DEVICE"; break;
  case INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; break;
  case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; break;
  case INVALID_HANDLE: *name = "CUDA_ERROR_INVALID_HANDLE"; break;
  case NOT_READY: *name = "CUDA_ERROR_NOT_READY"; break;
  default: *name = NULL; return INVALID_VALUE;
  }
  return OK;
}

int cuDeviceGetCount(int *n) {
  if (!initialised) return NOT_INITIALIZED;
  *n = DEVICES;
  return OK;
}

int cuDevicePrimaryCtxRetain(long *ctx, int device) {
  if (device < 0 || device >= DEVICES) return INVALID_DEVICE;
  __atomic_add_fetch(&retained[device], 1, __ATOMIC_SEQ_CST);
  *ctx = device + 1;
  return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  if (device < 0 || device >= DEVICES || retained[device] == 0) return INVALID_DEVICE;
  __atomic_sub_fetch(&retained[device], 1, __ATOMIC_SEQ_CST);
  if (getenv("FAKE_CUDA_REPORT")) // what a process has left of others when it is through
    dprintf(2, "fake cuda: %ld events of others, %ld blocks open\n", live_imported, live_blocks);
  return OK;
}

int cuCtxSetCurrent(long ctx) {
  if (ctx < 0 || ctx > DEVICES || (ctx && !retained[ctx - 1])) return INVALID_CONTEXT;
  current = ctx;
  return OK;
}

int cuCtxGetCurrent(long *ctx) {
  *ctx = current;
  return OK;
}

static int map(char **p, size_t size, int fd) {
  *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (*p == MAP_FAILED) return OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_BLOCKS; i++)
    if (!blocks[i].p) {
      blocks[i] = (struct block){*p, size, fd};
      __atomic_add_fetch(&live_blocks, 1, __ATOMIC_SEQ_CST);
      pthread_mutex_unlock(&lock);
      return OK;
    }
  pthread_mutex_unlock(&lock);
  munmap(*p, size);
  return OUT_OF_MEMORY;
}

static int unmap(char *p) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_BLOCKS; i++)
    if (p && blocks[i].p == p) {
      munmap(p, blocks[i].size);
      close(blocks[i].fd);
      blocks[i].p = NULL;
      __atomic_sub_fetch(&live_blocks, 1, __ATOMIC_SEQ_CST);
      pthread_mutex_unlock(&lock);
      return OK;
    }
  pthread_mutex_unlock(&lock);
  return INVALID_VALUE;
}

int cuMemAlloc_v2(char **p, size_t size) {
  NEED_CONTEXT();
  if (size == 0) return INVALID_VALUE;
  if (size > (1UL << 36)) return OUT_OF_MEMORY;
  int fd = memfd_create("fake-cuda", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, size)) return OUT_OF_MEMORY;
  int code = map(p, size, fd);
  if (code) close(fd);
  return code;
}

int cuMemFree_v2(char *p) {
  NEED_CONTEXT();
  return unmap(p);
}

int cuMemGetAddressRange_v2(char **base, size_t *size, char *p) {
  NEED_CONTEXT();
  int code = INVALID_VALUE;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_BLOCKS; i++)
    if (blocks[i].p && p >= blocks[i].p && p < blocks[i].p + blocks[i].size) *base = blocks[i].p, *size = blocks[i].size, code = OK;
  pthread_mutex_unlock(&lock);
  return code;
}

struct handle { int pid, fd; size_t size; char rest[48]; };

int cuIpcGetMemHandle(struct handle *h, char *p) {
  NEED_CONTEXT();
  int code = INVALID_VALUE;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_BLOCKS; i++)
    if (p && blocks[i].p == p) {
      memset(h, 0, sizeof *h);
      h->pid = getpid(), h->fd = blocks[i].fd, h->size = blocks[i].size;
      code = OK;
    }
  pthread_mutex_unlock(&lock);
  return code;
}

int cuIpcOpenMemHandle_v2(char **p, struct handle h, unsigned flags) {
  (void)flags;
  NEED_CONTEXT();
  if (h.pid == getpid()) return INVALID_CONTEXT; // as the real one: only for others
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return INVALID_HANDLE;
  int code = map(p, h.size, fd);
  if (code) close(fd);
  return code;
}

int cuIpcCloseMemHandle(char *p) {
  NEED_CONTEXT();
  return unmap(p);
}

int cuMemHostAlloc(void **p, size_t size, unsigned flags) {
  (void)flags;
  NEED_CONTEXT();
  *p = aligned_alloc(4096, (size + 4095) & ~4095UL);
  return *p ? OK : OUT_OF_MEMORY;
}

int cuMemFreeHost(void *p) {
  NEED_CONTEXT();
  free(p);
  return OK;
}

// --- streams

struct item { void (*run)(void *); void *arg; struct item *next; };

struct stream {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t change;
  struct item *first, *last;
  int stop;
};

static void *stream_run(void *arg) {
  struct stream *s = arg;
  pthread_mutex_lock(&s->lock);
  for (;;) {
    while (!s->first && !s->stop) pthread_cond_wait(&s->change, &s->lock);
    if (!s->first) break;
    struct item *it = s->first;
    pthread_mutex_unlock(&s->lock);
    it->run(it->arg);
    pthread_mutex_lock(&s->lock);
    s->first = it->next;
    if (!s->first) s->last = NULL;
    free(it);
  }
  pthread_mutex_unlock(&s->lock);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->change);
  free(s);
  __atomic_sub_fetch(&live_streams, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

static struct stream *new_stream(void) {
  struct stream *s = calloc(1, sizeof *s);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->change, NULL);
  __atomic_add_fetch(&live_streams, 1, __ATOMIC_SEQ_CST);
  pthread_create(&s->thread, NULL, stream_run, s);
  pthread_detach(s->thread);
  return s;
}

static struct stream *stream_of(struct stream *s) {
  static struct stream *standard;
  if (s) return s;
  pthread_mutex_lock(&lock);
  if (!standard) {
    standard = new_stream();
    __atomic_sub_fetch(&live_streams, 1, __ATOMIC_SEQ_CST); // nobody made it
  }
  pthread_mutex_unlock(&lock);
  return standard;
}

void fake_enqueue(void *stream, void (*run)(void *), void *arg) {
  struct stream *s = stream_of(stream);
  struct item *it = malloc(sizeof *it);
  *it = (struct item){run, arg, NULL};
  pthread_mutex_lock(&s->lock);
  if (s->last) s->last->next = it; else s->first = it;
  s->last = it;
  pthread_cond_signal(&s->change);
  pthread_mutex_unlock(&s->lock);
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  NEED_CONTEXT();
  *least = 0, *greatest = -5;
  return OK;
}

static long high_streams; // made so far with the greatest priority
long fake_high_streams(void) { return __atomic_load_n(&high_streams, __ATOMIC_SEQ_CST); }

int cuStreamCreateWithPriority(struct stream **s, unsigned flags, int priority) {
  (void)flags;
  NEED_CONTEXT();
  if (priority > 0 || priority < -5) return INVALID_VALUE;
  if (priority == -5) __atomic_add_fetch(&high_streams, 1, __ATOMIC_SEQ_CST);
  *s = new_stream();
  return OK;
}

int cuStreamDestroy_v2(struct stream *s) {
  NEED_CONTEXT();
  if (!s) return INVALID_HANDLE;
  pthread_mutex_lock(&s->lock);
  s->stop = 1;
  pthread_cond_signal(&s->change);
  pthread_mutex_unlock(&s->lock);
  return OK;
}

// --- events

// An interprocess event is a counter in memory that both sides map: how often it
// was recorded, and how far that is done. A waiter waits for the records that
// were there when it was queued.
enum { EVENT_DISABLE_TIMING = 2, EVENT_INTERPROCESS = 4 };

struct shared { long recorded, done; int freed; };

struct event {
  pthread_mutex_t lock;
  pthread_cond_t change;
  int refs, pending;
  struct shared *shared; // of an interprocess event
  int fd, imported;
};

long fake_live_shared(void) { return __atomic_load_n(&live_shared, __ATOMIC_SEQ_CST); }
long fake_live_imported(void) { return __atomic_load_n(&live_imported, __ATOMIC_SEQ_CST); }

static void event_drop(struct event *e) { // with the lock held
  int left = --e->refs;
  pthread_mutex_unlock(&e->lock);
  if (left) return;
  if (e->shared) {
    __atomic_sub_fetch(e->imported ? &live_imported : &live_shared, 1, __ATOMIC_SEQ_CST);
    munmap(e->shared, sizeof *e->shared);
    close(e->fd);
  }
  __atomic_sub_fetch(&live_events, 1, __ATOMIC_SEQ_CST);
  free(e);
}

static struct event *new_event(void) {
  struct event *e = calloc(1, sizeof *e);
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->change, NULL);
  e->refs = 1;
  __atomic_add_fetch(&live_events, 1, __ATOMIC_SEQ_CST);
  return e;
}

static int share(struct event *e, int fd, int imported) {
  e->shared = mmap(NULL, sizeof *e->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (e->shared == MAP_FAILED) return OUT_OF_MEMORY;
  e->fd = fd, e->imported = imported;
  __atomic_add_fetch(imported ? &live_imported : &live_shared, 1, __ATOMIC_SEQ_CST);
  return OK;
}

int cuEventCreate(struct event **e, unsigned flags) {
  NEED_CONTEXT();
  if (flags & EVENT_INTERPROCESS && !(flags & EVENT_DISABLE_TIMING)) return INVALID_VALUE;
  *e = new_event();
  if (!(flags & EVENT_INTERPROCESS)) return OK;
  int fd = memfd_create("fake-event", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(struct shared))) return OUT_OF_MEMORY;
  return share(*e, fd, 0);
}

int cuIpcGetEventHandle(struct handle *h, struct event *e) {
  NEED_CONTEXT();
  if (!e->shared || e->imported) return INVALID_HANDLE;
  memset(h, 0, sizeof *h);
  h->pid = getpid(), h->fd = e->fd, h->size = sizeof *e->shared;
  return OK;
}

int cuIpcOpenEventHandle(struct event **e, struct handle h) {
  NEED_CONTEXT();
  if (h.pid == getpid()) return INVALID_CONTEXT; // as the real one: only for others
  if (h.size != sizeof(struct shared)) return INVALID_VALUE;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return INVALID_HANDLE;
  *e = new_event();
  return share(*e, fd, 1);
}

static void event_mark(void *arg) {
  struct event *e = arg;
  pthread_mutex_lock(&e->lock);
  e->pending--;
  if (e->shared) __atomic_add_fetch(&e->shared->done, 1, __ATOMIC_SEQ_CST);
  pthread_cond_broadcast(&e->change);
  event_drop(e);
}

static int event_pending(struct event *e, long upto) {
  if (e->shared) return __atomic_load_n(&e->shared->done, __ATOMIC_SEQ_CST) < upto;
  return e->pending;
}

struct waiting { struct event *e; long upto; };

static void event_wait(void *arg) {
  struct waiting *w = arg;
  struct event *e = w->e;
  pthread_mutex_lock(&e->lock);
  while (event_pending(e, w->upto)) {
    if (!e->shared) {
      pthread_cond_wait(&e->change, &e->lock);
      continue;
    }
    pthread_mutex_unlock(&e->lock); // the other process cannot wake us
    usleep(50);
    pthread_mutex_lock(&e->lock);
  }
  event_drop(e);
  free(w);
}

int cuEventRecord(struct event *e, void *stream) {
  NEED_CONTEXT();
  pthread_mutex_lock(&e->lock);
  e->refs++, e->pending++;
  if (e->shared) __atomic_add_fetch(&e->shared->recorded, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&e->lock);
  fake_enqueue(stream, event_mark, e);
  return OK;
}

int cuStreamWaitEvent(void *stream, struct event *e, unsigned flags) {
  (void)flags;
  NEED_CONTEXT();
  struct waiting *w = malloc(sizeof *w);
  pthread_mutex_lock(&e->lock);
  e->refs++;
  *w = (struct waiting){e, e->shared ? __atomic_load_n(&e->shared->recorded, __ATOMIC_SEQ_CST) : 0};
  pthread_mutex_unlock(&e->lock);
  fake_enqueue(stream, event_wait, w);
  return OK;
}

int cuEventQuery(struct event *e) {
  pthread_mutex_lock(&e->lock);
  int pending = event_pending(e, e->shared ? __atomic_load_n(&e->shared->recorded, __ATOMIC_SEQ_CST) : 0);
  pthread_mutex_unlock(&e->lock);
  return pending ? NOT_READY : OK;
}

int cuEventDestroy_v2(struct event *e) {
  pthread_mutex_lock(&e->lock);
  event_drop(e);
  return OK;
}

// --- gates: a stream waits for a number in host memory

int cuMemHostGetDevicePointer_v2(void **p, void *host, unsigned flags) {
  NEED_CONTEXT();
  *p = host;
  return flags ? INVALID_VALUE : OK;
}

struct gate { unsigned *at, value; };

static void gate_wait(void *arg) {
  struct gate *g = arg;
  while ((int)(__atomic_load_n(g->at, __ATOMIC_SEQ_CST) - g->value) < 0) usleep(20);
  free(g);
}

static int gates_off;
void fake_gates_off(int off) { gates_off = off; }

int cuStreamWaitValue32_v2(void *stream, unsigned *at, unsigned value, unsigned flags) {
  NEED_CONTEXT();
  if (flags) return INVALID_VALUE;
  if (gates_off) return NOT_SUPPORTED;
  struct gate *g = malloc(sizeof *g);
  *g = (struct gate){at, value};
  fake_enqueue(stream, gate_wait, g);
  return OK;
}

// --- copies: of pageable memory, so the host waits for them

struct copy { char *dst; const char *src; size_t n; struct event *done; };

static void copy_run(void *arg) {
  struct copy *c = arg;
  memcpy(c->dst, c->src, c->n);
}

static int copy(char *dst, const char *src, size_t n, void *stream) {
  NEED_CONTEXT();
  struct event *e;
  cuEventCreate(&e, 0);
  struct copy c = {dst, src, n, e};
  fake_enqueue(stream, copy_run, &c);
  cuEventRecord(e, stream);
  pthread_mutex_lock(&e->lock);
  while (e->pending) pthread_cond_wait(&e->change, &e->lock);
  event_drop(e);
  return OK;
}

int cuMemcpyHtoDAsync_v2(char *dst, const char *src, size_t n, void *stream) { return copy(dst, src, n, stream); }
int cuMemcpyDtoHAsync_v2(char *dst, const char *src, size_t n, void *stream) { return copy(dst, src, n, stream); }
