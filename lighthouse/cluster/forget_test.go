package cluster

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/quorum"
)

// A job that formed a quorum after somebody looked, and found it idle, stays.
func TestJobInUseIsNotForgotten(t *testing.T) {
	t.Parallel()
	s := newState()
	l := quorum.NewLedger("c", "j", 100)
	s.data.Jobs["j"] = &jobState{Ledger: l}
	forget := func(highest int64) error {
		data, err := json.Marshal(Command{Kind: CommandForget, Job: "j", Highest: highest})
		if err != nil {
			t.Fatal(err)
		}
		err, _ = s.Apply(&raft.Log{Data: data}).(error)
		return err
	}
	if err := forget(99); !errors.Is(err, quorum.ErrFenced) || !s.has("j") {
		t.Errorf("forgotten as of 99, at 100: %v", err)
	}
	if err := forget(100); err != nil || s.has("j") || s.data.Floor != 100 {
		t.Errorf("forgotten as of 100, at 100: %v, floor %d", err, s.data.Floor)
	}
}
