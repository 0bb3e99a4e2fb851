package connect

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/internal/guard"
)

// The server that answered last is asked first, over all flags that At makes; what a user named is
// asked in its order.
func TestLastAnswerIsAskedFirst(t *testing.T) {
	t.Parallel()
	var l Flags
	l.Add(&cobra.Command{})
	servers := []string{"a:1", "b:1", "c:1"}
	var asked []string
	answers := "c:1"
	try := func(_ context.Context, _ *guard.Guard, addr string) error {
		if asked = append(asked, addr); addr != answers {
			return errors.New("it hangs")
		}
		return nil
	}
	for _, step := range []struct {
		answers string
		want    []string
	}{
		{"c:1", []string{"a:1", "b:1", "c:1"}},
		{"c:1", []string{"c:1"}},
		{"b:1", []string{"c:1", "a:1", "b:1"}},
		{"b:1", []string{"b:1"}},
	} {
		asked, answers = nil, step.answers
		if err := l.At(servers, 0).first(t.Context(), try); err != nil || !slices.Equal(asked, step.want) {
			t.Errorf("asked %v, %v; want %v", asked, err, step.want)
		}
	}
	asked, l.list = nil, "a:1,b:1"
	if err := l.first(t.Context(), try); err != nil || !slices.Equal(asked, []string{"a:1", "b:1"}) {
		t.Errorf("of what a user named: asked %v, %v", asked, err)
	}
}
