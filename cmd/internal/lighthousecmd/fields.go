package lighthousecmd

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

// fieldFlags are the flags that are called otherwise than the fields that errors about a
// configuration name.
var fieldFlags = map[string]string{
	"Listen":       "--bind",
	"Expect":       "--bootstrap-expect",
	"GossipKeys":   "--gossip-key-file",
	"Config.Guard": "TLS and tokens",
}

// listenError names flags in an error of a server that cannot begin; it is a usage error
// where a flag is what must change.
func listenError(err error, flags *pflag.FlagSet) error {
	flagged := cli.Flagged(err, flags, fieldFlags)
	if strings.HasPrefix(flagged.Error(), "--") {
		return flagged
	}
	return err
}
