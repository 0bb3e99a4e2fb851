// Package lighthouse is the server that forms quorums. It is a thin shell: the
// rules are quorum.Machine's, the memory that survives is raft's.
//
// # Usage
//
//	s, err := lighthouse.New(cfg) // checks, listens, locks the data dir; starts nothing
//	err = s.Run(ctx)              // serves until ctx ends; nil then
//
// One port serves everything: skerry.v1.Lighthouse (sessions, admin),
// torchft.LighthouseService, and HTTP: the status page, /status.json, /healthz,
// /metrics, /debug/pprof.
//
// # What is kept where
//
// Raft keeps the cluster id and a quorum.Ledger per job; a command names the
// quorum and the term that it follows, and the ledger refuses any other.
// Everything else (beats, joins, sessions) is soft state of the reign: the time
// during which this server leads. A new reign rebuilds its machines from the
// ledger and presumes the last members alive. Nobody is told of a quorum before
// the ledger has it; when nothing changed, nothing is written, and a check of
// leadership begun after the decision stands for the write.
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
//	name             owns                        waits for                        ends when
//	Run              listener, raft              its three servers                ctx ends, or one of them fails
//	splitter.run     the accept loop             connections                      the listener closes
//	splitter.hand    one new connection          its first bytes                  they came, or a deadline
//	takePart         the cluster, its ledger     the three below                  ctx ends, or one of them fails
//	cluster.watch    what is known of servers    gossip, raft's leader changes    ctx ends, or it was taken out
//	cluster.tend     the servers in raft         gossip, a review 4 times a second ctx ends, or it was taken out
//	cluster.ask      one introduction            its answer                       a second at most
//	lead             reigns                      raft's leadership changes        ctx ends
//	follow           the link to the leader      changes of the leader            ctx ends
//	reign.forgetIdle nothing                     a minute, again and again        the reign ends
//	firstWord        one hello                   the replica's first message      it came, the stream's end
//	relayUp          a relayed stream, upwards   messages from the replica        either side ends it
//	disk.StoreLogs   one write of raft's log      the disk                         it answers; a stop waits some seconds for it
//	disk.persist     one of raft's promises       the disk                         it answers, or raft has ended
//	disk.end         raft's end, its files        the two above                    they have; left behind if the disk hangs
//	job.run          one job's machine, sessions calls, its own wake-up           the reign ends
//	session handler  one stream                  the stream's end                 either side ends it
//	session.receive  its receiving side          messages from the replica        the handler returns
//	session.deliver  its sending side            messages for the replica         the handler returns
//
// plus those of grpc, net/http, raft and memberlist, which Run stops and waits for.
//
// A session that does not read what it is sent is cut, never waited for. There
// is no polling tick: a job wakes when an input comes or at the machine's Wake.
//
// # Concurrency
//
// Server's methods are safe for concurrent use; Run is called once.
package lighthouse
