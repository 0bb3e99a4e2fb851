package seeds

import (
	"testing"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// "If no backend is specified": the usual one of every device that is registered.
func TestNoBackendNamed(t *testing.T) {
	if got := pg.DefaultBackends(); got != "tcp" {
		t.Errorf("backends are %q, want tcp", got)
	}
	hash := store.NewHash()
	defer hash.Close()
	w, err := dist.Init(t.Context(), dist.InitConfig{Store: hash, Rank: new(0), WorldSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Backend().Name(); got != "tcp" {
		t.Errorf("backend is %q, want tcp", got)
	}
	if err := w.Destroy(); err != nil {
		t.Error(err)
	}
}
