package hostile

import (
	"encoding/base64"
	"encoding/binary"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// clusterVictim is a server of a cluster of one, with a token and, guarded, with
// certificates and a gossip key. The stranger knows the cluster's id, which every
// replica is told.
func clusterVictim(t *testing.T, guarded bool) (s *server, ask func() error, id string) {
	t.Helper()
	c := guardtest.New(t)
	o := c.Options(t, guard.Lighthouse, "server")
	ports := portlease.ForTest(t, 2)
	flags := []string{"--token-file", o.TokenFile, "--data-dir", t.TempDir(), "--bootstrap-expect", "1",
		"--raft-address", ports[0], "--gossip-address", ports[1]}
	member := guard.Options{TokenFile: o.TokenFile}
	if guarded {
		key := filepath.Join(t.TempDir(), "gossip.key")
		if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--tls-ca", o.TLSCA, "--tls-cert", o.TLSCert, "--tls-key", o.TLSKey, "--gossip-key-file", key)
		member = c.Options(t, guard.Replica, "member")
	}
	s = soleVictim(t, flags...)
	s.raft, s.gossip = ports[0], ports[1]
	options := guardtest.Open(t, member).DialOptions(guard.Party{Role: guard.Lighthouse}, "")
	if !guarded {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	conn := connect(t, s.addr, options...)
	testkit.EventuallyNil(t, "it leads", func() error {
		s.alive(t)
		info, err := skerrypb.NewClusterClient(conn).Members(t.Context(), &skerrypb.MembersRequest{})
		id = info.GetCluster()
		if err == nil && id == "" {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	return s, func() error { return quorumOfOne(conn) }, id
}

var thronged = flag.Duration("hostile.throng", 300*time.Millisecond, "how long each stream of TestClusterPorts lasts")

// throng has n connections at a time send head, and then piece until they are cut or
// have sent 32 MiB, again and again for so long.
func throng(addr string, n int, lasts time.Duration, head, piece []byte) (opened int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	until := time.Now().Add(lasts)
	for range n {
		all.Go(func() {
			for time.Now().Before(until) {
				conn, err := net.DialTimeout("tcp", addr, time.Second)
				if err != nil {
					continue
				}
				mu.Lock()
				opened++
				mu.Unlock()
				_ = conn.SetDeadline(until)
				_, err = conn.Write(head)
				for sent := 0; err == nil && sent < 32<<20 && len(piece) > 0; sent += len(piece) {
					_, err = conn.Write(piece)
				}
				_, _ = conn.Read(make([]byte, 1)) // until it is cut
				_ = conn.Close()                  // it is
			}
		})
	}
	all.Wait()
	return opened
}

// TestClusterPorts: what strangers send to raft's port and to gossip's, by streams and
// by packets, costs a server next to nothing; with certificates and a gossip key, and
// with the token alone.
func TestClusterPorts(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"guarded", "token"} {
		t.Run("raft "+kind, func(t *testing.T) {
			t.Parallel()
			s, ask, id := clusterVictim(t, kind == "guarded")
			attackPort(t, s, ask, s.raft, map[string]stream{
				"silence":  {nil, nil},
				"junk":     {[]byte("\x16\x03\x01\x40\x00"), zeros()},
				"greeting": {[]byte("skerry-raft/1\n" + id + "\n"), zeros()},
			})
		})
		t.Run("gossip "+kind, func(t *testing.T) {
			t.Parallel()
			s, ask, id := clusterVictim(t, kind == "guarded")
			attackPort(t, s, ask, s.gossip, map[string]stream{
				"silence":   {nil, nil},
				"junk":      {zeros()[:1], zeros()},
				"encrypted": {labelled(id, binary.BigEndian.AppendUint32([]byte{10}, 20<<20)...), zeros()},
				"pool": {labelled(id, append(append([]byte{6, 0x83, 0xa5}, "Nodes\xce\x00\x10\x00\x00\xacUserStateLen\xce\x01\x40\x00\x00"...),
					"\xa4Join\xc2"...)...), zeros()},
				"user": {labelled(id, append([]byte{8, 0x81, 0xaa}, "UserMsgLen\xce\x01\x40\x00\x00"...)...), zeros()},
			})
			t.Run("packets", func(t *testing.T) {
				s.unmoved(t, ask, func() { throwPackets(t, s.gossip, id) })
			})
		})
	}
}

// stream is what a connection says: head once, piece again and again.
type stream struct{ head, piece []byte }

func zeros() []byte { return make([]byte, 256<<10) }

// labelled is a message of gossip with the label of a cluster.
func labelled(id string, message ...byte) []byte {
	label := "skerry/" + id
	return append(append([]byte{244, byte(len(label))}, label...), message...)
}

// attackPort attacks a port of s with one kind of stream after the other.
func attackPort(t *testing.T, s *server, ask func() error, addr string, streams map[string]stream) {
	t.Helper()
	for name, a := range streams {
		t.Run(name, func(t *testing.T) {
			s.unmoved(t, ask, func() {
				t.Logf("%d connections", throng(addr, 300, *thronged, a.head, a.piece))
			})
		})
	}
}

// throwPackets sends packets of gossip that are cut off: each kind, and long ones.
func throwPackets(t *testing.T, addr, id string) {
	t.Helper()
	conn, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	long := append(labelled(id, 9), make([]byte, 60<<10)...)
	for i := range 20_000 {
		b := labelled(id, byte(i%14), 0x83, 0xa5)
		if i%4 == 0 {
			b = long
		}
		_, _ = conn.Write(b) // a packet may be lost
	}
}
