package lighthousecmd

import (
	"net"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/lighthouse"
)

// torchftFlags are the spellings of torchft's lighthouse, so that its scripts
// work as they are. Its --bind is ours.
type torchftFlags struct {
	minReplicas        int
	joinTimeoutMs      int64
	quorumTickMs       int64
	heartbeatTimeoutMs int64
}

// maxMs bounds times in milliseconds: a day.
const maxMs = 24 * 60 * 60 * 1000

func (t *torchftFlags) add(f *pflag.FlagSet) {
	f.IntVar(&t.minReplicas, "min_replicas", 0, "torchft's spelling of --min-replicas")
	f.Int64Var(&t.joinTimeoutMs, "join_timeout_ms", 0, "torchft's spelling of --join-timeout, in milliseconds")
	f.Int64Var(&t.quorumTickMs, "quorum_tick_ms", 0, "accepted from torchft's scripts; there is no tick here")
	f.Int64Var(&t.heartbeatTimeoutMs, "heartbeat_timeout_ms", 0, "torchft's spelling of --torchft-heartbeat-timeout, in milliseconds")
	for _, name := range []string{"min_replicas", "join_timeout_ms", "quorum_tick_ms", "heartbeat_timeout_ms"} {
		f.Lookup(name).Hidden = true
	}
}

// apply moves what was given into cfg.
func (t *torchftFlags) apply(f *pflag.FlagSet, cfg *lighthouse.Config, log zerolog.Logger) error {
	if f.Changed("min_replicas") {
		cfg.Rules.MinReplicas = t.minReplicas
	}
	for _, one := range []struct {
		name string
		ms   int64
		to   *time.Duration
	}{
		{"join_timeout_ms", t.joinTimeoutMs, &cfg.Rules.JoinTimeout},
		{"heartbeat_timeout_ms", t.heartbeatTimeoutMs, &cfg.TorchftHeartbeatTimeout},
	} {
		if !f.Changed(one.name) {
			continue
		}
		if one.ms < 1 || one.ms > maxMs {
			return cli.Usagef("--%s = %d, want 1 to %d", one.name, one.ms, maxMs)
		}
		*one.to = time.Duration(one.ms) * time.Millisecond
	}
	if f.Changed("quorum_tick_ms") {
		log.Warn().Int64("quorum_tick_ms", t.quorumTickMs).Msg("flag ignored: quorums are formed when something happens, there is no tick")
	}
	return nil
}

// pageHost is an address that a browser on this machine can open.
func pageHost(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
