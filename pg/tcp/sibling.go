package tcp

import (
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
	opt.Listen, _ = splitAddress(opt.Listen)
	told := strings.Split(opt.Advertise, ",")
	for i := range told {
		told[i], _ = splitAddress(told[i])
	}
	opt.Advertise = strings.Join(told, ",")
	return New(opt), nil
}
