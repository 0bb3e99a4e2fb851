// The functions of libskerry, version 3. Written by hand: cmd/libskerry holds the exports
// against it when it is compiled.
//
// Handles are numbers above 0 that are never used again. Text goes in as UTF-8 with its length,
// and comes out into a caller's buffer, cut to its length and ended by a zero byte.
// Nothing calls back. All functions may be called from any thread; those that block say so.
// After fork a child must call none of them.
#ifndef SKERRY_H
#define SKERRY_H

#include <stdint.h>

// Why a call failed: of skerry_error, skerry_err and every function that returns int.
enum {
  SKERRY_OK = 0,
  SKERRY_ABORTED = 1,      // the group was aborted, here or by a peer
  SKERRY_LOST = 2,         // a peer was lost
  SKERRY_TIMEOUT = 3,      // the time of the operation or call was over
  SKERRY_MISMATCH = 4,     // ranks called different operations
  SKERRY_INVALID = 5,      // the call cannot be right
  SKERRY_CLOSED = 6,       // closed, unconfigured, or no handle
  SKERRY_UNSUPPORTED = 7,  // this backend cannot
  SKERRY_NO_STORE = 8,     // the rendezvous store could not be reached, or was lost
  SKERRY_OTHER = 9,
  // Of a manager: why training cannot go on, or the step.
  SKERRY_DRAINED = 10,      // it has left, in good order
  SKERRY_EVICTED = 11,      // an operator or a policy took it out
  SKERRY_REFUSED = 12,      // the lighthouse refuses it for good
  SKERRY_RANK_LOST = 13,    // another rank of the replica is gone
  SKERRY_MAX_RETRIES = 14,  // too many steps in a row were discarded
  SKERRY_UNREACHABLE = 15,  // no lighthouse, or no peer, can be reached
  SKERRY_DIFFERED = 16,     // states differed, and that ends it
  SKERRY_STATE_LOST = 17,   // in part overwritten by those who are gone
  SKERRY_STEP_FAILED = 18,  // the step is lost already
  SKERRY_STEP_OPEN = 19,    // a start without the commit before
  SKERRY_OTHER_STATE = 20   // the others' state has other tensors
};

// What became of an operation: of skerry_wait.
enum { SKERRY_DONE = 0, SKERRY_FAILED = 1, SKERRY_PENDING = 2 };

// Kinds of operations, dtypes and reduce operations, by their places in the list of numbers that
// is an operation: kind, dtype, reduce, divisor, root, peer, tag, timeout in microseconds,
// flat, numbers of inputs, outputs, input splits and output splits, (address, elements) of each
// input and output, the splits.
enum {
  SKERRY_ALL_REDUCE = 1, SKERRY_REDUCE, SKERRY_BROADCAST, SKERRY_ALL_GATHER, SKERRY_GATHER, SKERRY_SCATTER,
  SKERRY_REDUCE_SCATTER, SKERRY_ALL_TO_ALL, SKERRY_BARRIER, SKERRY_SEND, SKERRY_RECV,
  // An all-reduce, sum or average of floats, in eight bits per element; root: 0 int8, 1 float8 (e4m3). By
  // skerry_submit alone, and nothing else may be submitted to the group until it is done. skerry_close
  // of one that goes on ends it, and blocks until it has; closing its group does not wait for it.
  SKERRY_QUANTIZED_ALL_REDUCE
};
enum {
  SKERRY_UINT8 = 1, SKERRY_INT8, SKERRY_INT16, SKERRY_INT32, SKERRY_INT64, SKERRY_UINT16, SKERRY_UINT32, SKERRY_UINT64,
  SKERRY_BOOL, SKERRY_FLOAT16, SKERRY_BFLOAT16, SKERRY_FLOAT32, SKERRY_FLOAT64, SKERRY_COMPLEX64, SKERRY_COMPLEX128,
  SKERRY_FLOAT8_E4M3, SKERRY_FLOAT8_E5M2
};
enum {
  SKERRY_SUM = 0, SKERRY_AVG, SKERRY_PRODUCT, SKERRY_MIN, SKERRY_MAX, SKERRY_BAND, SKERRY_BOR, SKERRY_BXOR
};

// The version of these functions: 3.
int skerry_abi(void);

// The epoll descriptor in which this library has all its sockets: /proc/self/fdinfo of it lists
// them, so that the child of a fork can close those that it inherited. Or -1.
int skerry_poller(void);

// Serves a rendezvous store at a free port of host, to who knows the token (hexadecimal; "": on
// loopback, anybody), and writes its host:port to address. 0: it failed, and err says why.
int64_t skerry_store_serve(char *host, int64_t host_len, char *token, int64_t token_len,
                           char *address, int64_t address_cap, char *err, int64_t err_cap);

// Makes an unconfigured group of a backend ("tcp"); settings are JSON: listen, interfaces, open,
// params. 0: it failed.
int64_t skerry_open(char *backend, int64_t backend_len, char *settings, int64_t settings_len, char *err, int64_t err_cap);

// Starts an epoch; settings are JSON: store, ids, rank, cluster, quorum, token, timeout_us.
// Blocks until every rank is there, for timeout_us at most (0: a minute).
int skerry_configure(int64_t group, char *settings, int64_t settings_len, int64_t timeout_us, char *err, int64_t err_cap);

// Makes all pending operations fail now, here and on all ranks.
void skerry_abort(int64_t group, char *why, int64_t why_len);

// Why a group is broken; SKERRY_OK: it is not.
int skerry_err(int64_t group, int64_t *rank, char *id, int64_t id_cap, char *text, int64_t text_cap);

// Starts an operation of n numbers, and gives its handle. Its memory is the group's until it
// is done.
int64_t skerry_submit(int64_t group, int64_t *op, int64_t n);

// Runs an operation. Blocks for slice_us at most. 0: it is done; else it failed, or goes on, or is a
// receive: the handle is that of the operation.
int64_t skerry_run(int64_t group, int64_t *op, int64_t n, int64_t slice_us);

// Blocks until an operation is done, for timeout_us at most (0: only looks).
int skerry_wait(int64_t work, int64_t timeout_us);

// Why an operation failed; SKERRY_OK: it has not.
int skerry_error(int64_t work, int64_t *rank, char *id, int64_t id_cap, char *text, int64_t text_cap);

// The rank that a finished receive's message came from, or -1.
int64_t skerry_source(int64_t work);

// The methods of a manager that block, each of which is a call: skerry_wait waits for it,
// skerry_error says why it failed, skerry_text what it returned, skerry_close ends it. Of start,
// participants, commit and loaded that is JSON: commit, rank, count, and loaded: what a heal has changed
// of the state, by part, as skerry_manager_state takes it.
enum {
  SKERRY_START = 1,    // begins a step; argument: 1 forbids a heal, 2 lets nobody new in
  SKERRY_WAIT_QUORUM,  // until the step's quorum is there
  SKERRY_PARTICIPANTS, // who takes part in the step
  SKERRY_COMMIT,       // ends a step: whether the optimizer may apply it
  SKERRY_FINISH,       // ends a run; argument: linger in microseconds
  SKERRY_LOADED        // at once: what was loaded in a call that failed
};

// Makes a manager; settings are JSON, see managerText in internal/capi: the fields of the Go package's
// Config, outside, and parts: the name, local, volatile, room and asked of each part of the state. Fields that are
// not there are taken from the environment. It runs until it is closed. 0: it failed.
int64_t skerry_manager_open(char *settings, int64_t settings_len, char *err, int64_t err_cap);

// The process group of a manager, which goes with it.
int64_t skerry_manager_group(int64_t manager);

// Says what a part of the state is: JSON with tensors (name, dtype, shape, address) and tree, a text
// of the caller's. Without tensors those of before stay. They are the manager's to read from a start
// to the end of its commit, and to write in start and commit; call it outside of that only.
int skerry_manager_state(int64_t manager, char *part, int64_t part_len, char *state, int64_t state_len, char *err, int64_t err_cap);

// Begins a call of a verb, with a deadline if timeout_us is above 0. One at a time, but for finish,
// which wants steps, each of which is a start and a commit: skerry_manager_turn is 1 when it
// does, and skerry_manager_stepped says that the step has ended, and whether by SKERRY_DRAINED.
int64_t skerry_manager_call(int64_t manager, int64_t verb, int64_t argument, int64_t timeout_us);
int skerry_manager_turn(int64_t manager, int64_t timeout_us);
void skerry_manager_stepped(int64_t manager, int drained);

// Discards the step under way, on all replicas.
void skerry_manager_report(int64_t manager, char *why, int64_t why_len);

// Asks to leave in good order.
void skerry_manager_drain(int64_t manager);

// Says that the trainer moves, where it calls nothing else for long.
void skerry_manager_move(int64_t manager);

// Writes the oldest event not yet told, as JSON with type, text and data, its fields, and returns its length; 0: there is none. One that is
// not shorter than text_cap is cut, and told again.
int64_t skerry_manager_event(int64_t manager, char *text, int64_t text_cap);

// What a manager may want of the program around it, whose threads wait for it, each for one kind:
// GROUP (if the settings have outside): that it makes a group of its own beside the manager's, for group: cluster,
// quorum_id, rank, size and store, the handle of a store for these members alone; END: that
// group's epoch is over, as soon as anything breaks it, and pending operations are to end; STATE: that it copies
// the tensors of a part that is asked for to where it told. GROUP and STATE are granted, or refused by a why.
enum { SKERRY_WISH_GROUP = 1, SKERRY_WISH_END, SKERRY_WISH_STATE };

// Blocks until there is a wish of a kind, for timeout_us at most; writes it as JSON: id, group, part, and returns
// its length; 0: there is none; -1: there will be none any more. A text_cap of 1,024 is enough, and as much more as
// the longest name of a part.
int64_t skerry_manager_wish(int64_t manager, int64_t kind, char *text, int64_t text_cap, int64_t timeout_us);

// Grants a wish, or refuses it, if there is a why.
void skerry_manager_grant(int64_t manager, int64_t id, char *why, int64_t why_len);

// Begins a call of a store that a wish named, with a deadline if timeout_us is above 0. The request is JSON: verb
// (set, get, add, append, compare_set, check, wait, delete), key or keys, value and expected in base64, amount;
// skerry_text of the call is value, n, or yes.
int64_t skerry_store_call(int64_t store, char *request, int64_t request_len, int64_t timeout_us);

// Writes what a manager's numbers are, or what a call returned, as JSON, cut to text_cap; returns its
// whole length; -1: no such handle.
int64_t skerry_text(int64_t handle, char *text, int64_t text_cap);

// Closes a group, a store or a manager, which blocks until nothing touches any memory of its operations;
// ends a call; or forgets an operation, which goes on.
void skerry_close(int64_t handle);

#endif
