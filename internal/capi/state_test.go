package capi

import (
	"errors"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// A part that the program is asked for is absent, and not empty, when its Manager closes or the
// program refuses: no reader takes it for a state.
func TestStateNotGranted(t *testing.T) {
	t.Parallel()
	told := checkpoint.State{Tensors: map[string]tensor.Tensor{"w": tensor.Of([]float32{1})}}
	for _, s := range []checkpoint.State{told, {}} {
		tr, p := &trainer{wishes: newWishes(), patience: time.Minute}, &part{name: "model", s: s}
		asked := make(chan checkpoint.State, 1)
		go func() { asked <- tr.ask(p) }()
		x, ok, err := tr.wishes.next(WishState, time.Second)
		for err == nil && !ok {
			x, ok, err = tr.wishes.next(WishState, time.Second)
		}
		tr.wishes.grant(x.ID, errors.New("out of memory"))
		refused := <-asked
		tr.wishes.close()
		for why, got := range map[string]checkpoint.State{"refused": refused, "closed": tr.ask(p)} {
			if _, err := safetensors.ViewOf(got); !errors.Is(err, safetensors.ErrAbsent) {
				t.Errorf("%s: %v, read with %v, want ErrAbsent", why, got, err)
			}
		}
	}
}

// What a heal has brought is the state until the program has taken it and told anew: its device has
// what was before.
func TestHealedStateIsNotAskedFor(t *testing.T) {
	t.Parallel()
	came := checkpoint.State{
		Tensors: map[string]tensor.Tensor{"w": tensor.Of([]float32{2})},
		Meta:    map[string]string{treeKey: "came"},
	}
	tr, p := &trainer{wishes: newWishes(), patience: time.Minute}, &part{name: "model"}
	if err := p.load(came); err != nil {
		t.Fatal(err)
	}
	if got := tr.ask(p); got.Meta[treeKey] != "came" {
		t.Errorf("the state is %v, want what came", got)
	}
	if err := p.tell(`{"tree":"told"}`); err != nil {
		t.Fatal(err)
	}
	asked := make(chan checkpoint.State, 1)
	go func() { asked <- tr.ask(p) }()
	x, ok, err := tr.wishes.next(WishState, time.Minute)
	if err != nil || !ok || x.Part != "model" {
		t.Errorf("wish %v, %t, %v, want one for what the program holds now", x, ok, err)
	}
	tr.wishes.grant(x.ID, nil)
	<-asked
}
