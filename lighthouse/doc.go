// Package lighthouse is the server that forms quorums. It is a thin shell: the
// rules are quorum.Machine's, the memory that survives is raft's.
//
// # Usage
//
//	s, err := lighthouse.New(cfg) // checks, listens, locks the data dir; starts nothing
//	err = s.Run(ctx)              // serves until ctx ends; nil then
//
// One port serves everything: skerry.v1.Lighthouse (sessions, admin),
// torchft.LighthouseService, and HTTP: the pages, /api/v1, /status.json, /healthz, /livez,
// /metrics, /metrics/targets, /debug/pprof (package internal/web; docs/API.md).
//
// # What is kept where
//
// Package cluster replicates a quorum.Ledger per job; a command names the quorum and
// the term that it follows, and the ledger refuses any other. Everything else (beats,
// joins, sessions) is soft state of the leadership: the time during which this server
// leads. A new leadership rebuilds its machines from the ledger and presumes the last
// members alive. Nobody is told of a quorum before the ledger has it; when nothing
// changed, nothing is written, and a check of leadership begun after the decision
// stands for the write.
//
// # Any server answers
//
// Calls of torchft's clients and of operators, and HTTP requests for the status
// and for actions, are passed on to the leader and held over a change of leader
// for as long as their caller waits; whatever is called may be called twice. A
// mark says that a call was passed on: it is served or refused, never passed on
// again. /metrics, /healthz and /debug/pprof are about the server that is asked.
//
// A session is sent to the leader instead (Redirect), and only passed on if its
// replica cannot reach that one. A session is long, beats ten times a second,
// and its end is evidence: through a relay each beat is handled twice, and the
// death of one more server would look like that of replicas. A replica that has
// just lost the leader says so, and is held until there is another, rather than
// sent back. Server beats on each stream let it notice a leader that hangs.
//
// # Jobs
//
// Jobs share nothing but the server: each has its own machine, ids, rules,
// history, and its own place in the ledger. Rules are changed while a job runs,
// and replicated. A job that nobody uses is forgotten; its ids never come again.
//
// # Goroutines
//
//	name                   owns                        waits for                    ends when
//	Run                    listener                    its servers, the cluster     ctx ends, or one of them fails
//	split.Splitter.Run     the accept loop             connections                  the listener closes
//	split.Splitter.hand    one new connection          its first bytes              they came, or a deadline
//	cluster.Node.Run       the ledger, leaderships     see package cluster          ctx ends, or it fails
//	follow                 the link to the leader      changes of the leader        ctx ends
//	leadership.forgetIdle  nothing                     a minute, again and again    the leadership ends
//	firstWord              one hello                   the replica's first message  it came, the stream's end
//	relayUp                a relayed stream, upwards   messages from the replica    either side ends it
//	job.run                one job's machine, sessions calls, its own wake-up       the leadership ends
//	live.board.run         one filter of the pages     a quarter of a second       its last viewer leaves
//	session handler        one stream                  the stream's end             either side ends it
//	session.receive        its receiving side          messages from the replica    the handler returns
//	session.deliver        its sending side            messages for the replica     the handler returns
//
// plus those of grpc and net/http, which Run stops and waits for.
//
// A session that does not read what it is sent is cut, never waited for. There
// is no polling tick: a job wakes when an input comes or at the machine's Wake.
//
// # Concurrency
//
// Server's methods are safe for concurrent use; Run is called once.
package lighthouse
