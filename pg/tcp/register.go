package tcp

import "github.com/skerry-ft/skerry/pg"

// Register makes this backend known to pg.Open as "tcp" (and "gloo"). Main
// packages call it once.
func Register() error { return pg.Register(Name, []string{"cpu"}, Open) }

// Open is the pg.Factory of this backend. It has no Params.
func Open(o pg.Options) (pg.Backend, error) {
	opt := Options{Listen: o.Listen, Logger: o.Log}
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	return New(opt), nil
}
