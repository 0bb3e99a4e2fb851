package localsgd_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/localsgd"
)

// Every problem is named, all at once.
func TestConfigs(t *testing.T) {
	t.Parallel()
	x := sizes{{1}, {1}}.fresh().params()
	odd := [][]localsgd.Param{
		{{"a", tensor.Of([]float32{1})}, {"a", tensor.Of([]float32{1})}, {"b", tensor.Of([]float64{1})}, {"c", tensor.Tensor{}}}, {},
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		params [][]localsgd.Param
		c      localsgd.DiLoCoConfig
		says   []string
	}{
		{x, localsgd.DiLoCoConfig{Every: 3, Delay: 1, Alpha: 2, Rounds: -1, Outer: localsgd.SGD{Momentum: 1}}, []string{
			"Every = 3, want 1 or more, and a multiple of the fragments, 2", "Delay = 1, want 0 or more, and less than",
			"Alpha = 2, want 0 to 1", "Rounds = -1, want 0 or more", "Outer.Rate = 0, want a number above 0",
			"Outer.Momentum = 1, want 0 or more, and less than 1",
		}},
		{x, localsgd.DiLoCoConfig{Alpha: nan, Outer: localsgd.SGD{Rate: nan, Nesterov: true, Dampening: 2, WeightDecay: -1}}, []string{
			"Every = 0", "Alpha = NaN", "Outer.Rate = NaN", "Outer.Nesterov = true, want false unless", "Outer.Dampening = 2",
			"Outer.WeightDecay = -1",
		}},
		{nil, localsgd.DiLoCoConfig{Every: 1, Outer: nesterov}, []string{"fragments = 0, want 1 to 65536"}},
		{odd, localsgd.DiLoCoConfig{Every: 2, Outer: nesterov}, []string{
			`name "a" is taken`, `parameter "b" is float64, want float32`, `parameter "c"`, "fragment 1 has no parameters",
		}},
		{x, localsgd.DiLoCoConfig{Every: 2, Outer: nesterov, Reduction: localsgd.Reduction{
			BucketBytes: -1, Quantize: &quant.Options{Row: -2},
		}}, []string{"Reduction.BucketBytes = -1, want 0 or more", "Reduction.Quantize: Row = -2"}},
	} {
		_, err := localsgd.NewDiLoCo(&fake{}, c.params, c.c)
		for _, s := range c.says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%+v: %v, want an error that says %q", c.c, err, s)
			}
		}
	}
	_, err := localsgd.NewLocalSGD(&fake{}, x[0], localsgd.Config{Every: -1, Rounds: -2})
	if err == nil || !strings.Contains(err.Error(), "Every = -1") || !strings.Contains(err.Error(), "Rounds = -2") {
		t.Errorf("LocalSGD: %v", err)
	}
	m := &fake{}
	for i, want := range []bool{true, false} {
		if _, err := localsgd.NewLocalSGD(m, x[0], localsgd.Config{Every: 1}); (err == nil) != want {
			t.Errorf("Averager %d of a manager: %v", i, err)
		}
	}
}

// A state of another model, algorithm or run is refused.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	s := sizes{{2}, {3}}
	d, err := localsgd.NewDiLoCo(&fake{}, s.fresh().params(), localsgd.DiLoCoConfig{Every: 2, Outer: nesterov})
	if err != nil {
		t.Fatal(err)
	}
	for k, says := range map[string]string{"algorithm": `algorithm is "x", want "diloco"`, "layout": `layout is "x", want "`} {
		state := d.State()
		state.Meta[k] = "x"
		if err := d.Load(state); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("another %s: %v", k, err)
		}
	}
	other, err := localsgd.NewDiLoCo(&fake{}, sizes{{3}, {2}}.fresh().params(), localsgd.DiLoCoConfig{Every: 2, Outer: nesterov})
	if err != nil {
		t.Fatal(err)
	}
	if d.Load(other.State()) == nil {
		t.Error("the state of fragments that were cut otherwise was taken")
	}
	counters := tensor.Slice[int64](d.State().Tensors["counters"])
	copy(counters, []int64{3, 1, 1})
	if err := d.Load(d.State()); err == nil || !strings.Contains(err.Error(), "[3 1 1]") {
		t.Errorf("three rounds of which two are of fragments: %v", err)
	}
}

// Whatever counters a peer sends, those that are taken add up.
func FuzzCounters(f *testing.F) {
	f.Add(make([]byte, 24))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<63))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := localsgd.NewDiLoCo(&fake{}, sizes{{1}, {1}}.fresh().params(), localsgd.DiLoCoConfig{Every: 2, Outer: nesterov})
		if err != nil {
			t.Fatal(err)
		}
		state := d.State()
		copy(state.Tensors["counters"].Bytes(), b)
		c := tensor.Slice[int64](state.Tensors["counters"])
		if d.Load(state) == nil && (c[0] != c[1]+c[2] || c[1] < 0 || c[2] < 0) {
			t.Errorf("counters %v were taken", c)
		}
	})
}
