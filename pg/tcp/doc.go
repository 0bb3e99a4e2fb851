// Package tcp is the CPU backend of package pg: collectives over TCP, by several
// streams and interfaces if need be, and, between processes of one host, shared
// memory; bit-exact, fenced by epochs, with one full mesh of edges that
// outlives quorums.
//
// # Usage
//
//	b := tcp.New(tcp.Options{})
//	g := pg.NewGroup(b)
//	err := g.Configure(ctx, cfg)
//
// New starts nothing. The first Configure opens the listener and starts the
// goroutines; Close ends and waits for all of them.
//
// # Edges
//
// An edge is one socket to one peer, or several (see Streams), keyed by (replica
// id, group rank): ranks may permute between quorums and the sockets stay. The peer with the smaller
// replica id dials the address that the other one published in the store
// under "tcp/<rank>". Options.Interfaces makes that several addresses, one for each
// of the network interfaces. Both ends first write a preamble (magic, version, a fresh
// nonce), behind a TLS handshake if there are certificates; everything after it is frames.
//
// For every epoch each side sends one Hello over the edge, over a kept socket as
// over a new one: epoch, replica id, group rank, rank, a hash of the member
// list, its windows, the edge's further sockets, and an HMAC-SHA256 under the quorum's token over all that and both
// nonces, so it can be replayed neither on another socket nor in another
// direction. A Hello is checked when its receiver configures that epoch; one
// that comes early is held. Configure is done once every peer's Hello for the
// epoch was checked; no data frame goes out before. A higher Hello on a proven
// edge breaks the lower epoch ("peer moved on"; that accuses nobody).
//
// Reconfigure is a delta: an edge whose socket lives is kept, whatever the
// epoch before died of, and only missing edges are dialled. This holds because
// an abort never leaves half a frame on a socket: see Abort below.
//
// # Streams
//
// Between hosts an edge has Options.Streams sockets: one flow of TCP is bounded by a
// processor, by a window, and by what the network gives to a flow. Whoever
// dials the edge decides, and dials the i-th from its i-th interface to the
// peer's i-th address, both in turn, once preambles have gone over the first one. A
// further socket begins with a preamble of its own: a nonce, the nonce that the
// peer has on the first socket, and its index; the peer answers with a beat once it
// has joined it to that edge. Hellos, which follow, carry the number of sockets and
// a hash of all their nonces under the token's proof: so every socket is proven,
// and tied to its edge, and one that a stranger has joined makes an edge that
// is refused. After the Hello none can join. The edge breaks when any of its
// sockets does, and is kept, or dialled anew, as a whole.
//
// Hellos, aborts, point-to-point messages and pieces of less than 32 KiB go over the
// first socket, in order. Longer pieces of collectives go over whichever is free,
// so a slow path carries less; they come in any order and are put, and folded,
// where they belong. What a peer's Hello must precede is not overtaken: further
// sockets are used in an epoch once the peer has given credit, or the empty credit
// that says that it has checked our Hello. A farewell (an abort that accuses
// nobody) says how many frames went over further sockets, and is acted upon when
// they are there, or when none of their bytes came for a beat timeout. A further socket that ends has the first one's reader judge, after
// it has read what the peer may have said there.
//
// Edges with a lane have one socket: it carries no collectives.
//
// # Lanes
//
// An edge between two processes of one host has a lane beside its socket: two
// shared segments, one per direction. Who runs on the same kernel is told by
// its boot id in the store; the peer that dials the edge also dials the other
// one's abstract Unix socket, and both pass a memory file (package memfd) and a
// bell, the end of a pipe. The nonce of the edge's socket binds them to it; where any of that
// fails, the edge stays a socket alone (Options.Transport forces one or the other).
// Containers with a network namespace each do not see one another's abstract sockets:
// they meet in Options.ShareDir, if they have such a directory in common.
//
// A segment is a page of control words and two rings of records, one for
// collectives and one for point-to-point. A record is a frame's header,
// and its payload where it is folded or copied from. Only its maker writes it, so
// there is no lock, and a peer that is stopped in the middle of a write and
// continued later harms nobody: what it had not published nobody reads, and if
// its edge was given up meanwhile, so was the segment. Nothing has a name, so
// nothing outlives SIGKILL. What a peer has written is bounded like what comes
// from a socket; its headers have checksums, its payloads have them only where
// the digest needs them: memory is not a wire.
//
// Collectives' frames take the lane, and what is asked for of messages longer
// than a frame, which are announced by an empty frame; all else the socket:
// Hellos, beats, aborts, short messages. So an abort never waits behind data, and a peer's death
// is its socket's end. The Hello says where in the ring its epoch begins:
// what lies before it is skipped unseen. Before a peer's word that it leaves or
// moves on is acted upon, what it had published until then is taken.
//
// A record is released when it was folded or copied, in order; the ring is the
// window. Records whose op is not posted yet stay where they are. Whoever waits for
// an op looks for what comes, for a moment after it saw something last: 15 µs, 60
// where ranks fill the processors, yielding. Then it sleeps, the poller's goroutine
// takes over, and peers, who see in its segment that nobody looks, ring its bell
// once. With no op pending nobody looks and nobody rings. Type poller has the states, and
// the rules that keep a record from lying there unseen.
//
// # Frames
//
// A header of 96 bytes, then at most 256 KiB (MaxPayload) of payload; package
// internal/frame has their layout, and who may send which. A bad CRC closes the
// socket and breaks the group.
//
// # Collectives
//
// Sums fold in rank order, so inputs are exchanged, never partial sums. With W
// ranks and N bytes per rank:
//
//	small (N ≤ 32 KiB): every rank sends its whole input to every other and
//	    folds by itself. One hop; (W-1)·N bytes out of each rank.
//	larger: rank j owns the j-th part. Phase 0 sends part j to rank j, which
//	    folds each piece once all W are there and sends the result to all as
//	    phase 1 while the next pieces still arrive. 2·(W-1)/W·N bytes out of each
//	    rank, as a ring, but two hops instead of 2·(W-1).
//
// On one host N/W-sized parts are copied into the ring, folded from there into
// the result, and the result is copied into the rings and out of them: with W=2,
// 25 MiB, 8 GB/s copies and 40 GB/s folds, 12.5 MiB each way three times,
// 5 ms. A small message is two copies and no system call while both sides look.
//
// A broadcast of more than 32 KiB to three ranks or more is relayed: the root
// sends a part to each other rank, which sends it on as it comes. N bytes leave
// the root, not (W-1)·N.
//
// Everything else is one stream per pair. A rank that only waits for a peer
// sends it an empty frame, so that a mismatched call is seen at once, not at
// the deadline. Collectives run one after the other, in the order of Submit;
// point-to-point messages run beside them.
//
// # Flow
//
// Each edge has a window (Options.WindowBytes, told in its Hello) for collectives and another for
// point-to-point: bytes that the receiver holds but could not place yet (op not
// posted, piece not folded). Credit frames give it back. So readers never
// stop: an abort or a beat is never stuck behind data, and what a peer can make
// us hold is bounded. Of a point-to-point message longer than one frame only the
// first (beside a lane an empty one) goes at once, the rest once a receive has taken it (a take frame): a
// message that nobody wants yet holds up no other, until first frames alone
// fill the window.
//
// # Abort
//
// The first error of an epoch (a link broke, a frame was corrupt or did not
// match, silence, a deadline, Abort) breaks the group on this rank, fails all
// pending ops and sends an abort frame with the first culprit to every peer,
// ahead of queued data. Reads and writes in flight are interrupted: what is
// left of a frame being received goes to a scratch buffer, what is left of
// one being sent is first copied from the tensor. Only then do the ops complete.
// Frames of another epoch are dropped and counted (Stats.StaleFrames).
//
// A peer that closes, or configures the next epoch, breaks the group too, but an
// op under way that needs nothing of it any more may first end: whoever leaves
// right after a barrier or a ballot does not spoil it for the others.
//
// # Liveness
//
// A socket that sent nothing for a beat interval sends a beat. One that received
// nothing for a beat timeout, and holds no unread bytes, breaks its edge. While other
// sockets of the edge do receive, the peer lives, and the silent one has twice the time.
// A peer of this host whose threads wait for a processor has twenty times as much.
// A clock that fired late by more than the beat timeout was itself not
// scheduled: it forgives all links once.
//
// Configure tells three things apart. A peer whose host does not answer a
// connection within ReachTimeout is out of reach (pg.ErrUnreachable): its system
// would answer, however busy its process is, so the link is cut, or the host is
// gone. One that refuses, or does not greet, is tried a few times. One that has not
// published its address, or says no Hello, is waited for until the MeetTimeout, or
// the deadline. Each is a first cause and names its peers, all that failed
// together: of two sets that a cut parts each side says so of the whole other one.
//
// A killed process's sockets close only once its memory is freed, which takes a
// quarter of a millisecond a MiB on a busy host. Peers of the same host hear sooner:
// one thread of each process holds a word in every segment as the owner of a robust
// futex does, and waits for those of its peers. The kernel marks and wakes them first
// of all. What it wakes ends the socket, behind all that the dead had said.
//
// # Encryption
//
// With pg.Config.TLS every socket of an edge is TLS 1.3, from its first byte, and
// each end shows a certificate that the other one's TLS takes; without it none is.
// The rule asks for nothing that a peer says, and not where it is: a socket beside
// a lane is TLS too (the lane itself is memory of one host, passed between processes
// of one user, and is not encrypted). So no peer can have an edge in the clear of a
// rank that has certificates: a Hello on one is refused, edges that stand are dialled
// anew when the group gets certificates or loses them, and two ranks of which one has
// none fail, each told what to set. In the same way a peer without the right
// certificate never gets as far as a preamble; why is in the error of who dials, and,
// where TLS has no word for it but "bad certificate", in the log of who is dialled.
//
// A Hello's proof covers a value that both ends derive from the connection's keys, and
// so does the hash of further sockets: who holds a replica's certificate, but not the
// quorum's token, cannot stand between two ranks and pass on what they say.
//
// Certificates are those of the moment of a handshake. A socket that stands is not
// asked again; it is kept from quorum to quorum as any other. There is no resumption.
//
// What is above a socket does not know of TLS (type sealed in sealed.go, below
// rawConn): reads and writes of a few vectors, writes that do not wait, interrupts at
// any byte after which both go on. Writes encrypt up to 64 KiB into memory and send
// that; bytes count as sent when their ciphertext is, so an interrupt loses nothing and
// holds no tensor. Reads take from the system no more than one record at a time for
// TLS and know what is left, so "nothing is unread" means what it means in the clear.
// An altered record is ErrCorrupt. The end of a socket needs no farewell of TLS's:
// frames and aborts say what is missing.
//
// It costs a handshake for each socket of a new edge, for each byte an encryption and
// a decryption, a core of which does about one GB/s of both together, about 240 KiB
// for a socket that has carried large messages, and no more than a test of a pointer
// where it is off. See docs/bench/tls.md. Keys are not changed on the way: after 2^24.5
// records, 390 GB on a socket, AES-GCM's margin is below what RFC 8446 5.5 asks for.
//
// # Strangers
//
// A socket that a peer opened is a newcomer until a Hello has proved the token:
// there are so many of them at most, by host too, each reads a preamble, then a Hello,
// into a small buffer, and has its time for it; see newcomer.go. With TLS the handshake
// comes before, within the preamble's time: at most 32 KiB are read of it, and those
// beyond a number of all hosts, and of one, wait for a place; see secure.go.
//
// # Goroutines
//
//	accept   per listener, which it owns; ended by Close
//	clock    one; beats, silence, deadlines; ended by Close
//	worker   one; starts collectives that had to wait for another; ended by Close
//	reader   per socket; owns the receive buffer; ended by the socket's end
//	writer   per socket, from its preamble on; sends what could not go out at once;
//	         ended by the socket's end
//	dialer   per missing edge, and per further socket of it, within Configure, which
//	         waits for them
//	poller   one, with lanes; sleeps on the bell; ended by Close; caller's
//	         goroutines that wait for an op do its work for it (pg.Helper)
//	death watch one, with lanes, on a thread of its own; hears of peers' deaths; ended by Close
//	sharer   one, with lanes; owns the Unix socket; ended by Close; and one
//	         per handshake on it, ended by its deadline or Close
//	sweeper  at most one; deletes an old prefix after Configure; ended by Close
//
// There is no goroutine per op: an op advances on the goroutine that brings it
// forward (its caller, the worker, a reader, a writer, the poller). One mutex guards all
// state; no system call but setting a socket deadline is made while it is held. A lane's own
// locks (who pulls, what is held) and the poller's (who looks) are taken before it,
// the poller's first; what a lane holds is a leaf.
package tcp
