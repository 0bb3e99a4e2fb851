package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/cmd/internal/lighthousecmd"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

const mistakesGolden = "testdata/mistakes.golden"

// mistakes are command lines that a user may type. $NAMES are filled in by the test.
var mistakes = []string{
	// Commands and arguments that there are not.
	"skerry statsu",
	"skerry wholly",
	"skerry help demoo",
	"skerry job confg digits",
	"skerry lighthouse membrs",
	"skerry completion bsh",
	"skerry status now",
	"skerry jobs all",
	"skerry version 2",
	"lighthouse serve",
	"lighthouse membres",
	// Arguments that are missing, or too many.
	"skerry drain",
	"skerry run",
	"skerry run --replicas 2",
	"skerry evict a b",
	"skerry scale vision",
	"skerry scale vision many",
	"skerry scale vision 3 --lighthouse head",
	"skerry scale vision 3 --lighthouse $LIGHTHOUSE",
	"skerry job config",
	"skerry job delete",
	"skerry trace",
	"skerry why a b",
	"lighthouse ca",
	"lighthouse ca --role replica $DIR",
	"lighthouse remove",
	"lighthouse members x",
	// Flags that there are not, or that are written in another way.
	"skerry status --lighthose $LIGHTHOUSE",
	"skerry demo --repicas 4",
	"skerry demo -replicas 4",
	"skerry demo --replicas",
	"skerry status --wholly",
	"skerry status --=x",
	"lighthouse --bindd :29510",
	"lighthouse --min-replica 2",
	// Values of the wrong kind.
	"skerry demo --replicas abc",
	"skerry demo --replicas 1.5",
	"skerry demo --step-time 50",
	"skerry demo --stay=maybe",
	"skerry status --timeout 5",
	"skerry status -o yaml",
	"skerry status --watch -o json",
	"skerry status --watch --every 1ms",
	"skerry status --watch --lighthouse nonsense",
	"skerry chaos --every 30",
	"skerry chaos --seed -1",
	"skerry sim --seeds -1",
	"skerry bench allreduce --n two",
	"skerry job config digits --grace 50",
	"skerry job config digits --min-replicas -1",
	"skerry job config digits --evict-stuck=yes",
	"lighthouse --min-replicas two",
	"lighthouse --join-timeout 3",
	"lighthouse --log-level loud",
	"lighthouse --raft-timing quick",
	// Values out of bounds, and flags that do not fit each other.
	"skerry events --since 5",
	"skerry events --since -1 --job digits",
	"skerry events --last -1",
	"skerry events --since abc",
	"skerry history --last -1",
	"skerry demo --replicas 0",
	"skerry run --replicas 0 true",
	"skerry run --replicas 2 --min-replicas 3 true",
	"skerry run --nnodes 1:4 true",
	"skerry run --tee 3 train.py",
	"skerry run --grace 0 true",
	"skerry run --refill-steps 0 true",
	"skerry run --nnodes 2 true",
	"skerry run --rdzv_backend c10d true",
	"skerry run --max_restart 3 true",
	"skerry run no-such-program",
	"skerry demo --replicas 1",
	"skerry demo --steps 0 --replicas 65",
	"skerry demo --replicas 4 --min-replicas 9",
	"skerry demo --lighthouses 2",
	"skerry demo --backend nccl",
	"skerry demo --trainer ruby",
	"skerry demo --log-dir $DIR/none",
	"skerry demo --listen nonsense",
	"skerry chaos --faults kill,flood",
	"skerry chaos --every 1ms",
	"skerry chaos --every 1m --duration 30s",
	"skerry chaos --hold 1h",
	"skerry chaos --stall-after 0s",
	"skerry chaos --faults disk",
	"skerry chaos --faults disk --disk-path $FILE",
	"skerry chaos --faults kill --disk-path $DIR",
	"skerry chaos --faults disk --disk-path / --disk-mib -1",
	"skerry sim --seeds 0",
	"skerry sim --mutant none",
	"skerry sim --cause none",
	"skerry bench nothing",
	"skerry bench allreduce --samples -1",
	"skerry status --timeout 0s",
	"skerry job config digits --lighthouse $LIGHTHOUSE --grace 1ns",
	"skerry job config digits --lighthouse $LIGHTHOUSE --min-replicas 3 --max-replicas 2",
	"skerry job config digits --lighthouse $LIGHTHOUSE --suspect-after 1h",
	"lighthouse --min-replicas 0",
	"lighthouse --min_replicas -3",
	"lighthouse --min-replicas 5 --max-replicas 2",
	"lighthouse --join-timeout -1s",
	"lighthouse --join_timeout_ms 0",
	"lighthouse --heartbeat-timeout 1s --suspect-after 2s",
	"lighthouse --evict-stuck --stuck-after 0",
	"lighthouse --max-conns -1",
	"lighthouse ca --role replica --life 50s $DIR/certs name host",
	// Addresses.
	"skerry status --lighthouse nonsense",
	"skerry status --lighthouse ftp://host:1",
	"skerry status --lighthouse host:port",
	"skerry store --listen nonsense",
	"skerry store --listen :0",
	"skerry torchft-proxy --lighthouse 127.0.0.1:1 --bind nonsense",
	"skerry torchft-proxy --lighthouse 127.0.0.1:1 --bind :0",
	"skerry torchft-proxy",
	"skerry torchft-manager",
	"skerry torchft-manager --replica-id r:1 --store s:1 --lighthouse nonsense",
	"skerry torchft-manager --replica-id r:1 --store s:1 --lighthouse 127.0.0.1:1 --group-world-size -1",
	"lighthouse --bind nonsense",
	"lighthouse --bind :0",
	"lighthouse --bind 127.0.0.1:99999",
	"lighthouse --bind $LIGHTHOUSE",
	"lighthouse --advertise head",
	"lighthouse --advertise head.example:29510",
	// One of several servers.
	"lighthouse --bootstrap-expect 2",
	"lighthouse --bootstrap-expect 3",
	"lighthouse --join a --data-dir $DIR/d",
	"lighthouse --gossip-key-file $DIR/none",
	"lighthouse recover",
	"lighthouse recover --data-dir $DIR",
	"lighthouse recover --data-dir $DIR --majority-is-lost",
	"lighthouse members --lighthouse $LIGHTHOUSE",
	"lighthouse transfer-leader other --lighthouse $LIGHTHOUSE",
	"lighthouse remove other --lighthouse $LIGHTHOUSE",
	// Files.
	"lighthouse --bind 127.0.0.1:0 --data-dir $FILE",
	"skerry trace $DIR/none.json",
	"skerry trace $FILE",
	// Certificates and tokens.
	"lighthouse --tls-cert $CERT",
	"lighthouse --tls-ca $DIR/none",
	"lighthouse --token-file $DIR/none",
	"lighthouse ca $DIR/certs name host",
	"lighthouse ca --role server $DIR/certs name host",
	"lighthouse ca --role replica $DIR/certs ../name host",
	"lighthouse ca --role replica $DIR/certs name",
	"lighthouse ca --role lighthouse --job vision $DIR/certs name host",
	"skerry token --job vision",
	"skerry token --job a/b --token-file $TOKEN",
	"skerry status --tls-ca $DIR/none",
	"skerry status --tls-cert $CERT",
	"skerry status --token-file $FILE --lighthouse $LIGHTHOUSE",
	"skerry status --lighthouse $TLS",
	"skerry jobs --lighthouse $TLS",
	"skerry jobs --lighthouse $LIGHTHOUSE --tls-ca $CA --tls-cert $CERT --tls-key $KEY",
	"skerry status --lighthouse $LIGHTHOUSE --tls-ca $CA --tls-cert $CERT --tls-key $KEY",
	"skerry drain a --job digits --lighthouse $GUARDED",
	"skerry job delete digits --lighthouse $GUARDED",
	"skerry chaos --job digits --lighthouse $GUARDED",
	// What is not there, or does not answer.
	"skerry status --lighthouse 127.0.0.1:1",
	"skerry status --lighthouse 127.0.0.1:1,127.0.0.1:2",
	"skerry jobs --lighthouse 127.0.0.1:1",
	"skerry job config digits --lighthouse 127.0.0.1:1",
	"skerry kill a --lighthouse 127.0.0.1:1",
	"skerry members --lighthouse 127.0.0.1:1",
	"skerry events --lighthouse 127.0.0.1:1",
	"skerry events --follow --lighthouse 127.0.0.1:1",
	"skerry history --lighthouse 127.0.0.1:1",
	"skerry chaos --lighthouse 127.0.0.1:1",
	"skerry chaos --job digit --lighthouse $LIGHTHOUSE",
	"skerry chaos --job digits --lighthouse $LIGHTHOUSE",
	"skerry drain b --job digits --lighthouse $LIGHTHOUSE",
	"skerry drain a --lighthouse $LIGHTHOUSE", // of job default
	"skerry kill a --job digits --lighthouse $LIGHTHOUSE",
	"skerry why b --lighthouse $LIGHTHOUSE",
	"skerry why --job digit --lighthouse $LIGHTHOUSE",
	"skerry job config digit --lighthouse $LIGHTHOUSE",
	"skerry job delete digit --lighthouse $LIGHTHOUSE",
	"skerry job delete digits --lighthouse $LIGHTHOUSE",
}

// TestMistakes types what users get wrong, against real lighthouses, and holds what they
// are told, and the exit status, against the golden file: -update writes it anew. Each
// answer is one line of ours that names the value, what is wanted, and what to do.
func TestMistakes(t *testing.T) {
	for _, name := range []string{"SKERRY_LIGHTHOUSE", guard.EnvToken, guard.EnvTokenFile, guard.EnvTLSCA, guard.EnvTLSCert, guard.EnvTLSKey, "SKERRY_OPEN"} {
		t.Setenv(name, "")
	}
	values := mistakeWorld(t)
	var fill, hide []string
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int { return len(values[b]) - len(values[a]) })
	for _, name := range names { // a file before its folder
		fill = append(fill, "$"+name, values[name])
		hide = append(hide, values[name], "$"+name)
	}
	ports := regexp.MustCompile(`127\.0\.0\.1:\d{4,5}->|\[::\]:\d+`)
	var got strings.Builder
	fmt.Fprintln(&got, "What users get wrong, what they are told, and the exit status; TestMistakes -update writes this file.")
	for _, line := range mistakes {
		args := strings.Fields(strings.NewReplacer(fill...).Replace(line))
		status, stdout, stderr := mistaken(t, args)
		if status == 0 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, args[0]+": ") {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want one line, and a failure", line, status, stdout, stderr)
		}
		if rude := noisy.FindString(stderr); rude != "" {
			t.Errorf("%s: %q has %q, which tells a user nothing", line, stderr, rude)
		}
		told := ports.ReplaceAllString(strings.NewReplacer(hide...).Replace(stderr), "…")
		fmt.Fprintf(&got, "\n$ %s\n%sexit %d\n", line, told, status)
	}
	if *update {
		if err := os.WriteFile(mistakesGolden, []byte(got.String()), 0o644); err != nil { //nolint:gosec // it is a source file
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(mistakesGolden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// noisy is what belongs to Go, gRPC and the code, and not before a user.
var noisy = regexp.MustCompile(`rpc error|desc =|strconv|parsing "|time: |\b(Listen|Advertise|DataDir|MinReplicas|MaxReplicas|Cluster\.\w+|Config\.\w+|TLS(CA|Cert|Key)|ReplicaID|StoreAddress)\b`)

// mistaken runs a command line of either program.
func mistaken(t *testing.T, args []string) (status int, stdout, stderr string) {
	t.Helper()
	if args[0] == "skerry" {
		return skerry(args[1:]...)
	}
	var out, errs bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	status = lighthousecmd.Run(ctx, args[1:], &out, &errs)
	return status, out.String(), errs.String()
}

// mistakeWorld is what the mistakes are about: a lighthouse with a replica, one with a
// token, one that speaks TLS, and files.
func mistakeWorld(t *testing.T) map[string]string {
	t.Helper()
	patient := func(c *lighthouse.Config) { // the replica beats no more, and stays
		c.Rules.HeartbeatTimeout *= 100
		c.Rules.SuspectAfter, c.Rules.StuckAfter = c.Rules.HeartbeatTimeout, 2*c.Rules.HeartbeatTimeout
	}
	creds := guardtest.New(t)
	open := lighthousetest.Start(t, patient)
	guarded := lighthousetest.Start(t, func(c *lighthouse.Config) {
		patient(c)
		c.Guard.Token = creds.Token
		c.OpenJoins = true
	})
	server := creds.Options(t, guard.Lighthouse, "server")
	secure := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Guard = server })
	for _, addr := range []string{open.Addr, guarded.Addr} {
		present(t, addr, "a:00000000-0000-0000-0000-000000000001")
	}
	operator := creds.Options(t, guard.Operator, "operator")
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := net.SplitHostPort(open.Addr); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"LIGHTHOUSE": open.Addr, "GUARDED": guarded.Addr, "TLS": secure.Addr,
		"DIR": dir, "FILE": file, "CA": operator.TLSCA, "CERT": operator.TLSCert, "KEY": operator.TLSKey, "TOKEN": operator.TokenFile,
	}
}
