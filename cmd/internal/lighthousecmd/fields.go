package lighthousecmd

import (
	"strings"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

// fieldFlags are the flags of the fields that errors about a configuration name.
var fieldFlags = map[string]string{
	"Listen": "--bind", "Config.Listen": "--bind",
	"Advertise": "--advertise",
	"DataDir":   "--data-dir",

	"MinReplicas": "--min-replicas", "Rules.MinReplicas": "--min-replicas",
	"MaxReplicas":             "--max-replicas",
	"JoinTimeout":             "--join-timeout",
	"HeartbeatTimeout":        "--heartbeat-timeout",
	"TorchftHeartbeatTimeout": "--torchft-heartbeat-timeout",
	"SuspectAfter":            "--suspect-after",
	"Grace":                   "--grace",
	"StuckAfter":              "--stuck-after",
	"EvictStuck":              "--evict-stuck",
	"ProbationAfter":          "--probation-after",
	"BeatInterval":            "--beat-interval",

	"MaxConns":          "--max-conns",
	"MaxConnsPerHost":   "--max-conns-per-host",
	"MaxReplicasPerJob": "--max-replicas-per-job",

	"Cluster.Expect":        "--bootstrap-expect",
	"Cluster.Join":          "--join",
	"Cluster.RaftAddress":   "--raft-address",
	"Cluster.GossipAddress": "--gossip-address",
	"Cluster.GossipKeys":    "--gossip-key-file",
	"Cluster.Voters":        "--voters",
	"Cluster.ReplaceAfter":  "--replace-after",
	"NonVoter":              "--non-voter",
	"Raft.DiskTimeout":      "--disk-timeout",
	"DiskTimeout":           "--disk-timeout",

	"Config.Guard":              "TLS and tokens",
	"Config.Cluster.GossipKeys": "--gossip-key-file",

	"Guard.TLSCert": "--tls-cert", "TLSCert": "--tls-cert",
	"Guard.TLSCA": "--tls-ca", "TLSCA": "--tls-ca",
	"Guard.TLSKey": "--tls-key", "TLSKey": "--tls-key",
	"TLSServerName": "--tls-server-name",
	"TLSAnonymous":  "--tls-anonymous",
	"TLSAnyRole":    "--tls-any-role",
	"TokenFile":     "--token-file",
	"Adopt":         "--adopt", "Guard.Adopt": "--adopt",
	"OpenJoins": "--open-joins",
}

// listenError names flags in an error of a server that cannot begin; it is a usage error
// where a flag is what must change.
func listenError(err error) error {
	flagged := cli.Flagged(err, fieldFlags)
	if strings.HasPrefix(flagged.Error(), "--") {
		return flagged
	}
	return err
}
