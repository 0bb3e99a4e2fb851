// A libnccl for machines without a GPU: ranks are streams of one process, or of
// several on this host: a communicator is a piece of shared memory that the
// unique id names, and data are read out of the other ranks' memory. It misbehaves
// on demand: fake_fault, or the environment variable FAKE_NCCL_FAULT at load
// time, chooses how. As with the real one, an abort ends a communicator here
// only: the other ranks are not told.
#define _GNU_SOURCE
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef FAKE_NCCL_VERSION
#define FAKE_NCCL_VERSION 22903
#endif

enum { OK = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7 };
enum { MAX_RANKS = 16, MAX_CALLS = 256, FIRST_OP = 100, MAX_OPS = 64, RING = 4, MAX_LETTERS = 4096 };

enum fault { NONE, INIT_CALL_HANGS, INIT_NEVER_ENDS, COLLECTIVE_NEVER_ENDS, ASYNC_ERROR, ABORT_HANGS, CRASH, CALL_HANGS, INIT_FAILS, SPLIT_NEVER_ENDS, REVOKE_HANGS, REVOKE_AWAITS_ABORT, CALL_AWAITS_ABORT, SHRINK_FAILS, SHRINK_FAILS_ONE, ABORT_SLEEPS, COLLECTIVE_AND_ABORT_HANG };
static int fault_now;
static long misuse; // calls of what has ended, finalize of what was revoked
static long live_ops, splits, shrinks, revokes, aborts, joint_groups; // the last: groups over several streams

void fake_fault(int f) { __atomic_store_n(&fault_now, f, __ATOMIC_SEQ_CST); }
long fake_misuse(void) { return __atomic_load_n(&misuse, __ATOMIC_SEQ_CST); }
long fake_live_ops(void) { return __atomic_load_n(&live_ops, __ATOMIC_SEQ_CST); }
long fake_splits(void) { return __atomic_load_n(&splits, __ATOMIC_SEQ_CST); }
long fake_shrinks(void) { return __atomic_load_n(&shrinks, __ATOMIC_SEQ_CST); }
long fake_joint_groups(void) { return __atomic_load_n(&joint_groups, __ATOMIC_SEQ_CST); }
long fake_aborts(void) { return __atomic_load_n(&aborts, __ATOMIC_SEQ_CST); }
long fake_revokes(void) { return __atomic_load_n(&revokes, __ATOMIC_SEQ_CST); }
static int fault(int f) { return __atomic_load_n(&fault_now, __ATOMIC_SEQ_CST) == f; }
static void count(long *n, long by) { __atomic_add_fetch(n, by, __ATOMIC_SEQ_CST); }

__attribute__((constructor)) static void from_environment(void) {
  const char *f = getenv("FAKE_NCCL_FAULT");
  if (f) fault_now = atoi(f);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // the other ranks read our memory
}

static void hang(void) { for (;;) pause(); }

typedef struct { char b[128]; } id_t128;
typedef struct { size_t size; unsigned magic, version; int blocking; } config;

struct args { int kind; const char *in; char *out; size_t count; int dtype, op, root; struct comm *c; void *stream; double factor; };
enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SEND, RECV };

// --- what the ranks of a communicator share

struct part { int kind, dtype, op, root, pid; size_t count; const char *in; double factor; };
struct slot { long seq; int arrived, computed, never; struct part a[MAX_RANKS]; };
struct letter { int used, from, to, taken, pid; long n; const char *p; size_t bytes; };
// a communicator in the making, out of this one; by its first rank, the place of its memory
struct making { long seq; int arrived; struct { int here, color, key, pid, fd; } a[MAX_RANKS]; };

struct world {
  pthread_mutex_t lock;
  unsigned bumps;
  int n, joined, letters;
  struct slot slots[RING];
  struct making makings[2][RING]; // splits, and shrinks
  struct letter letter[MAX_LETTERS];
};

static void lock(struct world *w) {
  if (pthread_mutex_lock(&w->lock) == EOWNERDEAD) pthread_mutex_consistent(&w->lock);
}
static void unlock(struct world *w) { pthread_mutex_unlock(&w->lock); }

static void bump(struct world *w) {
  __atomic_add_fetch(&w->bumps, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &w->bumps, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

// wait_for gives the lock away until something has changed, or for a while.
static void wait_for(struct world *w) {
  unsigned seen = __atomic_load_n(&w->bumps, __ATOMIC_SEQ_CST);
  struct timespec a_while = {0, 20 * 1000 * 1000};
  unlock(w);
  syscall(SYS_futex, &w->bumps, FUTEX_WAIT, seen, &a_while, NULL, 0);
  lock(w);
}

static struct world *map_world(int fd) {
  struct world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return w == MAP_FAILED ? NULL : w;
}

// make_world makes the memory; the descriptor stays open until all have come.
static struct world *make_world(int *fd, int n) {
  *fd = memfd_create("fake-nccl", MFD_CLOEXEC);
  if (*fd < 0 || ftruncate(*fd, sizeof(struct world))) return NULL;
  struct world *w = map_world(*fd);
  if (!w) return NULL;
  pthread_mutexattr_t shared;
  pthread_mutexattr_init(&shared);
  pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&w->lock, &shared);
  w->n = n;
  return w;
}

static struct world *open_world(int pid, int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  int mine = open(path, O_RDWR | O_CLOEXEC);
  if (mine < 0) return NULL;
  struct world *w = map_world(mine);
  close(mine);
  return w;
}

// --- communicators of this process

struct comm {
  struct world *w;
  int rank, n, fd, error, ended, stopped, revoked;
  long seq, made[2], sent[MAX_RANKS], got[MAX_RANKS];
  struct { int used, dtype; double factor; } ops[MAX_OPS];
  struct { struct comm **out; int kind, color, key, arrived_of; long seq; } making; // out: under way
};

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

struct place { int pid, fd; };

// ncclGetUniqueId makes the memory for MAX_RANKS; init says how many they are.
int ncclGetUniqueId(id_t128 *id) {
  struct place p = {getpid(), -1};
  struct world *w = make_world(&p.fd, 0);
  if (!w) return SYSTEM_ERROR;
  munmap(w, sizeof *w);
  memset(id, 0, sizeof *id);
  memcpy(id->b, &p, sizeof p);
  return OK;
}

static struct comm *join(struct world *w, int n, int rank, int fd) {
  struct comm *c = calloc(1, sizeof *c);
  c->w = w, c->rank = rank, c->n = n, c->fd = fd;
  lock(w);
  w->n = n;
  w->joined++;
  bump(w);
  unlock(w);
  return c;
}

static int good(config *cfg) { return cfg && cfg->magic == 0xcafebeef && cfg->size >= 24 && cfg->blocking == 0; }

int ncclCommInitRankConfig(struct comm **out, int n, id_t128 id, int rank, config *cfg) {
  if (n < 1 || n > MAX_RANKS || rank < 0 || rank >= n || !good(cfg)) return INVALID_ARGUMENT;
  if (fault(INIT_CALL_HANGS)) hang();
  if (fault(INIT_FAILS)) return SYSTEM_ERROR;
  if (fault(CRASH) && getenv("FAKE_NCCL_CRASH_IN_INIT")) abort();
  struct place p;
  memcpy(&p, id.b, sizeof p);
  struct world *w = open_world(p.pid, p.fd);
  if (!w) return SYSTEM_ERROR;
  *out = join(w, n, rank, p.pid == getpid() && rank == 0 ? p.fd : -1);
  return IN_PROGRESS;
}

// forget closes the descriptor by which others find the memory.
static void forget(struct comm *c) {
  if (c->fd >= 0) close(c->fd);
  c->fd = -1;
}

// --- communicators out of others

static int same_color(struct making *m, struct comm *c, int r) { return m->a[r].here && m->a[r].color == c->making.color; }

// before tells whether rank r comes before rank c in the new communicator.
static int before(struct making *m, int r, int s) { return m->a[r].key < m->a[s].key || (m->a[r].key == m->a[s].key && r < s); }

// make goes on with what is under way; the lock of c->w is held. True once it is
// through. As with the real one, *out is filled as late as that.
static int make(struct comm *c) {
  struct making *m = &c->w->makings[c->making.kind][c->making.seq % RING];
  if (m->seq != c->making.seq || m->arrived < c->making.arrived_of || fault(SPLIT_NEVER_ENDS)) return 0;
  if (c->making.color < 0) {
    *c->making.out = NULL;
    return 1;
  }
  int first = c->rank, n = 0, rank = 0, fd = -1;
  for (int r = 0; r < c->n; r++) {
    if (!same_color(m, c, r)) continue;
    n++;
    rank += before(m, r, c->rank);
    if (before(m, r, first)) first = r;
  }
  struct world *w;
  if (first == c->rank) {
    w = make_world(&fd, n);
    m->a[first].pid = getpid(), m->a[first].fd = fd;
    bump(c->w);
  } else if (!m->a[first].pid) {
    return 0;
  } else {
    w = open_world(m->a[first].pid, m->a[first].fd);
  }
  *c->making.out = join(w, n, rank, fd);
  return 1;
}

static int start_making(struct comm *c, int kind, int color, int key, int of, struct comm **out) {
  lock(c->w);
  c->making.out = out, c->making.kind = kind, c->making.color = color, c->making.key = key, c->making.arrived_of = of;
  c->making.seq = ++c->made[kind];
  struct making *m = &c->w->makings[kind][c->making.seq % RING];
  if (m->seq != c->making.seq) {
    memset(m, 0, sizeof *m);
    m->seq = c->making.seq;
  }
  m->a[c->rank].here = 1, m->a[c->rank].color = color, m->a[c->rank].key = key;
  m->arrived++;
  bump(c->w);
  unlock(c->w);
  return IN_PROGRESS;
}

#if FAKE_NCCL_VERSION >= 21800 && !defined(FAKE_NCCL_NO_SPLIT)
int ncclCommSplit(struct comm *c, int color, int key, struct comm **out, config *cfg) {
  if (c->ended || !good(cfg)) return INVALID_USAGE;
  count(&splits, 1);
  return start_making(c, 0, color, key, c->n, out);
}
#endif

#if FAKE_NCCL_VERSION >= 22700
int ncclCommShrink(struct comm *c, int *exclude, int n, struct comm **out, config *cfg, int flags) {
  if (c->ended || !good(cfg) || n < 1 || flags & ~1) return INVALID_USAGE;
  for (int i = 0; i < n; i++)
    if (exclude[i] == c->rank || exclude[i] < 0 || exclude[i] >= c->n) return INVALID_ARGUMENT;
  if (fault(SHRINK_FAILS) || (fault(SHRINK_FAILS_ONE) && c->rank == 0)) return REMOTE_ERROR;
  count(&shrinks, 1);
  if (flags & 1) c->stopped = 1;
  bump(c->w);
  return start_making(c, 1, 0, c->rank, c->n - n, out);
}
#endif

#if FAKE_NCCL_VERSION >= 22900
int ncclCommRevoke(struct comm *c, int flags) {
  if (c->ended || flags) return INVALID_USAGE;
  if (fault(REVOKE_HANGS)) hang();
  while (fault(REVOKE_AWAITS_ABORT) && !__atomic_load_n(&c->ended, __ATOMIC_SEQ_CST)) usleep(1000);
  count(&revokes, 1);
  c->revoked = c->stopped = 1;
  bump(c->w);
  return IN_PROGRESS;
}
#endif

int ncclCommGetAsyncError(struct comm *c, int *state) {
  lock(c->w);
  if (c->ended) count(&misuse, 1); // the real one has freed it
  *state = c->error;
  if (c->ended) *state = INVALID_USAGE;
  else if (c->w->joined < c->n || fault(INIT_NEVER_ENDS)) *state = IN_PROGRESS;
  if (c->w->joined == c->n) forget(c);
  if (!*state && c->making.out) {
    if (make(c)) c->making.out = NULL;
    else *state = IN_PROGRESS;
  }
  if (!*state && fault(ASYNC_ERROR) && c->seq > 0) *state = REMOTE_ERROR; // of the proxy: it stays
  unlock(c->w);
  return OK;
}

int ncclCommFinalize(struct comm *c) {
  if (c->revoked) count(&misuse, 1);
  return c->ended || c->revoked ? INVALID_USAGE : OK;
}

static int end(struct comm *c) {
  lock(c->w);
  int twice = c->ended;
  c->ended = 1, c->stopped = 1;
  forget(c);
  for (int i = 0; i < MAX_OPS; i++)
    if (c->ops[i].used) c->ops[i].used = 0, count(&live_ops, -1);
  bump(c->w);
  unlock(c->w);
  if (twice) count(&misuse, 1);
  return twice ? INVALID_USAGE : OK;
}

int ncclCommDestroy(struct comm *c) { return end(c); }

int ncclCommAbort(struct comm *c) {
  count(&aborts, 1);
  while (fault(ABORT_SLEEPS)) usleep(1000);
  if (fault(ABORT_HANGS) || fault(COLLECTIVE_AND_ABORT_HANG)) hang();
  return end(c);
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


static double small_get(uint8_t b, int mantissa, int bias) {
  int e = (b & 0x7f) >> mantissa, m = b & ((1 << mantissa) - 1);
  double v = e ? (double)(m + (1 << mantissa)) * __builtin_ldexp(1, e - bias - mantissa) : (double)m * __builtin_ldexp(1, 1 - bias - mantissa);
  return b & 0x80 ? -v : v;
}
// small_put takes the nearest, by looking at all.
static uint8_t small_put(double v, int mantissa, int bias, int most) {
  int best = 0;
  double far = 1e300;
  for (int b = 0; b <= most; b++) {
    double d = small_get(b, mantissa, bias) - (v < 0 ? -v : v);
    if ((d < 0 ? -d : d) < far) far = d < 0 ? -d : d, best = b;
  }
  return best | (v < 0 ? 0x80 : 0);
}
static double e4m3_get(uint8_t b) { return small_get(b, 3, 7); }
static uint8_t e4m3_put(double v) { return small_put(v, 3, 7, 0x7e); }
static double e5m2_get(uint8_t b) { return small_get(b, 2, 15); }
static uint8_t e5m2_put(double v) { return small_put(v, 2, 15, 0x7b); }

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int dtype, int residence, struct comm *c) {
  if (residence != 1) return INVALID_ARGUMENT;
  for (int i = 0; i < MAX_OPS; i++)
    if (!c->ops[i].used) {
      double f;
      if (dtype == 7) f = *(float *)scalar;
      else if (dtype == 8) f = *(double *)scalar;
      else if (dtype == 6) f = half_get(*(uint16_t *)scalar);
      else if (dtype == 9) f = brain_get(*(uint16_t *)scalar);
      else if (dtype == 10) f = e4m3_get(*(uint8_t *)scalar);
      else if (dtype == 11) f = e5m2_get(*(uint8_t *)scalar);
      else return INVALID_ARGUMENT;
      c->ops[i].used = 1, c->ops[i].dtype = dtype, c->ops[i].factor = f;
      count(&live_ops, 1);
      *op = FIRST_OP + i;
      return OK;
    }
  return INVALID_USAGE;
}

int ncclRedOpDestroy(int op, struct comm *c) {
  int i = op - FIRST_OP;
  if (c->ended || i < 0 || i >= MAX_OPS || !c->ops[i].used) return INVALID_ARGUMENT;
  c->ops[i].used = 0;
  count(&live_ops, -1);
  return OK;
}

// --- arithmetic

static size_t size_of(int dtype) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return dtype >= 0 && dtype < (FAKE_NCCL_VERSION >= 22400 ? 12 : 10) ? sizes[dtype] : 0;
}

#define FOLD(T, get, put)                                                                   \
  for (size_t i = 0; i < count; i++) {                                                      \
    __typeof__(get(*(T *)0)) v = get(((const T *)in[0])[i]);                                 \
    if (op >= FIRST_OP) v = v * factor[0];                                                     \
    for (int r = 1; r < n; r++) {                                                           \
      __typeof__(v) x = get(((const T *)in[r])[i]);                                          \
      if (op >= FIRST_OP) x = x * factor[r];                                                   \
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

static void fold(char *result, const char **in, int n, size_t count, int dtype, int op, const double *factor) {
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
  case 10: FOLD(uint8_t, e4m3_get, e4m3_put) break;
  case 11: FOLD(uint8_t, e5m2_get, e5m2_put) break;
  }
  memcpy(result, out, count * size_of(dtype));
  free(out);
}

// fetch copies another rank's memory; false if that is gone. Never by a plain
// copy: a rank that was aborted frees its memory while we read.
static int fetch(int pid, const char *from, char *to, size_t n) {
  for (size_t done = 0; done < n;) {
    struct iovec here = {to + done, n - done}, there = {(void *)(from + done), n - done};
    ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (got <= 0) return 0;
    done += got;
  }
  return 1;
}

// compute makes this rank's result of a collective to which all ranks have come.
// What it returns is to be copied to out, all of it; NULL: something is gone.
static char *compute(struct args *a, struct part *p, size_t *size) {
  struct comm *c = a->c;
  size_t bytes = a->count * size_of(a->dtype);
  char *mine = malloc(bytes * c->n + 1), *all = malloc(bytes * c->n + 1);
  const char *in[MAX_RANKS];
  double factor[MAX_RANKS];
  int ok = 1;
  *size = bytes;
  for (int r = 0; r < c->n; r++) in[r] = all + r * bytes, factor[r] = p[r].factor;
  switch (a->kind) {
  case REDUCE:
    if (c->rank != a->root) {
      *size = 0;
      break;
    }
    // fall through
  case ALL_REDUCE:
  case REDUCE_SCATTER:
    for (int r = 0; r < c->n; r++)
      ok &= fetch(p[r].pid, p[r].in + (a->kind == REDUCE_SCATTER ? c->rank * bytes : 0), all + r * bytes, bytes);
    if (ok) fold(mine, in, c->n, a->count, a->dtype, a->op, factor);
    break;
  case BROADCAST:
    ok = fetch(p[a->root].pid, p[a->root].in, mine, bytes);
    break;
  case ALL_GATHER:
    for (int r = 0; r < c->n; r++) ok &= fetch(p[r].pid, p[r].in, mine + r * bytes, bytes);
    *size = bytes * c->n;
    break;
  }
  free(all);
  if (ok) return mine;
  free(mine);
  return NULL;
}

// same tells whether all ranks called the same. The real library does not look,
// and does what it will; this one hangs.
static int same(struct slot *s, int n) {
  for (int r = 1; r < n; r++) {
    struct part *a = &s->a[0], *b = &s->a[r];
    if (a->kind != b->kind || a->count != b->count || a->dtype != b->dtype || a->root != b->root) return 0;
  }
  return 1;
}

// --- execution, on the stream's thread

// collective computes once all have come, and writes once all have computed:
// results may lie where inputs do.
static void collective(struct args *a, long seq) {
  struct comm *c = a->c;
  struct world *w = c->w;
  struct slot *s = &w->slots[seq % RING];
  lock(w);
  if (s->seq != seq) {
    memset(s, 0, sizeof *s);
    s->seq = seq;
  }
  s->a[c->rank] = (struct part){a->kind, a->dtype, a->op, a->root, getpid(), a->count, a->in, a->factor};
  s->arrived++;
  s->never |= fault(COLLECTIVE_NEVER_ENDS) || fault(COLLECTIVE_AND_ABORT_HANG);
  bump(w);
  while ((s->arrived < c->n || s->never || !same(s, c->n)) && !c->stopped) wait_for(w);
  unlock(w);
  size_t size = 0;
  char *result = c->stopped ? NULL : compute(a, s->a, &size);
  lock(w);
  if (result) s->computed++;
  bump(w);
  while (s->computed < c->n && !c->stopped) wait_for(w);
  int ok = s->computed == c->n && result;
  unlock(w);
  if (ok) memcpy(a->out, result, size);
  free(result);
}

struct group { int n; struct args a[MAX_CALLS]; long seq[MAX_CALLS]; };

static void post(struct args *a, long n) {
  struct world *w = a->c->w;
  lock(w);
  for (int i = 0; i < MAX_LETTERS; i++)
    if (!w->letter[i].used) {
      w->letter[i] = (struct letter){1, a->c->rank, a->root, 0, getpid(), n, a->in, a->count * size_of(a->dtype)};
      if (i >= w->letters) w->letters = i + 1;
      break;
    }
  bump(w);
  unlock(w);
}

static struct letter *find(struct world *w, int from, int to, long n) {
  for (int i = 0; i < w->letters; i++) {
    struct letter *l = &w->letter[i];
    if (l->used && l->from == from && l->to == to && l->n == n) return l;
  }
  return NULL;
}

static void take(struct args *a, long n) {
  struct comm *c = a->c;
  struct letter *l;
  int never = fault(COLLECTIVE_NEVER_ENDS) || fault(COLLECTIVE_AND_ABORT_HANG);
  lock(c->w);
  while ((!(l = find(c->w, a->root, c->rank, n)) || never) && !c->stopped) wait_for(c->w);
  if (l && !c->stopped && fetch(l->pid, l->p, a->out, l->bytes)) l->taken = 1;
  bump(c->w);
  unlock(c->w);
}

static void taken(struct args *a, long n) {
  struct comm *c = a->c;
  lock(c->w);
  struct letter *l = find(c->w, c->rank, a->root, n);
  while (l && !l->taken && !c->stopped) wait_for(c->w);
  if (l) l->used = 0;
  unlock(c->w);
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

// ncclGroupEnd starts what was called, on each stream what belongs there.
int ncclGroupEnd(void) {
  struct group *all = open_group;
  if (!all) return INVALID_USAGE;
  open_group = NULL;
  int streams = 0;
  for (int i = 0; i < all->n; i++) {
    if (!all->a[i].c) continue;
    if (++streams == 2) count(&joint_groups, 1);
    void *stream = all->a[i].stream;
    struct group *g = calloc(1, sizeof *g);
    for (int j = i; j < all->n; j++)
      if (all->a[j].c && all->a[j].stream == stream) {
        g->seq[g->n] = all->seq[j], g->a[g->n++] = all->a[j];
        all->a[j].c = NULL;
      }
    fake_enqueue(stream, run_group, g);
  }
  free(all);
  return OK;
}

static int call(struct args a) {
  struct comm *c = a.c;
  if (c->ended || c->revoked) return INVALID_USAGE;
  if (fault(CRASH)) abort();
  if (fault(CALL_HANGS)) hang();
  while (fault(CALL_AWAITS_ABORT) && !__atomic_load_n(&c->ended, __ATOMIC_SEQ_CST)) usleep(1000);
  if (c->ended) return INVALID_USAGE;
  if (!size_of(a.dtype)) return INVALID_ARGUMENT;
  if (a.op >= FIRST_OP && (!c->ops[a.op - FIRST_OP].used || c->ops[a.op - FIRST_OP].dtype != a.dtype)) return INVALID_ARGUMENT;
  if (!open_group || open_group->n == MAX_CALLS) return INVALID_USAGE;
  if (a.kind >= SEND && (a.root < 0 || a.root >= c->n)) return INVALID_ARGUMENT;
  if (a.op >= FIRST_OP) a.factor = c->ops[a.op - FIRST_OP].factor; // the op may be destroyed as soon as we return
  lock(c->w);
  long seq = a.kind == SEND ? ++c->sent[a.root] : a.kind == RECV ? ++c->got[a.root] : ++c->seq;
  unlock(c->w);
  open_group->seq[open_group->n] = seq;
  open_group->a[open_group->n++] = a;
  return OK;
}

int ncclAllReduce(const void *in, void *out, size_t n, int t, int op, struct comm *c, void *s) { return call((struct args){ALL_REDUCE, in, out, n, t, op, 0, c, s, 1}); }
int ncclReduce(const void *in, void *out, size_t n, int t, int op, int root, struct comm *c, void *s) { return call((struct args){REDUCE, in, out, n, t, op, root, c, s, 1}); }
int ncclBroadcast(const void *in, void *out, size_t n, int t, int root, struct comm *c, void *s) { return call((struct args){BROADCAST, in, out, n, t, 0, root, c, s, 1}); }
int ncclAllGather(const void *in, void *out, size_t n, int t, struct comm *c, void *s) { return call((struct args){ALL_GATHER, in, out, n, t, 0, 0, c, s, 1}); }
int ncclReduceScatter(const void *in, void *out, size_t n, int t, int op, struct comm *c, void *s) { return call((struct args){REDUCE_SCATTER, in, out, n, t, op, 0, c, s, 1}); }
int ncclSend(const void *in, size_t n, int t, int peer, struct comm *c, void *s) { return call((struct args){SEND, in, NULL, n, t, 0, peer, c, s, 1}); }
int ncclRecv(void *out, size_t n, int t, int peer, struct comm *c, void *s) { return call((struct args){RECV, NULL, out, n, t, 0, peer, c, s, 1}); }
