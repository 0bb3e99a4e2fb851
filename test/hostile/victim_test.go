package hostile

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
)

// victimEnv makes this binary a victim: its value is the guard's files.
const victimEnv = "SKERRY_HOSTILE_VICTIM"

const (
	quorumToken = "a token of sixteen bytes and more"
	stateSeed   = 7
	stateName   = checkpoint.Version("7-1-c")
)

// places are where a victim listens.
type places struct{ Store, Heal, Data string }

// serveVictim has what a replica has beside its manager: a store, a donor and a
// data plane, which configures the quorum that each line of the input names.
func serveVictim(options string) error {
	files := strings.Split(options, ",")
	if len(files) != 4 {
		return fmt.Errorf("%s = %q, want the names of four files", victimEnv, options)
	}
	o := guard.Options{TokenFile: files[0], TLSCA: files[1], TLSCert: files[2], TLSKey: files[3]}
	g, err := guard.Open(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	conf := certs.Of(g, o, "job")
	kept, err := store.NewServer(store.ServerConfig{Token: []byte(quorumToken), TLS: conf})
	if err != nil {
		return err
	}
	wg.Go(func() { _ = kept.Run(ctx) }) // the test sees what does not work
	donor, err := checkpoint.NewHTTP(healConfig(g))
	if err != nil {
		return err
	}
	wg.Go(func() { _ = donor.Run(ctx) }) // likewise
	if err := donor.Serve(stateName, ckpttest.Saves(ckpttest.NewState(stateSeed))); err != nil {
		return err
	}
	backend := dataPlane()
	defer backend.Close()
	at, told := places{Store: kept.Addr(), Heal: donor.Metadata()}, json.NewEncoder(os.Stdout)
	if err := told.Encode(at); err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		quorum, err := strconv.ParseInt(in.Text(), 10, 64)
		if err == nil {
			err = configure(ctx, backend, conf, at.Store, quorum, 1)
		}
		if err != nil {
			return err
		}
		at.Data = backend.Addr().String()
		if err := told.Encode(at); err != nil {
			return err
		}
	}
	return in.Err()
}

func healConfig(g *guard.Guard) checkpoint.HTTPConfig {
	c := checkpoint.HTTPConfig{Token: []byte(quorumToken), Guarded: true, ChunkBytes: 64 << 10}
	if g.Serves() {
		c.TLS = &checkpoint.TLS{
			Server: g.ServerFor("job", guard.Replica),
			Client: func(host string) *tls.Config { return g.TLS.Client(host, guard.Party{Role: guard.Replica}) },
		}
	}
	return c
}

// dataPlane has the patience of the test: strangers take processors, and both sides live.
func dataPlane() *tcp.Backend {
	return tcp.New(tcp.Options{Transport: tcp.TransportTCP, BeatTimeout: patience, DialTimeout: patience, ReachTimeout: patience})
}

// configure makes b a rank of two in a quorum.
func configure(ctx context.Context, b *tcp.Backend, conf *store.TLS, at string, quorum int64, rank int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.Configure(ctx, pg.Config{
		StoreAddress: fmt.Sprintf("%s/q/%d", at, quorum), Rank: rank, Cluster: "c", QuorumID: quorum,
		ReplicaIDs: []string{"member", "victim"}, GroupWorldSize: 1, Token: []byte(quorumToken), TLS: conf, Timeout: patience, ReachTimeout: patience,
	})
}

// victim is a process with a store, a donor and a data plane, and one that trains
// with it.
type victim struct {
	*testkit.Program
	places

	guard  *guard.Guard
	tls    *store.TLS // of store and data plane; nil: they are plain
	folder string     // for its temporary files
	in     io.Writer
	out    *json.Decoder
	quorum int64
}

func startVictim(t *testing.T, o guard.Options) *victim {
	t.Helper()
	g := guardtest.Open(t, o)
	options := strings.Join([]string{o.TokenFile, o.TLSCA, o.TLSCert, o.TLSKey}, ",")
	v := &victim{guard: g, tls: certs.Of(g, o, "job"), folder: t.TempDir()}
	p, in, out := testkit.Talk(t, "the victim", []string{victimEnv + "=" + options, "TMPDIR=" + v.folder}, os.Args[0])
	v.Program, v.in, v.out = p, in, json.NewDecoder(out)
	if err := v.out.Decode(&v.places); err != nil {
		t.Fatalf("the victim: %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := p.Err(); err != nil {
			t.Errorf("the victim: %v", err)
		}
	})
	return v
}

// form has the victim and a new member make a group.
func (v *victim) form(ctx context.Context) error {
	v.quorum++
	if _, err := fmt.Fprintln(v.in, v.quorum); err != nil {
		return err
	}
	b := dataPlane()
	err := configure(ctx, b, v.tls, v.Store, v.quorum, 0)
	if err == nil {
		err = v.out.Decode(&v.places)
	}
	return errors.Join(err, b.Close())
}

// heal fetches the victim's state.
func (v *victim) heal(t *testing.T) error {
	target, err := checkpoint.NewHTTP(healConfig(v.guard))
	if err != nil {
		return err
	}
	defer target.Close()
	want := ckpttest.NewState(stateSeed)
	into := ckpttest.Blank(want)
	if _, err := ckpttest.Fetch(t.Context(), target, stateName, []string{v.Heal}, into); err != nil {
		return err
	}
	ckpttest.Equal(t, into, want)
	return nil
}

// rendezvous writes to the victim's store and reads.
func (v *victim) rendezvous(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := store.Dial(ctx, v.Store, store.ClientConfig{Token: []byte(quorumToken), TLS: v.tls})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Set(ctx, "k", []byte("v")); err != nil {
		return err
	}
	_, err = c.Get(ctx, "k")
	return err
}

// train does once what a member needs the victim for.
func (v *victim) train(t *testing.T) error {
	if err := v.rendezvous(t.Context()); err != nil {
		return fmt.Errorf("rendezvous: %w", err)
	}
	if err := v.form(t.Context()); err != nil {
		return fmt.Errorf("form quorum %d: %w", v.quorum, err)
	}
	if err := v.heal(t); err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	return nil
}

// memory is the victim's resident set, in bytes.
func (v *victim) memory() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS")
}

// files are those that the victim has written.
func (v *victim) files() ([]string, error) { return filepath.Glob(filepath.Join(v.folder, "*")) }

// stranger dials as another host of this machine than the member.
func stranger(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err == nil {
		err = c.(*net.TCPConn).SetLinger(0) // thousands of them leave nothing behind
	}
	return c, err
}

// dialHeal is a connection to the donor, under TLS if it speaks that, without a
// certificate.
func (v *victim) dialHeal(ctx context.Context) (net.Conn, error) {
	scheme, addr, _ := strings.Cut(v.Heal, "://")
	c, err := stranger(ctx, addr)
	if err != nil || scheme == "http" {
		return c, err
	}
	return nobody(c), nil
}

// nobody speaks TLS over c, and shows no certificate.
func nobody(c net.Conn) net.Conn {
	return tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}) //nolint:gosec // it attacks
}

// underTLS is a way to a port under TLS, without a certificate.
func underTLS(dial func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return nobody(c), nil
	}
}

func (v *victim) dialStore(ctx context.Context) (net.Conn, error) { return stranger(ctx, v.Store) }
func (v *victim) dialData(ctx context.Context) (net.Conn, error)  { return stranger(ctx, v.Data) }
