package tcp

import (
	"net"
	"strings"

	"github.com/skerry-ft/skerry/pg"
)

// Sibling makes an unconfigured backend with the same options, for a subgroup.
// It listens on a port of its own.
func (b *Backend) Sibling() (pg.Backend, error) {
	opt := b.opt
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.Listen = hostOf(opt.Listen)
	told := strings.Split(opt.Advertise, ",")
	for i := range told {
		told[i] = hostOf(told[i])
	}
	opt.Advertise = strings.Join(told, ",")
	return New(opt), nil
}

// hostOf is an address without its port, if it has one.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
