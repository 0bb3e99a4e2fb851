package capi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/capi"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

type wished struct {
	ID    int64
	Part  string
	Group struct {
		Cluster  string
		QuorumID int64 `json:"quorum_id"`
		Rank     int
		Size     int
		Store    int64
	}
}

// program is what has a group of its own beside its replica's, and a device, which is memory
// that the library is not told of.
type program struct {
	*replica
	device []float32

	mu     sync.Mutex
	made   []wished // the groups
	ended  []wished
	copied int
	refuse string // why it makes none
}

func newProgram(t *testing.T, name, lighthouse string, first float32) *program {
	t.Helper()
	r := &replica{t: t, l: capi.New(), weights: memory(0, 0), tree: name}
	p := &program{replica: r, device: memory(first, first)}
	m, err := r.l.OpenManager(fmt.Sprintf(`{"ReplicaID":%q,"Lighthouse":[%q],"StepTimeoutUs":20000000,"Outside":true,
		"Parts":[{"Name":"model","Asked":true},{"Name":"optim","Room":1024}]}`, name, lighthouse))
	if err != nil {
		t.Fatal(err)
	}
	r.m = m
	var threads sync.WaitGroup
	threads.Go(func() { p.hear(capi.WishGroup, p.make) })
	threads.Go(func() { p.hear(capi.WishEnd, p.end) })
	threads.Go(func() { p.hear(capi.WishState, p.copy) })
	t.Cleanup(func() {
		if err := r.l.Close(m); err != nil {
			t.Error(err)
		}
		threads.Wait()
	})
	return p
}

// hear grants the wishes of a kind, until there are none any more.
func (p *program) hear(kind capi.WishKind, grant func(wished) string) {
	for {
		text, err := p.l.Wish(p.m, kind, time.Second)
		if err != nil {
			return
		}
		var w wished
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			p.t.Error(err)
			return
		}
		why := grant(w)
		if err := p.l.Grant(p.m, w.ID, why); err != nil && capi.FailureOf(err).Code != capi.CodeClosed {
			p.t.Error(err)
		}
	}
}

// make meets the others in the group's store, as a group of another library does.
func (p *program) make(w wished) string {
	p.mu.Lock()
	p.made = append(p.made, w)
	refuse := p.refuse
	p.refuse = ""
	p.mu.Unlock()
	if refuse != "" {
		return refuse
	}
	said := fmt.Sprintf(`{"verb":"set","key":"%d","value":"eA=="}`, w.Group.Rank)
	if _, err := p.store(w.Group.Store, said); err != nil {
		return err.Error()
	}
	for rank := range w.Group.Size {
		if a, err := p.store(w.Group.Store, fmt.Sprintf(`{"verb":"get","key":"%d"}`, rank)); err != nil || a != `{"value":"eA=="}` {
			return fmt.Sprintf("rank %d: %q, %v", rank, a, err)
		}
	}
	return ""
}

func (p *program) store(h int64, request string) (string, error) {
	c := p.l.CallStore(h, request, patience)
	defer p.l.Close(c)
	if p.l.Wait(c, 2*patience) != capi.Done {
		return "", p.l.Result(c)
	}
	return p.l.Text(c)
}

func (p *program) end(w wished) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = append(p.ended, w)
	return ""
}

func (p *program) copy(w wished) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copied++
	copy(p.weights, p.device)
	return ""
}

// stepOnDevice is a step whose parameters are the device's.
func (p *program) stepOnDevice() bool {
	p.t.Helper()
	for name, tensors := range map[string]string{"model": tensorJSON("weights", p.weights), "optim": ""} {
		if err := p.l.TellState(p.m, name, fmt.Sprintf(`{"tensors":[%s],"tree":%q}`, tensors, p.tree)); err != nil {
			p.t.Error(err)
		}
	}
	p.healed(p.callHeals(capi.VerbStart))
	end := p.callHeals(capi.VerbCommit)
	p.healed(end)
	if end.Commit {
		for i := range p.device {
			p.device[i]++
		}
	}
	return end.Commit
}

func (p *program) callHeals(v capi.Verb) said {
	s, drained := p.call(v)
	if drained {
		p.t.Error("drained by nobody")
	}
	return s
}

// healed takes to the device what a heal has brought.
func (p *program) healed(s said) {
	if _, ok := s.Loaded["model"]; ok {
		copy(p.device, p.weights)
	}
}

// A group of the program's is made in each epoch, by those who are in it, and is over with it; what
// is on a device is copied when somebody heals from it, and no other time.
func TestOutside(t *testing.T) {
	t.Parallel()
	light := lighthousetest.Start(t, nil)
	first := newProgram(t, "first", light.Addr, 1)
	for first.numbers().Step < 3 {
		first.stepOnDevice()
	}
	first.mu.Lock()
	if len(first.made) == 0 || first.copied != 0 {
		t.Errorf("%d groups, %d copies; want a group, and none asked for the state", len(first.made), first.copied)
	}
	first.mu.Unlock()

	late := newProgram(t, "late", light.Addr, -7)
	ctx, over := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() {
		for ctx.Err() == nil {
			first.stepOnDevice()
		}
	})
	for commits := 0; commits < 3; {
		if late.stepOnDevice() {
			commits++
		}
	}
	at, value := late.numbers().Step, late.device[0]
	if value != float32(at+1) {
		t.Errorf("after %d steps: %v, want what the first began with and a step each", at, value)
	}
	late.mu.Lock()
	last := late.made[len(late.made)-1].Group
	late.mu.Unlock()
	if last.Size != 2 || last.Cluster == "" {
		t.Errorf("the last group is %+v, want one of two", last)
	}
	if err := late.l.Close(late.m); err != nil { // leaves: the other's group is over
		t.Error(err)
	}
	ended := func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		for _, w := range first.ended {
			if w.Group.QuorumID == last.QuorumID {
				return true
			}
		}
		return false
	}
	for deadline := time.After(patience); !ended(); {
		select {
		case <-deadline:
			t.Fatal("the group with the one that left is not over")
		case <-time.After(time.Millisecond):
		}
	}
	over()
	other.Wait()
	if _, err := first.store(last.Store, `{"verb":"get","key":"0"}`); err == nil {
		t.Error("the store of an epoch that is over still answers")
	}
}

// A program that cannot make its group has another quorum, and no step without it.
func TestOutsideRefused(t *testing.T) {
	t.Parallel()
	light := lighthousetest.Start(t, nil)
	p := newProgram(t, "a", light.Addr, 1)
	p.refuse = "no device"
	for p.numbers().Step < 1 {
		p.stepOnDevice()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.made) < 2 || p.made[0].Group.QuorumID == p.made[1].Group.QuorumID {
		t.Errorf("groups %+v, want another quorum's behind the one that was refused", p.made)
	}
	for {
		e, err := p.l.NextEvent(p.m, 1<<20)
		if err != nil || e == "" {
			t.Fatal("no event tells of the refusal")
		}
		if strings.Contains(e, "no device") {
			break
		}
	}
}
