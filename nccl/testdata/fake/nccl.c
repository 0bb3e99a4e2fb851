// A libnccl for machines without a GPU: ranks are threads or streams of one
// process. It misbehaves on demand: fake_fault, or the environment variable
// FAKE_NCCL_FAULT at load time, chooses how. As with the real one, an abort ends
// a communicator here only: the other ranks are not told.
#define _GNU_SOURCE
#include "fake.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef FAKE_NCCL_VERSION
#define FAKE_NCCL_VERSION 22203
#endif

enum { OK = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7 };
enum { MAX_RANKS = 16, MAX_CALLS = 256, FIRST_OP = 100, MAX_OPS = 64 };

enum fault { NONE, INIT_CALL_HANGS, INIT_NEVER_ENDS, COLLECTIVE_NEVER_ENDS, ASYNC_ERROR, ABORT_HANGS, CRASH, CALL_HANGS, INIT_FAILS };
static int fault_now;
static long misuse; // aborts and destroys of what has ended

void fake_fault(int f) { __atomic_store_n(&fault_now, f, __ATOMIC_SEQ_CST); }
long fake_misuse(void) { return __atomic_load_n(&misuse, __ATOMIC_SEQ_CST); }
static int fault(int f) { return __atomic_load_n(&fault_now, __ATOMIC_SEQ_CST) == f; }

__attribute__((constructor)) static void from_environment(void) {
  const char *f = getenv("FAKE_NCCL_FAULT");
  if (f) fault_now = atoi(f);
}

static void hang(void) { for (;;) pause(); }

typedef struct { char b[128]; } id_t128;
typedef struct { size_t size; unsigned magic, version; int blocking; } config;

struct args { int kind; const char *in; char *out; size_t count; int dtype, op, root; struct comm *c; void *stream; };
enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SEND, RECV };

struct slot { long seq; int arrived, left, done; struct args a[MAX_RANKS]; struct slot *next; };
struct letter { int from, to; long n; const char *p; size_t bytes; int taken; struct letter *next; };

struct world {
  id_t128 id;
  int n, joined;
  struct slot *slots;
  struct letter *letters;
  struct world *next;
};

struct comm {
  struct world *w;
  int rank, error, ended, aborted;
  long seq, sent[MAX_RANKS], got[MAX_RANKS];
  struct { int used, dtype; double factor; } ops[MAX_OPS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct world *worlds;

int ncclGetVersion(int *v) { *v = FAKE_NCCL_VERSION; return OK; }

const char *ncclGetErrorString(int code) {
  switch (code) {
  case OK: return "no error";
  case SYSTEM_ERROR: return "unhandled system error";
  case INVALID_ARGUMENT: return "invalid argument";
  case INVALID_USAGE: return "invalid usage";
  case REMOTE_ERROR: return "remote process exited or there was a network error";
  case IN_PROGRESS: return "NCCL operation in progress";
  default: return "unknown result code";
  }
}

const char *ncclGetLastError(struct comm *c) { (void)c; return fault(INIT_FAILS) ? "fake: told to fail" : ""; }

int ncclGetUniqueId(id_t128 *id) {
  static long counter;
  memset(id, 0, sizeof *id);
  snprintf(id->b, sizeof id->b, "fake-%d-%ld", getpid(), __atomic_add_fetch(&counter, 1, __ATOMIC_SEQ_CST));
  return OK;
}

int ncclCommInitRankConfig(struct comm **out, int n, id_t128 id, int rank, config *cfg) {
  if (n < 1 || n > MAX_RANKS || rank < 0 || rank >= n) return INVALID_ARGUMENT;
  if (!cfg || cfg->magic != 0xcafebeef || cfg->size < 24 || cfg->blocking != 0) return INVALID_ARGUMENT;
  if (fault(INIT_CALL_HANGS)) hang();
  if (fault(INIT_FAILS)) return SYSTEM_ERROR;
  if (fault(CRASH) && getenv("FAKE_NCCL_CRASH_IN_INIT")) abort();
  struct comm *c = calloc(1, sizeof *c);
  pthread_mutex_lock(&lock);
  struct world *w = worlds;
  while (w && memcmp(&w->id, &id, sizeof id)) w = w->next;
  if (!w) {
    w = calloc(1, sizeof *w);
    w->id = id, w->n = n, w->next = worlds;
    worlds = w;
  }
  c->w = w, c->rank = rank;
  w->joined++;
  pthread_cond_broadcast(&change);
  pthread_mutex_unlock(&lock);
  *out = c;
  return IN_PROGRESS;
}

int ncclCommGetAsyncError(struct comm *c, int *state) {
  pthread_mutex_lock(&lock);
  *state = c->error;
  if (c->ended) *state = INVALID_USAGE;
  else if (c->w->joined < c->w->n || fault(INIT_NEVER_ENDS)) *state = IN_PROGRESS;
  else if (fault(ASYNC_ERROR) && c->seq > 0) *state = REMOTE_ERROR;
  pthread_mutex_unlock(&lock);
  return OK;
}

int ncclCommFinalize(struct comm *c) { return c->ended ? INVALID_USAGE : OK; }

static int end(struct comm *c, int aborted) {
  pthread_mutex_lock(&lock);
  int twice = c->ended;
  c->ended = 1, c->aborted = aborted;
  pthread_cond_broadcast(&change);
  pthread_mutex_unlock(&lock);
  if (twice) __atomic_add_fetch(&misuse, 1, __ATOMIC_SEQ_CST);
  return twice ? INVALID_USAGE : OK;
}

int ncclCommDestroy(struct comm *c) { return end(c, 0); }

int ncclCommAbort(struct comm *c) {
  if (fault(ABORT_HANGS)) hang();
  return end(c, 1);
}

static double half_get(uint16_t h) { _Float16 f; memcpy(&f, &h, 2); return f; }
static uint16_t half_put(double v) { _Float16 f = (_Float16)(float)v; uint16_t h; memcpy(&h, &f, 2); return h; }
static double brain_get(uint16_t h) { uint32_t u = (uint32_t)h << 16; float f; memcpy(&f, &u, 4); return f; }
static uint16_t brain_put(double v) {
  float f = (float)v;
  uint32_t u;
  memcpy(&u, &f, 4);
  return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int dtype, int residence, struct comm *c) {
  (void)residence;
  for (int i = 0; i < MAX_OPS; i++)
    if (!c->ops[i].used) {
      c->ops[i].used = 1, c->ops[i].dtype = dtype;
      if (dtype == 7) c->ops[i].factor = *(float *)scalar;
      else if (dtype == 8) c->ops[i].factor = *(double *)scalar;
      else if (dtype == 6) c->ops[i].factor = half_get(*(uint16_t *)scalar);
      else if (dtype == 9) c->ops[i].factor = brain_get(*(uint16_t *)scalar);
      else return INVALID_ARGUMENT;
      *op = FIRST_OP + i;
      return OK;
    }
  return INVALID_USAGE;
}

int ncclRedOpDestroy(int op, struct comm *c) { c->ops[op - FIRST_OP].used = 0; return OK; }

#ifndef FAKE_NCCL_NO_SPLIT
int ncclCommSplit(struct comm *c, int color, int key, struct comm **out, config *cfg) {
  (void)c; (void)color; (void)key; (void)out; (void)cfg;
  return INVALID_USAGE;
}
#endif

// --- arithmetic

static size_t size_of(int dtype) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return dtype >= 0 && dtype < 10 ? sizes[dtype] : 0;
}

#define FOLD(T, get, put)                                                                   \
  for (size_t i = 0; i < count; i++) {                                                      \
    __typeof__(get(*(T *)0)) v = get(((const T *)in[0])[i]);                                 \
    if (op >= FIRST_OP) v = v * factor;                                                     \
    for (int r = 1; r < n; r++) {                                                           \
      __typeof__(v) x = get(((const T *)in[r])[i]);                                          \
      if (op >= FIRST_OP) x = x * factor;                                                   \
      switch (op) {                                                                         \
      case 1: v = v * x; break;                                                             \
      case 2: v = x > v ? x : v; break;                                                     \
      case 3: v = x < v ? x : v; break;                                                     \
      default: v = v + x;                                                                   \
      }                                                                                     \
    }                                                                                       \
    if (op == 4) v = v / n;                                                                 \
    ((T *)out)[i] = put(v);                                                                 \
  }

#define SAME(x) (x)

static void fold(char *result, const char **in, int n, size_t count, int dtype, int op, double factor) {
  char *out = malloc(count * size_of(dtype) + 1); // results may lie where inputs do
  switch (dtype) {
  case 0: FOLD(int8_t, SAME, SAME) break;
  case 1: FOLD(uint8_t, SAME, SAME) break;
  case 2: FOLD(int32_t, SAME, SAME) break;
  case 3: FOLD(uint32_t, SAME, SAME) break;
  case 4: FOLD(int64_t, SAME, SAME) break;
  case 5: FOLD(uint64_t, SAME, SAME) break;
  case 6: FOLD(uint16_t, half_get, half_put) break;
  case 7: FOLD(float, SAME, SAME) break;
  case 8: FOLD(double, SAME, SAME) break;
  case 9: FOLD(uint16_t, brain_get, brain_put) break;
  }
  memcpy(result, out, count * size_of(dtype));
  free(out);
}

// compute runs a collective all of whose ranks have come; the lock is held.
static void compute(struct slot *s, int n) {
  struct args *a = s->a;
  size_t bytes = a->count * size_of(a->dtype);
  const char *in[MAX_RANKS];
  double factor = a->op >= FIRST_OP ? a->c->ops[a->op - FIRST_OP].factor : 1;
  switch (a->kind) {
  case ALL_REDUCE:
  case REDUCE: {
    char *sum = malloc(bytes + 1);
    for (int r = 0; r < n; r++) in[r] = a[r].in;
    fold(sum, in, n, a->count, a->dtype, a->op, factor);
    for (int r = 0; r < n; r++)
      if (a->kind == ALL_REDUCE || r == a->root) memcpy(a[r].out, sum, bytes);
    free(sum);
    break;
  }
  case REDUCE_SCATTER: {
    char *all = malloc(bytes * n + 1);
    for (int part = 0; part < n; part++) {
      for (int r = 0; r < n; r++) in[r] = a[r].in + part * bytes;
      fold(all + part * bytes, in, n, a->count, a->dtype, a->op, factor);
    }
    for (int r = 0; r < n; r++) memcpy(a[r].out, all + r * bytes, bytes);
    free(all);
    break;
  }
  case BROADCAST:
    for (int r = 0; r < n; r++)
      if (a[r].out != a[a->root].in) memmove(a[r].out, a[a->root].in, bytes);
    break;
  case ALL_GATHER: {
    char *all = malloc(bytes * n + 1);
    for (int r = 0; r < n; r++) memcpy(all + r * bytes, a[r].in, bytes);
    for (int r = 0; r < n; r++) memcpy(a[r].out, all, bytes * n);
    free(all);
    break;
  }
  }
}

// same tells whether all ranks called the same. The real library does not look,
// and does what it will; this one hangs.
static int same(struct slot *s, int n) {
  for (int r = 1; r < n; r++) {
    struct args *a = &s->a[0], *b = &s->a[r];
    if (a->kind != b->kind || a->count != b->count || a->dtype != b->dtype || a->root != b->root) return 0;
  }
  return 1;
}

// --- execution, on the stream's thread

static void collective(struct args *a, long seq) {
  struct comm *c = a->c;
  pthread_mutex_lock(&lock);
  struct slot *s = c->w->slots;
  while (s && s->seq != seq) s = s->next;
  if (!s) {
    s = calloc(1, sizeof *s);
    s->seq = seq, s->next = c->w->slots;
    c->w->slots = s;
  }
  s->a[c->rank] = *a;
  if (!c->aborted && ++s->arrived == c->w->n && !fault(COLLECTIVE_NEVER_ENDS) && same(s, c->w->n)) {
    compute(s, c->w->n);
    s->done = 1;
    pthread_cond_broadcast(&change);
  }
  while (!s->done && !c->aborted) pthread_cond_wait(&change, &lock);
  if (!s->done) s->arrived = -MAX_RANKS; // our memory is not theirs any more
  if (++s->left == c->w->n) {
    struct slot **p = &c->w->slots;
    while (*p != s) p = &(*p)->next;
    *p = s->next;
    free(s);
  }
  pthread_mutex_unlock(&lock);
}

static struct letter *find(struct world *w, int from, int to, long n) {
  struct letter *l = w->letters;
  while (l && (l->from != from || l->to != to || l->n != n)) l = l->next;
  return l;
}

struct group { int n; struct args a[MAX_CALLS]; long seq[MAX_CALLS]; };

static void post(struct args *a, long n) {
  struct letter *l = calloc(1, sizeof *l);
  *l = (struct letter){a->c->rank, a->root, n, a->in, a->count * size_of(a->dtype), 0, NULL};
  pthread_mutex_lock(&lock);
  l->next = a->c->w->letters;
  a->c->w->letters = l;
  pthread_cond_broadcast(&change);
  pthread_mutex_unlock(&lock);
}

static void take(struct args *a, long n) {
  struct comm *c = a->c;
  struct letter *l;
  pthread_mutex_lock(&lock);
  while ((!(l = find(c->w, a->root, c->rank, n)) || fault(COLLECTIVE_NEVER_ENDS)) && !c->aborted) pthread_cond_wait(&change, &lock);
  if (l && !c->aborted) {
    memmove(a->out, l->p, l->bytes);
    l->taken = 1;
    pthread_cond_broadcast(&change);
  }
  pthread_mutex_unlock(&lock);
}

static void taken(struct args *a, long n) {
  struct comm *c = a->c;
  pthread_mutex_lock(&lock);
  struct letter *l = find(c->w, c->rank, a->root, n);
  while (!l->taken && !c->aborted) pthread_cond_wait(&change, &lock);
  struct letter **p = &c->w->letters;
  while (*p != l) p = &(*p)->next;
  *p = l->next;
  pthread_mutex_unlock(&lock);
  free(l);
}

static void run_group(void *arg) {
  struct group *g = arg;
  for (int i = 0; i < g->n; i++)
    if (g->a[i].kind == SEND) post(&g->a[i], g->seq[i]);
  for (int i = 0; i < g->n; i++)
    if (g->a[i].kind < SEND) collective(&g->a[i], g->seq[i]);
  for (int i = 0; i < g->n; i++)
    if (g->a[i].kind == RECV) take(&g->a[i], g->seq[i]);
  for (int i = 0; i < g->n; i++)
    if (g->a[i].kind == SEND) taken(&g->a[i], g->seq[i]);
  free(g);
}

static __thread struct group *open_group;

int ncclGroupStart(void) {
  if (open_group) return INVALID_USAGE;
  open_group = calloc(1, sizeof *open_group);
  return OK;
}

int ncclGroupEnd(void) {
  struct group *g = open_group;
  if (!g) return INVALID_USAGE;
  open_group = NULL;
  if (g->n == 0) free(g);
  else fake_enqueue(g->a[0].stream, run_group, g);
  return OK;
}

static int call(struct args a) {
  struct comm *c = a.c;
  if (c->ended) return INVALID_USAGE;
  if (fault(CRASH)) abort();
  if (fault(CALL_HANGS)) hang();
  if (!size_of(a.dtype)) return INVALID_ARGUMENT;
  if (!open_group || open_group->n == MAX_CALLS) return INVALID_USAGE;
  if (a.kind >= SEND && (a.root < 0 || a.root >= c->w->n)) return INVALID_ARGUMENT;
  pthread_mutex_lock(&lock);
  long seq = a.kind == SEND ? ++c->sent[a.root] : a.kind == RECV ? ++c->got[a.root] : ++c->seq;
  pthread_mutex_unlock(&lock);
  open_group->seq[open_group->n] = seq;
  open_group->a[open_group->n++] = a;
  return OK;
}

int ncclAllReduce(const void *in, void *out, size_t n, int t, int op, struct comm *c, void *s) { return call((struct args){ALL_REDUCE, in, out, n, t, op, 0, c, s}); }
int ncclReduce(const void *in, void *out, size_t n, int t, int op, int root, struct comm *c, void *s) { return call((struct args){REDUCE, in, out, n, t, op, root, c, s}); }
int ncclBroadcast(const void *in, void *out, size_t n, int t, int root, struct comm *c, void *s) { return call((struct args){BROADCAST, in, out, n, t, 0, root, c, s}); }
int ncclAllGather(const void *in, void *out, size_t n, int t, struct comm *c, void *s) { return call((struct args){ALL_GATHER, in, out, n, t, 0, 0, c, s}); }
int ncclReduceScatter(const void *in, void *out, size_t n, int t, int op, struct comm *c, void *s) { return call((struct args){REDUCE_SCATTER, in, out, n, t, op, 0, c, s}); }
int ncclSend(const void *in, size_t n, int t, int peer, struct comm *c, void *s) { return call((struct args){SEND, in, NULL, n, t, 0, peer, c, s}); }
int ncclRecv(void *out, size_t n, int t, int peer, struct comm *c, void *s) { return call((struct args){RECV, NULL, out, n, t, 0, peer, c, s}); }
