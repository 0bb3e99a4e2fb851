package capi

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/tensor"
)

// treeKey is the metadata in which a part's caller keeps what is not tensors.
const treeKey = "tree"

// part is a part of the state as its owner last told it. A heal changes it: then it is what
// came, until the owner tells anew. Safe for concurrent use.
type part struct {
	name string

	mu sync.Mutex
	s  checkpoint.State
	// loads counts heals; loaded says that s is what the last one brought.
	loads  int64
	loaded bool
}

// tensorText is a tensor as its owner tells of it, and hears of it.
type tensorText struct {
	Name    string `json:"name"`
	DType   int64  `json:"dtype"`
	Shape   []int  `json:"shape"`
	Address int64  `json:"address"`
}

// partText is a part as its owner tells of it: Tensors nil leaves those of before.
type partText struct {
	Tensors []tensorText `json:"tensors"`
	Tree    string       `json:"tree"`
	Load    int64        `json:"load,omitempty"` // of what is heard: the heal's number, by which it is known again
}

// tell takes what the owner says.
func (p *part) tell(text string) error {
	var t partText
	if err := unmarshal(text, &t); err != nil {
		return err
	}
	s := checkpoint.State{Meta: map[string]string{treeKey: t.Tree}}
	if t.Tensors != nil {
		s.Tensors = make(map[string]tensor.Tensor, len(t.Tensors))
	}
	for _, one := range t.Tensors {
		x, err := one.tensor()
		if err != nil {
			return fmt.Errorf("state %q: tensor %q: %w", p.name, one.Name, err)
		}
		if _, twice := s.Tensors[one.Name]; twice {
			return invalid("state %q: tensor %q twice", p.name, one.Name)
		}
		s.Tensors[one.Name] = x
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Tensors == nil {
		s.Tensors = p.s.Tensors
	}
	p.s, p.loaded = s, false
	return nil
}

func (t tensorText) tensor() (tensor.Tensor, error) {
	d, err := code(dtypes, t.DType, "dtype")
	if err != nil {
		return tensor.Tensor{}, err
	}
	n := int64(1)
	for _, size := range t.Shape {
		if size < 0 || size > 0 && n > maxElements/int64(size) {
			return tensor.Tensor{}, invalid("shape %v", t.Shape)
		}
		n *= int64(size)
	}
	flat, err := at(d, t.Address, n)
	if err != nil {
		return flat, err
	}
	x, err := tensor.FromBytes(d, flat.Bytes(), t.Shape...)
	if err != nil {
		return x, invalid("%v", err)
	}
	return x, nil
}

// healed says that the owner has yet to tell of what a heal has brought.
func (p *part) healed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded
}

func (p *part) save() checkpoint.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s
}

// load takes what a heal brought: the tensors of before, which hold it, and those that
// were made for it.
func (p *part) load(s checkpoint.State) error {
	if _, ok := s.Meta[treeKey]; !ok {
		return fmt.Errorf("%w: state %q without its %q", checkpoint.ErrCorrupt, p.name, treeKey)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.s, p.loaded = s, true
	p.loads++
	return nil
}

// news is what a heal brought, until the owner tells anew; ok is false without.
func (p *part) news() (t partText, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded {
		return t, false, nil
	}
	t = partText{Tensors: []tensorText{}, Tree: p.s.Meta[treeKey], Load: p.loads}
	for name, x := range p.s.Tensors {
		n := slices.Index(dtypes, x.DType())
		if n <= 0 {
			return t, false, fmt.Errorf("state %q: tensor %q: no number for %v", p.name, name, x.DType())
		}
		t.Tensors = append(t.Tensors, tensorText{Name: name, DType: int64(n), Shape: append([]int{}, x.Shape()...), Address: addressOf(x)})
	}
	return t, true, nil
}

// text is JSON of what marshals.
func text(x any) (string, error) {
	b, err := json.Marshal(x)
	return string(b), err
}
