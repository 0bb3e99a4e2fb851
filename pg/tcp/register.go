package tcp

import (
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// Register makes this backend known to pg.Open as "tcp" (and "gloo"). Main
// packages call it once.
func Register() error { return pg.Register(Name, []string{"cpu"}, Open) }

// The names in pg.Options.Params that Open knows.
const (
	ParamTransport   = "transport"    // "auto", "tcp" or "shared", see Transport
	ParamStreams     = "streams"      // Options.Streams, at least 1
	ParamShareDir    = "share-dir"    // Options.ShareDir
	ParamBeatTimeout = "beat-timeout" // Options.BeatTimeout, as "2s"; each member's own
)

// Open is the pg.Factory of this backend. It takes the Params above; streams and
// a shared directory that none names are those of the environment.
func Open(o pg.Options) (pg.Backend, error) {
	streams, err := StreamsFromEnv()
	if err != nil {
		return nil, err
	}
	opt := Options{Listen: o.Listen, Interfaces: o.Interfaces, Open: o.Open, Streams: streams, ShareDir: ShareDirFromEnv(), Logger: o.Log}
	for name, value := range o.Params {
		i := slices.Index(transportNames[:], value)
		switch {
		case name == ParamStreams:
			opt.Streams, err = parseStreams(value)
		case name == ParamShareDir:
			opt.ShareDir = value
		case name == ParamBeatTimeout:
			opt.BeatTimeout, err = time.ParseDuration(value)
		case name == ParamTransport && i >= 0:
			opt.Transport = Transport(i)
		default:
			err = fmt.Errorf("want %s = one of %q, %s = 1 to %d, %s, or %s = a time", ParamTransport, transportNames,
				ParamStreams, MaxStreams, ParamShareDir, ParamBeatTimeout)
		}
		if err != nil {
			return nil, fmt.Errorf("tcp: Params[%q] = %q, %w", name, value, err)
		}
	}
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	return New(opt), nil
}
