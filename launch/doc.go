// Package launch starts the replicas of a job on this host, starts each of them again when
// it dies, and ends with the job: it is what torchrun is to PyTorch, and the library of the
// command skerry run.
//
// # Usage
//
//	func main() {
//		launch.Init() // does not return in the keeper, see Life
//		l, err := launch.New(launch.Config{Command: []string{"python", "train.py"}, Replicas: 4, Ranks: 2})
//		report, err := l.Run(ctx)
//	}
//
// # What is started
//
// A replica is Config.Ranks processes that run the same command and stand or fall together.
// Each has a session of its own, nothing to read, and the environment of this process with
// variables on top, which are made anew for each start:
//
//	RANK, LOCAL_RANK, ROLE_RANK            the index of the process in its replica
//	WORLD_SIZE, LOCAL_WORLD_SIZE,          how many processes a replica has
//	ROLE_WORLD_SIZE
//	GROUP_RANK, GROUP_WORLD_SIZE           0 and 1: a replica lives on one host
//	ROLE_NAME                              default
//	MASTER_ADDR, MASTER_PORT               the replica's store
//	TORCHELASTIC_RUN_ID                    the job
//	TORCHELASTIC_RESTART_COUNT             how often this replica was started before
//	TORCHELASTIC_MAX_RESTARTS              Config.MaxRestarts
//	TORCHELASTIC_USE_AGENT_STORE           True: no rank is to serve the store
//	TORCHELASTIC_ERROR_FILE                where torch's @record puts an exception, for the report
//	REPLICA_GROUP_ID, NUM_REPLICA_GROUPS   the index of the replica in its job, and how many there are to be
//	SKERRY_LIGHTHOUSE, TORCHFT_LIGHTHOUSE  where the lighthouse is; of torchft's, one URL
//	SKERRY_JOB, SKERRY_PLAIN_GROUP_STORE   the job; true
//	CUDA_VISIBLE_DEVICES                   the replica's share of Config.CUDADevices, if there are any
//	OMP_NUM_THREADS, PYTHONUNBUFFERED,     1, unless they are set; the first with more than one rank alone
//	TORCH_NCCL_ASYNC_ERROR_HANDLING
//	SKERRY_RUN_MARK                        by which a start's processes are found again
//	SKERRY_SPARE                           of a spare, where it is told its place: see Spares
//
// How many replicas train is never in the environment, for it changes: a Manager tells it.
// The store is served by this process, on loopback, in PyTorch's protocol; each start has a
// store of its own, so that no rank meets keys of the start before.
//
// # Life
//
//	          a rank ends with another status than 0, or by a signal
//	       ┌─────────────────────────────────────────────────────────┐
//	       ▼                                                         │
//	[pause] ─▶ start ─▶ all ranks run ─▶ all have ended with 0 ─▶ done
//	       │                       └────▶ told to stop ─▶ SIGTERM, Grace, SIGKILL ─▶ stopped
//	       └─▶ given up: the budget is spent
//
// When a rank dies, the others of its replica are sent SIGTERM, and SIGKILL after KillGrace:
// they may hang in a collective. Then the replica, and it alone, is started again. The
// budget is MaxRestarts crashes of a replica; RefillSteps committed steps give one back, or
// RefillAfter of life where no lighthouse knows the replica. Joins, drains and heals of others
// cost none. A command that is not there, or cannot be run, ends the job at once if no rank was
// ever started; later that is a crash like others, as is any other trouble with a start.
//
// A rank that ends otherwise than with 0 after its replica was told to stop is no crash: the
// others have the rest of Grace, and the replica is stopped, and not started again.
//
// When fewer than MinReplicas are done or may still run, the job has failed: the others are
// stopped, and Run returns a *Failure that says which rank was the cause. When none runs
// any more, Run returns.
//
// SIGTERM goes to ranks alone, and not to what they have started: a data loader that died of
// it would spoil the drain. SIGKILL goes to everything. What ranks leave behind is ended
// when their start has: killed if that was by a crash, else with SIGTERM first, and SIGKILL
// after KillGrace. When this process dies, of SIGKILL too, the kernel kills the
// ranks (the parent death signal), and the keeper, a second process of this binary, kills
// what they have started: all in their sessions, and all that carry the mark in their
// environment. A process that has left both escapes.
//
// # Spares
//
// Beside the replicas run Config.Spares spares: each is a start like a replica's, with ranks, a store
// and devices of its own, which has no place in the job yet. REPLICA_GROUP_ID, NUM_REPLICA_GROUPS,
// SKERRY_LIGHTHOUSE and TORCHFT_LIGHTHOUSE are empty in its environment, so that a program that
// knows nothing of spares ends by an error and does not train as a replica that is there (unless it takes
// what is empty for 0, and has the lighthouse from elsewhere). SKERRY_SPARE
// is a Unix socket that the rank has for itself, of which package spare is the other end:
//
//	rank                         launcher
//	connects            ──▶      this rank is ready; a spare is when all of its ranks are
//	                    ◀──      one line of JSON: {"env":{"REPLICA_GROUP_ID":"2",…}}, or {"over":true}
//	one byte            ──▶      it has taken the place
//
// A connection that closes takes its rank's readiness back. A rank that connects again is told
// the same again. Closed without a line, the launcher is gone.
//
//	  ┌───────────── pause ◀── a rank ends, and the budget has more
//	  ▼
//	start ─▶ all ranks are ready ─▶ the start becomes a replica's, and the spare starts anew
//	               └─▶ the job ends: {"over":true}, SIGTERM, and SIGKILL after KillGrace
//
// What moves is the start: the replica's goroutine takes it over from the spare's, and it is from
// then on an attempt of the replica like others. A replica that is to start takes the spare
// that has waited longest, if one is ready at that moment, and is started as usual if none is. After a
// crash that is at once, unless its lives before have done nothing: then after the pause.
// It costs the replica's budget what another start would. A spare that has not taken its place
// within two seconds is killed, and a start is made. The budget of a spare is as a replica's;
// one that is given up, or ends with 0 before it has a place, costs the job nothing. Scale takes spares for
// what is missing, and never ends one.
//
// # How many
//
// Config.Replicas is how many a launcher begins with. Another number is said by Scale, or by a
// lighthouse, which Config.Wanted asks: of the whole job, whose replicas are dealt out to
// Config.Nodes launchers in turn, so that all must be of one build. Of too many the highest drain.
// A launcher whose share is none waits until it has one, or the job has finished.
//
// # Output
//
// A line of a rank is written whole, with the replica and the rank before it, to
// Config.Stdout or Config.Stderr, or to a file of the rank's own under Config.LogDir. A line
// ends with a line feed or a carriage return, after 64 KiB, or when nothing has
// followed it for a second. A writer that is slow slows down the ranks; one that takes nothing
// for more than a second holds up nothing: lines are dropped, and counted, until it goes on.
//
// # Goroutines
//
//	Run           owns the list of replicas; waits for their ends, Scale, and ctx
//	replica       one for each; owns its budget and its current start
//	spare         one for each, the same; hands its start over to a replica's
//	gate          one for each rank of a spare, and one for each connection
//	child         one for each rank, on a thread of its own, until it is reaped
//	pump          two for each rank, until its output has ended
//	store         one for each start
//	keeper        one, that starts the keeper again should it die
//	lighthouse    one, if the lighthouse is ours
//	progress      one, that asks how many steps were committed
//	wanted        one, that asks how many replicas are wanted, if Config.Wanted is set
//	spool         one for each of Stdout, Stderr, and the ranks' logs
//
// All of them have ended when Run returns, but one that is stuck in a writer of Config's, or in
// a log whose file system does not answer: it ends when that returns.
package launch
