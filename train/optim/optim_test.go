package optim_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/train/optim"
)

// script answers as a manager would, and notes the order of all calls.
type script struct {
	calls  []string
	commit bool
	err    error
}

func (s *script) StartQuorum(context.Context) error {
	s.calls = append(s.calls, "start")
	return s.err
}

func (s *script) ShouldCommit(context.Context) (bool, error) {
	s.calls = append(s.calls, "commit?")
	return s.commit, s.err
}

func (s *script) ZeroGrad() { s.calls = append(s.calls, "zero") }
func (s *script) Step()     { s.calls = append(s.calls, "step") }

func TestWrapper(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	cases := []struct {
		name   string
		commit bool
		err    error
		want   []string
	}{
		{"a committed step is applied", true, nil, []string{"start", "zero", "commit?", "step"}},
		{"a discarded step changes nothing", false, nil, []string{"start", "zero", "commit?"}},
		{"an error changes nothing", true, boom, []string{"start", "commit?"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &script{commit: c.commit, err: c.err}
			w := optim.Wrap(s, s)
			if err := w.ZeroGrad(t.Context()); !errors.Is(err, c.err) {
				t.Errorf("zero grad: %v, want %v", err, c.err)
			}
			committed, err := w.Step(t.Context())
			if !errors.Is(err, c.err) || committed != (c.commit && c.err == nil) {
				t.Errorf("step: %v, %v", committed, err)
			}
			if !slices.Equal(s.calls, c.want) {
				t.Errorf("calls %q, want %q", s.calls, c.want)
			}
		})
	}
}
