package interop

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// The proxy itself dies between two steps, and is started again on the socket that
// was passed to it, as systemd does: torchft's default of no retries bears it. A
// call that waits there while it dies is lost, and wants torchft's retries: a try
// each half second.
func TestTorchftProxyKilled(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		l := run(t, freeAddr(t), "--min-replicas", "2")
		l.healthy()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		socket, err := listener.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		addr := listener.Addr().String()
		t.Cleanup(func() {
			listener.Close()
			socket.Close()
		})
		proxy := launch(&process{t: t, addr: addr, flags: []string{"skerry", "torchft-proxy", "--lighthouse", l.addr}, pass: socket})

		s := &steady{t: t, p: p, names: managers(t, p, "http://"+addr, 2, 0), steps: []int{1, 1}}
		for range 3 {
			s.step()
			proxy.Kill()
			proxy.start()
			l.hears(t, "replica_0:1", "replica_1:1") // a call on a connection that is not known to be dead is lost too
		}
		s.step()
		if s.tried > 0 {
			t.Errorf("%d steps were tried in vain though no call waited when the proxy died", s.tried)
		}

		const tries = 20 // the quorum timeout of 10 s, times 2
		for i, name := range s.names {
			p.do("drop", args{"name": name})
			p.do("shutdown", args{"name": name + "/server"})
			server := text(t, p.do("manager_server", args{
				"name": name + "/server", "replica_id": fmt.Sprintf("%s:2", name), "lighthouse": "http://" + addr,
				"store": fmt.Sprintf("store%d:1", i), "retries": tries}))
			p.do("manager", args{"name": name, "addr": server})
		}
		s.step()
		before := s.tried
		s.between = func() {
			l.waits(t, "replica_0:2")
			proxy.Kill()
			proxy.start()
		}
		s.step()
		if s.tried > before {
			t.Errorf("%d steps were tried in vain though torchft tries again", s.tried-before)
		}
	})
}

// sameNeighbours are loopback addresses of one port, whose next two ports are free
// too: what a name with several addresses stands for.
func sameNeighbours(t *testing.T, n int) []string {
	t.Helper()
next:
	for range 100 {
		_, port, err := net.SplitHostPort(neighbours(t))
		if err != nil {
			t.Fatal(err)
		}
		first, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for i := range n {
			host := fmt.Sprintf("127.0.0.%d", i+1)
			for p := range 3 {
				l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(first+p)))
				if err != nil {
					continue next
				}
				l.Close()
			}
			all = append(all, net.JoinHostPort(host, port))
		}
		return all
	}
	t.Fatal("no port that is free on several addresses")
	return nil
}

// A name with the addresses of all servers, and torchft's retries: the server that
// a call waits at is killed, and then the next one.
func TestTorchftByName(t *testing.T) {
	eachModule(t, func(t *testing.T, module string) {
		const name = "lighthouse.skerry.test"
		addrs := sameNeighbours(t, 3)
		var hosts strings.Builder
		hosts.WriteString("127.0.0.1 localhost\n")
		for _, addr := range addrs {
			host, _, _ := net.SplitHostPort(addr) // made above
			fmt.Fprintf(&hosts, "%s %s\n", host, name)
		}
		file := filepath.Join(t.TempDir(), "hosts")
		if err := os.WriteFile(file, []byte(hosts.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		by := []string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, file}
		if out, err := exec.Command(by[0], append(by[1:], "true")...).CombinedOutput(); err != nil {
			t.Skipf("no hosts file of its own for the process: %v: %s", err, out)
		}
		p := startBy(t, module, by...)
		next := 0
		servers := founders(t, func() string {
			next++
			return addrs[next-1]
		})
		_, port, _ := net.SplitHostPort(addrs[0]) // made above
		s := &steady{t: t, p: p, names: managers(t, p, "http://"+net.JoinHostPort(name, port), 2, 20), steps: []int{1, 1}}
		s.step()
		for _, victim := range servers[:2] {
			s.between = func() {
				leader(t, servers).waits(t, "replica_0:1")
				victim.Kill()
			}
			s.step()
			victim.start()
			victim.healthy()
			s.step()
		}
		t.Logf("%d steps, %d tried in vain", s.steps[0], s.tried)
		if s.tried > 0 {
			t.Errorf("%d steps were tried in vain though torchft tries again at the next address", s.tried)
		}
	})
}

// The wheel's Manager finds in the shim what it gives and calls.
func TestShimFitsTheWheel(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		if misfits := string(p.do("shim_misfits", nil)); misfits != "[]" {
			t.Errorf("the shim lacks %s", misfits)
		}
	})
}

// starter starts a manager by the shim, forks a child that keeps its pipes, says
// both addresses, and waits.
const starter = `
import os, sys, time
from datetime import timedelta
sys.path.insert(0, "../../manager/torchft")
import skerry_torchft
m = skerry_torchft.ManagerServer("r:1", sys.argv[1], "localhost", "127.0.0.1:0", "store:1", 1, timedelta(milliseconds=100), timedelta(seconds=20), 0)
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
print(m.address(), m._child.pid, child, flush=True)
sys.stdin.read()
m.shutdown()
`

// The manager ends with its trainer, killed though it be, and though a forked child
// of the trainer holds its standard input open; and the trainer ends with a manager
// that an operator kills.
func TestShimEndsTogether(t *testing.T) {
	if os.Getenv("SKERRY_TORCHFT") == "" {
		t.Skip("SKERRY_TORCHFT names no torchft module: run make interop")
	}
	l := run(t, freeAddr(t), "--min-replicas", "1")
	l.healthy()
	for _, end := range []string{"trainer killed", "trainer ends", "manager killed"} {
		trainer, in, out := testkit.Talk(t, end, []string{"SKERRY=" + builds.Path(t, "cmd/skerry")}, interpreter(), "-c", starter, l.addr)
		var address string
		var manager, child int
		if _, err := fmt.Fscan(bufio.NewReader(out), &address, &manager, &child); err != nil {
			t.Fatalf("start the manager: %v", err)
		}
		switch end {
		case "trainer killed":
			trainer.Signal(syscall.SIGKILL)
		case "trainer ends":
			_ = in.Close() // it ends with it
		case "manager killed":
			_ = syscall.Kill(manager, syscall.SIGKILL) // Err tells
		}
		began := time.Now()
		for syscall.Kill(manager, 0) == nil && time.Since(began) < settleLimit {
			time.Sleep(10 * time.Millisecond)
		}
		took := time.Since(began)
		_ = syscall.Kill(child, syscall.SIGKILL) // its log ends with all who hold it
		err := trainer.Err()
		if took > 5*time.Second {
			t.Errorf("%s: the manager lived on for %v", end, took)
		}
		if want := end == "trainer ends"; (err == nil) != want {
			t.Errorf("%s: the trainer ended with %v", end, err)
		}
		t.Logf("%s: the manager was gone after %v, the trainer's status: %v", end, took.Round(time.Millisecond), err)
	}
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	if jobs := l.view(client).Jobs; len(jobs) > 0 && len(jobs[0].Replicas) > 0 {
		t.Errorf("the manager beat for a replica of which no rank had come: %+v", jobs)
	}
}
