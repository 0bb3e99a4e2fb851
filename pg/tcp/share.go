package tcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// Transport says what edges between processes of one host are made of.
type Transport uint8

const (
	// TransportAuto takes shared memory where both ends can, else the socket.
	TransportAuto Transport = iota
	// TransportTCP takes sockets only.
	TransportTCP
	// TransportShared takes shared memory, and fails where that cannot be had.
	TransportShared
	transportEnd
)

var transportNames = [transportEnd]string{"auto", "tcp", "shared"}

// String is "auto", "tcp" or "shared".
func (t Transport) String() string {
	if t >= transportEnd {
		return fmt.Sprintf("transport(%d)", uint8(t))
	}
	return transportNames[t]
}

const (
	shareMagic   = "SKERRYM\x03"
	shareBytes   = len(shareMagic) + frame.NonceBytes
	shareRights  = 2 // a segment and a bell
	maxShareName = 64
	laneName     = "skerry-lane" // of a segment, in /proc/PID/maps
	bootIDFile   = "/proc/sys/kernel/random/boot_id"
	maxSharing   = 256 // handshakes under way
)

// errNoSharing is why an edge that must be shared cannot be.
var errNoSharing = errors.New("tcp: no shared memory with the peer")

// bootID names the running kernel; empty where it does not say.
func bootID() string {
	b, err := os.ReadFile(bootIDFile)
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// sharing tells whether this side takes part.
func (o *Options) sharing() bool {
	return o.Transport == TransportShared || o.Transport == TransportAuto && o.Fault == nil
}

// openSharingLocked opens the Unix socket and the bell, and starts what they need.
// Without them edges are sockets.
func (b *Backend) openSharingLocked() error {
	if !b.opt.sharing() {
		return nil
	}
	e, err := newBell()
	if err != nil {
		return err
	}
	nonce := newNonce()
	name := sharePrefix + hex.EncodeToString(nonce[:])
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@" + name, Net: "unix"})
	if err != nil {
		return errors.Join(fmt.Errorf("listen for sharing: %w", err), e.close())
	}
	inDir, err := b.listenShareDir(name)
	if err != nil {
		return errors.Join(err, ln.Close(), e.close())
	}
	b.bell, b.mu.unix, b.mu.place = e, []*net.UnixListener{ln}, bootID()+"/"+name
	if inDir != nil {
		b.mu.unix = append(b.mu.unix, inDir)
		b.wg.Go(func() { b.shareLoop(inDir) })
	}
	b.poller, b.deathWatch = newPoller(b, e, &b.pending, &b.lanesGen, b.opt.hook), newDeathWatch(b)
	b.wg.Go(func() { b.shareLoop(ln) })
	b.wg.Go(b.poller.run)
	b.wg.Go(b.deathWatch.listen)
	return nil
}

// place is what a rank publishes about where it runs; empty if it shares nothing.
func (b *Backend) place() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.place
}

// neighbour is the name of the Unix socket of a peer that published place, if
// it runs on this host.
func (b *Backend) neighbour(place string) (string, bool) {
	theirBoot, name, ok := strings.Cut(place, "/")
	ourBoot, _, _ := strings.Cut(b.place(), "/")
	return name, ok && ourBoot != "" && theirBoot == ourBoot && validShareName(name)
}

// share gives a link that we dialled a lane, if the peer is on this host.
func (b *Backend) share(ctx context.Context, l *link, place string) error {
	name, here := b.neighbour(place)
	if here {
		n, err := b.dialLane(ctx, l, name)
		if err == nil {
			l.lane = n
			return nil
		}
		if b.opt.Transport == TransportShared {
			return fmt.Errorf("%w: %w", errNoSharing, err)
		}
		if ctx.Err() == nil {
			b.sayUnshared(err)
		}
	}
	if b.opt.Transport == TransportShared {
		return fmt.Errorf("%w: it published %q, we %q", errNoSharing, place, b.place())
	}
	return nil
}

// sayUnshared says once why edges within this host are sockets.
func (b *Backend) sayUnshared(err error) {
	b.saidUnshared.Do(func() {
		b.opt.Logger.Warn().Err(err).Msg("no shared memory with a peer of this host: sockets instead; containers need " +
			"a folder in common (Options.ShareDir, SKERRY_SHARE_DIR); else a limit of memory or of files is in the way")
	})
}

func (b *Backend) dialLane(ctx context.Context, l *link, name string) (*lane, error) {
	conn, err := b.dialShare(ctx, name)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(past) }) // ends the read below
	defer stop()
	out, err := b.newSegment()
	if err != nil {
		return nil, err
	}
	n, err := b.tradeRights(conn, l.theirs, out)
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return n, nil
}

// newSegment makes our half of a lane. The more edges there are, the less each
// gets: all of them together should stay in the processor's cache, and the first
// touch of each page costs as much as several copies.
func (b *Backend) newSegment() (*memfd.Segment, error) {
	size := b.opt.RingBytes
	b.mu.Lock()
	if g := b.mu.group; size == 0 && g != nil && g.world > manyRanks {
		size = crowdedRingBytes
	}
	b.mu.Unlock()
	return memfd.Create(laneName, controlBytes+frame.Classes*cmp.Or(size, DefaultRingBytes))
}

const (
	manyRanks        = 4
	crowdedRingBytes = minRingBytes + 16<<10
)

// passRights sends our segment and bell, under the nonce of an edge.
func (b *Backend) passRights(c *net.UnixConn, nonce frame.Nonce, out *memfd.Segment) error {
	message := append([]byte(shareMagic), nonce[:]...)
	return withFDs(out.File(), b.bell.pass, func(segment, bell uintptr) error {
		_, _, err := c.WriteMsgUnix(message, unix.UnixRights(int(segment), int(bell)), nil)
		return err
	})
}

// withFDs runs f with the descriptors of two files, which stay open meanwhile.
func withFDs(x, y *os.File, f func(x, y uintptr) error) error {
	rawX, err := x.SyscallConn()
	if err != nil {
		return err
	}
	rawY, err := y.SyscallConn()
	if err != nil {
		return err
	}
	var inner, failed error
	err = rawX.Control(func(fdX uintptr) {
		inner = rawY.Control(func(fdY uintptr) { failed = f(fdX, fdY) })
	})
	return errors.Join(err, inner, failed)
}

// tradeRights passes ours to the peer that has an edge with this nonce, and makes
// a lane of what it passes and of out.
func (b *Backend) tradeRights(c *net.UnixConn, nonce frame.Nonce, out *memfd.Segment) (*lane, error) {
	if err := b.passRights(c, nonce, out); err != nil {
		return nil, err
	}
	_, files, err := readRights(c)
	if err != nil {
		return nil, err
	}
	return b.laneFrom(files, out)
}

// readRights reads what passRights sent: shareRights files.
func readRights(c *net.UnixConn) (nonce frame.Nonce, files []*os.File, err error) {
	var message [shareBytes + 1]byte
	oob := make([]byte, unix.CmsgSpace(4*shareRights))
	got, oobGot, flags, _, err := c.ReadMsgUnix(message[:], oob)
	if err != nil {
		return nonce, nil, err
	}
	if files, err = parseRights(oob[:oobGot]); err != nil {
		return nonce, nil, err
	}
	if got != shareBytes || string(message[:len(shareMagic)]) != shareMagic ||
		flags&unix.MSG_CTRUNC != 0 || len(files) != shareRights {
		closeFiles(files)
		return nonce, nil, fmt.Errorf("%w: sharing handshake of %d bytes and %d descriptors, want %d and %d",
			ErrCorrupt, got, len(files), shareBytes, shareRights)
	}
	copy(nonce[:], message[len(shareMagic):])
	return nonce, files, nil
}

// laneFrom makes a lane of what a peer passed, and of out. It closes the files if it
// fails.
func (b *Backend) laneFrom(files []*os.File, out *memfd.Segment) (*lane, error) {
	segment := files[0]
	bell, err := ownBell(files[1])
	if err != nil {
		return nil, errors.Join(err, segment.Close())
	}
	in, err := memfd.FromFile(segment)
	if err != nil {
		return nil, errors.Join(err, segment.Close(), bell.Close())
	}
	n, err := newLane(out, in, bell, b.opt.hook)
	if err != nil {
		return nil, errors.Join(err, in.Close(), bell.Close())
	}
	return n, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close() // nothing was written
	}
}

// parseRights takes the descriptors out of a control message. All that came are
// returned or closed.
func parseRights(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: control message: %w", ErrCorrupt, err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // not descriptors; the count below tells
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "shared"))
		}
	}
	return files, nil
}

// shareLoop answers peers of this host.
func (b *Backend) shareLoop(ln *net.UnixListener) {
	slots := make(chan struct{}, maxSharing)
	acceptAll(b, ln.AcceptUnix, "sharing not accepted", func(c *net.UnixConn) {
		select {
		case slots <- struct{}{}:
		case <-b.closing:
			c.Close()
			return
		}
		b.wg.Go(func() {
			defer func() { <-slots }()
			switch err := b.answer(c); {
			case errors.Is(err, errNoSharing) && !errors.Is(err, ErrCorrupt):
				b.sayUnshared(err)
			case err != nil: // a stranger, or one that is late or has gone
				b.opt.Logger.Debug().Err(err).Msg("sharing refused")
			}
		})
	})
}

// answer takes a peer's segment and passes it ours.
func (b *Backend) answer(c *net.UnixConn) error {
	b.mu.Lock()
	b.mu.sharing[c] = struct{}{} // Close closes them
	closed := b.mu.closed
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.mu.sharing, c)
		b.mu.Unlock()
		c.Close() // a second time, if b is being closed
	}()
	if closed {
		return pg.ErrClosed
	}
	if err := c.SetDeadline(time.Now().Add(b.opt.DialTimeout)); err != nil {
		return err
	}
	nonce, files, err := readRights(c)
	if err != nil {
		return err
	}
	if !b.awaitsLane(nonce) { // before anything is mapped
		closeFiles(files)
		return fmt.Errorf("%w: no edge has this nonce", ErrCorrupt)
	}
	out, err := b.newSegment()
	if err != nil {
		closeFiles(files)
		return fmt.Errorf("%w: %w", errNoSharing, err)
	}
	n, err := b.laneFrom(files, out)
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %w", errNoSharing, err), out.Close())
	}
	l := b.attachLane(nonce, n)
	if l == nil {
		n.unref()
		return fmt.Errorf("%w: no edge has this nonce", ErrCorrupt)
	}
	b.lanesChanged()
	if err := b.passRights(c, nonce, out); err != nil {
		b.detachLane(l, n)
		return err
	}
	return nil
}

// awaitsLane tells whether a peer may bring a lane for the link with that nonce,
// which only that peer knows.
func (b *Backend) awaitsLane(nonce frame.Nonce) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.awaitsLaneLocked(nonce) != nil
}

func (b *Backend) awaitsLaneLocked(nonce frame.Nonce) *link {
	for l := range b.mu.links {
		if l.mine == nonce && !l.dialed && l.lane == nil && l.hello == nil && !b.mu.closed {
			return l
		}
	}
	return nil
}

// attachLane gives n to the link whose nonce the peer knows, before its Hello.
func (b *Backend) attachLane(nonce frame.Nonce, n *lane) *link {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.awaitsLaneLocked(nonce)
	if l != nil {
		l.lane = n
	}
	return l
}

// detachLane takes n away from l, which then is a socket alone.
func (b *Backend) detachLane(l *link, n *lane) {
	var do todo
	b.mu.Lock()
	if l.lane == n {
		l.dropLaneLocked(&do)
	}
	b.unlock(&do)
}

// dropLaneLocked ends l's lane, if it has one.
func (l *link) dropLaneLocked(do *todo) {
	if n := l.lane; n != nil {
		l.lane, n.on = nil, false
		do.lanes = append(do.lanes, n)
	}
}

// canShareLocked refuses a peer without shared memory, if we take nothing else.
func (l *link) canShareLocked() error {
	if l.b.opt.Transport == TransportShared && (l.lane == nil || l.hello.Lane == 0) {
		return fmt.Errorf("%w: %s", errNoSharing, l.hello.ReplicaID)
	}
	return nil
}

// agreeLaneLocked looks at what the peer's Hello says of the lane.
func (l *link) agreeLaneLocked(do *todo) {
	if l.hello.Lane == 0 {
		l.dropLaneLocked(do)
	}
	if n := l.lane; n != nil {
		n.on = true
		for class := range n.channels {
			n.channels[class].start, n.channels[class].fresh = l.hello.Rings[class], true
		}
	}
}
