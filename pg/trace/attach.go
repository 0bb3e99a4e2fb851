package trace

import (
	"maps"

	"github.com/skerry-ft/skerry/pg"
)

// Attacher is implemented by backends that know more of why their group broke
// than an error says. A Recorder puts it into its dumps.
type Attacher interface {
	// Attachments are texts by name, bounded by who makes them. It may take a
	// fraction of a second.
	Attachments() map[string]string
}

// attachmentsOf is what b, or what it is put around, has to attach.
func attachmentsOf(b pg.Backend) map[string]string {
	switch d := b.(type) {
	case Attacher:
		return d.Attachments()
	case *pg.Devices:
		all := make(map[string]string)
		for _, inner := range d.Backends() {
			maps.Copy(all, attachmentsOf(inner))
		}
		return all
	case pg.Unwrapper:
		return attachmentsOf(d.Unwrap())
	}
	return nil
}
