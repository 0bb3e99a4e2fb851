// Package connect is how commands reach a lighthouse: the flags that say which, and by
// what right, the questions that several commands ask, and what shells complete.
//
// A list of servers is asked in turn until one answers. What no server can answer ends a
// command with cli.StatusNoLeader, what is not there with cli.StatusNotFound. It starts
// no goroutines.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/quorum"
)

// EnvLighthouse names the lighthouse when no flag does.
const EnvLighthouse = "SKERRY_LIGHTHOUSE"

// envTorchft is the same of torchft's programs.
const envTorchft = "TORCHFT_LIGHTHOUSE"

// answerTimeout is how long a server may take to answer, and clusterTimeout what a
// question about the servers may take, over an election.
const (
	answerTimeout  = 5 * time.Second
	clusterTimeout = 15 * time.Second
)

// ErrNoLeader is what Status's callers say of a lighthouse that no server leads.
var ErrNoLeader = cli.WithStatus(cli.StatusNoLeader,
	errors.New("no lighthouse server leads; quorums that stand go on, and none changes until a majority of the servers is there"))

// Flags say which lighthouse a command asks, and by what right. They are owned by one
// goroutine.
type Flags struct {
	list    string
	timeout time.Duration
	guard   guard.Options

	last   *atomic.Pointer[string] // the address that answered last, of all that At has made
	sticks bool                    // it is asked first
}

// Add gives a command the flags.
func (l *Flags) Add(cmd *cobra.Command) { l.add(cmd, answerTimeout) }

// AddCluster gives them to a command about the lighthouse's servers.
func (l *Flags) AddCluster(cmd *cobra.Command) {
	l.add(cmd, clusterTimeout)
	cmd.Flags().StringVar(&l.list, "server", l.list, "what --lighthouse was called once")
	cmd.Flags().Lookup("server").Hidden = true
}

// AddOptional gives them to a command that does without a lighthouse if none is named:
// neither by the flag, nor by SKERRY_LIGHTHOUSE or TORCHFT_LIGHTHOUSE. The text says what it does then.
func (l *Flags) AddOptional(cmd *cobra.Command, without string) {
	l.add(cmd, answerTimeout)
	f := cmd.Flags().Lookup("lighthouse")
	f.DefValue = cmp.Or(os.Getenv(EnvLighthouse), os.Getenv(envTorchft))
	f.Usage = "addresses of lighthouse servers, host:port or URLs, a,b,c (" + EnvLighthouse + ", else " + envTorchft + "); empty: " + without
	l.list = f.DefValue
}

// At are the flags of a lighthouse at some addresses, whose answer may be kept back for hold. The
// flags themselves stay as they are. The server is asked first that answered last: one that hangs would
// cost each call its timeout and hold.
func (l *Flags) At(addresses []string, hold time.Duration) *Flags {
	other := *l
	other.list = strings.Join(addresses, ",")
	other.timeout += hold
	other.sticks = other.last != nil
	return &other
}

// Given are the addresses that were named, host:port; none, if none was. Errors: usage errors.
func (l *Flags) Given() ([]string, error) {
	if strings.TrimSpace(l.list) == "" {
		return nil, nil
	}
	all, err := l.addresses()
	for i, addr := range all {
		all[i] = host(addr)
	}
	return all, err
}

// Guard is by what right a lighthouse is asked, as the flags and the environment say.
// Errors: usage errors; a file that cannot be read.
func (l *Flags) Guard() (guard.Options, error) {
	o := l.guard
	_, err := guardflags.Open(&o)
	return o, err
}

func (l *Flags) add(cmd *cobra.Command, timeout time.Duration) {
	l.last = new(atomic.Pointer[string])
	def := os.Getenv(EnvLighthouse)
	if def == "" {
		def = fmt.Sprintf("127.0.0.1:%d", lighthouse.DefaultPort)
	}
	cli.Group(cmd.Flags(), cli.Connection, func(f *pflag.FlagSet) {
		f.StringVar(&l.list, "lighthouse", def,
			"addresses of lighthouse servers, host:port or URLs, a,b,c; the first that answers is asked ("+EnvLighthouse+")")
		f.DurationVar(&l.timeout, "timeout", timeout, "how long a server may take to answer")
		guardflags.Add(f, &l.guard)
	})
	_ = cmd.RegisterFlagCompletionFunc("lighthouse", cobra.NoFileCompletions) // it fails for flags that are not there
}

// addresses splits the list. Errors: usage errors.
func (l *Flags) addresses() ([]string, error) {
	if l.timeout <= 0 {
		return nil, cli.Usage(fmt.Errorf("--timeout = %v, want above 0, as 5s", l.timeout))
	}
	var all []string
	for addr := range strings.SplitSeq(l.list, ",") {
		if addr = strings.TrimSpace(addr); addr == "" {
			continue
		}
		if !dialable(addr) {
			return nil, badAddress(addr)
		}
		all = append(all, addr)
	}
	if len(all) == 0 {
		return nil, badAddress(l.list)
	}
	return all, nil
}

func badAddress(addr string) error {
	return cli.Usage(fmt.Errorf("--lighthouse = %q, want host:port or a URL, as 127.0.0.1:%d", addr, lighthouse.DefaultPort))
}

// dialable tells host:port, and http and https URLs, from what is neither.
func dialable(addr string) bool {
	if strings.Contains(addr, "://") {
		u, err := url.Parse(addr)
		return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	}
	_, port, err := net.SplitHostPort(addr)
	n, perr := strconv.ParseUint(port, 10, 16)
	return err == nil && perr == nil && n > 0
}

// host is the host:port of an address that may be a URL.
func host(addr string) string {
	u, err := url.Parse(addr)
	switch {
	case !strings.Contains(addr, "://") || err != nil:
		return strings.TrimSuffix(addr, "/")
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// first tries the addresses in turn until one is answered; the error is that of
// all, and once one server has refused what is asked, no other is.
func (l *Flags) first(ctx context.Context, try func(ctx context.Context, g *guard.Guard, addr string) error) error {
	return l.inTurn(ctx, func(ctx context.Context, g *guard.Guard, addr string) error {
		ctx, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		return try(ctx, g, addr)
	})
}

// inTurn is first of what has no end of its own.
func (l *Flags) inTurn(ctx context.Context, try func(ctx context.Context, g *guard.Guard, addr string) error) error {
	addresses, err := l.addresses()
	if err != nil {
		return err
	}
	g, err := guardflags.Open(&l.guard)
	if err != nil {
		return err
	}
	l.lastFirst(addresses)
	var problems []error
	for _, addr := range addresses {
		err := try(ctx, g, addr)
		if l.sticks && (err == nil || cli.StatusOf(err) == cli.StatusNotFound) {
			l.last.Store(&addr)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if _, refused := errors.AsType[*wire.RefusedError](err); refused && !errors.Is(err, wire.ErrNoLeader) {
			return err
		}
		if _, stopped := errors.AsType[stoppedError](err); stopped {
			return err
		}
		if s := cli.StatusOf(err); s == cli.StatusNotFound || s == cli.StatusUsage {
			return err // another server says the same
		}
		problems = append(problems, err)
	}
	return joined(problems)
}

// lastFirst puts the address that answered last before the others, where it is remembered.
func (l *Flags) lastFirst(addresses []string) {
	if !l.sticks {
		return
	}
	if last := l.last.Load(); last != nil && slices.Contains(addresses, *last) {
		i := slices.Index(addresses, *last)
		copy(addresses[1:], addresses[:i])
		addresses[0] = *last
	}
}

// joined is what came of all servers: its status is the least of theirs, so that one
// that cannot answer now is told from ones that will not.
func joined(problems []error) error {
	text, code := make([]string, len(problems)), cli.StatusNoLeader
	for i, err := range problems {
		text[i] = cli.Plain(err.Error())
		code = min(code, cli.StatusOf(err))
	}
	told := strings.Join(text, "; ")
	if strings.Contains(told, unreached) {
		told += advice
	}
	if code == cli.StatusFailed {
		return errors.New(told) // no status of its own: an interrupt may be the cause
	}
	return cli.WithStatus(code, errors.New(told))
}

// What is said of servers that do not answer.
const (
	unreached = " cannot be reached: "
	advice    = "; start one with skerry lighthouse, or name another by --lighthouse"
)

// speaksTLS says what to do about a port that wants TLS.
const speaksTLS = "this port speaks TLS: give --tls-ca, --tls-cert and --tls-key, or set SKERRY_TLS_CA, …_CERT and …_KEY"

// unreachable says that a server did not answer, why, and what to do.
func unreachable(addr string, timeout time.Duration, err error) error {
	why := cli.Plain(err.Error())
	if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		why = fmt.Sprintf("no answer within %v (--timeout)", timeout)
	}
	for sign, meaning := range map[string]string{
		"frame header looked like an HTTP/1.1 header":     speaksTLS, // gRPC in the clear with a TLS port
		"first record does not look like a TLS handshake": "it speaks no TLS: leave out --tls-ca, --tls-cert and --tls-key, and SKERRY_TLS_…",
	} {
		if strings.Contains(why, sign) {
			return cli.Usagef("lighthouse %s: %s", addr, meaning)
		}
	}
	return cli.WithStatus(cli.StatusNoLeader, fmt.Errorf("lighthouse %s%s%s", addr, unreached, why))
}

// Call makes one call of an operator.
func (l *Flags) Call(ctx context.Context, f func(ctx context.Context, c skerrypb.LighthouseClient) error) error {
	return l.first(ctx, func(ctx context.Context, g *guard.Guard, addr string) error {
		conn, err := grpc.NewClient("passthrough:///"+host(addr), append(wire.DialOptions(), g.DialOptions(guard.Party{Role: guard.Lighthouse}, "")...)...)
		if err != nil {
			return badAddress(addr)
		}
		defer conn.Close() //nolint:errcheck // nothing is lost with it
		err = wire.FromStatus(f(ctx, skerrypb.NewLighthouseClient(conn)))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, wire.ErrNoLeader):
			return ErrNoLeader
		case status.Code(err) == codes.Unavailable || errors.Is(err, context.DeadlineExceeded):
			return unreachable(addr, l.timeout, err)
		}
		return refusal(addr, err)
	})
}

// refusal says why a server does not do what it is asked, and what to do.
func refusal(addr string, err error) error {
	if _, refused := errors.AsType[*wire.RefusedError](err); refused {
		if errors.Is(err, quorum.ErrUnknown) {
			return cli.WithStatus(cli.StatusNotFound, err)
		}
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	todo := ""
	if s.Code() == codes.PermissionDenied || s.Code() == codes.Unauthenticated {
		todo = "; the operators' token is named by --token-file (" + guard.EnvTokenFile + ")"
	}
	return fmt.Errorf("lighthouse %s: %s%s", addr, s.Message(), todo)
}

// Cluster makes calls about the lighthouse's servers, within the timeout.
func (l *Flags) Cluster(ctx context.Context, f func(context.Context, *cluster.Client) error) error {
	addresses, err := l.addresses()
	if err != nil {
		return err
	}
	g, err := guardflags.Open(&l.guard)
	if err != nil {
		return err
	}
	client := &cluster.Client{Guard: g}
	for _, addr := range addresses {
		client.Addrs = append(client.Addrs, host(addr))
	}
	within, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	err = f(within, client)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, wire.ErrNoLeader):
		return ErrNoLeader
	case errors.Is(err, context.DeadlineExceeded):
		return joined([]error{unreachable(strings.Join(addresses, ", "), l.timeout, context.DeadlineExceeded)})
	case silent(err):
		if len(addresses) == 1 {
			err = errors.New(strings.TrimPrefix(err.Error(), "ask "+client.Addrs[0]+": "))
		}
		return joined([]error{unreachable(strings.Join(addresses, ", "), l.timeout, err)})
	}
	if asked, found := strings.CutPrefix(err.Error(), "ask "); found {
		return errors.New("lighthouse " + asked)
	}
	return err
}

// silent tells that no server has answered.
func silent(err error) bool {
	var one interface{ GRPCStatus() *status.Status }
	return errors.As(err, &one) && one.GRPCStatus().Code() == codes.Unavailable
}

// Know adds servers that a lighthouse named, behind those of the command line: what goes on
// for long may outlive all that a user has named.
func (l *Flags) Know(servers []string) {
	for _, addr := range servers {
		if dialable(addr) && !slices.Contains(strings.Split(l.list, ","), addr) {
			l.list += "," + addr
		}
	}
}

// First is the first address that is named.
func (l *Flags) First() (string, error) {
	all, err := l.addresses()
	if err != nil {
		return "", err
	}
	return host(all[0]), nil
}
