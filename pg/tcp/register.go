package tcp

import (
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/pg"
)

// Register makes this backend known to pg.Open as "tcp" (and "gloo"). Main
// packages call it once.
func Register() error { return pg.Register(Name, []string{"cpu"}, Open) }

// ParamTransport is the one name in pg.Options.Params that Open knows: "auto",
// "tcp" or "shared", see Transport.
const ParamTransport = "transport"

// Open is the pg.Factory of this backend. It has one Param, ParamTransport.
func Open(o pg.Options) (pg.Backend, error) {
	opt := Options{Listen: o.Listen, Logger: o.Log}
	for name, value := range o.Params {
		i := slices.Index(transportNames[:], value)
		if name != ParamTransport || i < 0 {
			return nil, fmt.Errorf("tcp: Params[%q] = %q, want %s = one of %q", name, value, ParamTransport, transportNames)
		}
		opt.Transport = Transport(i)
	}
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	return New(opt), nil
}
