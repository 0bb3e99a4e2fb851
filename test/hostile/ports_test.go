package hostile

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

var (
	duration = flag.Duration("hostile.for", 700*time.Millisecond, "how long TestFuzzPorts throws bytes")
	seed     = flag.Uint64("hostile.seed", 0, "seed of the bytes; 0: another one each time")
)

const (
	throwers    = 2           // goroutines for each kind of bytes
	maxThrown   = 4 << 10     // bytes at a time
	warmUp      = time.Second // pools and buffers grow to their size
	moreRoutine = 100         // goroutines that may be left: what a server needs in a busy second
	moreFiles   = 50
	moreMiB     = 64
)

// TestFuzzPorts: bytes on every port, and a job that asks beside them.
func TestFuzzPorts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three processes and some seconds: not with -short")
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("repeat with -hostile.seed %d -hostile.for %v", *seed, *duration)
	ended := time.Now()
	all := cluster(t, 3)
	t.Logf("three servers after %v", time.Since(ended).Round(time.Millisecond))
	ctx, cancel := context.WithTimeout(context.Background(), warmUp)
	throw(ctx, t, all)
	cancel()
	before := make([]usage, len(all))
	for i, s := range all {
		before[i] = settled(t, s, nil)
	}

	ctx, cancel = context.WithTimeout(context.Background(), *duration+patience)
	defer cancel()
	asked := make(chan int64, 1)
	go func() {
		defer cancel() // the bytes are thrown for as long
		asked <- steady(ctx, t, all, *duration)
	}()
	thrown := throw(ctx, t, all)
	ended = time.Now()
	answers := <-asked
	t.Logf("%d times bytes thrown, %d answers to the job beside them", thrown, answers)
	if answers == 0 {
		t.Error("the job beside the bytes had no answer")
	}
	for i, s := range all {
		after := settled(t, s, &before[i])
		t.Logf("server %d: before %+v, after %+v, %v after the last byte", i, before[i], after, time.Since(ended).Round(time.Millisecond))
	}
	ended = time.Now()
	last, cancelLast := context.WithTimeout(context.Background(), patience)
	defer cancelLast()
	if err := askOnce(last, all[0].addr, "afterwards"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	t.Logf("answered afterwards within %v", time.Since(ended).Round(time.Millisecond))
}

// settled waits until a server holds no more than before, but for what a moment
// may need, and returns what it holds.
func settled(t *testing.T, s *server, before *usage) (u usage) {
	t.Helper()
	testkit.EventuallyNil(t, "server "+s.addr+" holds what it held before", func() (err error) {
		s.alive(t)
		if u, err = s.usage(); err != nil || before == nil {
			return err
		}
		if u.goroutines > before.goroutines+moreRoutine || u.files > before.files+moreFiles || u.heapMiB > before.heapMiB+moreMiB {
			return fmt.Errorf("before %+v, now %+v", *before, u)
		}
		return nil
	})
	return u
}

// thrower throws bytes once. What becomes of them is the server's affair.
type thrower func(ctx context.Context, r *rand.Rand, s *server)

// throw throws all kinds of bytes at all servers until ctx ends, and counts them.
func throw(ctx context.Context, t *testing.T, all []*server) int64 {
	t.Helper()
	var count atomic.Int64
	var throwing sync.WaitGroup
	kinds := []thrower{onRPC, onHTTP, onRaft, onGossip, onGossipUDP, asCalls, asSession}
	for k, kind := range kinds {
		for i := range throwers {
			r := rand.New(rand.NewPCG(*seed, uint64(k*throwers+i)))
			throwing.Go(func() {
				for ctx.Err() == nil {
					kind(ctx, r, all[r.IntN(len(all))])
					count.Add(1)
				}
			})
		}
	}
	throwing.Wait()
	for _, s := range all {
		s.alive(t)
	}
	return count.Load()
}

func someBytes(r *rand.Rand) []byte {
	b := make([]byte, r.IntN(1<<r.IntN(13)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b[:min(len(b), maxThrown)]
}

// spoilt is a message with some bytes changed, or cut off.
func spoilt(r *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	for range r.IntN(4) {
		if len(b) > 0 {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
	}
	if len(b) > 0 && r.IntN(4) == 0 {
		b = b[:r.IntN(len(b))]
	}
	return b
}

// over throws bytes at a TCP port, one piece after another, and reads a little.
func over(ctx context.Context, r *rand.Rand, addr string, pieces ...[]byte) {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(200 * time.Millisecond)) // a connection that has gone has no deadline
	for _, p := range pieces {
		if _, err := conn.Write(p); err != nil {
			return
		}
	}
	if r.IntN(2) == 0 {
		if tcp, ok := conn.(*net.TCPConn); ok && r.IntN(2) == 0 {
			_ = tcp.CloseWrite() // it may have been reset
		}
		_, _ = io.CopyN(io.Discard, conn, int64(r.IntN(512)+1)) // whatever it says
	}
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// onRPC throws at the port for RPC: anything, half a preface, frames of HTTP/2.
func onRPC(ctx context.Context, r *rand.Rand, s *server) {
	switch r.IntN(3) {
	case 0:
		over(ctx, r, s.addr, someBytes(r))
	case 1:
		over(ctx, r, s.addr, spoilt(r, []byte(preface)), someBytes(r))
	default:
		pieces := [][]byte{[]byte(preface), {0, 0, 0, 4, 0, 0, 0, 0, 0}} // and empty settings
		for range r.IntN(8) {
			body := someBytes(r)
			frame := []byte{byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body)), byte(r.IntN(12)), byte(r.Uint32()), 0, 0, 0, byte(r.IntN(8))}
			pieces = append(pieces, frame, body)
		}
		over(ctx, r, s.addr, pieces...)
	}
}

// onHTTP throws requests of HTTP/1, more or less.
func onHTTP(ctx context.Context, r *rand.Rand, s *server) {
	paths := []string{"/", "/status.json", "/metrics", "/healthz", "/debug/pprof/", "/nothing", "/kill", "/drain?x=%zz"}
	methods := []string{"GET", "POST", "PUT", "HEAD", "OPTIONS", "\x00"}
	head := fmt.Sprintf("%s %s HTTP/1.%d\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
		methods[r.IntN(len(methods))], paths[r.IntN(len(paths))], r.IntN(3), r.IntN(1<<20))
	over(ctx, r, s.addr, spoilt(r, []byte(head)), someBytes(r))
}

// onRaft throws at raft's port: anything, and what begins as one of its calls.
func onRaft(ctx context.Context, r *rand.Rand, s *server) {
	if r.IntN(2) == 0 {
		over(ctx, r, s.raft, someBytes(r))
		return
	}
	over(ctx, r, s.raft, []byte{byte(r.IntN(8))}, msgpack(r, 3), someBytes(r))
}

// msgpack is a value of that encoding, more or less: the lengths that it claims
// are true at times.
func msgpack(r *rand.Rand, depth int) []byte {
	names := []string{"RPCHeader", "ProtocolVersion", "ID", "Addr", "Leader", "Entries", "Data", "Index", "Type", "LastLogIndex", "Size", "Node"}
	switch k := r.IntN(8); {
	case k < 3 && depth > 0: // a map
		n := r.IntN(6)
		b := []byte{0x80 | byte(n)}
		for range n {
			name := names[r.IntN(len(names))]
			b = append(append(b, 0xa0|byte(len(name))), name...)
			b = append(b, msgpack(r, depth-1)...)
		}
		return b
	case k == 3 && depth > 0:
		return append([]byte{0x90 | byte(r.IntN(16))}, msgpack(r, depth-1)...)
	case k == 4: // bytes of a length that need not be there
		return append([]byte{0xc6, byte(r.IntN(2)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}, someBytes(r)...)
	case k == 5: // an array that claims to be long
		return []byte{0xdd, byte(r.IntN(256)), byte(r.Uint32()), 0, 0}
	case k == 6:
		return []byte{0xdb, 0x7f, 0xff, 0xff, 0xff, 'x'}
	}
	return []byte{byte(r.IntN(128))}
}

// onGossip throws at gossip's TCP port.
func onGossip(ctx context.Context, r *rand.Rand, s *server) {
	over(ctx, r, s.gossip, []byte{byte(r.IntN(16))}, msgpack(r, 3), someBytes(r))
}

// onGossipUDP throws datagrams at gossip's UDP port.
func onGossipUDP(ctx context.Context, r *rand.Rand, s *server) {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "udp", s.gossip)
	if err != nil {
		return
	}
	defer conn.Close()
	for range 16 {
		b := append([]byte{byte(r.IntN(16))}, msgpack(r, 3)...)
		_, _ = conn.Write(append(b, someBytes(r)...)) // a datagram may be lost
	}
	time.Sleep(time.Millisecond)
}

// raw is a gRPC codec whose messages are bytes.
type raw struct{}

// Marshal sends the bytes as they are.
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal takes whatever comes.
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Name is that of the codec which it stands in for.
func (raw) Name() string { return "proto" }

func dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
}

// sample is a message that a server of ours understands.
func sample(r *rand.Rand) []byte {
	member := &skerrypb.Member{ReplicaId: "x:1", Address: "http://h:1", StoreAddress: "s:1", GroupWorldSize: 1, Position: &skerrypb.Position{}}
	var m proto.Message
	switch r.IntN(6) {
	case 0:
		m = &skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: &skerrypb.SessionHello{Job: "j", ReplicaId: "x:1", GroupWorldSize: 1, Position: &skerrypb.Position{}}}}
	case 1:
		m = &skerrypb.Up{Message: &skerrypb.Up_Join{Join: &skerrypb.Join{Member: member, Kind: skerrypb.JoinKind_JOIN_FALL, Number: uint64(r.IntN(9)), Fact: &skerrypb.Fact{}}}}
	case 2:
		m = &skerrypb.Up{Message: &skerrypb.Up_Beat{Beat: &skerrypb.Beat{Position: &skerrypb.Position{}, QuorumId: r.Int64()}}}
	case 3:
		m = &torchftpb.LighthouseQuorumRequest{Requester: &torchftpb.QuorumMember{ReplicaId: "t:1", Step: int64(r.IntN(9)), Data: "{}"}}
	case 4:
		m = &torchftpb.LighthouseHeartbeatRequest{ReplicaId: "t:1"}
	default:
		m = &skerrypb.Up{Message: &skerrypb.Up_Accuse{Accuse: &skerrypb.Accusation{By: "x:1", Against: "y:1", QuorumId: 1}}}
	}
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // it is made of constants
	}
	return b
}

// asCalls makes calls of every service, with messages that are none, or spoilt.
func asCalls(ctx context.Context, r *rand.Rand, s *server) {
	conn, err := dial(s.addr)
	if err != nil {
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	methods := []string{
		torchftpb.LighthouseService_Quorum_FullMethodName, torchftpb.LighthouseService_Heartbeat_FullMethodName,
		skerrypb.Lighthouse_Info_FullMethodName, skerrypb.Lighthouse_History_FullMethodName, skerrypb.Lighthouse_Drain_FullMethodName,
		skerrypb.Lighthouse_Evict_FullMethodName, skerrypb.Lighthouse_Configure_FullMethodName,
		skerrypb.Lighthouse_Jobs_FullMethodName, skerrypb.Lighthouse_DeleteJob_FullMethodName, skerrypb.Lighthouse_KillReplica_FullMethodName,
		skerrypb.Cluster_Introduce_FullMethodName, skerrypb.Cluster_Members_FullMethodName, skerrypb.Cluster_Remove_FullMethodName,
		"/no.Such/Method", // not TransferLeader: without a word it does what it says
	}
	var calls sync.WaitGroup
	for range 8 {
		method, b := methods[r.IntN(len(methods))], someBytes(r)
		if r.IntN(2) == 0 {
			b = spoilt(r, sample(r))
		}
		calls.Go(func() {
			var answer []byte
			_ = conn.Invoke(ctx, method, &b, &answer, grpc.ForceCodecV2(raw{})) // most are refused
		})
	}
	calls.Wait()
}

// asSession opens a session and says what comes to mind.
func asSession(ctx context.Context, r *rand.Rand, s *server) {
	conn, err := dial(s.addr)
	if err != nil {
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, skerrypb.Lighthouse_Session_FullMethodName, grpc.ForceCodecV2(raw{}))
	if err != nil {
		return
	}
	for range 1 + r.IntN(6) {
		b := sample(r)
		if r.IntN(2) == 0 {
			b = spoilt(r, b)
		}
		if stream.SendMsg(&b) != nil {
			return
		}
	}
	var answer []byte
	_ = stream.RecvMsg(&answer) // a welcome, a refusal, or nothing
}

// steady asks for a quorum of one in a job of its own, again and again for so long,
// and until there was an answer, and counts the answers. A server that leads no more, for bytes may upset an election, is
// asked again.
func steady(ctx context.Context, t *testing.T, all []*server, lasts time.Duration) (answers int64) {
	t.Helper()
	until := time.Now().Add(lasts)
	for i := 0; ctx.Err() == nil && (answers == 0 || time.Now().Before(until)); i++ {
		if askOnce(ctx, all[i%len(all)].addr, "steady") == nil {
			answers++
		}
		time.Sleep(5 * time.Millisecond)
	}
	return answers
}

func askOnce(ctx context.Context, addr, job string) error {
	conn, err := dial(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, job)
	_, err = torchftpb.NewLighthouseServiceClient(conn).Quorum(ctx, &torchftpb.LighthouseQuorumRequest{
		Requester: &torchftpb.QuorumMember{ReplicaId: "steady:1", Step: 1, WorldSize: 1}})
	return err
}
