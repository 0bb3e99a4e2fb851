// Command lighthouse serves quorums to training jobs: ours, and torchft's. It is the
// command "skerry lighthouse" by itself.
//
//	lighthouse                        # one server, ledger in memory, port 29510 of this host alone
//	lighthouse --bind :29510 --token-file token           # for other hosts, too
//	lighthouse --bind :29510 --token-file token --gossip-key-file key --data-dir /var/lib/skerry --bootstrap-expect 3 --join a,b # one of three
//	lighthouse --min_replicas 2 --join_timeout_ms 10000   # torchft's spellings
//
// It ends with SIGTERM or SIGINT, status 0. Replicas whose quorum stands go on
// training without it.
package main

import (
	"context"
	"os"

	"github.com/skerry-ft/skerry/cmd/internal/lighthousecmd"
)

func main() {
	os.Exit(lighthousecmd.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
