package tcp

import (
	"net"

	"github.com/skerry-ft/skerry/pg"
)

// Sibling makes an unconfigured backend with the same options, for a subgroup.
// It listens on a port of its own.
func (b *Backend) Sibling() (pg.Backend, error) {
	opt := b.opt
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.Listen, opt.Advertise = hostOf(opt.Listen), hostOf(opt.Advertise)
	return New(opt), nil
}

// hostOf is an address without its port, if it has one.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
