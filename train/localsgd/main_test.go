package localsgd_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/localsgd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a manager whose rounds a test commits and discards. All ranks of a test have
// the same script.
type fake struct {
	group    *pg.Group
	step     int64
	tries    int
	moves    int
	commits  func(try int) bool // nil: all
	starting func() error       // called in StartQuorum; nil: nothing
	ending   func()             // called in ShouldCommit; nil: nothing
	endErr   error              // of ShouldCommit
	reported []error

	save func() checkpoint.State
	load func(checkpoint.State) error
}

func (f *fake) Register(name string, save func() checkpoint.State, load func(checkpoint.State) error) error {
	if f.save != nil || name != localsgd.StateName {
		return fmt.Errorf("%q is registered after another", name)
	}
	f.save, f.load = save, load
	return nil
}

func (f *fake) StartQuorum(context.Context) error {
	if f.starting != nil {
		return f.starting()
	}
	return nil
}

func (f *fake) ShouldCommit(context.Context) (bool, error) {
	f.tries++
	if f.ending != nil {
		f.ending()
	}
	if f.endErr != nil || f.commits != nil && !f.commits(f.tries) {
		return false, f.endErr
	}
	f.step++
	return true, nil
}

// WaitParticipants answers as a manager's does whose replicas all take part.
func (f *fake) WaitParticipants(context.Context) (manager.Participants, error) {
	return manager.Participants{Rank: f.group.Rank(), Count: f.group.Size()}, nil
}

func (f *fake) Group() *pg.Group      { return f.group }
func (f *fake) Move()                 { f.moves++ }
func (f *fake) Step() int64           { return f.step }
func (f *fake) ReportError(err error) { f.reported = append(f.reported, err) }

// sizes are those of the parameters of each fragment.
type sizes [][]int

// model is float32 parameters, by fragment and parameter.
type model [][][]float32

// fresh is a model with values that are the same on all ranks.
func (s sizes) fresh() model {
	var m model
	at := 0
	for _, fragment := range s {
		var params [][]float32
		for _, n := range fragment {
			values := make([]float32, n)
			for i := range values {
				values[i] = float32(at%17) / 8
				at++
			}
			params = append(params, values)
		}
		m = append(m, params)
	}
	return m
}

// params are the model's, by fragment.
func (m model) params() [][]localsgd.Param {
	var all [][]localsgd.Param
	for f, fragment := range m {
		var params []localsgd.Param
		for i, values := range fragment {
			params = append(params, localsgd.Param{Name: fmt.Sprintf("p%d.%d", f, i), Value: tensor.Of(values)})
		}
		all = append(all, params)
	}
	return all
}

// flat are the elements of each fragment.
func (m model) flat() [][]float32 {
	var all [][]float32
	for _, fragment := range m {
		var flat []float32
		for _, values := range fragment {
			flat = append(flat, values...)
		}
		all = append(all, flat)
	}
	return all
}

// pull is how far inner step t of a rank moves element i of a fragment that has the value v.
func pull(rank, t, fragment, i int, v float64) float64 {
	target := float64((rank+1)*(i+1)%5) - float64(fragment) + float64(t%3)/4
	return 0.2 * (target - v)
}

// learn makes one inner step.
func (m model) learn(rank, t int) {
	for f, fragment := range m {
		at := 0
		for _, values := range fragment {
			for i, v := range values {
				values[i] += float32(pull(rank, t, f, at, float64(v)))
				at++
			}
		}
	}
}

// globals are the global parameters in a state, by fragment.
func (s sizes) globals(state checkpoint.State) [][]float32 {
	var all [][]float32
	for f, fragment := range s {
		var flat []float32
		for i := range fragment {
			flat = append(flat, tensor.Slice[float32](state.Tensors[fmt.Sprintf("global.p%d.%d", f, i)])...)
		}
		all = append(all, flat)
	}
	return all
}
