package tcp

import (
	"cmp"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// Defaults of Options.
const (
	DefaultBeatInterval = 100 * time.Millisecond
	DefaultBeatTimeout  = 500 * time.Millisecond
	DefaultDialTimeout  = 5 * time.Second
	DefaultReachTimeout = pg.DefaultReachTimeout
	DefaultWindowBytes  = 8 << 20
	DefaultRingBytes    = 1<<20 + 64<<10
	DefaultStreams      = 4
)

// localWindowBytes is the window of collectives between ranks of one host,
// at most: the path is short, and what is held should stay in the cache.
// Ratio to a bare loopback stream of the same bytes, 64 MiB, W=4: 0.63 with
// 1 MiB, 0.58 with 2 MiB, 0.53 with 8 MiB.
const localWindowBytes = frame.MinWindowBytes

// Options configures a Backend. The zero value is good for one host and for a
// trusted network.
type Options struct {
	// Listen is "host:port" or "host" to listen on; the port is 0 if absent.
	// Empty means the local address from which the store is reached, so
	// that a loopback store gives a loopback group. Peers must reach it.
	Listen string

	// Advertise is "host" or "host:port" published instead of the listener's
	// own address, for hosts behind a translated address; with several
	// Interfaces a list with commas. Empty: none.
	Advertise string

	// Interfaces are the network interfaces to use, as netif.Addrs takes them: names or prefixes.
	// There is a listener on each; the sockets of an edge take our interfaces and the peer's
	// addresses in turn, from a source address of the interface: the i-th goes from our i-th to the
	// peer's i-th, so all hosts should name them in one order. The system's routes decide how a
	// packet goes: interfaces that are to be used side by side are in different networks. Listen,
	// if it is set too, is an address of one of them, or only a port (":0"). Empty means the one of Listen.
	Interfaces []string

	// Open lets other hosts reach a group that has no Token: whoever comes may take
	// part. Off, Configure refuses to listen like that.
	Open bool

	// Streams is how many sockets an edge has that we dial: large messages go over whichever is
	// free. Zero means 1 within one host and DefaultStreams between hosts, or as many more as make
	// it a multiple of the interfaces. At most MaxStreams. One stream of TCP is bounded by a
	// processor, a window and a flow's share of the network; each more costs two goroutines and
	// 64 KiB at both ends, with TLS about 240.
	Streams int

	// Timeout bounds an op, and a Configure, that name no deadline, if
	// pg.Config.Timeout is zero too. Zero means pg.DefaultTimeout.
	Timeout time.Duration

	// BeatInterval is after how long an idle link sends a beat. Zero means DefaultBeatInterval. Too low
	// costs wake-ups; it must be at most half of BeatTimeout, or a single late beat breaks the group.
	BeatInterval time.Duration

	// BeatTimeout is after how long a silent link is broken. Zero means DefaultBeatTimeout. Too low
	// accuses busy peers, too high lets a stopped host hold up the group.
	BeatTimeout time.Duration

	// DialTimeout bounds one attempt to connect and exchange preambles, which takes the peer's
	// process, and that may be busy. Zero means DefaultDialTimeout.
	DialTimeout time.Duration

	// ReachTimeout is after how long without an answer of its host a peer that
	// has published its address is out of reach: Configure fails and names it. The
	// answer is the host's, not the process's; so too low accuses peers behind a
	// path that is slow or loses much, not busy ones. Too high holds up the job
	// for as long, once for each link that is cut. Zero means DefaultReachTimeout.
	ReachTimeout time.Duration

	// WindowBytes bounds what one peer can make us hold per class (collectives,
	// point-to-point); the peer is told in our Hello. Zero means
	// DefaultWindowBytes, least is 1 MiB and a bit. Below bandwidth times round
	// trip it stalls long paths; within one host collectives use the least.
	WindowBytes int

	// SocketBytes is asked for as send and receive buffer of each socket;
	// the kernel's limits apply. Zero leaves it to the kernel, which adapts them
	// to the path; set values were no faster on loopback.
	SocketBytes int

	// Transport says what edges within one host are made of. Zero means shared
	// memory where both ends can, else TCP. It need not be the same everywhere.
	Transport Transport

	// ShareDir is a directory that containers of one host have in common, where those
	// with a network namespace each find one another for shared memory; it need
	// not be mounted at the same place. It must belong to this user, mode 0700, else
	// Configure fails; all must run as one user, with /proc. Sockets of killed
	// processes are removed by those that come after. Empty: none; processes find those of their own namespace.
	ShareDir string

	// RingBytes is the shared memory of one direction of one edge, for collectives,
	// and as much again for long messages. Zero means
	// DefaultRingBytes, half of that in groups of more than four; a multiple of 64, large enough for two full frames. More
	// of it than the processor's cache holds is slower, not faster.
	RingBytes int

	// Fault, if set, is asked before every frame is sent what shall become of
	// it. For tests; nil in production. Edges then are TCP, unless Transport is
	// TransportShared, where frames of collectives are not asked about.
	Fault Fault

	// hook, if set, is told of every access that a wake-up hangs on. For tests.
	hook step.Hook

	// Logger gets "group ready", "group broken" and the like.
	Logger zerolog.Logger
}

// Validate returns all problems of o, after defaults are applied.
func (o Options) Validate() error {
	o = o.withDefaults()
	l := problems.List{Prefix: "tcp: "}
	problems.NotNegative(&l, "Timeout", o.Timeout)
	l.Want(o.BeatInterval >= time.Millisecond, "BeatInterval", o.BeatInterval, "at least 1ms")
	l.Want(o.BeatTimeout >= 2*o.BeatInterval, "BeatTimeout", o.BeatTimeout, "at least twice BeatInterval (%v)", o.BeatInterval)
	problems.NotNegative(&l, "DialTimeout", o.DialTimeout)
	problems.NotNegative(&l, "ReachTimeout", o.ReachTimeout)
	problems.Within(&l, "WindowBytes", o.WindowBytes, frame.MinWindowBytes, frame.MaxWindowBytes)
	problems.Within(&l, "Streams", o.Streams, 0, MaxStreams)
	problems.NotNegative(&l, "SocketBytes", o.SocketBytes)
	l.Want(o.Transport < transportEnd, "Transport", o.Transport, "auto, tcp or shared")
	ring := cmp.Or(o.RingBytes, DefaultRingBytes)
	l.Want(ring >= minRingBytes && ring <= maxRingBytes && ring%shmring.Align == 0, "RingBytes", o.RingBytes,
		"%d to %d, a multiple of %d", minRingBytes, maxRingBytes, shmring.Align)
	return l.Err()
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, pg.DefaultTimeout)
	o.BeatInterval = cmp.Or(o.BeatInterval, DefaultBeatInterval)
	o.BeatTimeout = cmp.Or(o.BeatTimeout, DefaultBeatTimeout)
	o.DialTimeout = cmp.Or(o.DialTimeout, DefaultDialTimeout)
	o.ReachTimeout = cmp.Or(o.ReachTimeout, DefaultReachTimeout)
	o.WindowBytes = cmp.Or(o.WindowBytes, DefaultWindowBytes)
	return o
}
