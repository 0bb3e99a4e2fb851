package procs

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// asHolder in the environment makes this test binary a process that holds sockets: it listens,
// dials what it is told, tells its address, and ends with its standard input.
const asHolder = "PROCS_TEST_HOLDER"

func TestMain(m *testing.M) {
	if peer := os.Getenv(asHolder); peer != "" {
		hold(peer)
		return
	}
	goleak.VerifyTestMain(m)
}

func hold(peer string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ln.Close()
	if peer != "none" {
		c, err := net.Dial("tcp", peer)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer c.Close()
	}
	fmt.Println(ln.Addr())
	if peer == "none" {
		if c, err := ln.Accept(); err == nil {
			defer c.Close()
		}
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // the test is over
}

// holder starts such a process, and returns it and where it listens.
func holder(t *testing.T, peer string, env ...string) (int, netip.AddrPort) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), asHolder+"="+peer), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // it may wait for a connection
		_ = cmd.Wait()         // that is how it ended
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr, err := netip.ParseAddrPort(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, addr
}

// TestFindsProcesses: who listens, who is connected to whom, and which descriptors those are.
func TestFindsProcesses(t *testing.T) {
	t.Parallel()
	b, bAddr := holder(t, "none")
	a, aAddr := holder(t, bAddr.String())
	var table *Table
	testkit.Eventually(t, "the connection was accepted", func() bool {
		var err error
		if table, err = Read(); err != nil {
			t.Fatal(err)
		}
		return len(table.Between(b, a, nil)) > 0
	})
	if got := table.Listener(aAddr); got != a {
		t.Errorf("%v is process %d's, want %d", aAddr, got, a)
	}
	if got := table.Listener(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), aAddr.Port())); got != 0 {
		t.Errorf("the port of another host is process %d's, want none", got)
	}
	if got := table.Listener(netip.MustParseAddrPort("127.0.0.1:1")); got != 0 {
		t.Errorf("process %d listens at port 1", got)
	}
	if !table.ConnectedTo(a, []netip.AddrPort{bAddr}) || table.ConnectedTo(b, []netip.AddrPort{bAddr}) || table.ConnectedTo(a, []netip.AddrPort{aAddr}) {
		t.Error("a connection to b's address is a's, and no other")
	}
	if got := table.Between(a, b, nil); len(got) != 1 {
		t.Errorf("%d connections between them, want 1", len(got))
	}
	if got := table.Between(a, b, []uint16{bAddr.Port()}); len(got) != 0 {
		t.Errorf("%d connections between them at other ports, want none", len(got))
	}
}

// TestWildcard: what listens at every address listens at this host's.
func TestWildcard(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	table, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(ln.Addr().(*net.TCPAddr).Port))
	if got := table.Listener(at); got != os.Getpid() {
		t.Errorf("%v is process %d's, want this one's", at, got)
	}
}

// TestHandle: signals go to the process and no other, and a connection of its is ended from
// outside.
func TestHandle(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	pid, _ := holder(t, ln.Addr().String())
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	table, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	conns := table.Between(pid, os.Getpid(), nil)
	if len(conns) != 1 {
		t.Fatalf("%d connections, want 1", len(conns))
	}
	if err := h.MayTrace(); errors.Is(err, errTrace) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, other := range []Conn{{fd: conns[0].fd, inode: "1"}, {fd: 1 << 20, inode: conns[0].inode}} {
		if err := h.Shutdown(other); !errors.Is(err, net.ErrClosed) {
			t.Errorf("what is not the connection any more: %v", err)
		}
	}
	if err := h.Shutdown(conns[0]); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v, want the end of the connection", n, err)
	}
	if err := h.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "the process has ended", func() bool { // it is a zombie until the cleanup
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(text), ") Z ")
	})
	if _, err := Open(1 << 30); err == nil {
		t.Error("there is a process 2^30")
	}
}

// TestRanks: ranks of one replica are found by their environment, those of others are not,
// nor rank 0.
func TestRanks(t *testing.T) {
	t.Parallel()
	env := func(group, rank string) []string {
		return []string{"REPLICA_GROUP_ID=" + group, "SKERRY_JOB=" + t.Name(), "MASTER_ADDR=h", "MASTER_PORT=29", "WORLD_SIZE=3", "RANK=" + rank}
	}
	zero, at := holder(t, "none", env("0", "0")...)
	one, _ := holder(t, at.String(), env("0", "1")...)
	two, other := holder(t, at.String(), env("0", "2")...)
	holder(t, "none", env("0", "3")...)                                      // it is another job's: it does not speak to the manager
	holder(t, other.String(), env("0", "4")...)                              // nor does this one
	holder(t, at.String(), env("1", "5")...)                                 // another replica's
	holder(t, at.String(), append(env("0", "6"), "TORCHELASTIC_RUN_ID=")...) // what rank 0 has not is not the same
	holder(t, at.String(), env("0", "7")...)
	holder(t, at.String(), env("0", "7")...) // which of them is meant cannot be told
	table, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	got := table.Ranks(zero, at)
	if len(got) != 2 || got[1] != one || got[2] != two {
		t.Errorf("ranks %v, want 1: %d, 2: %d", got, one, two)
	}
	if got := table.Ranks(1<<30, at); len(got) != 0 {
		t.Errorf("ranks %v of no process", got)
	}
	if p := parent(one); p != os.Getpid() {
		t.Errorf("its parent is %d, want this process, %d", p, os.Getpid())
	}
}

// TestParse: the kernel's table, and what is none.
func TestParse(t *testing.T) {
	t.Parallel()
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	got, err := parseSockets(strings.NewReader(head +
		"   0: 0100007F:7346 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n" +
		"   1: 0000000000000000FFFF00000100007F:7346 0000000000000000FFFF00000A0000C0:D2F0 01 00000000:00000000 00:00000000 00000000 0 0 12 1 0\n" +
		"   2: B80D0120000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 13 1 0\n"))
	want := []socket{
		{netip.MustParseAddrPort("127.0.0.1:29510"), netip.MustParseAddrPort("0.0.0.0:0"), listening, "4711"},
		{netip.MustParseAddrPort("127.0.0.1:29510"), netip.MustParseAddrPort("192.0.0.10:54000"), established, "12"},
		{netip.MustParseAddrPort("[2001:db8::1]:80"), netip.MustParseAddrPort("[::]:0"), listening, "13"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, line := range []string{"0: x", "0: zz:1 0:0 0A 0 0 0 0 0 1", "0: 00:1 0:0 0A 0 0 0 0 0 1", "0: 0100007F:1 00000000:0 XX 0 0 0 0 0 1"} {
		if got, err := parseSockets(strings.NewReader(head + line + "\n")); err == nil {
			t.Errorf("%q gives %v", line, got)
		}
	}
}
